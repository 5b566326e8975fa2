"""The tables that the command line prints, as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Template
    from rich.table import Table

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
    shown = [part.strip() if isinstance(part, str) else _table(part) for part in parts]
    return _template().render(parts=filter(None, shown), style=CELL, rule=RULE)


@cache
def _template() -> Template:
    from jinja2 import Environment

    return Environment(autoescape=True).from_string(PARTS)


def _table(table: Table) -> dict[str, Any]:
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
