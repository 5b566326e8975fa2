"""``accelarray simulate``: one training step on the event engine."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.commands.arguments import (
    add_metrics,
    add_network,
    add_output,
    add_planner,
    add_step,
    add_unfolded,
)
from experiments.commands.resolve import case_of
from experiments.results.result import check_outputs, show
from experiments.results.step import stepped
from experiments.studies.metrics import metrics_of


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("simulate", help="simulate one training step")
    add_network(parser)
    add_planner(parser)
    add_step(parser)
    add_metrics(parser)
    add_unfolded(parser)
    add_output(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan, simulate, show."""
    check_outputs(args)
    case = case_of(args)
    show(args, stepped(case, metrics_of(args.metrics, case.array)))
    return 0
