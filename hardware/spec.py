"""Spec files: TOML from the catalog or the user, merged, overridden and validated.

A spec is handled as flat settings, ``devices.0.network.bandwidth`` to its
value and source, so that ``extends``, the entries of an array and ``--set``
are all the same operation: later settings replace earlier ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from hardware.array import SpecError
from hardware.reader import hint, parse_toml, read_text

COMMAND_LINE = "command line"
"""The source of values that were changed there."""
_DEEPEST = 8
_MOST_SETTINGS = 10_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of a spec: what was written, in which file, and the source it names.

    ``folder`` is where relative paths in the value start; None is the current one.
    """

    value: Any
    origin: str
    source: str
    folder: Path | None = None


Settings = dict[str, Entry]
"""Flat key path to entry."""


@cache
def catalog() -> dict[str, str]:
    """Name to text of every spec that ships with accelarray."""
    folder = resources.files("hardware") / "catalog"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {f.name.removesuffix(".toml"): f.read_text() for f in files if f.name.endswith(".toml")}


class Loaded(NamedTuple):
    """A spec with what it extends: its name and file, its settings, and the names of its bases."""

    label: str
    file: str
    settings: Settings
    bases: tuple[str, ...]


def load_settings(name: str, kind: str, near: Path | None = None) -> Loaded:
    """Resolve ``name`` (catalog name or path) and what it extends.

    ``kind`` is "device", "array" or "stack". What a file names is in its folder (``near``), or
    in the catalog. Raises SpecError.
    """
    labels, layers = list[str](), list[Settings]()
    current: str | None = name
    seen: list[str] = []
    while current is not None:
        try:
            text, origin, near = _find(current, kind, near)
        except SpecError as error:
            raise SpecError(f"{seen[-1]}: extends: {error}" if seen else str(error)) from None
        if origin in seen or len(seen) >= _DEEPEST:
            raise SpecError(f"{origin}: 'extends' goes round or deeper than {_DEEPEST}: {seen}")
        labels.append(Path(origin).stem)
        seen.append(origin)
        data = parse_toml(text, origin, SpecError)
        found = data.pop("kind", None)
        if found != kind:
            named = f"{seen[-2]}: extends: " if len(seen) > 1 else ""
            remedy = f"; {_arrays_of(current)}" if (found, kind) == ("device", "array") else ""
            raise SpecError(
                f'{named}{origin}: kind: this must be a spec with kind = "{kind}"{remedy}'
            )
        current = data.pop("extends", None)
        if current is not None and not isinstance(current, str):
            raise SpecError(f"{origin}: extends: must be a name or a path, found {current!r}")
        layers.append(flatten(data, origin, near))
    merged: Settings = {}
    for layer in reversed(layers):
        merged.pop("description", None)  # of what is extended, which is another machine
        _check_peak(merged, layer)
        merged = merge(merged, layer)
    return Loaded(labels[0], seen[0], merged, tuple(labels[1:]))


def _arrays_of(device: str) -> str:
    """Which of the catalog's arrays have a device, or how to write one."""
    names = [
        name
        for name in catalog_names("array")
        for key, entry in load_settings(name, "array").settings.items()
        if re.fullmatch(r"devices\.\d+\.device", key) and entry.value == device
    ]
    own = f'write one, with [[devices]] device = "{device}" and a count (docs/how-to/array.md)'
    return f"arrays of it: {', '.join(dict.fromkeys(names))}; or {own}" if names else own


def _check_peak(base: Settings, layer: Settings) -> None:
    """Raise SpecError for a peak that nothing would read: others by format, or units, give it."""
    by_format = "chip.peak_by_format."
    known = [key for key in base if key.startswith(by_format)]
    peak = layer.get("chip.peak")
    if peak and any(key.startswith("units.") for key in (*base, *layer)):
        raise SpecError(
            f"{peak.origin}: chip.peak: [units] give the peak; leave it out, or change "
            "units.clock or their sizes"
        )
    if known and peak and not any(key.startswith(by_format) for key in layer):
        raise SpecError(
            f"{peak.origin}: chip.peak: what it extends has peaks by format, which go before it; "
            f'write {known[0]} = "{peak.value}", and of each other format'
        )


def spec_kind(name: str) -> str | None:
    """What a catalog name or path describes ("device", "array"); None for an unknown name."""
    if not _is_path(name) and name not in catalog():
        return None
    text, origin, _ = _find(name, "spec", None)
    return str(parse_toml(text, origin, SpecError).get("kind"))


def beside(name: str) -> list[str]:
    """The spec file of that name without its ending in the current folder, if there is one."""
    file = f"{name}.toml"
    return [file] if len(file) < 100 and Path(file).is_file() else []


def _is_path(name: str) -> bool:
    return name.endswith(".toml") or "/" in name


def _find(name: str, kind: str, near: Path | None) -> tuple[str, str, Path | None]:
    """Text, origin and folder of a spec."""
    if not _is_path(name):
        if (text := catalog().get(name)) is not None:
            return text, f"catalog/{name}.toml", None
        known = hint(name, [*catalog_names(kind), *beside(name)], f"{kind}s")
        raise SpecError(f"unknown {kind} {name!r}; {known} (or the path of a .toml file)")
    path = (near or Path()) / Path(name)
    if near is not None and not _is_inside(path, near):
        raise SpecError(
            f"{name[:80]!r}: outside the folder of the file that names it; name a file in that "
            f"folder, or one of the catalog's {kind}s"
        )
    return read_text(path, SpecError), str(path), path.parent


def _is_inside(path: Path, folder: Path) -> bool:
    """Whether a file is in a folder or below it, wherever links lead."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # no path, which its reader tells
        return True


def catalog_names(kind: str) -> list[str]:
    """Names of the catalog's devices or arrays."""
    return [
        name
        for name, text in catalog().items()
        if parse_toml(text, name, SpecError)["kind"] == kind
    ]


def catalog_rows(kind: str) -> list[tuple[str, int, str]]:
    """Each of the catalog's specs of a kind: its name, size and description.

    The size is a device's cores, an array's accelerators, or the year of a stack.
    Read as it is written, with what it extends, not checked as a spec that is used is.
    """
    rows = []
    for name in catalog_names(kind):
        values = {key: entry.value for key, entry in load_settings(name, kind).settings.items()}
        if kind == "stack":
            size = values.get("year", 0)
        elif kind == "device":
            size = values["chips"] * values["chip.cores"]
        else:
            size = sum(values[key] for key in values if re.fullmatch(r"devices\.\d+\.count", key))
            size *= values.get("nodes", 1)
        rows.append((name, size, values.get("description", "")))
    return rows


def catalog_models() -> dict[str, str]:
    """The execution model that each of the catalog's arrays says it is for, by its name."""
    names = catalog_names("array")
    return {name: load_settings(name, "array").settings["execution"].value for name in names}


def flatten(data: Mapping[str, Any], origin: str, folder: Path | None = None) -> Settings:
    """Settings of a parsed file; its ``[sources]`` table says where each is from."""
    sources = data.get("sources", {})
    if not isinstance(sources, dict) or not all(isinstance(s, str) for s in sources.values()):
        raise SpecError(f'{origin}: sources: must be a table of "key.path" = "text"')
    chips = data.get("chips")
    if dotted := [name for name in chips if "." in name] if isinstance(chips, dict) else []:
        what = "a name cannot have a dot here; rename the file of the device"
        raise SpecError(f'{origin}: chips."{dotted[0]}": {what}')
    flat = dict(_leaves({key: value for key, value in data.items() if key != "sources"}, ""))
    if len(flat) > _MOST_SETTINGS:
        raise SpecError(f"{origin}: {len(flat)} settings; at most {_MOST_SETTINGS} make sense")
    unknown = sorted(sources.keys() - flat.keys())
    if unknown:
        near = hint(unknown[0], flat)
        keys = ", ".join(unknown)
        raise SpecError(f"{origin}: sources: no such keys in this file: {keys}; {near}")
    return {
        key: Entry(value, origin, sources.get(key, f"set in {origin}"), folder)
        for key, value in flat.items()
    }


def _leaves(value: Any, prefix: str) -> Iterable[tuple[str, Any]]:
    items: Iterable[tuple[str, Any]]
    if isinstance(value, dict) and (value or not prefix):
        items = value.items()
    elif isinstance(value, list) and value and not _is_one_value(value, prefix):
        items = ((str(i), item) for i, item in enumerate(value))
    else:
        yield prefix, value
        return
    for key, item in items:
        yield from _leaves(item, f"{prefix}.{key}" if prefix else key)


def _is_one_value(value: list[Any], prefix: str) -> bool:
    """A list of numbers inside a table, as a shape, is replaced whole."""
    return "." in prefix and not any(isinstance(item, dict | list) for item in value)


def merge(base: Settings, change: Settings) -> Settings:
    """``change`` over ``base``; a list written anew replaces the whole old list.

    Two entries in a base and one in the file that extends it are one entry:
    else devices.1 would be left over, of a list that nobody sees.
    """
    lists = {found for key in change if (found := _list_of(key))}
    return rejoined({k: v for k, v in base.items() if _list_of(k) not in lists}, change)


def rejoined(base: Settings, change: Settings) -> Settings:
    """``change`` over ``base``; with other wires, what model the old ones were for is forgotten."""
    if any(key.startswith("topology.") for key in change):
        base = {key: entry for key, entry in base.items() if key != "execution"}
    return base | change


def _list_of(key: str) -> str:
    """The list that a key is in, as "topology.levels" of topology.levels.0.kind; "" if none."""
    parts = key.split(".")
    number = next((i for i, part in enumerate(parts) if part[:1].isdigit()), 0)
    return ".".join(parts[:number])


def command_line(assignments: Iterable[str]) -> Settings:
    """Settings of ``--set key.path=value`` arguments; values are TOML or plain text."""
    settings: Settings = {}
    for text in assignments:
        key, equals, raw = text.partition("=")
        if not equals or not key.strip():
            raise SpecError(f"--set {text!r}: expected KEY=VALUE, as devices.0.count=64")
        for path, value in _leaves(_value(raw.strip()), key.strip()):
            settings[path] = Entry(value, f"--set {text}", COMMAND_LINE)
    return settings


def words_of(changes: Settings) -> list[str]:
    """What changes of a spec add to its name: "devices.0.count=16"."""
    return [f"{key}={_word(entry.value)}" for key, entry in changes.items()]


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(raw: str) -> Any:
    try:
        parsed = parse_toml(f"value = {raw}", "--set", SpecError)
    except SpecError:
        return raw
    return parsed["value"] if parsed.keys() == {"value"} else raw


def unflatten(settings: Settings) -> dict[str, Any]:
    """Nested tables; the entries of a list become a table with keys "0", "1" and so on."""
    tree: dict[str, Any] = {}
    for key, entry in settings.items():
        *parents, last = key.split(".")
        table = tree
        for parent in parents:
            child = table.setdefault(parent, {})
            if not isinstance(child, dict):
                raise SpecError(f"{entry.origin}: {key}: {parent!r} is a value, not a table")
            table = child
        if isinstance(table.get(last), dict):
            raise SpecError(f"{entry.origin}: {key}: is a table, not a value")
        table[last] = entry.value
    return tree


def beneath(settings: Settings, prefix: str) -> Settings:
    """The settings whose keys start with ``prefix``, with the prefix taken off."""
    return {k.removeprefix(prefix): v for k, v in settings.items() if k.startswith(prefix)}
