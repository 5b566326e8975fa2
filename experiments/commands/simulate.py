"""``accelarray simulate``: one training step on the event engine."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import (
    add_metrics,
    add_network,
    add_output,
    add_planner,
    add_step,
    add_unfolded,
)
from experiments.commands.resolve import case_of, forewarn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from experiments.studies.case import Case
    from planners import Plan
    from simulator import Timeline


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
    """Plan, simulate, deliver."""
    from experiments.formats import Shown, flat, written
    from experiments.output import check_writable, deliver
    from experiments.studies.case import plan_of, simulated
    from experiments.studies.occupancy import warn_overflow
    from experiments.studies.step_numbers import check_metrics, measured, parse_metrics
    from experiments.studies.unread import warnings

    check_writable(args.output)
    case, metrics = case_of(args), parse_metrics(args.metrics)
    check_metrics(metrics, case.array)
    forewarned = forewarn(case)
    plan = plan_of(case)
    started = time.perf_counter()
    timeline = simulated(case, plan)
    wall_s = time.perf_counter() - started
    overflows, unread = warn_overflow(case, timeline), warnings(case.array, case.execution)
    result = to_dict(case, plan, timeline) | {
        "wall_s": wall_s,
        "warnings": [*case.network.notes, *forewarned, *overflows, *unread],
        **measured(metrics, timeline),
    }
    shown = Shown(result, lambda: [flat(result)], lambda: tables(result, plan, unread))
    deliver(written(shown, args.format), args.output)
    return 0


def to_dict(case: Case, plan: Plan, timeline: Timeline) -> dict[str, Any]:
    """What ``--format json`` prints, but for the metrics and what changes from run to run."""
    from experiments.studies.occupancy import memory_fields
    from experiments.studies.pipelining import pipeline_fields
    from experiments.studies.step_numbers import axis_fields, bound_fields, computed, throughput
    from planners import predict
    from simulator import shares

    spent = shares(timeline)
    # every split has a link, as planners price it; of stages they price none
    training = not case.execution.inference  # which is what planners price
    priced = "wires" in case.execution.ignores and plan.pipeline is None
    return {
        "network": case.network.name,
        "planner": case.planner_name,
        "objective": case.objective,
        "communication": case.communication,
        "array": case.array.name,
        "batch": case.batch,
        "execution": str(case.execution),
        "devices": case.array.group.size,
        "cores": case.array.group.cores,
        "iteration_s": timeline.iteration_s,
        **asdict(throughput(case, timeline.iteration_s)),
        **computed(case, timeline),
        "predicted_s": predict(case.network, plan, case.array) if priced and training else None,
        **plan.gap_fields(),
        **bound_fields(case, plan, timeline),
        "computing": spent.computing,
        "communicating": spent.communicating,
        "waiting": spent.waiting,
        **memory_fields(timeline),
        "phases": _phases(timeline),
        "folded": case.folded,
        "distinct_cores": sum(resource.kind == "core" for resource in timeline.resources),
        "operations": sum(total.operations for total in timeline.totals().values()),
        "events": timeline.events,
        **pipeline_fields(plan, timeline),
        **axis_fields(case, timeline),
    }


def _phases(timeline: Timeline) -> list[dict[str, Any]]:
    """Per phase and kind: seconds an average core spends, and sums over the array.

    Of exchanges that overlap with computing, what is exposed counts.
    """
    from experiments.studies.difference import core_ps_by_phase
    from simulator import PICOSECONDS

    spent = core_ps_by_phase(timeline)
    return [
        {
            "phase": str(phase),
            "kind": str(kind),
            "core_s": spent.get((phase, kind), 0) / timeline.cores / PICOSECONDS,
            "bytes": total.bytes / timeline.batches,
            "flops": total.flops / timeline.batches,
        }
        for (phase, kind), total in sorted(timeline.totals().items())
    ]


def tables(result: dict[str, Any], plan: Plan, unread: Sequence[str]) -> list[Table | str]:
    """The table people read, what its share of peak is, if its plan is exact, what is not read."""
    from experiments.studies.speedups import inexact
    from experiments.studies.step_numbers import conventions, sentence

    said = list(filter(None, [sentence(result), inexact(plan).rstrip()]))
    shown = [_table(result)]
    if found := result.get("pipeline"):
        from experiments.studies.pipelining import in_words, pipeline_table

        shown.append(pipeline_table(found))
        said += in_words(found)
    forward = result["execution"].endswith("inference")
    return [*shown, *conventions(inference=forward), *said, *unread]


def _table(result: dict[str, Any]) -> Table:
    from rich.table import Table

    from experiments.studies.step_numbers import axis_rows, throughput_rows

    table = Table(show_header=False, title=f"{result['network']}, {result['planner']}")
    shown = ["array", "batch", "objective", "execution", "devices", "cores"]
    if result["communication"] != "printed":
        shown.insert(3, "communication")
    for key in shown:
        table.add_row(key, str(result[key]))
    table.add_section()
    table.add_row("iteration", f"{result['iteration_s']:.9f} s")
    if (bound_s := result["lower_bound_s"]) is not None:
        table.add_row("lower bound", f"{bound_s:.9f} s; the step is {result['step_gap']:.1%} above")
    for row in throughput_rows(result):
        table.add_row(*row)
    if result["predicted_s"] is not None:
        table.add_row("the planner's prediction", f"{result['predicted_s']:.9f} s")
    for key in ("computing", "communicating", "waiting"):
        table.add_row(key, f"{result[key]:.3%} of the step, averaged over all cores")
    for row in axis_rows(result):
        table.add_row(*row)
    if result["fits"] is not None:
        _add_occupancy(table, result)
    if (energy_j := result.get("energy_j")) is not None:
        table.add_row("energy", f"{energy_j:.6g} J")
    if (traffic := result.get("traffic_bytes")) is not None:
        table.add_row("traffic", f"{traffic / 1e9:.6g} GB")
    table.add_section()
    for row in result["phases"]:
        moved = f", {row['bytes']:.3e} bytes" if row["bytes"] else f", {row['flops']:.3e} FLOPs"
        spent = f"{row['core_s']:.9f} s a core" if row["kind"] != "memory" else "meanwhile"
        table.add_row(f"{row['phase']} {row['kind']}", spent + moved)
    table.add_section()
    table.add_row("cores simulated", f"{result['distinct_cores']:,}")
    table.add_row("operations", f"{result['operations']:,}")
    table.add_row("events", f"{result['events']:,}" + (" (folded)" if result["folded"] else ""))
    table.add_row("wall time", f"{result['wall_s']:.2f} s")
    return table


def _add_occupancy(table: Table, result: dict[str, Any]) -> None:
    from experiments.studies.occupancy import memory_rows

    table.add_row("idle cores", f"{result['idle_cores']:,} of {result['cores']:,}")
    for row in memory_rows(result["memory"]):
        table.add_row(*row)
