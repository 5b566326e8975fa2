"""Machines in machines: how many of the level below each level joins, and by what links."""

from __future__ import annotations

from dataclasses import dataclass

from hardware.quantity import parse_quantity
from planners.errors import PlanError

MOST_LEVELS = 6
MOST_IN_LEVEL = 1024
MOST_DEVICES = 1 << 20
_EXAMPLE = 'write it like "4@10 GB/s,4@1.25 GB/s", the innermost level first'


@dataclass(frozen=True, slots=True)
class Level:
    """``count`` components of the level below, joined by links of ``bytes_per_s``."""

    count: int
    bytes_per_s: float


def parse_hierarchy(text: str) -> tuple[Level, ...]:
    """The levels in "4@10 GB/s,4@1.25 GB/s", innermost first: four in each of four machines.

    Raises PlanError with the level that is wrong.
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MOST_LEVELS:
        raise PlanError(f"--hierarchy: {len(parts)} levels; at most {MOST_LEVELS} are planned")
    levels = tuple(map(_level, parts))
    total = 1
    for level in levels:
        total *= level.count
    if total > MOST_DEVICES:
        raise PlanError(f"--hierarchy: {total} devices; at most {MOST_DEVICES} are planned")
    return levels


def _level(part: str) -> Level:
    count, at, bandwidth = part.partition("@")
    count = count.strip()
    digits = count.isascii() and count.isdigit() and len(count) <= 6
    if not (at and digits and 1 <= int(count) <= MOST_IN_LEVEL):
        raise PlanError(
            f"--hierarchy: level {part[:40]!r} must be 1...{MOST_IN_LEVEL}, an @ and a "
            f"bandwidth; {_EXAMPLE}"
        )
    try:
        return Level(int(count), parse_quantity(bandwidth, "B/s"))
    except ValueError as error:
        raise PlanError(f"--hierarchy: level {part[:40]!r}: {error}; {_EXAMPLE}") from None
