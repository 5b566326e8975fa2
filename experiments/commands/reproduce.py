"""``accelarray reproduce``: a paper's evaluation, figure by figure, ours beside theirs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import add_output
from experiments.face.inputs import names
from experiments.output import deliver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.table import Table

    from experiments.papers.figure import Figure


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


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("reproduce")
    parser.add_argument("paper", choices=tuple(TITLES))
    parser.add_argument("--figures", metavar="F1,F2|all", default="all", help="default: all")
    add_output(parser)
    parser.add_argument("--plot", metavar="FOLDER", help="draw each figure there")
    parser.add_argument(
        "--plot-format", choices=("png", "svg", "pdf"), default="png", help="default: png"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Make every figure, then deliver."""
    from importlib import import_module

    from experiments.output import UsageError, check_writable, progress_bar
    from experiments.papers.pictures import check_folder, plot_figures
    from experiments.results.formats import flat
    from experiments.results.result import Answer, written

    known = import_module(f"experiments.papers.{args.paper}").FIGURES
    keys = names(args.figures, list(known), "figures")
    if unknown := [key for key in keys if key not in known]:
        raise UsageError(
            f"--figures: {args.paper} has no {', '.join(unknown)}; one of {', '.join(known)}"
        )
    if args.plot:
        check_folder(args.plot)
    check_writable(args.output)
    asked = {key: known[key]() for key in keys}
    with progress_bar(sum(len(one.points) for one in asked.values())) as progress:
        figures = {key: one.made(progress) for key, one in asked.items()}
    shown = Answer(
        to_dict(args.paper, figures),
        lambda: [{"figure": key} | flat(row) for key, one in figures.items() for row in one.rows],
        lambda: tables(args.paper, figures),
    )
    deliver(written(shown, args.format), args.output)
    if args.plot:
        plot_figures(args.paper, figures, args.plot, f".{args.plot_format}")
    return 0


def to_dict(paper: str, figures: Mapping[str, Figure]) -> dict[str, Any]:
    """What ``--format json`` prints."""
    from experiments.papers.figure import largest

    return {
        "paper": TITLES[paper],
        "figures": {key: list(figure.rows) for key, figure in figures.items()},
        "notes": {key: list(figure.messages) for key, figure in figures.items()},
        "labels": {key: figure.label for key, figure in figures.items()},
        "largest_differences": largest(figures),
    }


def tables(paper: str, figures: Mapping[str, Figure]) -> list[Table | str]:
    """Every figure as a table, with what to know about it."""
    from experiments.papers.figure import largest

    shapes = {"plans": _plans, "map": _map}
    parts: list[Table | str] = [f"{TITLES[paper]}, ours beside the paper's\n"]
    for key, figure in figures.items():
        table = shapes.get(figure.shape, _bars)(figure)
        parts += [f"{key}: {figure.title}", table, *figure.messages, ""]
    if worst := largest(figures):
        heads = ("figure", "planner", "values", "largest at", "difference")
        lines = [[*list(row.values())[:-1], f"{row['difference']:+.1%}"] for row in worst]
        parts += ["Largest differences from the published values", _table(heads, lines)]
    return parts


def _table(
    heads: Iterable[str], rows: Iterable[Sequence[object]], *, numbers: bool = False
) -> Table:
    """Rows under heads; ``numbers``: all columns but the first to the right."""
    from rich.table import Table

    table = Table()
    for place, head in enumerate(heads):
        table.add_column(head, justify="right" if numbers and place else "left")
    for row in rows:
        table.add_row(*map(str, row))
    return table


def _bars(figure: Figure) -> Table:
    """A row for each network (or size), and for each planner ours, theirs and the difference."""
    (axis,) = figure.axes
    compared = {row["planner"] for row in figure.rows if row["published"] is not None}
    unit = "".join(figure.label.partition(" [")[1:])
    heads, lines = [axis], dict[Any, list[str]]()
    for planner in figure.planners:
        heads += [f"{planner}{unit}", *(["the paper's", "off by"] if planner in compared else [])]
    for row in figure.rows:
        cells = lines.setdefault(row[axis], [row[axis]])
        cells.append(f"{row['ours']:.4g}")
        if row["planner"] in compared:
            paper = row["published"]
            cells += ["", ""] if paper is None else [f"{paper:g}", f"{row['difference']:+.1%}"]
    return _table(heads, lines.values(), numbers=True)


def _plans(figure: Figure) -> Table:
    table = _table(("network", "level", "ours", "the paper's"), ())
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
        [rank, *(row[axis] for axis in figure.axes), f"{row['ours']:.4g}", own]
        for rank, row in enumerate(ranked, 1)
        for own in ["HyPar's plan" if row["hypar"] else ""]
        if rank <= MOST_POINTS or own
    ]
    return _table(("rank", *figure.axes, "ours", ""), lines)
