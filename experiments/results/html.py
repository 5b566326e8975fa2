"""The tables that the command line prints, as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from experiments.report.page.markup import Markup, join, tag

if TYPE_CHECKING:
    from rich.table import Column, Table

BOX = "max-height: 45em; overflow: auto"
TABLE = "border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0.6em 0"
CAPTION = "caption-side: top; text-align: left; font-weight: bold; padding: 0.2em 0.6em"
RULE = "border-top: 1px solid #999"
LINES = "white-space: pre-line"
CELL = f"padding: 0.1em 0.6em; {LINES}"


def html_of(parts: Iterable[Table | str]) -> str:
    """Tables and sentences one below the other; whatever names contain, it stays text."""
    found = (_sentences(p) if isinstance(p, str) else _table(p) for p in parts)
    return tag("div", *found, style=BOX)


def _sentences(text: str) -> Markup:
    return tag("p", text.strip(), style=LINES) if text.strip() else Markup("")


def _table(table: Table) -> Markup:
    head = tag(
        "thead", tag("tr", *(_cell("th", column.header, column) for column in table.columns))
    )
    return tag(
        "table",
        tag("caption", table.title, style=CAPTION) if table.title else "",
        head if table.show_header else "",
        tag("tbody", join(_rows(table))),
        style=TABLE,
    )


def _rows(table: Table) -> Iterator[Markup]:
    """A line above the first row of every section, as in the terminal."""
    cells = [list(column.cells) for column in table.columns]
    ruled = table.show_header
    for number, row in enumerate(table.rows):
        texts = (
            _cell("td", column[number], of) for column, of in zip(cells, table.columns, strict=True)
        )
        yield tag("tr", *texts, style=RULE if ruled else None)
        ruled = row.end_section


def _cell(name: str, text: object, column: Column) -> Markup:
    return tag(name, text, style=f"text-align: {column.justify}; {CELL}")
