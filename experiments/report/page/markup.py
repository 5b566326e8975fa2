"""HTML whose text is escaped unless it says that it is HTML."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from typing import Any


class Markup(str):
    """Text that is HTML already; any other text is escaped where it meets HTML."""

    __slots__ = ()


def escape(value: object) -> Markup:
    """Names come from strangers' files: ``<``, ``>``, ``&`` and both quotes as entities."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def join(parts: Iterable[object]) -> Markup:
    """One after the other."""
    return Markup("".join(map(escape, parts)))


def tag(name: str, *children: object, **attributes: object) -> Markup:
    """An element; ``class_`` is ``class``, ``data_x`` is ``data-x``, None leaves one out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def number(value: float | None, spec: str, title: str | None = None) -> Markup:
    """A number as people read it, which also carries its exact value; nothing for None."""
    if value is None:
        return Markup("")
    return tag("data", format(value, spec), value=repr(value), title=title)


def scrolling(label: str, content: Markup) -> Markup:
    """A box that scrolls on its own where its content is wider than the page."""
    return tag("div", content, class_="scroll", role="region", tabindex=0, aria_label=label)


def row(cells: Iterable[object], heading: str = "row") -> Markup:
    """A table's row; its first cell names it, or all do where ``heading`` is ``col``."""
    first, *rest = cells
    name = "th" if heading == "col" else "td"
    scope = "col" if heading == "col" else None
    return tag(
        "tr", tag("th", first, scope=heading), *(tag(name, cell, scope=scope) for cell in rest)
    )


def table(
    caption: str,
    head: Sequence[object] | Markup,
    rows: Iterable[Sequence[object]],
    foot: Iterable[Sequence[object]] = (),
    kind: str = "numbers",
) -> Markup:
    """A table in a box that scrolls; ``head`` is names, or rows made already."""
    top = head if isinstance(head, Markup) else row(head, "col")
    return scrolling(
        caption,
        tag(
            "table",
            tag("caption", caption),
            tag("thead", top),
            tag("tbody", *map(row, rows)),
            tag("tfoot", *map(row, foot)),
            class_=kind,
        ),
    )


def section(name: str, title: str, *content: object) -> Markup:
    """A section of the page, which its contents link to."""
    return tag("section", tag("h2", title), *content, id=name)


def data_block(name: str, data: Any) -> Markup:
    """JSON that the page's script reads and that cannot end its element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return tag("script", Markup(text), type="application/json", id=name)
