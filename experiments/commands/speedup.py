"""``accelarray speedup``: the published comparison, and how it scales with the array's size."""

from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from experiments.commands import speedup_tables
from experiments.commands.arguments import (
    add_array,
    add_batch,
    add_communication,
    add_execution,
    add_metrics,
    add_networks,
    add_output,
    add_planners,
    add_runner,
    add_unfolded,
)
from experiments.commands.resolve import (
    array_of,
    check_runner,
    execution_of,
    networks_of,
    planners_of,
    runner_of,
)
from experiments.commands.study_file import add_study

if TYPE_CHECKING:
    from collections.abc import Iterator

    from experiments.studies.comparison import Options
    from experiments.studies.speedups import Comparison
    from hardware import Array
    from workloads import Network


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "speedup", help="speedups of planners over data parallelism, network by network"
    )
    add_array(parser)
    add_networks(parser)
    add_planners(parser)
    add_batch(parser)
    add_communication(parser)
    add_execution(parser)
    add_metrics(parser)
    add_unfolded(parser)
    add_runner(parser)
    add_output(parser)
    parser.add_argument(
        "--levels",
        metavar="H1,H2",
        help="the hierarchy sweep: arrays of 2^H accelerators in the array's proportions, as 2-16",
    )
    parser.add_argument(
        "--baselines",
        action="store_true",
        help="with data parallelism as it is run: best_share of each kind of device, best_subset "
        "of one kind (simulates many steps: takes about twice as long)",
    )
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    add_study(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Compare, then deliver; 130 when interrupted on the way."""
    from experiments.output import check_writable
    from experiments.pictures.figures import check_plot
    from experiments.studies.step_numbers import check_metrics, parse_metrics

    array = array_of(args)
    check_metrics(parse_metrics(args.metrics), array)
    networks = networks_of(args)
    planners = planners_of(args)
    if args.baselines:
        from simulator.search.shares import FAIRER

        planners = list(dict.fromkeys([*FAIRER, *planners]))
    if args.plot:
        check_plot(args.plot)
    check_writable(args.output, args.plot)
    execution_of(args, array)  # complain before the work
    check_runner(args)
    study = _networks if args.levels is None else _levels
    return 0 if study(args, array, networks, planners) else 130


@contextmanager
def _options(args: argparse.Namespace, array: Array) -> Iterator[Options]:
    from experiments.studies.step_numbers import parse_metrics

    with runner_of(args) as runner:
        yield {
            "folded": not args.unfolded,
            "execution": execution_of(args, array),
            "communication": args.communication,
            "metrics": parse_metrics(args.metrics),
            "runner": runner,
        }


def _networks(
    args: argparse.Namespace, array: Array, networks: list[Network], planners: list[str]
) -> bool:
    """One array, network by network; whether it was finished."""
    from experiments.formats import Shown, rows_of, written
    from experiments.output import deliver, progress_bar
    from experiments.pictures.figures import save
    from experiments.pictures.plots import plot_speedups
    from experiments.studies.comparison import compare

    with _options(args, array) as options, progress_bar(len(networks) * len(planners)) as progress:
        result = compare(array, networks, planners, args.batch, progress, **options)
    _warn(result)
    warnings = [f"{n.name}: {note}" for n in networks for note in n.notes]
    warnings += [*args.forewarned, *result.overflows, *result.unread]
    shown = Shown(
        speedup_tables.to_dict(result) | {"warnings": warnings},
        lambda: rows_of(result.to_frame()),
        lambda: speedup_tables.tables(result),
    )
    deliver(written(shown, args.format), args.output if result.complete else None)
    if not result.complete:
        _say_interrupted(args, f"{len(result.networks)} of {len(networks)} networks")
    elif args.plot:
        save(plot_speedups(result), args.plot)
    return result.complete


def _warn(result: Comparison) -> None:
    from experiments.output import warn
    from experiments.studies.occupancy import REMEDY

    for fault in result.overflows:
        warn(f"{fault} {REMEDY}")


def _say_interrupted(args: argparse.Namespace, after: str) -> None:
    """What is finished went to the terminal; files are not replaced by half a study."""
    kept = "".join(f"; {name} is as it was" for name in (args.output, args.plot) if name)
    kept += f"; finished cases are in {args.store}" if args.store else ""
    print(f"accelarray: interrupted after {after}{kept}", file=sys.stderr)


def _levels(
    args: argparse.Namespace, array: Array, networks: list[Network], planners: list[str]
) -> bool:
    """One array of each size; whether all were finished."""
    from experiments.formats import Shown, rows_of, written
    from experiments.output import deliver, progress_bar
    from experiments.pictures.figures import save
    from experiments.pictures.plots import plot_levels
    from experiments.studies.comparison import sweep_levels

    wanted = parse_levels(args.levels)
    total = len(wanted) * len(networks) * len(planners)
    with _options(args, array) as options, progress_bar(total) as progress:
        done = sweep_levels(array, wanted, networks, planners, args.batch, progress, **options)
    for level in done:
        _warn(level.result)
    found = speedup_tables.levels_to_dict(array.name, args.batch, done)
    shown = Shown(
        found | {"warnings": [*args.forewarned, *found["warnings"]]},
        lambda: rows_of(speedup_tables.levels_to_frame(done)),
        lambda: speedup_tables.levels_tables(array.name, args.batch, done),
    )
    complete = len(done) == len(wanted)
    deliver(written(shown, args.format), args.output if complete else None)
    if not complete:
        _say_interrupted(args, f"{len(done)} of {len(wanted)} sizes")
    elif args.plot:
        save(plot_levels(array.name, done), args.plot)
    return complete


def parse_levels(text: str) -> list[int]:
    """``2,3,8-16`` to numbers, ascending; raises UsageError."""
    from experiments.output import UsageError

    levels: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        bounds = (first, last if dash else first)
        if not all(b.isascii() and b.isdigit() and len(b) < 4 for b in bounds):
            raise UsageError(f"--levels {text!r}: expected numbers, as 2,3,4 or 2-16")
        levels.update(range(int(bounds[0]), int(bounds[1]) + 1))
    if not levels:
        raise UsageError(f"--levels {text!r}: an empty range")
    return sorted(levels)
