"""A self-contained page: jinja2 templates, which escape every text, around the data they show."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich.table import Table as Printed

from experiments.pictures.palette import css

LABELS = {
    "training": "training",
    "speedups": "speedups",
    "results": "store",
    "numbers": "numbers",
    "memory": "memory",
    "path": "why",
    "helps": "what would help",
    "compare": "two planners",
    "plans": "plans",
    "timeline": "timeline",
    "specs": "specs",
    "made": "versions",
}
"""Sections, each a macro of sections.html.j2, and what the contents call them."""


class Number(NamedTuple):
    """A number as people read it, which also carries its exact value; nothing for None."""

    value: float | None
    spec: str
    title: str | None = None
    scale: float = 1.0
    mark: str = ""

    @property
    def shown(self) -> str:
        """The number, times ``scale``, as ``spec`` formats it, with its ``mark``."""
        return "" if self.value is None else f"{self.scale * self.value:{self.spec}}{self.mark}"

    @property
    def exact(self) -> str:
        """All its digits."""
        return repr(self.value)


def four_digits(value: float, scale: float = 1.0) -> Number:
    """A number in four digits, never as a power of ten."""
    return Number(value, ",.0f" if abs(value * scale) >= 999.95 else "#.4g", scale=scale)


class Split(NamedTuple):
    """A cell of a plan map: the type, and the first half's share where it is not one half."""

    type: str
    share: Number


class Table(NamedTuple):
    """A table; ``groups`` are words above so many columns each, behind the first one.

    ``ends`` are numbers of rows behind which there is a rule, from 1.
    """

    caption: str
    head: Sequence[object]
    rows: Iterable[Sequence[object]]
    foot: Iterable[Sequence[object]] = ()
    kind: str = "numbers"
    groups: Sequence[tuple[str, int]] = ()
    ends: Sequence[int] = ()


WRAP = "numbers wrap"
"""Of a table whose last column is words, which may be long."""


def printed(table: Printed, caption: str = "") -> Table:
    """A table that commands print, as one of the page; what stands alone behind a rule is below."""
    heads = [str(column.header) for column in table.columns]
    heads = heads if table.show_header else ["", "value"]
    cells = zip(*(column.cells for column in table.columns), strict=True)
    rows = [[str(cell).replace("  ", "\N{NO-BREAK SPACE}" * 2) for cell in row] for row in cells]
    below = len(rows) > 1 and table.rows[-2].end_section
    several, last = len(heads) > 1, table.columns[-1].justify
    kind = WRAP if several and table.show_header and last == "left" else "numbers"
    body, foot = (rows[:-1], rows[-1:]) if below else (rows, [])
    ends = [i for i, row in enumerate(table.rows[: len(body) - 1], 1) if row.end_section]
    return Table(caption or str(table.title or ""), heads, body, foot, kind, ends=ends)


def page(title: str, message: str, parts: Mapping[str, Any]) -> str:
    """The page of sections (by their names); only its own style and script may run."""
    style = Markup(css()) + _asset("style.css")  # noqa: S704
    script = _asset("page.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    template = _environment().get_template("page.html.j2")
    sections = {name: section(name, data) for name, data in parts.items()}
    texts = {"policy": policy, "title": title, "message": message, "labels": LABELS}
    return template.render(texts, style=style, script=script, sections=sections)


def section(name: str, data: Any) -> Markup:
    """The HTML of one section's content."""
    sections = _environment().get_template("sections.html.j2").module
    found: Markup = getattr(sections, name)(data)
    return found


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("experiments.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests |= {
        "number": lambda cell: isinstance(cell, Number),
        "split": lambda cell: isinstance(cell, Split),
    }
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


@cache
def _asset(name: str) -> Markup:
    """One of our own files, which is HTML, style or script already."""
    environment = _environment()
    return Markup(PackageLoader("experiments.report").get_source(environment, name)[0])  # noqa: S704


def _hash(text: str) -> str:
    """What the policy calls an inline style or script that may be used."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
