"""What depends on one network, graph or the like alone is found once for it."""

from functools import lru_cache

ANSWERS = 256
"""Of each function so many are kept: a pipeline asks about each of up to 64 stages."""

once_for_each = lru_cache(maxsize=ANSWERS)
"""Keep a function's latest answers, by the value of what it was asked about."""
