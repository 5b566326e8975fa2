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
}
_EXAMPLES = {"FLOP/s": "180 TFLOP/s", "B/s": "8 Gbit/s", "B": "16 GiB"}
_SHAPE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?) ?([A-Za-z/]{1,10})", re.ASCII)
SMALLEST, LARGEST = 1.0, 1e21


def parse_quantity(text: object, unit: str) -> float:
    """The value of ``text`` in ``unit`` ("FLOP/s", "B/s" or "B").

    Bits and bytes are told apart (``bit``, ``B``), k is 10^3 and Ki 2^10.
    Raises ValueError, with an example of what is right, for a bare number, an
    unknown unit, the wrong dimension, or a value outside 1...1e21.
    """
    example = f'write it like "{_EXAMPLES[unit]}"'
    if not isinstance(text, str):
        raise ValueError(f"a quantity needs a unit; {example}")
    match = _SHAPE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"not a positive number with a unit; {example}")
    number, suffix = match.groups()
    for name, factor in _UNITS[unit].items():
        prefix = suffix.removesuffix(name)
        if suffix.endswith(name) and prefix in _PREFIX:
            value = float(number) * _PREFIX[prefix] * factor
            if not (math.isfinite(value) and SMALLEST <= value <= LARGEST):
                raise ValueError(f"outside {SMALLEST:g}...{LARGEST:g} {unit}; {example}")
            return value
    raise ValueError(f"{suffix!r} is not a unit of {unit}; {example}")
