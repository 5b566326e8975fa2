"""``accelarray speedup``: the published comparison as a table, CSV, JSON and bars."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import (
    add_array,
    add_batch,
    add_output,
    add_unfolded,
    array_of,
    names,
)
from experiments.commands.notices import network_of

if TYPE_CHECKING:
    from rich.table import Table

    from experiments.speedup import Comparison
    from hardware import Array
    from workloads import Network


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "speedup", help="speedups of planners over data parallelism, network by network"
    )
    add_array(parser)
    parser.add_argument(
        "--networks", metavar="N1,N2|all", default="all", help="default: all, the paper's nine"
    )
    parser.add_argument("--planners", metavar="P1,P2|all", default="all", help="default: all")
    add_batch(parser)
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
    from experiments.plots import check_plot
    from planners import load_planner, planner_names
    from workloads import PUBLISHED

    array = array_of(args)
    networks = [network_of(name) for name in names(args.networks, list(PUBLISHED), "networks")]
    planners = names(args.planners, planner_names(), "planners")
    for planner in planners:
        load_planner(planner)
    if args.plot:
        check_plot(args.plot)
    check_writable(args.output, args.plot)
    study = _networks if args.levels is None else _levels
    return 0 if study(args, array, networks, planners) else 130


def _networks(
    args: argparse.Namespace, array: Array, networks: list[Network], planners: list[str]
) -> bool:
    """One array, network by network; whether it was finished."""
    from experiments.output import deliver, progress_bar, to_json
    from experiments.plots import plot_speedups
    from experiments.speedup import compare

    with progress_bar(len(networks) * len(planners)) as progress:
        result = compare(array, networks, planners, args.batch, progress, folded=not args.unfolded)
    if args.format == "json":
        warnings = [f"{n.name}: {note}" for n in networks for note in n.notes]
        text = to_json(to_dict(result) | {"warnings": warnings})
    else:
        text = to_csv(result) if args.format == "csv" else to_table(result)
    deliver(text, args.output if result.complete else None)
    if not result.complete:
        _say_interrupted(args, f"{len(result.networks)} of {len(networks)} networks")
    elif args.plot:
        plot_speedups(result, args.plot)
    return result.complete


def _say_interrupted(args: argparse.Namespace, after: str) -> None:
    """What is finished went to the terminal; files are not replaced by half a study."""
    kept = "".join(f"; {name} is as it was" for name in (args.output, args.plot) if name)
    print(f"accelarray: interrupted after {after}{kept}", file=sys.stderr)


def _levels(
    args: argparse.Namespace, array: Array, networks: list[Network], planners: list[str]
) -> bool:
    """One array of each size; whether all were finished."""
    from experiments.commands import levels
    from experiments.levels import sweep
    from experiments.output import deliver, progress_bar, to_json
    from experiments.plots import plot_levels

    wanted = levels.parse_levels(args.levels)
    with progress_bar(len(wanted) * len(networks) * len(planners)) as progress:
        done = sweep(
            array, wanted, networks, planners, args.batch, progress, folded=not args.unfolded
        )
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
    return {
        "array": result.array,
        "batch": result.batch,
        "complete": result.complete,
        "rows": [row.values() for row in result.rows],
        "geomean": result.geomean,
        "published": {name: value.speedup for name, value in result.published.items()},
        "published_certainty": {n: value.certainty for n, value in result.published.items()},
    }


def to_csv(result: Comparison) -> str:
    """One line a row; an empty field where a value does not apply."""
    return result.to_frame().to_csv(index=False, lineterminator="\n")


def to_table(result: Comparison) -> str:
    """The table people read, with what to know about it underneath."""
    from experiments.output import text_of
    from experiments.speedup import notes

    return text_of(_table(result), *notes(result))


def _table(result: Comparison) -> Table:
    from rich.table import Table

    from experiments.speedup import BASELINE, geometric_mean

    alone = [
        p for p in result.planners if all(r.fast_alone_speedup is not None for r in result.of(p))
    ]
    table = Table(title=f"Speedup over data parallelism, {result.array}, batch {result.batch}")
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
