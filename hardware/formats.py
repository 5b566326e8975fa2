"""Mixed precision and optimizers by name: what they make of a device's ``[arithmetic]``.

In bf16 or fp16, activations, and weights as operators read them, have two bytes;
gradients and the copy that the optimizer updates have four. In fp8, fp4 or int8 products
are computed in that format, and attention in bf16; what is kept in HBM has two bytes,
of which casts are made on the way (Transformer Engine keeps weights so, unless told
otherwise). fp32 and tf32 have four bytes everywhere.
"""

from __future__ import annotations

from typing import Any

from hardware.array import SpecError
from hardware.spec import Entry, Settings

PRECISIONS = {"bf16": 2, "fp16": 2, "fp8": 2, "fp4": 2, "int8": 2, "fp32": 4, "tf32": 4}
"""Bytes of an activation, and of a weight as operators read it."""
NARROW = {"fp8": 1.0, "fp4": 0.5, "int8": 1.0}
"""Formats that are for products with weights alone, whose operands are cast; bytes of a number."""
OPTIMIZERS = {"adam": 2, "sgd": 1, "adafactor": 0}
"""Moments of four bytes kept for each parameter.

Adam has two, SGD its momentum; of Adafactor's two, rows and columns are kept, which are nothing
beside the weights.
"""
_PEAKS = "chip.peak_by_format."


def of_precision(chosen: Entry, device: str, settings: Settings) -> Settings:
    """What a precision makes of the settings of a device; raises SpecError where it has it not.

    A chip without peaks by format is taken to have its peak in bf16, which is what an
    element of two bytes says elsewhere.
    """
    name = str(chosen.value)
    has = [key.removeprefix(_PEAKS) for key in settings if key.startswith(_PEAKS)]
    formats = {"compute": name} | ({"attention": "bf16"} if name in NARROW else {})
    for format_ in formats.values():
        if format_ not in (has or ["bf16"]):
            known = ", ".join(has) or 'bf16 alone; chip.peak_by_format.fp32 = "…" gives it others'
            raise SpecError(
                f"{chosen.origin}: precision: {device} has no {format_}; it has {known}"
            )
    if not has:
        formats = {}
    size = f"{PRECISIONS[name]} B"
    sizes = dict.fromkeys(("element", "activations", "weights"), size)
    sizes |= dict.fromkeys(("gradients", "master"), "4 B")
    return _arithmetic(chosen, f'precision = "{name}"', sizes | formats)


def of_optimizer(chosen: Entry) -> Settings:
    """What an optimizer makes of a device's settings."""
    name = str(chosen.value)
    return _arithmetic(chosen, f'optimizer = "{name}"', {"moments": ["4 B"] * OPTIMIZERS[name]})


def _arithmetic(chosen: Entry, source: str, values: dict[str, Any]) -> Settings:
    return {
        f"arithmetic.{key}": Entry(value, chosen.origin, source) for key, value in values.items()
    }
