"""``accelarray explain``: why a step takes as long as it does, and what would help."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.commands.arguments import (
    add_metrics,
    add_network,
    add_output,
    add_planner,
    add_step,
)
from experiments.commands.resolve import case_of
from experiments.results.explanation import explained
from experiments.results.result import check_outputs, show
from experiments.studies.metrics import metrics_of


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "explain", help="why a step takes as long as it does, and what would help"
    )
    add_network(parser)
    add_planner(parser)
    add_step(parser)
    add_metrics(parser)
    add_output(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Simulate the step and its variants, then show."""
    check_outputs(args)
    case = case_of(args)
    metrics = metrics_of(args.metrics, case.array)
    show(args, explained(case, args.array, args.set, metrics=metrics))
    return 0
