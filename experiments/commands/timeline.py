"""``accelarray timeline``: one training step as a Gantt chart, a trace or records."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import (
    add_network,
    add_planner,
    add_step,
    add_unfolded,
)
from experiments.commands.resolve import case_of, forewarn

if TYPE_CHECKING:
    from experiments.pictures.lanes import Site
    from experiments.studies.case import Case
    from planners import Plan
    from simulator import Timeline

ENDINGS = (".png", ".svg", ".pdf", ".json.gz", ".json", ".csv")


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
        help=f"a chart, a trace for ui.perfetto.dev, or records, by its ending: {_endings()}",
    )
    parser.set_defaults(run=run)


def _endings() -> str:
    return ", ".join(ENDINGS)


def run(args: argparse.Namespace) -> int:
    """Plan, simulate, write the file that ``--output`` names."""
    from dataclasses import replace

    from experiments.output import check_writable, warn
    from experiments.pictures.lanes import chosen, sites
    from experiments.studies.case import step_of
    from experiments.studies.occupancy import warn_overflow
    from experiments.studies.speedups import warn_inexact
    from experiments.studies.unread import warnings

    check_ending(args.output)
    check_writable(args.output)
    case = replace(case_of(args), folded=not args.unfolded and args.devices is None)
    forewarn(case)
    plan, timeline = step_of(case)
    warn_overflow(case, timeline)
    warn_inexact(case.network.name, plan)
    for said in warnings(case.array, case.execution):
        warn(said)
    shown = sites(timeline)
    if args.devices is not None:
        shown = chosen(shown, args.devices)
    write(args.output, case, plan, timeline, shown)
    return 0


def check_ending(output: str) -> None:
    """Raise UsageError unless the name ends in a format that is written."""
    from experiments.output import UsageError

    if not output.lower().endswith(ENDINGS):
        raise UsageError(f"--output {output!r}: the name must end in {_endings()}")


def write(output: str, case: Case, plan: Plan, timeline: Timeline, shown: list[Site]) -> None:
    """A chart, a trace or records, by the ending of ``output``; raises UsageError.

    The chart of a plan with stages has these as rows, unless every core is simulated.
    """
    from experiments.pictures.figures import save
    from experiments.pictures.gantt import plot_gantt
    from experiments.pictures.lanes import chart
    from experiments.pictures.trace import trace_events, write_csv, write_trace

    if output.lower().endswith((".json", ".json.gz")):
        about = {
            "network": case.network.name,
            "planner": case.planner_name,
            "objective": case.objective,
            "array": case.array.name,
            "batch": case.batch,
            "execution": str(case.execution),
            "iteration_ps": timeline.iteration_ps,
            "folded": case.folded,
        }
        write_trace(trace_events(timeline, shown, folded=case.folded), about, output)
    elif output.lower().endswith(".csv"):
        write_csv(timeline, shown, output)
    elif plan.pipeline is not None and case.folded:
        from experiments.pictures.pipeline_plot import plot_pipeline

        save(plot_pipeline(str(case), plan, timeline), output)
    else:
        save(plot_gantt([chart(str(case), timeline, shown, folded=case.folded)]), output)
