"""What results say of a pipeline: its stages, how long each works and waits, and the bubble."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from rich.table import Table

from experiments.output import table_of
from experiments.studies.case import Case
from experiments.terms import duration
from hardware import Array
from planners import Plan, Staging
from planners.axes.stage_cuts import begun_inside_blocks, blocks_of
from planners.order import Phase
from simulator import PICOSECONDS, Execution, Timeline, usual
from simulator.analysis.stages import bubble, stage_uses
from simulator.cost.recompute import NONE
from simulator.lowering.schedules.registry import schedule_of
from workloads import Network, Transformer, partition_graph


def cut_blocks(network: Network, plan: Plan) -> list[str]:
    """A sentence where stages of a transformer begin inside its blocks, as no framework's do."""
    if plan.pipeline is None or not isinstance(network.sizes, Transformer):
        return []
    graph = partition_graph(network)
    inside = begun_inside_blocks(graph, plan.pipeline.firsts)
    if not inside:
        return []
    return [
        f"{len(inside)} of {len(plan.pipeline.firsts)} stages begin inside a block (frameworks cut "
        f"between blocks, of which there are {len(blocks_of(graph).firsts)}); the first is stage "
        f"{inside[0]}, with {graph[plan.pipeline.firsts[inside[0]]].name}."
    ]


def of_training(array: Array, execution: Execution) -> list[str]:
    """What was asked for of a training step alone, where the step is inference."""
    asked, own = execution.staging or Staging(), usual(array)
    given = {
        "recompute": execution.recompute != NONE or asked.recompute,
        "optimizer": any(change.startswith("optimizer=") for change in array.changes),
        "bucket": execution.bucket_bytes not in (None, own.bucket_bytes),
        "update order": execution.update_order not in ("", own.update_order),
        "tied copies": asked.tied,
    }
    return [word for word, value in given.items() if value and execution.inference]


def in_inference(words: Iterable[str]) -> list[str]:
    """A sentence about options that inference does not follow, if there are any."""
    found = ", ".join(dict.fromkeys(words))
    return [f"No effect, in inference: {found}."] if found else []


def no_effect(case: Case, plan: Plan) -> list[str]:
    """Sentences about options of pipelines, and of training, that a plan does not follow."""
    network, execution = case.network, case.execution
    asked, pipeline, said = execution.staging or Staging(), plan.pipeline, list[str]()
    stages = len(pipeline.stages) if pipeline else 1
    of_stages = {
        "tied copies": asked.tied and not execution.inference,
        "stage layers": asked.stage_layers and not asked.stage_hw,
    }
    of_both = {
        f"schedule {asked.schedule}": asked.schedule,
        "cuts": asked.cuts,
        "vertical sync": asked.vertical_sync,
        "batches": asked.batches,
    }
    alone = stages == 1 and (pipeline is None or pipeline.micro_batches == 1)
    given = of_both | of_stages if alone else of_stages if stages == 1 else {}
    if idle := [word for word, value in given.items() if value]:
        what = "stages or micro-batches" if alone else "stages"
        said.append(f"No effect, without {what}: {', '.join(idle)}.")
    if execution.inference:
        return [*said, *in_inference(of_training(case.array, execution))]
    if stages > 1 and asked.tied and all(one.tied is None for one in partition_graph(network)):
        said.append("No effect, without tied weights: tied copies.")
    mode = execution.recompute
    if pipeline and asked.batches and not alone and schedule_of(pipeline.schedule).flushes:
        flushes = f"schedule {pipeline.schedule} flushes after each batch"
        said.append(f"No effect, as {flushes}: batches.")
    if stages > 1 and mode.isdigit() and int(mode) > (most := most_blocks(network, plan)):
        said.append(
            f"--recompute {mode}: no stage has more than {most} blocks; all are done again."
        )
    return said


def most_blocks(network: Network, plan: Plan) -> int:
    """Of the stage that has most."""
    graph = partition_graph(network)
    firsts = [*(plan.pipeline.firsts if plan.pipeline else (0,)), len(graph)]
    blocks = blocks_of(graph).firsts
    return max(sum(a <= one < b for one in blocks) for a, b in pairwise(firsts))


def pipeline_fields(plan: Plan, timeline: Timeline) -> dict[str, Any]:
    """A result's fields about a pipeline; none where the plan has no stages.

    In inference ``schedule`` is "forward". ``sends`` is how stages wait for what they send.
    Where nothing is flushed ``period_s`` is the steady time of a micro-batch, seen from
    micro-batch ``warm_up`` on (both None where no rhythm was seen), and ``run_s`` the time of
    all ``micro_batches``.
    """
    if plan.pipeline is None:
        return {}
    uses, pipeline, period = stage_uses(timeline), plan.pipeline, timeline.period
    names, kinds = pipeline.layers(plan.nodes), kinds_of(timeline)
    stages = [
        {
            "stages": list(use.stages),
            "layers": [[names[k][0], names[k][-1]] for k in use.stages],
            "kind": kinds[use.rank, use.replica],
            "replica": use.replica,
            "replicas": pipeline.replicas[use.rank],
            "accelerators": pipeline.places[use.rank].replica(use.replica)[1],
            "computing_s": use.computing / PICOSECONDS,
            "exposed_s": use.exposed / PICOSECONDS,
            "receiving_s": use.receiving / PICOSECONDS,
            "waiting_s": use.waiting / PICOSECONDS,
            "in_flight": use.in_flight,
            "versions": use.versions,
        }
        for use in uses
    ]
    forward = all(operation.phase == Phase.FORWARD for operation in timeline.operations)
    return {
        "pipeline": {
            "schedule": "forward" if forward else pipeline.schedule,
            "sends": sorted(ways_of_sending(timeline)),
            "flushes": timeline.batch_ps is None,
            "micro_batches": pipeline.micro_batches,
            "bubble": bubble(uses),
            "turns": timeline.micro_batches,
            "run_s": timeline.makespan_s,
            "period_s": period.micro_batch_ps / PICOSECONDS if period else None,
            "warm_up": period.warm_up if period else None,
            "stages": stages,
        }
    }


def kinds_of(timeline: Timeline) -> dict[tuple[int, int], str]:
    """The devices of each replica of each place, of several kinds as "h100-sxm + a100-80"."""
    names = defaultdict[tuple[int, int], list[str]](list)
    for worker in timeline.program.workers:
        if one := worker.rank_program:
            names[one.rank, one.replica].append(worker.device.name)
    return {replica: " + ".join(dict.fromkeys(found)) for replica, found in names.items()}


def bubble_in_words(found: dict[str, Any]) -> str:
    """How long a pipeline's busiest stage waits, as a share of its work."""
    return f"{found['bubble']:.1%} of the busiest stage's work"


def pipeline_table(found: dict[str, Any]) -> Table:
    """A row for each stage and kind of devices in it, of like replicas the first."""
    rows = found["stages"]
    several = len({row["kind"] for row in rows}) > 1
    kind = ("kind",) * several
    versions = ("versions",) * (not found["flushes"])  # else there is one
    heads = ("stage", "layers", *kind, "devices", "busy", "idle", "in flight", *versions)
    title = f"{found['schedule']}: bubble {bubble_in_words(found)}"
    table = table_of(title, heads, ("layers", "kind"))
    places = defaultdict[tuple[int, ...], dict[str, list[dict[str, Any]]]](dict)
    for row in rows:
        places[tuple(row["stages"])].setdefault(row["kind"], []).append(row)
    for kinds in places.values():
        for row, *others in kinds.values():
            replicas = row["replicas"] if len(kinds) == 1 else 1 + len(others)
            busy = row["computing_s"] + row["exposed_s"]
            whole = busy + row["waiting_s"] or 1.0
            layers = ["…".join(dict.fromkeys(pair)) for pair in row["layers"]]
            many = f"{replicas} x {row['accelerators']}" if row["replicas"] > 1 else ""
            table.add_row(
                ", ".join(map(str, row["stages"])),
                ", ".join(layers),
                *(row["kind"],) * several,
                many or f"{row['accelerators']}",
                f"{busy / whole:.1%}",
                f"{row['waiting_s'] / whole:.1%}",
                str(row["in_flight"]),
                *(str(row["versions"]),) * len(versions),
            )
    return table


def ways_of_sending(timeline: Timeline) -> set[str]:
    """How stages wait for what they send: "beside", "waited for", "rendezvous"."""
    return {one.sends for worker in timeline.program.workers if (one := worker.rank_program)}


def other_sends(execution: Execution, timeline: Timeline) -> list[str]:
    """Where stages do not send as their stack does, why; [] where they do."""
    if execution.sends != "rendezvous" or ways_of_sending(timeline) != {"waited for"}:
        return []
    return [
        "Stages wait for what they send. The stack's way, to send and receive in turn, needs "
        "schedule 1f1b, as many replicas of each stage, and one tensor from each to the next."
    ]


BETWEEN_BATCHES = (
    "In inference, stages take one batch behind the other: a step is the time between two of them, "
    "and a batch itself takes longer."
)


def fitted_inference(array: Array, execution: Execution, *, staged: bool) -> list[str]:
    """What is to be told of the fastest steps, where these are inference, perhaps in stages."""
    if not execution.inference:
        return []
    schedule = ["schedule"] if execution.staging and execution.staging.schedule else []
    told = in_inference([*of_training(array, execution), *schedule])
    return [*told, BETWEEN_BATCHES] if staged else told


def in_words(found: dict[str, Any]) -> list[str]:
    """What a time without a flush is of."""
    if found["flushes"]:
        return []
    if found["period_s"] is None:
        return [
            f"{found['turns']:,} micro-batches without a flush show no steady state. "
            "The time of a micro-batch is the mean of the second half.",
        ]
    order = "In inference batches follow one another under every schedule, without recomputation."
    return [
        *([order] if found["schedule"] == "forward" else []),
        f"The pipeline is never flushed. From micro-batch {found['warm_up']} on, one micro-batch "
        f"takes {duration(found['period_s'])} (a run of {found['turns']:,}). The step is "
        f"{found['micro_batches']} micro-batches.",
    ]
