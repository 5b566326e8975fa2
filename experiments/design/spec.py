"""Designs as specs that every command accepts: a device, or an array of one for each place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.design.runs import Ran
from experiments.design.space import Design, Space
from experiments.output import UsageError
from hardware import COMMAND_LINE, Array, Units
from hardware.array import Setting
from planners import Place

ENTRY = "devices.0."
_BARE = re.compile(r"true|false|[-+]?\d+(\.\d+)?([eE][-+]?\d+)?|\[.*\]", re.ASCII)


def specs_of(
    path: str,
    array: Array,
    space: Space,
    ran: Ran,
    networks: Sequence[str],
    places: Sequence[Place],
) -> dict[str, str]:
    """Files by path: of one design its device; of one for each place a device each, and the array.

    They repeat the array's device, with what the command line changed of it, but for its
    units. Raises UsageError without a design.
    """
    if not ran.designs:
        raise UsageError("there is no design to write")
    words = f"Designed for {', '.join(networks)}; {ran.area_mm2:.1f} mm2, {ran.power_w:.0f} W"
    settings = {s.key.removeprefix(ENTRY): s for s in array.settings if s.key.startswith(ENTRY)}
    if ran.design is not None:
        return {path: _device(settings, space, ran.design, words)}
    stem = path.removesuffix(".toml")
    names = [f"{stem}-{rank}.toml" for rank in range(len(places))]
    files = {
        name: _device(settings, space, design, f"place {rank}: {words}")
        for rank, (name, design) in enumerate(zip(names, ran.designs, strict=True))
    }
    return {path: _array(array, names, places, words), **files}


def _device(settings: dict[str, Setting], space: Space, design: Design, words: str) -> str:
    kept = {
        key: s
        for key, s in settings.items()
        if key not in ("device", "count", "chip.peak") and not key.startswith("units.")
    }
    units = space.units(design)
    lines = [
        'kind = "device"',
        f"description = {json.dumps(f'{design}. {words}'[:1000])}",
        *(f"{key} = {_value(s.value)}" for key, s in kept.items()),
        *_units(units),
        "[sources]",
        *(f"{json.dumps(key)} = {json.dumps(_source(s))}" for key, s in kept.items()),
        *(f'"{key}" = "found by accelarray design"' for key in _keys()),
    ]
    return "\n".join(lines) + "\n"


def _array(array: Array, names: Sequence[str], places: Sequence[Place], words: str) -> str:
    """Places in the order of their accelerators, which are all of the array's."""
    (device, _), *_ = array.group.kinds
    placed = sorted(zip(places, names, strict=True), key=lambda pair: pair[0].first)
    own = {s.key: s for s in array.settings if not s.key.startswith("devices.")}
    lines = [
        'kind = "array"',
        f"description = {json.dumps(words[:1000])}",
        *(f"{key} = {_value(s.value)}" for key, s in own.items()),
    ]
    sources = {key: _source(s) for key, s in own.items()}
    for entry, (place, name) in enumerate(placed):
        count = place.count // device.cores
        lines += ["", "[[devices]]", f"device = {json.dumps(str(Path(name).resolve()))}"]
        lines += [f"count = {count}"]
        sources |= dict.fromkeys(
            (f"devices.{entry}.device", f"devices.{entry}.count"), "found by accelarray design"
        )
    lines += ["", "[sources]", *(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in sources.items())]
    return "\n".join(lines) + "\n"


def _source(setting: Setting) -> str:
    return "given to accelarray design" if setting.source == COMMAND_LINE else setting.source


def _value(text: str) -> str:
    if text in ("True", "False"):
        return text.lower()
    return text if _BARE.fullmatch(text) else json.dumps(text)


def _units(units: Units) -> Iterator[str]:
    (matrix,), (vector,) = units.matrix, units.vector
    yield from ("", "[units]", f'clock = "{units.clock_hz:.17g} Hz"')
    yield from (f'buffer = "{units.buffer_bytes:.17g} B"', "", "[[units.matrix]]")
    yield from (f"{key} = {getattr(matrix, key)}" for key in ("count", "width", "depth"))
    yield from (f'dataflow = "{matrix.dataflow}"', "", "[[units.vector]]")
    yield from (f"{key} = {getattr(vector, key)}" for key in ("count", "width"))
    yield ""


def _keys() -> Iterator[str]:
    yield from ("units.clock", "units.buffer")
    yield from (f"units.matrix.0.{key}" for key in ("count", "width", "depth", "dataflow"))
    yield from (f"units.vector.0.{key}" for key in ("count", "width"))
