"""The spec of a software stack, and what it makes of a device.

A stack is a spec of its own (kind = "stack"), named by an array's ``stack`` or by
``--stack``. It changes devices, and says what is no device's: whether attention is
fused, and how gradients are exchanged.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from hardware.array import SpecError
from hardware.schema import check
from hardware.spec import Entry, Settings, beneath, catalog, is_shipped, load_settings
from hardware.stack import Stack
from hardware.tables import (
    BYTES,
    DURATION,
    EFFICIENCY,
    Table,
    entries,
    flag,
    key,
    number,
    one_of,
    text,
    whole,
)


class EfficiencyTable(Table):
    """Shares of peaks: of products (in all formats, or in one), attention, memory; times.

    ``host`` is the least time of an operator, ``overhead`` what each takes besides;
    ``winograd`` how many times fewer products convolutions of 3 x 3 compute; ``variation``
    by how much alike chips differ in time, all of which wait for the slowest; ``align`` of how many
    bytes rows of unfused attention are a multiple that matrix units compute.
    """

    products = key(EFFICIENCY, None)
    fp64 = key(EFFICIENCY, None)
    fp32 = key(EFFICIENCY, None)
    tf32 = key(EFFICIENCY, None)
    bf16 = key(EFFICIENCY, None)
    fp16 = key(EFFICIENCY, None)
    fp8 = key(EFFICIENCY, None)
    fp4 = key(EFFICIENCY, None)
    int8 = key(EFFICIENCY, None)
    attention = key(EFFICIENCY, None)
    memory = key(EFFICIENCY, None)
    overhead = key(DURATION, None)
    host = key(DURATION, None)
    concurrent = key(number(0, 1), None)
    winograd = key(number(1, 16), None)
    variation = key(number(0, 0.5), None)
    align = key(BYTES, None)


class HabitsTable(Table):
    """What a stack does, on any chip; what is None it leaves as it is.

    ``gradients_fp16`` are bytes of a gradient where products are in fp16, if that is another.
    """

    attention = key(one_of(("fused", "unfused")), None)
    gradients = key(one_of(("2 B", "4 B")), None)
    gradients_fp16 = key(one_of(("2 B", "4 B")), None)
    gradient_buffer = key(flag, None)
    dummy_gradients = key(flag, None)
    overlap = key(one_of(("full", "none")), None)
    bucket = key(BYTES, None)
    hidden_tensor = key(number(0, 1), 0.0)
    collectives = key(EFFICIENCY, 1.0)
    recompute = key(one_of(("whole", "needed")), "whole")
    update_order = key(one_of(("layers", "arrival")), "layers")


class StackTable(Table):
    """A stack: efficiencies on every chip, on chips by name, and habits."""

    description = key(text, "")
    framework = key(text, "")
    year = key(whole(1950, 2100), None)
    efficiency = key(EfficiencyTable, EfficiencyTable())
    chips = key(entries(EfficiencyTable, 0, 64), {})
    habits = key(HabitsTable, HabitsTable())


_KEYS = {
    "attention": "roofline.attention_efficiency",
    "memory": "roofline.memory_efficiency",
    "overhead": "roofline.overhead",
    "host": "roofline.host",
    "concurrent": "roofline.concurrent",
    "winograd": "roofline.winograd",
    "variation": "roofline.variation",
    "align": "roofline.align",
}
"""A key of a stack's efficiencies to that of a device."""


class Chosen:
    """A stack as it is written: its habits, and what it makes of a device."""

    def __init__(self, name: str, file: str, settings: Settings) -> None:
        table, faults = check(StackTable, settings, file)
        if faults:
            raise SpecError("\n".join(faults))
        self.settings, habits = settings, table.habits
        self.habits = Stack(
            name,
            table.description,
            habits.attention,
            None if habits.overlap is None else habits.overlap == "full",
            habits.bucket,
            habits.hidden_tensor,
            habits.collectives,
            habits.recompute == "needed",
            habits.update_order,
        )

    @classmethod
    def by(cls, entry: Entry) -> Chosen:
        """The one that an array names; raises SpecError where it is not there, or is wrong."""
        try:
            return cls(*load_settings(str(entry.value), "stack", entry.folder))
        except SpecError as error:
            raise SpecError(f"{entry.origin}: stack: {error}") from None

    def check_chips(self, devices: Iterable[str]) -> None:
        """Raise SpecError for a chip that is called almost as one of these, or of the catalog.

        Others may be of a file that is not in use here.
        """
        used = set(devices)
        for written, entry in beneath(self.settings, "chips.").items():
            chip = written.partition(".")[0]
            if chip in used or is_shipped(chip):
                continue
            if near := difflib.get_close_matches(chip, {*used, *catalog()}, n=1, cutoff=0.8):
                what = f"no such chip; did you mean {near[0]}?"
                raise SpecError(f"{entry.origin}: chips.{chip}: {what}")

    def of(self, device: str, format_: str) -> Settings:
        """What it makes of the settings of a device whose products have that format."""
        found: Settings = {}
        for table in ("efficiency", f"chips.{device}"):
            for written, key_of_device in _KEYS.items():
                self._take(found, f"{table}.{written}", key_of_device)
            for written in ("products", format_):
                self._take(found, f"{table}.{written}", "roofline.matrix_efficiency")
        for habit in ("gradients", "gradient_buffer", "dummy_gradients"):
            self._take(found, f"habits.{habit}", f"arithmetic.{habit}")
        self._take(found, f"habits.gradients_{format_}", "arithmetic.gradients")
        return found

    def _take(self, found: Settings, written: str, key_of_device: str) -> None:
        if written in self.settings:
            entry = self.settings[written]
            source = f"stack {self.habits.name}: {entry.source}"
            found[key_of_device] = Entry(entry.value, entry.origin, source)
