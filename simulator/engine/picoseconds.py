"""The engine's unit of time, and the three ways a duration becomes a whole number of it.

Nothing is ever done earlier than it can be, so durations are rounded up. How,
depends on what is known of them:

- an amount and a rate, both exact: ``duration_ps`` divides them as fractions
  and rounds up, so that not even a float's last digit is lost. 1 byte at
  3e12 B/s is a third of a picosecond, hence 1;
- a number of seconds that floats have been added up to: ``whole_ps``. Such a
  sum of whole picoseconds may lie a hair above the number it should be (0.1 +
  0.2 s is 300,000,000,000.00006 ps), and rounding that up would make a
  picosecond of noise. What is less than a thousandth of one above is noise;
- a share of a duration that is whole already: ``nearest_ps``. It explains, it
  does not delay anybody, so it is rounded to the nearest.
"""

from __future__ import annotations

from math import ceil

PICOSECONDS = 10**12
"""A second, in the engine's unit of time."""


def duration_ps(amount: float, rate: float) -> int:
    """Picoseconds to do ``amount`` at ``rate`` a second, exactly, rounded up."""
    up, down = amount.as_integer_ratio()
    rate_up, rate_down = rate.as_integer_ratio()
    return -(-up * rate_down * PICOSECONDS // (down * rate_up))


def whole_ps(seconds: float) -> int:
    """Picoseconds, rounded up; a thousandth of one is rounding noise."""
    return ceil(seconds * PICOSECONDS - 1e-3)


def nearest_ps(seconds: float) -> int:
    """Picoseconds of a share of a duration, for explaining: to the nearest."""
    return round(seconds * PICOSECONDS)
