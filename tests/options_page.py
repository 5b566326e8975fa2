"""The page of all options, from the table that makes the flags and ``list options``."""

from __future__ import annotations

import sys
from pathlib import Path

from experiments.options import GROUPS, SWITCH, option_rows

HEAD = """# Options

Each option is a flag and a key. A key stands in a `--config` file, or after `--set`. Flags that
no `--help` lists work too. The key of a flag without a value is `true` or `false`.
[Specs](specs.md) lists the keys of an array.
`python -m tests.options_page` writes this page from the table that makes the flags.

```toml
# run.toml, for: accelarray simulate --config run.toml
array = "h100-cluster"
batch = 64
model.name = "gpt2"
execution.bucket = "25 MiB"
```
"""
COLUMNS = "\n| Key | Flag | Default | Meaning |\n|---|---|---|---|\n"
TITLES = {"this command": "One command"}


def main(path: str = "docs/reference/options.md") -> None:
    """Write the page."""
    Path(path).write_text(page(), encoding="utf-8")


def page() -> str:
    """The page in Markdown: a table for each group of ``--help``."""
    rows = {row["key"]: row for row in option_rows()}
    parts = [HEAD]
    for title, options in GROUPS.items():
        keys = [option.key for option in options if option.key in rows]
        keys = (["model.name"] if title == "what to train" else []) + keys
        name = TITLES.get(title, title.capitalize())
        parts += [f"\n## {name}\n{COLUMNS}", *(_line(rows[key]) for key in keys)]
    return "".join(parts)


def _line(row: dict[str, str]) -> str:
    flag = f"{row['flag']} {row['values']}".strip() if row["values"] != SWITCH else row["flag"]
    unit = f", in {row['unit']}" if row["unit"] else ""
    cells = (f"`{row['key']}`", f"`{flag}`", row["default"] or "none", row["meaning"] + unit)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    main(*sys.argv[1:])
