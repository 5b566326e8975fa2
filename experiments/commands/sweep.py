"""``accelarray sweep``: vary anything, keep every result."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import (
    add_metrics,
    add_networks,
    add_output,
    add_planners,
    add_runner,
    add_step,
)
from experiments.commands.resolve import (
    check_runner,
    execution_of,
    networks_of,
    planners_of,
    runner_of,
)
from experiments.commands.study_file import add_study

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pandas
    from rich.table import Table

    from experiments.studies.sweep import Crossover, Grid

ENDINGS = (".csv", ".json", ".parquet")
KNOWN = (*ENDINGS, ".md", ".txt")
COLUMNS = {"energy": "energy_j", "traffic": "traffic_bytes"}
"""The column that each metric beside time adds."""


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("sweep", help="vary values of the array, the batch, …, in a grid")
    parser.add_argument(
        "--vary",
        metavar="KEY=VALUES",
        action="append",
        required=True,
        help='KEY=V1,V2 or KEY=FIRST:LAST:log|lin:COUNT, as network.bandwidth="1 Gbit/s:1 Tbit/s'
        ':log:16" or batch=64,128; several make a grid',
    )
    add_networks(parser)
    add_planners(parser)
    add_step(parser)
    add_metrics(parser)
    add_runner(parser)
    add_output(parser, "parquet")
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    add_study(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run what is missing, then deliver table and picture."""
    from experiments.output import UsageError, check_writable, deliver, progress_bar, text_of, warn
    from experiments.pictures.figures import check_plot, save
    from experiments.pictures.plots import check_drawable, plot_sweep
    from experiments.studies.occupancy import REMEDY
    from experiments.studies.step_numbers import check_metrics, parse_metrics
    from experiments.studies.sweep import changes_of_place, sweep

    grid = _grid(args)
    metrics = parse_metrics(args.metrics)
    for point in grid.points():
        check_metrics(metrics, grid.cases(point)[0].array)
    if args.output and not args.output.lower().endswith(KNOWN):
        raise UsageError(f"--output {args.output!r}: the name must end in {', '.join(KNOWN)}")
    if args.plot:
        check_plot(args.plot)
        check_drawable(grid)
    check_writable(args.output, args.plot)
    check_runner(args)
    total = len(grid.points()) * len(grid.cases(grid.points()[0]))
    with runner_of(args) as runner, progress_bar(total) as progress:
        table = sweep(grid, runner, progress)
    if said := overflows(table):
        warn(f"{said} {REMEDY}")
    crossed = changes_of_place(grid, table)
    table = table.drop(
        columns=[column for metric, column in COLUMNS.items() if metric not in metrics]
    )
    give(args, table, lambda: tables(grid, table, crossed))
    if args.output and (sentences := tables(grid, table, crossed, full=False)):
        deliver(text_of(*sentences), None)
    if args.plot:
        save(plot_sweep(grid, table, crossed or []), args.plot)
    return 0


def _grid(args: argparse.Namespace) -> Grid:
    from experiments.studies.options import MODEL_OPTIONS, parse_axes
    from experiments.studies.sweep import Grid

    given = (args.execution, args.strict_memory, *(getattr(args, name) for name in MODEL_OPTIONS))
    return Grid(
        tuple(networks_of(args)),
        tuple(planners_of(args)),
        args.array,
        parse_axes(args.vary),
        tuple(args.set),
        args.batch,
        args.objective,
        args.communication,
        None if given == (None,) * len(given) else execution_of(args),
    )


def overflows(table: pandas.DataFrame) -> str:
    """How many cases do not fit in memory, and all about the first of them; "" if all do."""
    if "overflow" not in table or (over := table["overflow"].dropna()).empty:
        return ""
    return (
        f"{len(over)} of {len(table)} cases do not fit in memory (cores_over_memory), "
        f"the first: {over.iloc[0]}"
    )


def give(
    args: argparse.Namespace,
    table: pandas.DataFrame,
    parts: Callable[[], Sequence[Table | str]],
) -> None:
    """Deliver a table in the form that was asked for: Parquet too, JSON as a list of rows."""
    from experiments.formats import Shown, rows_of, written
    from experiments.output import UsageError, deliver, whole_file

    if args.format != "parquet":
        shown = Shown(records(table), lambda: rows_of(table), parts)
        deliver(written(shown, args.format), args.output)
        return
    with whole_file(args.output) as path:
        try:
            table.to_parquet(path, index=False)
        except ImportError:
            raise UsageError(
                f"--output {args.output!r}: Parquet needs pip install 'accelarray[parquet]'"
            ) from None


def records(table: pandas.DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON has them, None where a value is unknown."""
    from experiments.formats import rows_of

    rows = rows_of(table)
    for row in rows:
        if "warnings" in row:
            row["warnings"] = row["warnings"].splitlines()
    return rows


def tables(
    grid: Grid, cases: pandas.DataFrame, crossed: list[Crossover] | None, *, full: bool = True
) -> list[Table | str]:
    """The rows (unless they went to a file), the crossovers, and which planners lose."""
    return [*([_rows(grid, cases)] if full else []), *_sentences(grid, cases, crossed)]


def _rows(grid: Grid, cases: pandas.DataFrame) -> Table:
    from experiments.output import table

    axes = [axis.title for axis in grid.axes]
    common = [key for key in ("array", "execution") if key not in axes and _is_one(cases, key)]
    apart = [] if {"execution"} & {*axes, *common} else ["execution"]
    columns = ["network", "planner", *axes, *apart, "iteration_s", "speedup"]
    columns += [column for column in COLUMNS.values() if column in cases]
    units = {axis.title: axis for axis in grid.axes if axis.unit}
    written = {
        title: {value.number: value.label for value in axis.values} for title, axis in units.items()
    }

    def shown(key: str, value: object) -> str:
        if key in written and value in written[key]:
            return written[key][value]
        return f"{value:.6g}" if isinstance(value, float) else str(value)

    rows = [
        {units[key].key if key in units else key: shown(key, value) for key, value in row}
        for row in (zip(columns, row, strict=True) for row in cases[columns].to_numpy().tolist())
    ]
    words = [str(cases[key].iloc[0]) for key in common]
    return table(", ".join([*words, f"{len(cases)} case{'s' * (len(cases) > 1)}"]), rows)


def _is_one(cases: pandas.DataFrame, key: str) -> bool:
    return bool(cases[key].nunique() == 1)


def _sentences(
    grid: Grid, cases: pandas.DataFrame, crossed: list[Crossover] | None
) -> Iterator[str]:
    from experiments.studies.sweep import all_unread
    from hardware import format_quantity

    for cross in crossed or []:
        unit = grid.axes[0].unit
        value = format_quantity(cross.value, unit) if unit else f"{cross.value:.4g}"
        yield f"{cross.network}: {cross.first} = {cross.second} at {value}"
    for (planner, network), losing in cases[cases["speedup"] < 1].groupby(["planner", "network"]):
        points = f" in {len(losing)} cases" if len(losing) > 1 else ""
        yield f"{planner} is slower than data parallelism for {network}{points}"
    if crossed == [] and len(grid.planners) > 1:
        yield "no two planners change places"
    yield from all_unread(grid)
