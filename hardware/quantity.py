"""Quantities as people write them, "8 Gbit/s", to SI numbers, strictly."""

from __future__ import annotations

import math
import re

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_PREFIX = _DECIMAL | _BINARY
_UNITS = {
    "FLOP/s": {"FLOP/s": 1.0},
    "B/s": {"B/s": 1.0, "bit/s": 0.125},
    "B": {"B": 1.0, "bit": 0.125},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
}
_EXAMPLES = {"FLOP/s": "180 TFLOP/s", "B/s": "8 Gbit/s", "B": "16 GiB", "s": "2 us"}
_SHAPE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?) ?([A-Za-z/]{1,10})", re.ASCII)
SMALLEST, LARGEST = 1.0, 1e21
_BOUNDS = {"s": (0.0, 3600.0)}
"""Smallest and largest of units that have their own: a duration may be zero."""


def parse_quantity(text: object, unit: str) -> float:
    """The value of ``text`` in ``unit`` ("FLOP/s", "B/s", "B" or "s").

    Bits and bytes are told apart (``bit``, ``B``), k is 10^3 and Ki 2^10.
    Raises ValueError, with an example of what is right, for a bare number, an
    unknown unit, the wrong dimension, or a value outside 1...1e21 (of a duration: 0...3600 s).
    """
    example = f'write it like "{_EXAMPLES[unit]}"'
    if not isinstance(text, str):
        raise ValueError(f"a quantity needs a unit; {example}")
    match = _SHAPE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"not a positive number with a unit; {example}")
    name, value = split_quantity(text) or ("", 0.0)
    if name not in _UNITS[unit]:
        raise ValueError(f"{match[2]!r} is not a unit of {unit}; {example}")
    value *= _UNITS[unit][name]
    smallest, largest = _BOUNDS.get(unit, (SMALLEST, LARGEST))
    if not (math.isfinite(value) and smallest <= value <= largest):
        raise ValueError(f"outside {smallest:g}...{largest:g} {unit}; {example}")
    return value


def split_quantity(text: str) -> tuple[str, float] | None:
    """("bit/s", 8e9) for "8 Gbit/s": the unit without prefix, and how many; None if it is none."""
    if match := _SHAPE.fullmatch(text.strip()):
        number, suffix = match.groups()
        for name in sorted({name for units in _UNITS.values() for name in units}, key=len):
            if suffix.endswith(name) and (prefix := suffix.removesuffix(name)) in _PREFIX:
                return name, float(number) * _PREFIX[prefix]
    return None


def format_quantity(value: float, unit: str) -> str:
    """8e9 "bit/s" as "8 Gbit/s", to four digits."""
    prefix, scale = max(
        ((p, s) for p, s in _DECIMAL.items() if s <= max(value, 1.0)), key=lambda item: item[1]
    )
    return f"{value / scale:.4g} {prefix}{unit}"
