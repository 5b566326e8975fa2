"""Devices and arrays from the catalog or from files, with command-line changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hardware.array import Array, Group, Setting, SpecError
from hardware.device import Arithmetic, ChipLinks, Device, Energy, Roofline
from hardware.faults import faults_of
from hardware.schema import (
    ArithmeticTable,
    ArrayTable,
    DeviceTable,
    EnergyTable,
    LevelTable,
    LinksTable,
    NetworkTable,
    TopologyTable,
    check,
    device_faults,
    peaks_of,
)
from hardware.spec import Settings, beneath, command_line, load_settings, rejoined, words_of
from hardware.topology import TIERS, Tier, Topology
from hardware.units.table import units_of

MOST_ACCELERATORS = 1 << 17
FORMAT_OF_WIDTH = {8.0: "fp64", 4.0: "fp32", 2.0: "bf16", 1.0: "fp8"}
"""What products compute in where ``arithmetic.compute`` does not say, by the element's bytes."""
_OF_THE_ENTRY = ("device", "count")
_OF_EVERY_BOARD = tuple(
    f"network.{key}" for key in ("bandwidth", "latency", "efficiency", "half_size")
)


def load_device(name: str, overrides: Iterable[str] = ()) -> tuple[Device, tuple[Setting, ...]]:
    """A device by catalog name or path, with ``key=value`` changes; raises SpecError.

    Returns the device, whose name tells the changes, and its settings with their sources.
    """
    label, file, settings = load_settings(name, "device")
    changes = command_line(overrides)
    settings = _said_anew(settings, changes) | changes
    table, faults = _checked(settings, file)
    _raise(faults)
    return _device(", ".join([label, *words_of(changes)]), table), _shown(settings)


def load_array(name: str, overrides: Iterable[str] = ()) -> Array:
    """An array by catalog name or path, with ``key=value`` changes; raises SpecError.

    Its name tells the changes, and a description of what it was before is dropped.
    A board's values come from its device spec, then the array's own
    ``network`` values, then the entry's other keys; the command line
    repeats the last two on top.
    """
    label, file, written = load_settings(name, "array")
    changes = command_line(overrides)
    _check_entries_exist(changes, written)
    own = rejoined(_said_anew(_own(written), changes), _own(changes))
    table, faults = check(ArrayTable, own, file)
    settings = dict(own)
    kinds: list[tuple[Device, int]] = []
    for index in sorted(_entries(written | changes), key=_numeric):
        board = _board(index, own, (written, changes), file, faults)
        if board is None:
            continue
        device, board_settings = board
        settings |= {f"devices.{index}.{key}": entry for key, entry in board_settings.items()}
        if table is not None:
            kinds.append((device, table.devices[index].count))
    _raise(faults)
    group = Group(_merge_alike(kinds))
    if group.size > MOST_ACCELERATORS:
        _raise([f"{file}: devices: {group.size} accelerators; at most {MOST_ACCELERATORS}"])
    if table.topology.levels and "topology.kind" in own:
        origin = own["topology.kind"].origin
        _raise([f"{origin}: topology.kind: each of topology.levels has its own; leave it out"])
    topology = _topology(table.topology)
    _raise(
        f"{own[key].origin if key in own else file}: {key}: {what}"
        for key, what in faults_of(topology, group)
    )
    words = words_of(changes)
    name, about = ", ".join([label, *words]), table.description
    return Array(name, about, group, _shown(settings), topology, table.execution, tuple(words))


def _said_anew(settings: Settings, changes: Settings) -> Settings:
    """Settings without the description, where they are changed: it is true no longer."""
    return {k: entry for k, entry in settings.items() if not changes or k != "description"}


def _topology(table: TopologyTable) -> Topology:
    return Topology(
        kind=TIERS if table.levels else table.kind,
        joins=table.joins,
        shape=tuple(table.shape),
        factor=table.factor,
        two_way=table.two_way,
        bytes_per_s=table.bandwidth,
        latency_s=table.latency,
        levels=tuple(_tier(table.levels[i]) for i in sorted(table.levels, key=_numeric)),
    )


def _tier(table: LevelTable) -> Tier:
    bytes_per_s, latency_s = _reached(table)
    return Tier(
        table.kind,
        table.members,
        bytes_per_s,
        latency_s,
        table.rails,
        table.oversubscription,
        tuple(table.shape),
    )


def _reached(link: LevelTable | NetworkTable | LinksTable) -> tuple[float, float]:
    """Bandwidth and latency that messages see.

    One of s bytes takes latency + (s + half size) / bandwidth: half of the
    bandwidth is reached at the half size, nearly all by large ones.
    """
    bytes_per_s = link.bandwidth * link.efficiency
    return bytes_per_s, link.latency + link.half_size / bytes_per_s


def _own(settings: Settings) -> Settings:
    """The settings that are the array's, not changes of an entry's device."""
    return {
        key: entry
        for key, entry in settings.items()
        if not key.startswith("devices.")
        or len(parts := key.split(".")) < 3
        or parts[2] in _OF_THE_ENTRY
    }


def _entries(own: Settings) -> set[str]:
    return {key.split(".")[1] for key in own if key.startswith("devices.")}


def _numeric(index: str) -> tuple[int, str]:
    return (int(index), "") if index.isdecimal() else (1 << 30, index)


def _check_entries_exist(changes: Settings, written: Settings) -> None:
    known = sorted(_entries(written), key=_numeric)
    for key, entry in changes.items():
        if key.startswith("devices.") and key.split(".")[1] not in known:
            raise SpecError(f"{entry.origin}: no such entry; this array has devices.{known}")


def _board(
    index: str, own: Settings, layers: tuple[Settings, ...], file: str, faults: list[str]
) -> tuple[Device, Settings] | None:
    """One entry's device and its settings; None, and more faults, when it is wrong."""
    named = own.get(f"devices.{index}.device")
    if named is None:
        faults.append(f"{file}: devices.{index}.device: is missing")
        return None
    if not isinstance(named.value, str):
        return None
    try:
        label, origin, settings = load_settings(named.value, "device", named.folder)
    except SpecError as error:
        faults.append(f"{named.origin}: devices.{index}.device: {error}")
        return None
    for layer in layers:
        settings |= {k: e for k, e in layer.items() if k in _OF_EVERY_BOARD}
        changed = beneath(layer, f"devices.{index}.")
        settings |= {k: e for k, e in changed.items() if k not in _OF_THE_ENTRY}
    table, wrong = _checked(settings, origin, f"devices.{index}.")
    faults += wrong
    return None if wrong else (_device(label, table), settings)


def _checked(settings: Settings, file: str, prefix: str = "") -> tuple[Any, list[str]]:
    """A device's tables, and every fault."""
    table, faults = check(DeviceTable, settings, file, prefix)
    if table is not None:
        faults += [
            f"{_origin(key, settings, file)}: {prefix}{key}: {what}"
            for key, what in device_faults(table)
        ]
    return table, faults


def _origin(key: str, settings: Settings, file: str) -> str:
    """Where a value, or one of a table's, was written."""
    beside = (e for k, e in settings.items() if k == key or k.startswith(f"{key}."))
    found = next(beside, None)
    return found.origin if found else file


def _device(label: str, table: DeviceTable) -> Device:
    links = table.links
    network_bytes_per_s, network_latency_s = _reached(table.network)
    units = units_of(table.units) if table.units else None
    return Device(
        name=label,
        chips=table.chips,
        cores_per_chip=table.chip.cores,
        chip_peak_flops_per_s=table.chip.cores * units.flops_per_s if units else _peak(table),
        hbm_capacity_bytes=table.hbm.capacity,
        hbm_bytes_per_s=table.hbm.bandwidth,
        network_bytes_per_s=network_bytes_per_s,
        description=table.description,
        network_latency_s=network_latency_s,
        links=ChipLinks(links.per_chip, *_reached(links)) if links else None,
        roofline=Roofline(
            matrix_efficiency=table.roofline.matrix_efficiency,
            memory_efficiency=table.roofline.memory_efficiency,
            overhead_s=table.roofline.overhead,
            tile=table.roofline.tile,
            pad_matrix_unit=table.roofline.pad_matrix_unit,
        ),
        arithmetic=_arithmetic(table.arithmetic),
        energy=_energy(table.energy),
        units=units,
    )


def _peak(table: DeviceTable) -> float:
    """One chip's peak in the format that products compute in.

    That is the one that is named, or the usual one of the element's width;
    ``chip.peak`` is the peak in every format that has none of its own.
    """
    format_ = table.arithmetic.compute or FORMAT_OF_WIDTH.get(table.arithmetic.element, "")
    return peaks_of(table).get(format_) or table.chip.peak or 0.0


def _arithmetic(table: ArithmeticTable) -> Arithmetic:
    return Arithmetic.of(
        table.element,
        fused=table.fused,
        activation_bytes=table.activations,
        weight_bytes=table.weights,
        gradient_bytes=table.gradients,
        master_bytes=table.master,
        moment_bytes=table.moments,
    )


def _energy(table: EnergyTable | None) -> Energy | None:
    return None if table is None else Energy(table.mac, table.hbm or 0.0, table.transfer)


def _merge_alike(kinds: list[tuple[Device, int]]) -> tuple[tuple[Device, int], ...]:
    """Neighbouring entries of one device are one kind."""
    merged: list[tuple[Device, int]] = []
    for device, count in kinds:
        if merged and merged[-1][0] == device:
            count += merged.pop()[1]
        merged.append((device, count))
    return tuple(merged)


def _shown(settings: Settings) -> tuple[Setting, ...]:
    return tuple(
        Setting(key, str(entry.value), entry.source)
        for key, entry in sorted(settings.items())
        if not key.endswith("description")
    )


def _raise(faults: Iterable[str]) -> None:
    if lines := dict.fromkeys(faults):
        raise SpecError("\n".join(lines))
