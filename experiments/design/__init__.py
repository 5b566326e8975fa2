"""Which units a core should have: spaces of designs, their evaluation, and searches."""
