"""The tables that the command line prints, as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from experiments.report.page.markup import Markup, join, tag

if TYPE_CHECKING:
    from rich.table import Column, Table

Part = "Table | str"
"""A table, or sentences; what a summary is made of."""

RULE = "border-top: 1px solid #999"
LINES = "white-space: pre-line"


def html_of(parts: Iterable[Table | str]) -> str:
    """Tables and sentences one below the other; whatever names contain, it stays text."""
    return tag("div", *(_sentences(p) if isinstance(p, str) else _table(p) for p in parts))


def _sentences(text: str) -> Markup:
    return tag("p", text.strip(), style=LINES) if text.strip() else Markup("")


def _table(table: Table) -> Markup:
    head = tag(
        "thead", tag("tr", *(_cell("th", column.header, column) for column in table.columns))
    )
    return tag(
        "table",
        tag("caption", table.title, style="caption-side: top") if table.title else "",
        head if table.show_header else "",
        tag("tbody", join(_rows(table))),
    )


def _rows(table: Table) -> Iterator[Markup]:
    """A line above the first row of every section but the first, as in the terminal."""
    cells = [list(column.cells) for column in table.columns]
    ruled = False
    for number, row in enumerate(table.rows):
        texts = (
            _cell("td", column[number], of) for column, of in zip(cells, table.columns, strict=True)
        )
        yield tag("tr", *texts, style=RULE if ruled else None)
        ruled = row.end_section


def _cell(name: str, text: object, column: Column) -> Markup:
    return tag(name, text, style=f"text-align: {column.justify}; {LINES}")
