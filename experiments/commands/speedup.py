"""``accelarray speedup``: the published comparison as a table, CSV, JSON and bars."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import (
    add_array,
    add_batch,
    add_communication,
    add_execution,
    add_metrics,
    add_output,
    add_planners,
    add_unfolded,
    array_of,
    execution_of,
    names,
    objective_of,
    planners_of,
)
from experiments.commands.notices import network_of

if TYPE_CHECKING:
    from rich.table import Table

    from experiments.studies.comparison import Comparison
    from hardware import Array
    from workloads import Network


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "speedup", help="speedups of planners over data parallelism, network by network"
    )
    add_array(parser)
    parser.add_argument(
        "--networks",
        metavar="N1,N2|all",
        default="all",
        help="default: all, AccPar's nine",
    )
    add_planners(parser)
    add_batch(parser)
    add_communication(parser)
    add_execution(parser)
    add_metrics(parser)
    add_unfolded(parser)
    add_output(parser, "table", "csv", "json")
    parser.add_argument(
        "--levels",
        metavar="H1,H2",
        help="the hierarchy sweep: arrays of 2^H accelerators in the array's proportions, as 2-16",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compare, then deliver; 130 when interrupted on the way."""
    from experiments.output import check_writable
    from experiments.pictures.comparison_plots import check_plot
    from experiments.studies.metrics import check_metrics, parse_metrics
    from workloads import ZOO

    array = array_of(args)
    check_metrics(parse_metrics(args.metrics), array)
    networks = [network_of(name) for name in names(args.networks, list(ZOO), "networks")]
    planners = planners_of(args)
    if args.plot:
        check_plot(args.plot)
    check_writable(args.output, args.plot)
    execution_of(args)  # complain before the work
    study = _networks if args.levels is None else _levels
    return 0 if study(args, array, networks, planners) else 130


def _options(args: argparse.Namespace) -> dict[str, Any]:
    from experiments.studies.metrics import parse_metrics

    return {
        "folded": not args.unfolded,
        "execution": execution_of(args),
        "objective": objective_of(args),
        "metrics": parse_metrics(args.metrics),
    }


def _networks(
    args: argparse.Namespace, array: Array, networks: list[Network], planners: list[str]
) -> bool:
    """One array, network by network; whether it was finished."""
    from experiments.output import deliver, progress_bar, to_json
    from experiments.pictures.comparison_plots import plot_speedups
    from experiments.studies.comparison import compare

    with progress_bar(len(networks) * len(planners)) as progress:
        result = compare(array, networks, planners, args.batch, progress, **_options(args))
    _warn(result)
    if args.format == "json":
        warnings = [f"{n.name}: {note}" for n in networks for note in n.notes]
        warnings += result.overflows
        text = to_json(to_dict(result) | {"warnings": warnings})
    else:
        text = to_csv(result) if args.format == "csv" else to_table(result)
    deliver(text, args.output if result.complete else None)
    if not result.complete:
        _say_interrupted(args, f"{len(result.networks)} of {len(networks)} networks")
    elif args.plot:
        plot_speedups(result, args.plot)
    return result.complete


def _warn(result: Comparison) -> None:
    from experiments.output import warn
    from experiments.studies.occupancy import REMEDY

    for fault in result.overflows:
        warn(f"{fault} {REMEDY}")


def _say_interrupted(args: argparse.Namespace, after: str) -> None:
    """What is finished went to the terminal; files are not replaced by half a study."""
    kept = "".join(f"; {name} is as it was" for name in (args.output, args.plot) if name)
    print(f"accelarray: interrupted after {after}{kept}", file=sys.stderr)


def _levels(
    args: argparse.Namespace, array: Array, networks: list[Network], planners: list[str]
) -> bool:
    """One array of each size; whether all were finished."""
    from experiments.commands import levels
    from experiments.output import deliver, progress_bar, to_json
    from experiments.pictures.comparison_plots import plot_levels
    from experiments.studies.scaling import sweep

    wanted = levels.parse_levels(args.levels)
    with progress_bar(len(wanted) * len(networks) * len(planners)) as progress:
        done = sweep(array, wanted, networks, planners, args.batch, progress, **_options(args))
    for level in done:
        _warn(level.result)
    if args.format == "json":
        text = to_json(levels.to_dict(array.name, args.batch, done))
    elif args.format == "csv":
        text = levels.to_csv(done)
    else:
        text = levels.to_table(array.name, args.batch, done)
    complete = len(done) == len(wanted)
    deliver(text, args.output if complete else None)
    if not complete:
        _say_interrupted(args, f"{len(done)} of {len(wanted)} sizes")
    elif args.plot:
        plot_levels(array.name, done, args.plot)
    return complete


def to_dict(result: Comparison) -> dict[str, Any]:
    """What ``--format json`` prints."""
    others = {metric: result.means(metric) for metric in result.metrics if metric != "time"}
    from experiments.studies.comparison import notes

    return {
        "array": result.array,
        "batch": result.batch,
        "execution": result.execution,
        "communication": result.communication,
        "complete": result.complete,
        "notes": notes(result),
        "rows": [row.values() for row in result.rows],
        "geomean": result.geomean,
        **{f"geomean_{metric}": means for metric, means in others.items()},
        "published": {name: value.speedup for name, value in result.published.items()},
        "published_certainty": {n: value.certainty for n, value in result.published.items()},
    }


def to_csv(result: Comparison) -> str:
    """One line a row; an empty field where a value does not apply."""
    return result.to_frame().to_csv(index=False, lineterminator="\n")


def to_table(result: Comparison) -> str:
    """The table people read, with what to know about it underneath."""
    from experiments.output import text_of
    from experiments.studies.comparison import notes

    tables = [_table(result) if m == "time" else _other(result, m) for m in result.metrics]
    return text_of(*tables, *notes(result))


def _other(result: Comparison, metric: str) -> Table:
    """Energy (joules, and how many times less) or traffic (GB), network by network."""
    from rich.table import Table

    from experiments.studies.comparison import BASELINE

    what, unit = _WORDS[metric]
    table = Table(title=f"{what}, {result.case}")
    table.add_column("network")
    for planner in result.planners:
        absolute = metric == "traffic" or planner == BASELINE
        table.add_column(f"{planner} [{unit}]" if absolute else planner, justify="right")
    for network in result.networks:
        rows = [row for row in result.rows if row.network == network]
        cells = [
            f"{row.energy_j:.4g}"
            if metric == "energy" and row.planner == BASELINE
            else _cell(metric, row.metric(metric))
            for row in rows
        ]
        table.add_row(network, *cells)
    table.add_section()
    means = [
        "" if metric == "energy" and p == BASELINE else _cell(metric, mean)
        for p, mean in result.means(metric).items()
    ]
    table.add_row("geometric mean", *means)
    return table


_WORDS = {
    "energy": ("Energy efficiency over data parallelism", "J"),
    "traffic": ("Traffic of a step", "GB"),
}


def _cell(metric: str, value: float) -> str:
    return f"{value / 1e9:.4g}" if metric == "traffic" else f"{value:.3f}"


def _table(result: Comparison) -> Table:
    from rich.table import Table

    from experiments.studies.comparison import BASELINE, geometric_mean

    alone = [
        p for p in result.planners if all(r.fast_alone_speedup is not None for r in result.of(p))
    ]
    table = Table(title=f"Speedup over data parallelism, {result.case}")
    table.add_column("network")
    for planner in result.planners:
        table.add_column(f"{planner} [s]" if planner == BASELINE else planner, justify="right")
    for planner in alone:
        table.add_column(f"{planner}:\nslow share", justify="right")
        table.add_column(f"{planner}:\nfast alone", justify="right")
    for network in result.networks:
        rows = {row.planner: row for row in result.rows if row.network == network}
        cells = [
            f"{r.iteration_s:.6f}" if p == BASELINE else f"{r.speedup:.3f}" for p, r in rows.items()
        ]
        for planner in alone:
            cells += [f"{rows[planner].slow_share:.2%}", f"{rows[planner].fast_alone_speedup:.3f}"]
        table.add_row(network, *cells)
    table.add_section()
    means = ["" if p == BASELINE else f"{mean:.3f}" for p, mean in result.geomean.items()]
    for planner in alone:
        means += [
            "",
            f"{geometric_mean([r.fast_alone_speedup or 0 for r in result.of(planner)]):.3f}",
        ]
    table.add_row("geometric mean", *means)
    if result.published:
        ours, paper = result.geomean, result.published
        values = [f"{paper[p].speedup:.2f}" if p in paper else "" for p in result.planners]
        table.add_row("the paper's", *values)
        table.add_row(
            "difference",
            *[f"{ours[p] / paper[p].speedup - 1:+.1%}" if p in paper else "" for p in ours],
        )
    return table
