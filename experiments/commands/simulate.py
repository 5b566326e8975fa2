"""``accelarray simulate``: one training step on the event engine."""

from __future__ import annotations

import argparse
import time
from typing import Any

from experiments.commands.arguments import (
    add_array,
    add_batch,
    add_objective,
    add_output,
    array_of,
)


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("simulate", help="simulate one training step")
    parser.add_argument(
        "network",
        metavar="NETWORK",
        help="a network (see: list networks), or the path of a layer file",
    )
    parser.add_argument("--planner", metavar="P", required=True, help="see: list planners")
    add_array(parser)
    add_batch(parser)
    add_objective(parser)
    add_output(parser, "table", "json")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan, simulate, deliver."""
    from experiments.output import deliver, to_json
    from planners import OBJECTIVES, load_planner, predict
    from simulator import simulate
    from workloads import load_network

    array, network = array_of(args), load_network(args.network)
    plan = load_planner(args.planner)(network, array, args.batch, OBJECTIVES[args.objective])
    started = time.perf_counter()
    timeline = simulate(network, plan, array)
    wall_s = time.perf_counter() - started
    shares = timeline.shares()
    result = {
        "network": network.name,
        "planner": args.planner,
        "objective": args.objective,
        "array": array.name,
        "batch": args.batch,
        "devices": array.group.size,
        "cores": array.group.cores,
        "iteration_s": timeline.iteration_s,
        "predicted_s": predict(network, plan, array),
        "computing": shares.computing,
        "communicating": shares.communicating,
        "waiting": shares.waiting,
        "operations": len(timeline),
        "events": timeline.events,
        "wall_s": wall_s,
    }
    deliver(to_json(result) if args.format == "json" else _table(result), args.output)
    return 0


def _table(result: dict[str, Any]) -> str:
    from rich.table import Table

    from experiments.output import text_of

    table = Table(show_header=False, title=f"{result['network']}, {result['planner']}")
    for key in ("array", "batch", "objective", "devices", "cores"):
        table.add_row(key, str(result[key]))
    table.add_section()
    table.add_row("iteration", f"{result['iteration_s']:.9f} s")
    table.add_row("the planner's prediction", f"{result['predicted_s']:.9f} s")
    for key in ("computing", "communicating", "waiting"):
        table.add_row(key, f"{result[key]:.3%} of the step, averaged over all cores")
    table.add_section()
    table.add_row("operations", f"{result['operations']:,}")
    table.add_row("events", f"{result['events']:,}")
    table.add_row("wall time", f"{result['wall_s']:.2f} s")
    return text_of(table)
