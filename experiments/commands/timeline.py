"""``accelarray timeline``: one training step as a Gantt chart, a trace or records."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.commands.arguments import (
    add_network,
    add_planner,
    add_step,
    add_unfolded,
    array_of,
    execution_of,
    objective_of,
)
from experiments.commands.notices import network_of, warn_gap

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
    from experiments.output import UsageError, check_writable
    from experiments.pictures.resources import chosen, sites
    from experiments.studies.occupancy import warn_overflow
    from experiments.studies.step import run_step

    path = args.output.lower()
    if not path.endswith(ENDINGS):
        raise UsageError(f"--output {args.output!r}: the name must end in {_endings()}")
    check_writable(args.output)
    array, network, execution = array_of(args), network_of(args.network), execution_of(args)
    folded = not args.unfolded and args.devices is None
    plan, timeline = run_step(
        network, args.planner, array, args.batch, objective_of(args), execution, folded=folded
    )
    warn_overflow(network.name, args.planner, array.name, timeline)
    warn_gap(network.name, plan)
    shown = sites(timeline)
    if args.devices is not None:
        shown = chosen(shown, args.devices)
    about = {
        "network": network.name,
        "planner": args.planner,
        "objective": args.objective,
        "array": array.name,
        "batch": args.batch,
        "execution": str(execution),
        "iteration_ps": timeline.iteration_ps,
        "folded": folded,
    }
    _write(args.output, timeline, shown, about, folded=folded)
    return 0


def _write(output: str, timeline: Any, shown: Any, about: dict[str, Any], *, folded: bool) -> None:
    from experiments.pictures.gantt import plot_gantt
    from experiments.pictures.trace import trace_events, write_csv, write_trace
    from experiments.pictures.tracks import chart

    if output.lower().endswith((".json", ".json.gz")):
        write_trace(trace_events(timeline, shown, folded=folded), about, output)
    elif output.lower().endswith(".csv"):
        write_csv(timeline, shown, output)
    else:
        title = (
            f"{about['network']}, {about['planner']} on {about['array']}, batch {about['batch']}"
        )
        plot_gantt([chart(title, timeline, shown, folded=folded)], output)
