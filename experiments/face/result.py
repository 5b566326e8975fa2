"""What every result of the public face can do."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from hardware import format_quantity

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.table import Table

LONGEST = 100
"""Characters of a ``repr``'s words; names may be of any length."""
UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
"""Stands in a ``repr`` for what would move a terminal's cursor or colour its text."""


class Result(ABC):
    """A value with a short ``repr``, a page for notebooks, a table, a picture and JSON."""

    __slots__ = ()

    @abstractmethod
    def title(self) -> str:
        """What it is about, and its time, in a few words."""

    @abstractmethod
    def shown(self) -> list[Table | str]:
        """The tables and sentences of its summary."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """What the command line prints with ``--format json``, as plain values by name."""

    @abstractmethod
    def to_frame(self) -> pandas.DataFrame:
        """A tidy table, one row for each of what the result has many of."""

    @abstractmethod
    def plot(self) -> Figure:
        """The picture that the command line draws."""

    def __repr__(self) -> str:
        from experiments.pictures.figures import shortened

        words = "".join(c if c.isprintable() else UNPRINTABLE for c in self.title())
        return f"<{type(self).__name__.removesuffix('Result')} {shortened(words, LONGEST)}>"

    def _repr_html_(self) -> str:
        """The summary, for notebooks; names from strangers' files stay text."""
        from experiments.face.html import html_of

        return html_of(self.shown())

    def summary(self) -> str:
        """What the command line prints."""
        from experiments.output import text_of

        return text_of(*self.shown())

    def to_json(self) -> str:
        """``to_dict`` as the command line writes it."""
        from experiments.output import to_json

        return to_json(self.to_dict())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture whole, equal ones as equal files; raises UsageError.

        The name ends in .png, .svg or .pdf.
        """
        from experiments.pictures.figures import check_plot, save

        target = os.fspath(path)
        check_plot(target)
        save(self.plot(), target)


def readable(seconds: float) -> str:
    """Seconds in the unit in which they read best: "53.21 ms"."""
    return format_quantity(seconds, "s")
