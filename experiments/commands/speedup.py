"""``accelarray speedup``: the published comparison, and how it scales with the array's size."""

from __future__ import annotations

import argparse
import sys
from typing import Any

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
from experiments.commands.resolve import study_of
from experiments.commands.study_file import add_study
from experiments.results.result import check_outputs, show
from experiments.results.speedups import (
    ComparisonResult,
    ScalingResult,
    compared,
    parse_levels,
    scaled,
)
from simulator.search.shares import FAIRER


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
    """Compare, then show; 130 when interrupted on the way."""
    study = study_of(args, FAIRER if args.baselines else ())
    check_outputs(args)
    if args.levels is None:
        found = compared(study)
        done, of = len(found.comparison.networks), f"{len(study.networks)} networks"
        return _shown(args, found, f"{done} of {of}")
    scaling = scaled(study, args.levels)
    words = f"{len(scaling.levels)} of {len(parse_levels(args.levels))} sizes"
    return _shown(args, scaling, words)


def _shown(args: argparse.Namespace, result: ComparisonResult | ScalingResult, after: str) -> int:
    """What is finished goes to the terminal; files are not replaced by half a study."""
    show(args, result, complete=result.complete)
    if result.complete:
        return 0
    kept = "".join(f"; {name} is as it was" for name in (args.output, args.plot) if name)
    kept += f"; finished cases are in {args.store}" if args.store else ""
    print(f"accelarray: interrupted after {after}{kept}", file=sys.stderr)
    return 130
