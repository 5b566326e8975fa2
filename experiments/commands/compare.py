"""``accelarray compare``: two planners' steps, and where the difference comes from."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.commands.arguments import (
    add_axes,
    add_metrics,
    add_network,
    add_output,
    add_step,
)
from experiments.commands.resolve import cases_of, planners_of
from experiments.output import UsageError
from experiments.results.difference import differing
from experiments.results.result import check_outputs, show
from experiments.results.step import steps
from experiments.studies.case import Planned
from experiments.studies.metrics import metrics_of
from planners import Plan


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compare", help="two planners' steps, and where the difference comes from"
    )
    add_network(parser)
    parser.add_argument("--planners", metavar="P1,P2", default="", help="see: list planners")
    parser.add_argument(
        "--plan",
        metavar="FILE",
        action="append",
        default=[],
        help="one's own plan in the place of a planner, as plan --format json prints it; or two",
    )
    add_axes(parser)
    add_step(parser)
    add_metrics(parser)
    add_output(parser)
    parser.add_argument(
        "--plot", metavar="FILE", help="both Gantt charts on one time axis (.png, .svg or .pdf)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan and simulate twice, then show."""
    chosen = _compared(args)
    if len(chosen) != 2:
        raise UsageError(
            f"--planners {args.planners!r}{' and --plan' * bool(args.plan)}: name two different "
            "ones, as owt,accpar; a --plan FILE stands for one"
        )
    check_outputs(args)
    one, other = chosen
    cases = cases_of(args, list(chosen.values()))
    metrics = metrics_of(args.metrics, cases[0].array)
    first, second = steps(cases, metrics)
    show(args, differing(first, second, (one, other), metrics))
    return 0


def _compared(args: argparse.Namespace) -> dict[str, str | Planned]:
    """What is compared, by name: planners, then plans, by their files where names are taken."""
    found: dict[str, str | Planned] = {}
    if args.planners or not args.plan:
        found |= {name: name for name in planners_of(args)}
    for file in args.plan:
        plan = Plan.read(file)
        name = file if plan.planner in found else plan.planner
        found[name] = Planned(name, plan)
    return found
