"""Every option of the command line: one table makes the flags, ``list options`` and the keys.

An option is a flag (``--bucket``) and a key (``execution.bucket``), which ``--set KEY=VALUE`` and
the TOML file of ``--config`` take. Flags that are not ``shown`` work, and no ``--help`` lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from textwrap import fill
from typing import Any

from experiments.options.commands import COMMANDS, PIPEDREAM
from experiments.options.option import Option
from experiments.options.steps import ARRAY, MODEL, OUTPUT, SOFTWARE, SPLIT

OWN = "this command"
GROUPS = {
    "what to train": MODEL,
    "on what": ARRAY,
    "how it is split": SPLIT,
    "software": SOFTWARE,
    "output": OUTPUT,
    OWN: (*COMMANDS, *PIPEDREAM),
}
"""Titles of ``--help``, and the options below each."""
OPTIONS = {option.key: option for options in GROUPS.values() for option in options}
"""Every option by its key."""
TITLES = {option.key: title for title, options in GROUPS.items() for option in options}
ALIASES = {option.name.replace("-", "_"): key for key, option in reversed(OPTIONS.items())}
"""Flags' names as keys: "bucket" is "execution.bucket"; of equal names the first one."""
SPEC_KEYS = ("description", "execution", "nodes", "precision", "optimizer", "stack", "price")
SPEC_TABLES = ("devices", "network", "topology")
"""Keys and tables of an array's spec, which ``--set`` and ``--config`` take as well."""


def leaves(table: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Values of a table and of those in it by their paths, "training.seq_len"."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def option_rows() -> list[dict[str, str]]:
    """What ``list options --format json`` prints."""
    return [NETWORK, *map(_row, _listed(OPTIONS.values()))]


NETWORK = {
    "key": "model.name",
    "flag": "NETWORK",
    "values": "",
    "default": "",
    "unit": "",
    "meaning": "network: a name (list networks), or an .onnx, .toml, config.json or layer file",
}
"""The option that is no flag."""


SWITCH = "true|false"
"""Values of a flag that takes none: of its key."""


def _listed(options: Iterable[Option]) -> list[Option]:
    return [option for option in options if option.key not in ("set", "config", "vary")]


def _row(option: Option) -> dict[str, str]:
    return {
        "key": option.key,
        "flag": f"--{option.name}",
        "values": option.values or SWITCH,
        "default": option.otherwise,
        "unit": option.unit,
        "meaning": option.about,
    }


def options_text() -> str:
    """What ``list options`` prints: each key with its flag, values, default, unit and meaning."""
    parts = [
        "Options as --set KEY=VALUE, in a --config file, or as flags. Where a flag has no\n"
        "value, that of its key is true or false.\n"
    ]
    for title, options in GROUPS.items():
        parts.append(f"{title}\n")
        for row in [*([NETWORK] if options is MODEL else []), *map(_row, _listed(options))]:
            default = f"default: {row['default'] or 'none'}"
            unit = f"; unit: {row['unit']}" if row["unit"] else ""
            values = row["values"]
            flag = f"{row['flag']} {values}".strip() if values != SWITCH else row["flag"]
            lines = [f"{row['key']}   ({flag})", f"{default}{unit}"]
            for indent, text in zip((2, 6, 6), [*lines, row["meaning"]], strict=True):
                margin = " " * indent
                parts.append(fill(text, 78, initial_indent=margin, subsequent_indent=f"{margin}  "))
        parts.append("")
    parts.append("Keys of an array, as network.bandwidth: accelarray show ARRAY")
    return "\n".join(parts) + "\n"
