"""``accelarray.reproduce``: a paper's evaluation, figure by figure, ours beside theirs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rich.table import Table

from experiments.api.argument_types import Progress, StoreLike, explicit
from experiments.api.inputs import names
from experiments.api.requests import opened
from experiments.output import UsageError, hearing, table_of
from experiments.papers.figure import Figure, largest
from experiments.papers.pictures import check_folder, plot_figure
from experiments.pictures.figures import save
from experiments.results.formats import flat
from experiments.results.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

TITLES = {
    "hypar": "HyPar (Song et al., HPCA 2019)",
    "accpar": "AccPar (Song et al., HPCA 2020)",
    "pipedream": "PipeDream (Narayanan et al., arXiv 2018, SOSP 2019)",
    "ripples": "Ripples (arXiv 1909.08029) and Prague (Luo et al., ASPLOS 2020)",
    "hop": "Hop (Luo et al., ASPLOS 2019)",
    "charm": "CHARM (Zhuang et al., FPGA 2023)",
    "spacx": "SPACX (Li et al., HPCA 2022)",
    "red": "RED (DATE 2019, TCAD 2020)",
}


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PaperResult(Result):
    """Figures of a paper, ours beside the published values."""

    paper: str
    figures: Mapping[str, Figure]

    def title(self) -> str:
        """The paper, and which figures."""
        return f"{TITLES[self.paper]}: {', '.join(self.figures)}"

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray papers reproduce --format json`` prints."""
        figures = self.figures
        return {
            "paper": TITLES[self.paper],
            "figures": {key: list(figure.rows) for key, figure in figures.items()},
            "notes": {key: list(figure.messages) for key, figure in figures.items()},
            "labels": {key: figure.label for key, figure in figures.items()},
            "largest_differences": largest(figures),
        }

    def rows(self) -> list[dict[str, Any]]:
        """A row for each value of each figure; the codes of a plan's layers stand in one cell."""
        every = self.figures.items()
        return [
            {"figure": key} | flat({name: _in_a_cell(value) for name, value in row.items()})
            for key, one in every
            for row in one.rows
        ]

    def tables(self) -> list[Table | str]:
        """Every figure as a table, with what to know about it."""
        shapes = {"plans": _plans, "map": _map}
        parts: list[Table | str] = [f"{TITLES[self.paper]}, ours beside the paper's\n"]
        for key, figure in self.figures.items():
            table = shapes.get(figure.shape, _bars)(figure)
            parts += [f"{key}: {figure.title}", table, *figure.messages, ""]
        if worst := largest(self.figures):
            heads = ("figure", "planner", "values", "largest at", "difference")
            lines = [[*list(row.values())[:-1], f"{row['difference']:+z.1%}"] for row in worst]
            parts += [
                "Largest differences from the published values",
                table_of("", heads, heads, [map(str, line) for line in lines]),
            ]
        return parts

    def plot(self) -> Picture:
        """The picture of one figure; raises UsageError where there are several (``save``)."""
        if len(self.figures) != 1:
            raise UsageError(f"{self.title()}: plot() draws one figure; save(folder) draws all")
        (figure,) = self.figures.values()
        return plot_figure(figure)

    def save(self, path: str | os.PathLike[str], ending: str = ".png") -> None:
        """Draw each figure in a folder, as PAPER-FIGURE.png (.svg, .pdf)."""
        check_folder(os.fspath(path))
        for key, figure in self.figures.items():
            save(plot_figure(figure), os.path.join(path, f"{self.paper}-{key}{ending}"))


@explicit(
    paper='one of "hypar", "accpar", "pipedream", "ripples", "hop", "charm", "spacx", "red"',
    store="file that keeps finished values; they are not made again",
)
def reproduce(
    paper: str,
    figures: str | Iterable[str] = "all",
    *,
    store: StoreLike | None = None,
    progress: Progress | None = None,
) -> PaperResult:
    """Make figures of a paper's evaluation again.

    Raises UsageError for a paper or a figure that is not there.
    """
    if paper not in TITLES:
        raise UsageError(f"paper {paper!r}: one of {', '.join(TITLES)}")
    known = import_module(f"experiments.papers.{paper}").FIGURES
    text = figures if isinstance(figures, str) else ",".join(figures)
    keys = names(text, list(known), "figures")
    if unknown := [key for key in keys if key not in known]:
        raise UsageError(
            f"--figures: {paper} has no {', '.join(unknown)}; one of {', '.join(known)}"
        )
    asked = {key: known[key]() for key in keys}
    total = sum(len(one.points) for one in asked.values())
    with opened(store) as kept, hearing(progress, total) as hears:
        made = {key: one.made(hears, kept, f"{paper} {key}") for key, one in asked.items()}
        return PaperResult(paper, made)


THEIRS = ("the paper's", "off by")
MOST_BESIDE = 2
"""Planners whose values have the paper's beside them in columns."""


def _bars(figure: Figure) -> Table:
    """A row for each network (or size), and for each planner ours, theirs and the difference.

    A terminal has no room for many planners' columns: those with one published value each have
    theirs in rows at the end, others have a row for each planner.
    """
    (axis,) = figure.axes
    printed = [row for row in figure.rows if row["published"] is not None]
    compared = {row["planner"] for row in printed}
    unit = "".join(figure.label.partition(" [")[1:])
    beneath = len(figure.planners) > 2 and len({row[axis] for row in printed}) == 1
    if len(compared) > MOST_BESIDE and not beneath:
        names = [axis, "planner"]
        each = [
            [*(str(row[k]) for k in names), f"{row['ours']:.4g}", *_theirs(row)]
            for row in figure.rows
        ]
        return table_of("", [*names, f"ours{unit}", *THEIRS], names, each)
    heads, lines = [axis], dict[Any, list[str]]()
    for planner in figure.planners:
        beside = planner in compared and not beneath
        heads += [f"{planner}{unit}", *(THEIRS if beside else ())]
    for row in figure.rows:
        cells = lines.setdefault(row[axis], [f"{row[axis]}"])
        cells.append(f"{row['ours']:.4g}")
        if row["planner"] in compared and not beneath:
            cells += _theirs(row)
    table = table_of("", heads, heads[:1], lines.values())
    if beneath:
        of = {row["planner"]: _theirs(row) for row in printed}
        columns = zip(*(of.get(planner, ("", "")) for planner in figure.planners), strict=True)
        for name, texts in zip(THEIRS, columns, strict=True):
            table.add_row(name, *texts)
    return table


def _theirs(row: dict[str, Any]) -> tuple[str, str]:
    """The published value and how far ours is from it; empty where there is none."""
    if row["published"] is None:
        return "", ""
    return f"{row['published']:g}", f"{row['difference']:+z.1%}"


def _in_a_cell(value: object) -> object:
    """A list of words in one text; anything else as it is."""
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return " ".join(map(str, value))
    return value


def _plans(figure: Figure) -> Table:
    heads = ("network", "level", "ours", "the paper's")
    table = table_of("", heads, heads)
    for row in figure.rows:
        for i, level in enumerate(row["levels"]):
            paper = "" if row["published"] is None else row["published"][i]
            table.add_row(row["network"] if i == 0 else "", f"H{i + 1}", level, paper)
        table.add_section()
    return table


MOST_POINTS = 5


def _map(figure: Figure) -> Table:
    """The best points and the planner's own; JSON and the picture have them all."""
    ranked = sorted(figure.rows, key=lambda row: -row["ours"])
    lines = [
        [f"{rank}", *(f"{row[axis]}" for axis in figure.axes), f"{row['ours']:.4g}", own]
        for rank, row in enumerate(ranked, 1)
        for own in ["HyPar's plan" if row["hypar"] else ""]
        if rank <= MOST_POINTS or own
    ]
    heads = ("rank", *figure.axes, "ours", "")
    return table_of("", heads, heads, lines)
