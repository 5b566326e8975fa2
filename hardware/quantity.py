"""Quantities as people write them, "8 Gbit/s", to SI numbers, strictly."""

from __future__ import annotations

import math
import re

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_PREFIX = _DECIMAL | _BINARY
_TIMES = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PARTS = {"m": 1e3, "u": 1e6, "n": 1e9, "p": 1e12, "f": 1e15}
"""For durations and energies: nobody who writes "100 mbit/s" means thousandths of a bit."""
_UNITS = {
    "FLOP/s": {"FLOP/s": 1.0},
    "B/s": {"B/s": 1.0, "bit/s": 0.125},
    "B": {"B": 1.0, "bit": 0.125},
    "s": _TIMES,
    "W": {"W": 1.0},
    "J": {"J": 1.0},
    "J/B": {"J/B": 1.0, "J/bit": 8.0},
    "Hz": {"Hz": 1.0},
}
_SPELLED = {"bps": "bit/s", "b/s": "bit/s", "Bps": "B/s", "FLOPS": "FLOP/s"}
"""Other spellings of units: Gbps, Gb/s, GBps, TFLOPS."""
_EXAMPLES = {
    "FLOP/s": "180 TFLOP/s",
    "B/s": "8 Gbit/s",
    "B": "16 GiB",
    "s": "1.5 us",
    "W": "700 W",
    "J": "4.6 pJ",
    "J/B": "640 pJ/B",
    "Hz": "700 MHz",
}
_RANGES = {"s": (0.0, 1e3), "W": (1e-3, 1e6), "J": (1e-18, 1.0), "J/B": (1e-18, 1.0)}
"""Least and most of units that have their own range."""
_SHAPE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?) ?([A-Za-z/]{1,10})", re.ASCII)
_WHOLE = re.compile(r"\d{1,30}(\.\d{1,30})?([eE]\+?\d{1,2})?", re.ASCII)
SMALLEST, LARGEST = 1.0, 1e21


def parse_quantity(text: object, unit: str, most: float | None = None, example: str = "") -> float:
    """The value of ``text`` in ``unit`` ("FLOP/s", "B/s", "B", "s", "W", "J", "J/B" or "Hz").

    Bits and bytes are told apart (``bit``, ``B``), k is 10^3 and Ki 2^10;
    durations and energies have m u n p f, and durations may be zero, and in min, h and d.
    Raises ValueError, with an example of what is right, for a bare number, an unknown
    unit, the wrong dimension, or a value outside 1...1e21 (durations: 0...1000 s, or to
    ``most``; watts: 1e-3...1e6; energies: 1e-18...1).
    """
    example = f'write it like "{example or _EXAMPLES[unit]}"'
    if not isinstance(text, str):
        raise ValueError(f"a quantity needs a unit; {example}")
    match = _SHAPE.fullmatch(text.strip())
    if not match and not text.isascii():
        raise ValueError(f"letters and signs beyond ASCII (micro is u); {example}")
    if not match:
        raise ValueError(f"not a positive number with a unit; {example}")
    name, value = split_quantity(text) or ("", 0.0)
    if name not in _UNITS[unit]:
        raise ValueError(f"{match[2]!r} is not a unit of {unit}; {example}")
    value *= _UNITS[unit][name]
    if outside := out_of_range(value, unit, most):
        raise ValueError(f"{outside}; {example}")
    return value


def out_of_range(
    value: float, unit: str, most: float | None = None, room: float = 1.0
) -> str | None:
    """What is wrong with a value in an SI unit, if it is out of the unit's range.

    That is so many times (``room``) as wide at both ends.
    """
    least, usual = _RANGES.get(unit, (SMALLEST, LARGEST))
    least, most = least / room, usual * room if most is None else most
    return None if least <= value <= most else f"outside {least:g}...{most:g} {unit}"


def in_bytes(text: str) -> str:
    """``1e8`` or ``100000000``, a whole number of bytes, with its unit; other text as it is."""
    bare = text.strip()
    return f"{bare} B" if _WHOLE.fullmatch(bare) and float(bare).is_integer() else text


def split_quantity(text: str) -> tuple[str, float] | None:
    """("bit/s", 8e9) for "8 Gbit/s": the unit without prefix, and how many; None if it is none."""
    if match := _SHAPE.fullmatch(text.strip()):
        number, suffix = match.groups()
        for spelled, unit in _SPELLED.items():
            if suffix.endswith(spelled):
                suffix = suffix.removesuffix(spelled) + unit
        for name in sorted({name for units in _UNITS.values() for name in units}, key=len):
            prefix = suffix.removesuffix(name)
            if not suffix.endswith(name):
                continue
            if name[0] in "sJ" and prefix in _PARTS:  # divided: 500 ns is 5e-7 to the last bit
                return name, float(number) / _PARTS[prefix]
            if prefix in (_PREFIX if name not in _TIMES else ("",)):
                return name, float(number) * _PREFIX[prefix]
    return None


def format_quantity(value: float, unit: str, digits: int = 4) -> str:
    """8e9 "bit/s" as "8 Gbit/s", 1.5e-6 "s" as "1.5 us", to so many digits."""
    scales = {"": 1.0} | {p: 1 / n for p, n in _PARTS.items()} if unit == "s" else _DECIMAL
    if not math.isfinite(value):
        return f"{value} {unit}"
    fitting = [(p, s) for p, s in scales.items() if s <= value]
    prefix, scale = max(fitting, key=lambda item: item[1], default=("", 1.0))
    return f"{value / scale:.{digits}g} {prefix}{unit}"
