"""What every result can do, on the command line and in Python."""

from __future__ import annotations

import argparse
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from experiments.output import (
    UsageError,
    check_writable,
    deliver,
    frame_of,
    text_of,
    to_json,
    whole_file,
)
from experiments.pictures.figures import check_plot, save, shortened
from experiments.results.formats import csv_of, html_of, markdown_of
from hardware import format_quantity
from hardware.reader import extra

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

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
    def tables(self) -> Sequence[Table | str]:
        """The tables and sentences of its summary."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """What the command line prints with ``--format json``, as plain values by name."""

    @abstractmethod
    def rows(self) -> Sequence[Mapping[str, Any]]:
        """What the command line prints with ``--format csv``, a mapping for each line."""

    def to_frame(self) -> pandas.DataFrame:
        """A tidy table, one row for each of what the result has many of."""
        return frame_of(self.rows())

    def plot(self) -> Figure:
        """The picture that the command line draws; raises UsageError where there is none."""
        raise UsageError(f"{self.title()}: there is no picture of it")

    def export(self, target: str) -> str:
        """Its plan as flags or a file of a framework; raises UsageError where there is none."""
        raise UsageError(f"{self.title()}: no plan of it for {target}")

    def __repr__(self) -> str:
        words = "".join(c if c.isprintable() else UNPRINTABLE for c in self.title())
        return f"<{type(self).__name__.removesuffix('Result')} {shortened(words, LONGEST)}>"

    def _repr_html_(self) -> str:
        """The summary, for notebooks; names from strangers' files stay text."""
        return html_of(self.tables())

    def summary(self) -> str:
        """What the command line prints."""
        return text_of(*self.tables())

    def to_json(self) -> str:
        """``to_dict`` as the command line writes it."""
        return to_json(self.to_dict())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture whole, equal ones as equal files; raises UsageError.

        The name ends in .png, .svg or .pdf.
        """
        target = os.fspath(path)
        check_plot(target)
        save(self.plot(), target)


def check_outputs(args: argparse.Namespace, *others: str | None) -> None:
    """Raise UsageError before the work where a file cannot be written, or has a wrong ending."""
    plot = getattr(args, "plot", None)
    if plot:
        check_plot(plot)
    check_writable(args.output, plot, *others)


def written(result: Result, form: str) -> str:
    """The text of a result in one of FORMATS."""
    if form == "json":
        return result.to_json()
    if form == "csv":
        return csv_of(result.rows())
    return markdown_of(*result.tables()) if form == "md" else text_of(*result.tables())


def show(
    args: argparse.Namespace, result: Result, export: str | None = None, *, complete: bool = True
) -> None:
    """Print or write a command's result in the form asked for, and draw its ``--plot``.

    With ``export`` a plan for a framework takes its place. What is not complete goes to the
    terminal: no file is replaced by half a study.
    """
    plot = getattr(args, "plot", None) if complete else None
    figure = result.plot() if plot else None
    if export:
        deliver(result.export(export), args.output)
    elif args.format == "parquet":
        _write_parquet(result.to_frame(), args.output)
    else:
        deliver(written(result, args.format), args.output if complete else None)
    if plot and figure is not None:
        save(figure, plot)


def _write_parquet(table: pandas.DataFrame, output: str) -> None:
    with whole_file(output) as path:
        try:
            table.to_parquet(path, index=False)
        except ImportError:
            raise UsageError(f"--output {output!r}: Parquet needs {extra('parquet')}") from None


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Answer(Result):
    """What one command alone answers: JSON, lines of a spreadsheet, and what people read.

    Lines and tables are made only when they are asked for.
    """

    data: Any
    lines: Callable[[], Sequence[Mapping[str, Any]]]
    parts: Callable[[], Sequence[Table | str]]
    frame: pandas.DataFrame | None = None
    picture: Callable[[], Figure] | None = None

    def title(self) -> str:
        """The first words that people read."""
        return str(next(iter(self.parts()), ""))

    def tables(self) -> Sequence[Table | str]:
        """What people read."""
        return self.parts()

    def to_dict(self) -> Any:
        """As JSON has it: an object, or a list."""
        return deepcopy(self.data)

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """A line of a spreadsheet each."""
        return self.lines()

    def to_frame(self) -> pandas.DataFrame:
        """The same as a table, with its own types where it was one."""
        return Result.to_frame(self) if self.frame is None else self.frame

    def plot(self) -> Figure:
        """The picture, where the command has one."""
        return Result.plot(self) if self.picture is None else self.picture()


def readable(seconds: float) -> str:
    """Seconds in the unit in which they read best: "53.21 ms"."""
    return format_quantity(seconds, "s")
