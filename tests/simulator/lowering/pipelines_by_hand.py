"""Pipelines whose stages take given times, on the engine: templates written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from hardware import Device
from planners import Pipeline, Place, Stage
from planners.order import Kind, Phase
from simulator import Communicator, Operation, Program, Task, Worker
from simulator.engine.operations import Part, RankProgram, Sends, Sent
from simulator.lowering.schedules.instructions import check, instructions
from simulator.lowering.schedules.registry import schedule_of
from simulator.lowering.schedules.versions import versions_of

CORE = Device("core", 1, 1, 1e12, 1e9, 1e9, 1e9)


@dataclass(frozen=True)
class Times:
    """Picoseconds of a stage: forward, errors, gradients of weights."""

    forward: int
    errors: int
    weights: int


def pipeline_of(
    schedule: str,
    stages: int,
    micro_batches: int,
    replicas: Sequence[int],
    *,
    vertical_sync: bool = False,
    recompute: Sequence[int] = (),
) -> Pipeline:
    """A pipeline without plans: nobody asks for them here."""
    places, first = [], 0
    for many in replicas:
        places.append(Place(first, many, many))
        first += many
    return Pipeline(
        tuple(
            Stage(k, k % len(replicas), None, k in recompute)  # type: ignore[arg-type]
            for k in range(stages)
        ),
        tuple(places),
        schedule,
        micro_batches,
        vertical_sync=vertical_sync,
    )


def program(
    pipeline: Pipeline,
    times: Sequence[Times],
    sends: Sequence[int],
    batches: int = 1,
    how: Sends = "beside",
) -> Program:
    """``sends`` are picoseconds between neighbouring stages, in either direction."""
    schedule = schedule_of(pipeline.schedule)
    check(schedule, pipeline)
    ranks, replicas = len(pipeline.places), pipeline.replicas
    communicators: list[Communicator] = []
    routes: dict[Operation, tuple[Sent, ...]] = {}
    ports: list[tuple[Operation, Operation]] = []
    for k, takes in enumerate(sends):
        turns = lcm(replicas[k % ranks], replicas[(k + 1) % ranks])
        both = []
        for phase in (Phase.FORWARD, Phase.BACKWARD):
            pairs: dict[tuple[int, int], Sent] = {}
            ways = []
            for micro_batch in range(turns):
                pair = micro_batch % replicas[k % ranks], micro_batch % replicas[(k + 1) % ranks]
                if pair not in pairs:
                    communicators.append(Communicator(0, 1, f"{phase} {k} {pair}"))
                    send = Operation(Kind.SEND, phase, f"cut {k}", -2, takes)
                    pairs[pair] = Sent(send, len(communicators) - 1)
                ways.append(pairs[pair])
            routes |= {way.operation: tuple(ways) for way in ways}
            both.append(ways[0].operation)
        ports.append((both[0], both[1]))
    products = [_products(k, one) for k, one in enumerate(times)]
    workers, first = list[Worker](), dict[int, int]()
    for rank in range(ranks):
        for replica in range(replicas[rank]):
            tasks, lines = _template(range(rank, len(times), ranks), products, ports)
            mine = instructions(schedule, pipeline, rank, replica, batches)
            versions = versions_of(schedule, pipeline, mine, first)
            if rank == 0:
                first |= versions
            route = RankProgram(mine, lines, routes, rank, replica, False, how, versions)
            workers.append(
                Worker(CORE, tuple(tasks), (), 1, len(workers), "core", rank_program=route)
            )
    return Program(tuple(workers), tuple(communicators))


def _products(k: int, times: Times) -> dict[Part, Operation]:
    phases = {
        Part.FORWARD: (Phase.FORWARD, times.forward),
        Part.BACKWARD: (Phase.BACKWARD, times.errors),
        Part.WEIGHTS: (Phase.GRADIENT, times.weights),
    }
    return {
        part: Operation(Kind.COMPUTE, phase, f"stage {k}", -1, takes)
        for part, (phase, takes) in phases.items()
    }


def _template(
    stages: Sequence[int],
    products: Sequence[Mapping[Part, Operation]],
    ports: Sequence[tuple[Operation, Operation]],
) -> tuple[list[Task], dict[tuple[int, Part], tuple[int, ...]]]:
    tasks: list[Task] = []
    lines: dict[tuple[int, Part], tuple[int, ...]] = {}
    for k in stages:
        enters = ports[k - 1] if k else None
        leaves = ports[k] if k < len(ports) else None
        for part in (Part.FORWARD, Part.BACKWARD, Part.WEIGHTS):
            begin, needs = len(tasks), list[int]()
            forward = part is Part.FORWARD
            gets = enters if forward else leaves
            goes = leaves if forward else enters
            if gets and part is not Part.WEIGHTS:
                needs.append(len(tasks))
                tasks.append(Task(gets[0 if forward else 1]))
            tasks.append(Task(products[k][part], tuple(needs)))
            if goes and part is not Part.WEIGHTS:
                tasks.append(Task(goes[0 if forward else 1], (len(tasks) - 1,), 1, communicator=0))
            lines[k, part] = tuple(range(begin, len(tasks)))
    return tasks, lines
