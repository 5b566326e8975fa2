"""Designs as specs that every command accepts: a device, or an array of one for each place."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.design.runs import Ran
from experiments.design.space import Design, Space
from experiments.output import UsageError, spec_toml
from hardware import COMMAND_LINE, Array
from hardware.array import Setting
from planners import Place

ENTRY, FOUND = "devices.0.", "found by accelarray design"
_BARE = re.compile(r"true|false|[-+]?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?|\[.*\]", re.ASCII)


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
    units, sources = space.units(design), {key: _source(s) for key, s in kept.items()}
    found = {
        "clock": f"{units.clock_hz:.17g} Hz",
        "buffer": f"{units.buffer_bytes:.17g} B",
        "matrix": [_fields(one, "count", "width", "depth", "dataflow") for one in units.matrix],
        "vector": [_fields(one, "count", "width") for one in units.vector],
    }
    for name, value in found.items():
        of = [f"{name}.0.{key}" for key in value[0]] if isinstance(value, list) else [name]
        sources |= dict.fromkeys([f"units.{key}" for key in of], FOUND)
    spec = {"kind": "device", "description": f"{design}. {words}"[:1000]}
    values = {key: _value(s.value) for key, s in kept.items()}
    return spec_toml(spec | values | {"units": found}, sources)


def _fields(unit: object, *names: str) -> dict[str, Any]:
    return {name: getattr(unit, name) for name in names}


def _array(array: Array, names: Sequence[str], places: Sequence[Place], words: str) -> str:
    """Places in the order of their accelerators, which are all of the array's."""
    (device, _), *_ = array.group.kinds
    placed = sorted(zip(places, names, strict=True), key=lambda pair: pair[0].first)
    own = {s.key: s for s in array.settings if not s.key.startswith("devices.")}
    sources = {key: _source(s) for key, s in own.items()}
    entries = []
    for entry, (place, name) in enumerate(placed):
        count = place.count // device.cores
        entries.append({"device": str(Path(name).resolve()), "count": count})
        sources |= {f"devices.{entry}.{key}": FOUND for key in entries[-1]}
    spec = {"kind": "array", "description": words[:1000]}
    values = {key: _value(s.value) for key, s in own.items()}
    return spec_toml(spec | values | {"devices": entries}, sources)


def _source(setting: Setting) -> str:
    return "given to accelarray design" if setting.source == COMMAND_LINE else setting.source


def _value(text: str) -> Any:
    """A setting's value: what its text is in TOML, or in Python, where that is no text."""
    if text in ("True", "False"):
        return text == "True"
    return tomllib.loads(f"value = {text}")["value"] if _BARE.fullmatch(text) else text
