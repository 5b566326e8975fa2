"""The papers' evaluations, figure by figure: ours beside theirs."""
