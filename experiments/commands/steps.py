"""``accelarray simulate``, ``timeline``, ``compare``, ``explain``; ``collective`` on its own."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from experiments.collective import collective
from experiments.commands.arguments import (
    add_array,
    add_axes,
    add_metrics,
    add_network,
    add_output,
    add_planner,
    add_step,
    add_unfolded,
)
from experiments.commands.resolve import array_of, case_of, cases_of, planners_of
from experiments.notices import tell
from experiments.output import UsageError, check_writable, progress_bar
from experiments.pictures import lanes
from experiments.results.difference import differing
from experiments.results.explanation import explained
from experiments.results.result import check_outputs, show
from experiments.results.step import ENDINGS, check_ending, stepped, steps, write
from experiments.studies.case import Planned
from experiments.studies.speedups import warn_inexact
from experiments.studies.step_numbers import metrics_of
from hardware import in_bytes, parse_quantity
from planners import Plan


def configure_simulate(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("simulate")
    add_network(parser)
    add_planner(parser)
    add_step(parser)
    add_metrics(parser)
    add_unfolded(parser)
    add_output(parser)
    parser.set_defaults(run=run_simulate)


def run_simulate(args: argparse.Namespace) -> int:
    """Plan, simulate, show."""
    check_outputs(args)
    case = case_of(args)
    show(args, stepped(case, metrics_of(args.metrics, case.array)))
    return 0


def configure_timeline(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("timeline")
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
    parser.set_defaults(run=run_timeline)


def run_timeline(args: argparse.Namespace) -> int:
    """Plan, simulate, write the file that ``--output`` names."""
    check_ending(args.output)
    check_writable(args.output)
    case = replace(case_of(args), folded=not args.unfolded and args.devices is None)
    step = stepped(case)
    warn_inexact(case.network.name, step.plan)
    for said in step.unread:
        tell(said)
    shown = lanes.sites(step.timeline)
    if args.devices is not None:
        shown = lanes.chosen(shown, args.devices)
    write(args.output, case, step.plan, step.timeline, shown)
    return 0


def configure_compare(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("compare")
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
    parser.set_defaults(run=run_compare)


def run_compare(args: argparse.Namespace) -> int:
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


def configure_explain(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("explain")
    add_network(parser)
    add_planner(parser)
    add_step(parser)
    add_metrics(parser)
    add_output(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    parser.set_defaults(run=run_explain)


def run_explain(args: argparse.Namespace) -> int:
    """Simulate the step and its variants, then show."""
    check_outputs(args)
    case = case_of(args)
    metrics = metrics_of(args.metrics, case.array)
    show(args, explained(case, args.array, args.set, metrics=metrics))
    return 0


COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast")


def configure_collective(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("collective")
    parser.add_argument("collective", choices=COLLECTIVES)
    parser.add_argument(
        "--bytes",
        metavar="N",
        required=True,
        help='the full tensor: a number of bytes, or a quantity as "100 MB"',
    )
    parser.add_argument(
        "--algorithm",
        metavar="X",
        default="auto",
        help="see docs/collectives.md (default: auto, the one predicted to be fastest)",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="busbw over size, an algorithm a line (.png, .svg or .pdf)"
    )
    add_array(parser)
    add_output(parser)
    parser.set_defaults(run=run_collective)


def run_collective(args: argparse.Namespace) -> int:
    """Build the wires, run the collective over all nodes, deliver."""
    size_bytes = parse_bytes(args.bytes)
    check_outputs(args)
    with progress_bar(3) as done:
        asked = args.collective, size_bytes, args.algorithm
        answer = collective(array_of(args), *asked, done)
    show(args, answer)
    return 0


def parse_bytes(text: str) -> float:
    """``100000000`` or ``100 MB``; raises UsageError."""
    try:
        return parse_quantity(in_bytes(text), "B")
    except ValueError as error:
        raise UsageError(f"--bytes {text!r}: {error}, or a whole number of bytes") from None
