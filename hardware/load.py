"""Devices and arrays from the catalog or from files, with command-line changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from hardware.array import MOST_ACCELERATORS, Array, Group, Setting, SpecError, Stack, waiting
from hardware.device import Device
from hardware.interconnect.faults import faults_of
from hardware.reader import raise_all
from hardware.schema import (
    ArrayTable,
    DeviceTable,
    check,
    device_faults,
    device_of,
    in_order,
    origin_of,
    topology_of,
    written_format,
)
from hardware.spec import Settings, beneath, command_line, load_settings, rejoined, words_of
from hardware.stack import Chosen, of_optimizer, of_precision

ONE_SHAPE = ("ring", "torus", "mesh")
"""Topologies that no links join to another one of their kind."""
_OF_THE_ENTRY = ("device", "count")
_OF_TRAINING = ("precision", "optimizer", "stack")
NO_STACK = "none"
"""In place of a stack: none, nor the usual one."""
_OF_EVERY_BOARD = (
    "price",
    *(f"network.{key}" for key in ("bandwidth", "latency", "efficiency", "half_size")),
)


def load_device(name: str, overrides: Iterable[str] = ()) -> tuple[Device, tuple[Setting, ...]]:
    """A device by catalog name or path, with ``key=value`` changes; raises SpecError.

    Returns the device, whose name tells the changes, and its settings with their sources.
    """
    label, file, settings = _changed(name, "device", overrides)
    table, faults = _checked(settings, file)
    raise_all(faults, SpecError)
    assert table is not None  # noqa: S101
    return device_of(label, table), _shown(settings)


def load_stack(name: str, overrides: Iterable[str] = ()) -> tuple[Stack, tuple[Setting, ...]]:
    """A software stack's habits, and its settings with their sources; raises SpecError."""
    label, file, settings = _changed(name, "stack", overrides)
    return Chosen(label, file, settings).habits, _shown(settings)


def _changed(name: str, kind: str, overrides: Iterable[str]) -> tuple[str, str, Settings]:
    """A spec with changes on top: its name with these, its file, its settings."""
    label, file, settings, _ = load_settings(name, kind)
    changes = command_line(overrides)
    label = ", ".join([label, *words_of(changes)])
    return label, file, _said_anew(settings, changes) | changes


def load_array(name: str, overrides: Iterable[str] = (), *, usual: bool = False) -> Array:
    """An array by catalog name or path, with ``key=value`` changes; raises SpecError.

    It runs the ``stack`` that is named ("none": no stack); where none is, and ``usual`` is
    true, the one that its spec calls ``usual_stack``.

    Its name tells the changes, and a description of what it was before is dropped.
    A board's values come from its device spec, then what the array's ``precision``,
    ``optimizer`` and ``stack`` make of it, then the array's own ``network`` values,
    then the entry's other keys; the command line repeats the last two on top.
    """
    label, file, written, _ = load_settings(name, "array")
    changes = command_line(overrides)
    _check_entries_exist(changes, written)
    own = rejoined(_said_anew(_own(written), changes), _own(changes))
    table, faults = check(ArrayTable, own, file)
    raise_all(faults if any(key in own for key in _OF_TRAINING) else (), SpecError)
    named = own.get("stack", own.get("usual_stack") if usual else None)
    stack = None if named is None or named.value == NO_STACK else Chosen.by(named)
    settings = dict(own)
    kinds: list[tuple[Device, int]] = []
    for index in sorted(_entries(written | changes), key=in_order):
        board = _board(index, own, (written, changes), stack, file, faults)
        if board is None:
            continue
        device, board_settings = board
        settings |= {f"devices.{index}.{key}": entry for key, entry in board_settings.items()}
        if table is not None:
            kinds.append((device, table.nodes * table.devices[index].count))
    raise_all(faults, SpecError)
    assert table is not None  # noqa: S101
    if stack:
        stack.check_chips(device.name.partition(",")[0] for device, _ in kinds)
    group = Group(waiting(_merge_alike(kinds)))
    if table.nodes > 1:
        _check_copies(table, group, own["nodes"].origin)
    if group.size > MOST_ACCELERATORS:
        raise SpecError(f"{file}: devices: {group.size} accelerators; at most {MOST_ACCELERATORS}")
    if table.topology.levels and (kind := own.get("topology.kind")):
        what = "each of topology.levels has its own; leave it out"
        raise SpecError(f"{kind.origin}: topology.kind: {what}")
    habits = stack.habits if stack else Stack()
    topology = topology_of(table.topology, group, table.nodes, habits.collectives)
    wrong = faults_of(topology, group)
    raise_all(
        (f"{own[key].origin if key in own else file}: {key}: {what}" for key, what in wrong),
        SpecError,
    )
    words = tuple(words_of(changes))
    return Array(
        ", ".join([label, *words]),
        table.description,
        group,
        _shown(settings),
        topology,
        table.execution,
        words,
        stack=habits if stack else None,
    )


def _check_copies(table: ArrayTable, group: Group, origin: str) -> None:
    """Raise SpecError for several nodes that nothing joins, or that are unlike."""
    if len(group.kinds) > 1:
        what = f"{table.nodes} nodes of unlike devices; write counts of the whole array instead"
        raise SpecError(f"{origin}: nodes: {what}")
    if not table.topology.levels and table.topology.kind in ONE_SHAPE:
        raise SpecError(
            f"{origin}: nodes: a {table.topology.kind} has no links to another one; write "
            "topology.levels, or more devices for a larger one"
        )


def _said_anew(settings: Settings, changes: Settings) -> Settings:
    """Settings without the description, where they are changed: it is true no longer."""
    return {k: entry for k, entry in settings.items() if not changes or k != "description"}


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


def _check_entries_exist(changes: Settings, written: Settings) -> None:
    known = sorted(_entries(written), key=in_order)
    for key, entry in changes.items():
        if key.startswith("devices.") and key.split(".")[1] not in known:
            has = ", ".join(f"devices.{number}" for number in known)
            raise SpecError(f"{entry.origin}: no such entry; this array has {has}")


def _board(
    index: str,
    own: Settings,
    layers: tuple[Settings, ...],
    stack: Chosen | None,
    file: str,
    faults: list[str],
) -> tuple[Device, Settings] | None:
    """One entry's device and its settings; None, and more faults, when it is wrong."""
    named = own.get(f"devices.{index}.device")
    if named is None:
        faults.append(f"{file}: devices.{index}.device: is missing")
        return None
    if not isinstance(named.value, str):
        return None
    try:
        label, origin, settings, bases = load_settings(named.value, "device", named.folder)
    except SpecError as error:
        faults.append(f"{named.origin}: devices.{index}.device: {error}")
        return None
    changes: Settings = {}
    for layer in layers:
        changes |= {k: e for k, e in layer.items() if k in _OF_EVERY_BOARD}
        changed = beneath(layer, f"devices.{index}.")
        changes |= {k: e for k, e in changed.items() if k not in _OF_THE_ENTRY}
    settings = _trained(own, stack, (label, *bases), settings, changes)
    prefix = f"devices.{index}."
    table, wrong = _checked(settings, origin, prefix)
    # what the array's own table says of every board is told of it already
    faults += [one for one in wrong if one.replace(prefix, "", 1) not in faults]
    if wrong or table is None:
        return None
    return replace(device_of(label, table), extends=bases), settings


def _trained(
    own: Settings, stack: Chosen | None, names: Sequence[str], settings: Settings, changes: Settings
) -> Settings:
    """A device's settings: its spec's, then what the array trains in and with, then changes.

    ``names`` are the device's, and those of what it extends.
    """
    if "precision" in own:
        settings = settings | of_precision(own["precision"], names[0], settings | changes)
    if "optimizer" in own:
        settings = settings | of_optimizer(own["optimizer"])
    if stack:
        written = {key: str(entry.value) for key, entry in (settings | changes).items()}
        with suppress(ValueError):  # an element that is no size is said with all other faults
            settings = settings | stack.of(names, written_format(written), settings)
    return settings | changes


def _checked(
    settings: Settings, file: str, prefix: str = ""
) -> tuple[DeviceTable | None, list[str]]:
    """A device's tables, and every fault."""
    table, faults = check(DeviceTable, settings, file, prefix)
    if table is not None:
        faults += [
            f"{origin_of(key, settings, file)}: {prefix}{key}: {what}"
            for key, what in device_faults(table)
        ]
    return table, faults


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
        if not key.endswith("description") and (key, entry.value) != ("stack", NO_STACK)
    )
