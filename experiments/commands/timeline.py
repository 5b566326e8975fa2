"""``accelarray timeline``: one training step as a Gantt chart, a trace or records."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from experiments.commands.arguments import (
    add_network,
    add_planner,
    add_step,
    add_unfolded,
)
from experiments.commands.resolve import case_of
from experiments.notices import tell
from experiments.output import check_writable
from experiments.pictures.resources import chosen, sites
from experiments.results.step import ENDINGS, check_ending, stepped, write
from experiments.studies.messages import warn_inexact


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("timeline", help="what every core and link does when, as a file")
    add_network(parser)
    add_planner(parser)
    add_step(parser)
    add_unfolded(parser)
    parser.add_argument(
        "--devices",
        metavar="D1,D2",
        help="only these boards and the links above them, each for itself: board0,board3 or 0-7",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        required=True,
        help="a chart, a trace for ui.perfetto.dev, or records, by its ending: "
        + ", ".join(ENDINGS),
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan, simulate, write the file that ``--output`` names."""
    check_ending(args.output)
    check_writable(args.output)
    case = replace(case_of(args), folded=not args.unfolded and args.devices is None)
    step = stepped(case)
    warn_inexact(case.network.name, step.plan)
    for said in step.unread:
        tell(said)
    shown = sites(step.timeline)
    if args.devices is not None:
        shown = chosen(shown, args.devices)
    write(args.output, case, step.plan, step.timeline, shown)
    return 0
