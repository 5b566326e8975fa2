"""A design as a device's spec, which every command accepts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from experiments.design.space import Space
from experiments.design.study import Ran
from experiments.output import UsageError
from hardware import COMMAND_LINE, Array, Units
from hardware.array import Setting

ENTRY = "devices.0."
_BARE = re.compile(r"true|false|[-+]?\d+(\.\d+)?([eE][-+]?\d+)?|\[.*\]", re.ASCII)


def spec_of(array: Array, space: Space, ran: Ran, networks: Sequence[str]) -> str:
    """The TOML of the array's device with the units of a design; raises UsageError without one.

    It extends the device that the array names, and repeats what the command line changed of it.
    """
    if ran.design is None:
        raise UsageError("there is no design to write")
    settings = {s.key.removeprefix(ENTRY): s for s in array.settings if s.key.startswith(ENTRY)}
    base = settings["device"].value
    if base.endswith(".toml"):
        base = str(Path(base).resolve())
    units = space.units(ran.design)
    lines = [
        'kind = "device"',
        f"extends = {json.dumps(base)}",
        f"description = {json.dumps(_about(ran, networks))}",
        "",
        *_changes(settings),
        *_units(units),
        "[sources]",
        *(f'"{key}" = "found by accelarray design"' for key in _keys(units)),
    ]
    return "\n".join(lines) + "\n"


def _about(ran: Ran, networks: Sequence[str]) -> str:
    words = f"Designed for {', '.join(networks)}: {ran.design}"
    return f"{words}; {ran.area_mm2:.1f} mm2, {ran.power_w:.0f} W"[:1000]


def _changes(settings: dict[str, Setting]) -> list[str]:
    """What the command line changed of the device, its units apart."""
    changed = (s for key, s in settings.items() if s.source == COMMAND_LINE)
    return [
        f"{key} = {_value(s.value)}"
        for s in changed
        if (key := s.key.removeprefix(ENTRY)) not in ("device", "count")
        and not key.startswith("units.")
    ]


def _value(text: str) -> str:
    if text in ("True", "False"):
        return text.lower()
    return text if _BARE.fullmatch(text) else json.dumps(text)


def _units(units: Units) -> list[str]:
    (matrix,), (vector,) = units.matrix, units.vector
    return [
        "",
        "[units]",
        f'clock = "{units.clock_hz:.17g} Hz"',
        f'buffer = "{units.buffer_bytes:.17g} B"',
        "",
        "[[units.matrix]]",
        f"count = {matrix.count}",
        f"width = {matrix.width}",
        f"depth = {matrix.depth}",
        f'dataflow = "{matrix.dataflow}"',
        "",
        "[[units.vector]]",
        f"count = {vector.count}",
        f"width = {vector.width}",
        "",
    ]


def _keys(units: Units) -> list[str]:
    del units
    return [
        "units.clock",
        "units.buffer",
        *(f"units.matrix.0.{key}" for key in ("count", "width", "depth", "dataflow")),
        *(f"units.vector.0.{key}" for key in ("count", "width")),
    ]
