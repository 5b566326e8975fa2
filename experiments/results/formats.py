"""A command's result in the form that is asked for: a table, Markdown, CSV, JSON or HTML."""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment
from rich.table import Table

from experiments.output import UsageError
from experiments.terms import aliased

if TYPE_CHECKING:
    import pandas

FORMATS = ("table", "json", "csv", "md")
"""What every command that prints a table can print; ``table`` is the default."""
_MARKUP = re.compile(r"([\\`*<|\[\]])")
"""Characters that names from strangers' files could format a page of Markdown with."""


def settle(args: argparse.Namespace) -> None:
    """Choose ``args.format``: what ``--format`` says, or else how ``--output`` ends.

    Raises UsageError where both say something else, or the command has no such format.
    """
    formats: tuple[str, ...] | None = getattr(args, "formats", None)
    if formats is None:
        return
    ending = Path(args.output or "").suffix.lower().removeprefix(".")
    named = ending if ending in {*FORMATS, "parquet"} - {"table"} else None
    free = args.format or getattr(args, "export", None) or ending in ("", "txt", *args.endings)
    if ending not in formats and (named or not free):
        these = ", ".join("text (.txt)" if name == "table" else f".{name}" for name in formats)
        raise UsageError(
            f"--output {args.output!r}: this command has no {ending}; it writes {these}"
            + (", and --plot draws" if hasattr(args, "plot") else "")
        )
    if named is not None and args.format not in (None, named):
        raise UsageError(
            f"--format {args.format} --output {args.output!r}: two formats; leave --format out, "
            f"or give the file another ending"
        )
    args.format = args.format or named or "table"
    if args.format == "parquet" and args.output is None:
        raise UsageError("--format parquet needs --output FILE")


def flat(data: Mapping[str, Any]) -> dict[str, Any]:
    """What of a JSON object one line of a spreadsheet has: no lists, no objects."""
    return {key: value for key, value in data.items() if not isinstance(value, list | dict | tuple)}


def rows_of(table: pandas.DataFrame) -> list[dict[str, Any]]:
    """The rows of a data frame by old and new keys, None where a value is unknown."""
    known = table.astype(object).where(table.notna(), None)
    return [aliased({str(key): row[key] for key in row}) for row in known.to_dict("records")]


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each row under every key that one of them has; None is an empty field."""
    text = io.StringIO()
    keys = dict.fromkeys(key for row in rows for key in row)
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(map(_inert, keys))
    lines.writerows([_inert(row.get(key)) for key in keys] for row in rows)
    return text.getvalue()


def _inert(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: such texts begin with an apostrophe."""
    if not isinstance(cell, str):
        return cell
    with suppress(ValueError):
        float(cell)
        return cell
    cell = cell.replace("\r", " ")  # which ends a line, and csv does not quote it
    return f"'{cell}" if cell.lstrip().startswith(("=", "+", "-", "@")) else cell


def markdown_of(*parts: Table | str) -> str:
    """Tables between bars, their titles in bold, sentences as paragraphs; names stay text."""
    found: list[str] = []
    for part in parts:
        if isinstance(part, Table):
            found += [f"**{_escaped(str(part.title))}**"] if part.title else []
            found.append(_bars(part))
        elif part.strip():
            found.append(_escaped(part.strip()))
    return "\n\n".join(found) + "\n"


def _bars(table: Table) -> str:
    heads = [_escaped(str(column.header)) if table.show_header else "" for column in table.columns]
    marks = ["---:" if column.justify == "right" else "---" for column in table.columns]
    cells = [[_escaped(str(cell)) for cell in column.cells] for column in table.columns]
    lines = [heads, marks, *zip(*cells, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(text: str) -> str:
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))


CELL = "padding: 0.1em 0.6em; white-space: pre-line"
RULE = "border-top: 1px solid #999"
PARTS = """\
<div style="max-height: 45em; overflow: auto">
{%- for part in parts -%}{%- if part is string -%}
<p style="white-space: pre-line">{{ part }}</p>
{%- else -%}
<table style="border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0.6em 0">
{%- if part.title -%}
<caption style="caption-side: top; text-align: left; font-weight: bold; padding: 0.2em 0.6em">
{{- part.title }}</caption>
{%- endif -%}
{%- if part.head -%}
<thead><tr>{% for cell in part.head %}<th style="text-align: {{ cell[0] }}; {{ style }}">
{{- cell[1] }}</th>{% endfor %}</tr></thead>
{%- endif -%}
<tbody>
{%- for ruled, cells in part.rows -%}
<tr{% if ruled %} style="{{ rule }}"{% endif %}>
{%- for cell in cells %}<td style="text-align: {{ cell[0] }}; {{ style }}">
{{- cell[1] }}</td>{% endfor %}</tr>
{%- endfor -%}</tbody></table>
{%- endif %}{%- endfor -%}</div>"""


def html_of(parts: Iterable[Table | str]) -> str:
    """Tables and sentences one below the other; whatever names contain, it stays text."""
    shown = [part.strip() if isinstance(part, str) else _shown(part) for part in parts]
    template = Environment(autoescape=True).from_string(PARTS)
    return template.render(parts=filter(None, shown), style=CELL, rule=RULE)


def _shown(table: Table) -> dict[str, Any]:
    """Title, head and rows; a line above the first row of every section, as in the terminal."""
    sides = [column.justify for column in table.columns]
    cells = zip(*(column.cells for column in table.columns), strict=True)
    ruled = [table.show_header, *(row.end_section for row in table.rows)]
    head = [column.header for column in table.columns] if table.show_header else []
    return {
        "title": table.title,
        "head": list(zip(sides, head, strict=False)),
        "rows": [
            (line, list(zip(sides, row, strict=True)))
            for line, row in zip(ruled, cells, strict=False)
        ],
    }


def with_aliases(frame: pandas.DataFrame) -> pandas.DataFrame:
    """A copy with the field's term before each column of an old name (``aliased``)."""
    columns = aliased({name: name for name in frame.columns})
    return frame[list(columns.values())].set_axis(list(columns), axis="columns")
