"""What an array's precision, optimizer and software stack make of its devices' settings.

In bf16 or fp16, activations, and weights as operators read them, have two bytes;
gradients and the copy that the optimizer updates have four. In fp8, fp4 or int8 products
are computed in that format, and attention in bf16; what is kept in HBM has two bytes,
of which casts are made on the way (Transformer Engine keeps weights so, unless told
otherwise). fp32 and tf32 have four bytes everywhere.

A stack is a spec of its own (kind = "stack"), named by an array's ``stack`` or by
``--stack``. It changes devices, and says what is no device's: whether attention is
fused, and how gradients are exchanged.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from hardware.array import SpecError, Stack
from hardware.device import MovedBytes
from hardware.quantity import parse_quantity
from hardware.reader import Share, Table, Text, optional, table_of, whole
from hardware.schema import FORMATS, NARROW, OPTIMIZERS, PRECISIONS, RooflineTable, check
from hardware.spec import Entry, Settings, beneath, catalog, load_settings

FUSED_SINCE = 2023
"""From this year on a stack's attention is fused, unless it says otherwise."""
_PEAKS = "chip.peak_by_format."
ITS_OWN = "one peak, of its elements, in which it computes without a precision"


_ROOFLINE = optional(
    *(RooflineTable, "matrix_efficiency", "attention_efficiency", "wide_efficiency"),
    *("memory_efficiency", "tile", "pad_matrix_unit", "blocking"),
)
_Share: Any = (Share | None, None)
EfficiencyTable: Any = create_model(
    "Efficiency",
    __base__=Table,
    **dict.fromkeys(("products", *FORMATS, "attention", "memory"), _Share),
    **_ROOFLINE,
)
"""Shares of peaks: of products (in all formats, or in one), attention, memory; then a roofline's.

The latter are called and bounded as in a device (``hardware.Roofline``).
"""
_KEYS = {
    "attention": "roofline.attention_efficiency",
    "memory": "roofline.memory_efficiency",
    **{key: f"roofline.{key}" for key in _ROOFLINE},
}
"""A key of a stack's efficiencies to that of a device."""
_MOVED = ("gradient_kernel", "gradient_kernel_fp16", "gradient_kernel_wide")
HabitsTable: Any = table_of(
    Stack,
    *("name", "description", "early_stop"),
    overlap=(Literal["full", "none"] | None, None),
    recompute=(Literal["whole", "needed"], "whole"),
    **dict.fromkeys(("gradients", "gradients_fp16"), (Literal["2 B", "4 B"] | None, None)),
    **dict.fromkeys(("gradient_buffer", "gradient_copy", "dummy_gradients"), (bool | None, None)),
    **dict.fromkeys(_MOVED, (MovedBytes | None, None)),
)
"""What a stack does, on any chip (``hardware.Stack``); what is None it leaves as it is.

``attention_wide`` is that of fp32 and tf32, where kernels of 16-bit numbers do not serve.
``gradients`` are bytes of a gradient of 16-bit weights (of wider ones it is as wide as they are),
``gradients_fp16`` those where products are in fp16, if that is another;
``gradient_kernel`` is as in ``hardware.Arithmetic``, ``_fp16`` and ``_wide`` in those formats.
"""


class StackTable(Table):
    """A stack: efficiencies on every chip, on chips by name, and habits."""

    description: Text = ""
    framework: Text = ""
    year: Annotated[int, whole(1950, 2100)] | None = None
    efficiency: EfficiencyTable = EfficiencyTable()
    chips: dict[str, EfficiencyTable] = Field(default={}, max_length=64)
    habits: HabitsTable = HabitsTable()


def of_precision(chosen: Entry, device: str, settings: Settings) -> Settings:
    """What a precision makes of the settings of a device; raises SpecError where it has it not.

    The one peak of a chip without peaks by format is in the format of its elements: bf16 for
    two bytes, fp32 for four. One byte may be any format.
    """
    name = str(chosen.value)
    has = [key.removeprefix(_PEAKS) for key in settings if key.startswith(_PEAKS)]
    alone = _of_one_peak(settings)
    units = any(key.startswith("units.") for key in settings)
    formats = {"compute": name} | ({"attention": "bf16"} if name in NARROW else {})
    lacking = [one for one in formats.values() if one not in (has or [alone])]
    if lacking:
        own = not has or lacking == ["bf16"]
        needed = [
            f'{_PEAKS}{one} = "…"' for one in dict.fromkeys(formats.values()) if one not in has
        ]
        gives = f"; {' with '.join(needed)} gives it that" if own else ""
        gives = "; its units are described for no other format" if units else gives
        known = ", ".join(has) or (f"{alone} alone" if alone else ITS_OWN)
        raise SpecError(
            f"{chosen.origin}: precision: {device} has no {lacking[0]}; it has {known}{gives}"
        )
    if not has:
        formats = {}
    size = f"{PRECISIONS[name]} B"
    sizes = dict.fromkeys(("element", "activations", "weights"), size)
    sizes |= dict.fromkeys(("gradients", "master"), "4 B")
    return _arithmetic(chosen, f'precision = "{name}"', sizes | formats)


def _of_one_peak(settings: Settings) -> str:
    """The format of a chip's peak, by the size of its elements; "" where that says none."""
    width, element = 2.0, settings.get("arithmetic.element")
    with suppress(ValueError):  # an element that is no size is said with all other faults
        width = parse_quantity(element.value, "B") if element else width
    return {2.0: "bf16", 4.0: "fp32", 8.0: "fp64"}.get(width, "")


def of_optimizer(chosen: Entry) -> Settings:
    """What an optimizer makes of a device's settings."""
    name = str(chosen.value)
    return _arithmetic(chosen, f'optimizer = "{name}"', {"moments": ["4 B"] * OPTIMIZERS[name]})


def _with_the_cores_of(spec: Settings, chips: Iterable[str]) -> str | None:
    """The first of these chips of the catalog that has the same cores and power as a device."""
    if not {"chip.peak", "power.busy"} <= spec.keys():
        return None

    def cores(settings: Settings) -> dict[str, Any]:
        keys = [key for key in settings if key.startswith("chip.") or key == "power.busy"]
        return {key: settings[key].value for key in keys}

    of_catalog = (chip for chip in sorted(chips) if chip in catalog())
    same = (c for c in of_catalog if cores(load_settings(c, "device").settings) == cores(spec))
    return next(same, None)


def _arithmetic(chosen: Entry, source: str, values: dict[str, Any]) -> Settings:
    return {
        f"arithmetic.{key}": Entry(value, chosen.origin, source) for key, value in values.items()
    }


_OF_DEVICE = ("gradients", "gradient_buffer", "gradient_copy", "gradient_kernel", "dummy_gradients")
"""Habits that are keys of a device's arithmetic."""
_BY_FORMAT = ("gradients_fp16", "gradient_kernel_fp16", "gradient_kernel_wide")
"""The same, where products are in fp16, or in fp32 and TF32 (wide)."""


class Chosen:
    """A stack as it is written: its habits, and what it makes of a device."""

    def __init__(self, name: str, file: str, settings: Settings) -> None:
        table, faults = check(StackTable, settings, file)
        if table is None:
            raise SpecError("\n".join(faults))
        self.settings, habits = settings, table.habits
        exclude = {*_OF_DEVICE, *_BY_FORMAT, "recompute"}
        values = habits.model_dump(exclude=exclude)
        if habits.attention is None and (table.year or 0) >= FUSED_SINCE:
            values["attention"] = "fused"
        values["overlap"] = None if habits.overlap is None else habits.overlap == "full"
        early_stop = habits.recompute == "needed"
        self.habits = Stack(name, table.description, early_stop=early_stop, **values)

    @classmethod
    def by(cls, entry: Entry) -> Chosen:
        """The one that an array names; raises SpecError where it is not there, or is wrong."""
        try:
            found = load_settings(str(entry.value), "stack", entry.folder)
            return cls(found.label, found.file, found.settings)
        except SpecError as error:
            raise SpecError(f"{entry.origin}: stack: {error}") from None

    def check_chips(self, devices: Iterable[str]) -> None:
        """Raise SpecError for a chip that is called almost as one of these, or of the catalog.

        Others may be of a file that is not in use here.
        """
        used = set(devices)
        for written, entry in beneath(self.settings, "chips.").items():
            chip = written.partition(".")[0]
            if chip in used or chip in catalog():
                continue
            if near := difflib.get_close_matches(chip, {*used, *catalog()}, n=1, cutoff=0.8):
                what = f"no such chip; did you mean {near[0]}?"
                raise SpecError(f"{entry.origin}: chips.{chip}: {what}")

    def of(self, names: Sequence[str], format_: str, spec: Settings) -> Settings:
        """What it makes of the settings of a device whose products have that format.

        Of its ``names`` the first is its own, the others are of what it extends. What the stack
        does not say of a chip is as of one that differs in its memory alone, of which it has
        shares of products (the ``spec`` has the same cores and power).
        """
        found: Settings = {}
        keys = [key.split(".") for key in self.settings if key.startswith("chips.")]
        has = {key[1] for key in keys if {*key[2:]} & {"products", *FORMATS}}
        if alike := _with_the_cores_of(spec, has - {*names}):
            names = (*names, alike)
        for table in ("efficiency", *(f"chips.{name}" for name in reversed(names))):
            for written, key_of_device in _KEYS.items():
                self._take(found, f"{table}.{written}", key_of_device)
            for written in ("products", format_):
                self._take(found, f"{table}.{written}", "roofline.matrix_efficiency")
            for written in ("products", "bf16") if format_ in NARROW else ():
                self._take(found, f"{table}.{written}", "roofline.wide_efficiency")
        width = "wide" if format_ in ("fp64", "fp32", "tf32") else format_
        for habit in _OF_DEVICE:
            if habit != "gradients" or width != "wide":  # those are as wide as the weights
                self._take(found, f"habits.{habit}", f"arithmetic.{habit}")
        for habit in _BY_FORMAT:
            what, _, of = habit.rpartition("_")
            if of == width:
                self._take(found, f"habits.{habit}", f"arithmetic.{what}")
        return found

    def _take(self, found: Settings, written: str, key_of_device: str) -> None:
        if written in self.settings:
            entry = self.settings[written]
            source = f"stack {self.habits.name}: {entry.source}"
            found[key_of_device] = Entry(entry.value, entry.origin, source)
