"""Why a step takes as long as it does: the critical path, what is exposed, what would help."""
