"""Pipelines of measured layers: programs whose computations take what a profile says.

Single devices with a port each, as PipeDream's formulas have them: a boundary
has its own link in each direction, replicas sum gradients in a ring, bucket by
bucket while backward goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from hardware import Device
from planners import Pipeline
from planners.order import Kind, Phase
from planners.pipeline.profile import ProfileNode
from simulator.engine.operations import (
    Communicator,
    Operation,
    Part,
    Program,
    RankProgram,
    Sent,
    Task,
    Worker,
)
from simulator.engine.picoseconds import duration_ps
from simulator.lowering.execution import BUCKET_BYTES
from simulator.lowering.pipeline.transfers import BETWEEN
from simulator.lowering.schedules.instructions import instructions
from simulator.lowering.schedules.registry import schedule_of
from simulator.lowering.schedules.versions import versions_of


@dataclass(frozen=True, slots=True)
class MeasuredStage:
    """Layers, as a micro-batch takes them, and the bytes of it that the next stage reads."""

    layers: tuple[ProfileNode, ...]
    output_bytes: float = 0.0


def profiled(
    stages: Sequence[MeasuredStage],
    pipeline: Pipeline,
    bytes_per_s: float,
    batches: int = 1,
    bucket_bytes: float = BUCKET_BYTES,
) -> Program:
    """The program of stages on single devices; ``pipeline`` says how often each, and the order.

    Raises PlanError for what the schedule cannot do.
    """
    return _Profiled(stages, pipeline, bytes_per_s, bucket_bytes).program(batches)


class _Profiled:
    def __init__(
        self,
        stages: Sequence[MeasuredStage],
        pipeline: Pipeline,
        bytes_per_s: float,
        bucket_bytes: float,
    ) -> None:
        self._stages = stages
        self._pipeline = pipeline
        self._rate = bytes_per_s
        self._bucket_bytes = bucket_bytes
        self._device = Device("profiled", 1, 1, 1.0, 1.0, 1.0, bytes_per_s)
        self._sites: list[Communicator] = []
        self._routes: dict[Operation, tuple[Sent, ...]] = {}
        self._boundaries = [self._boundary(k) for k in range(len(stages) - 1)]

    def program(self, batches: int) -> Program:
        schedule, workers = schedule_of(self._pipeline.schedule), list[Worker]()
        first: dict[int, int] = {}
        for rank, replicas in enumerate(self._pipeline.replicas):
            communicator = self._site(f"replicas of stage {rank}")
            sums = list(self._sums(rank, replicas))
            for replica in range(replicas):
                found = instructions(schedule, self._pipeline, rank, replica, batches)
                versions = versions_of(schedule, self._pipeline, found, first)
                first |= versions if rank == 0 else {}
                tasks, lines = self._template(rank, replica, sums, replicas, communicator)
                rank_program = RankProgram(
                    found, lines, self._routes, rank, replica, versions=versions
                )
                worker = Worker(self._device, tasks, first=len(workers), rank_program=rank_program)
                workers.append(worker)
        return Program(tuple(workers), tuple(self._sites))

    def _site(self, name: str) -> int:
        self._sites.append(Communicator(0, 1, name))
        return len(self._sites) - 1

    def _boundary(self, stage: int) -> list[tuple[Sent, Sent]]:
        """Sends behind a stage, forth and back, by micro-batch."""
        size = self._stages[stage].output_bytes
        one, other = self._pipeline.replicas[stage : stage + 2]
        found: dict[tuple[int, int], tuple[Sent, Sent]] = {}
        ways = []
        for micro_batch in range(lcm(one, other)):
            pair = micro_batch % one, micro_batch % other
            if pair not in found:
                name = f"stage {stage} to {stage + 1}"
                forth, back = (
                    Operation(
                        Kind.SEND,
                        phase,
                        name,
                        BETWEEN,
                        duration_ps(size, self._rate),
                        received=(size, 0.0),
                    )
                    for phase in (Phase.FORWARD, Phase.BACKWARD)
                )
                where = f"{name} {pair[0]}>{pair[1]}"
                found[pair] = (
                    Sent(forth, self._site(f"send {where}")),
                    Sent(back, self._site(f"return {where}")),
                )
            ways.append(found[pair])
        if len(ways) > 1:
            for way in zip(*ways, strict=True):
                self._routes |= {sent.operation: way for sent in way}
        return ways

    def _sums(self, rank: int, replicas: int) -> list[tuple[int, Operation]]:
        """Exchanges of gradients: behind which layer's backward, and what."""
        found, waiting = list[tuple[int, Operation]](), 0.0
        layers = self._stages[rank].layers
        for number in reversed(range(len(layers))):
            waiting += layers[number].parameter_bytes
            if waiting and (waiting >= self._bucket_bytes or number == 0) and replicas > 1:
                each = 2.0 * (replicas - 1) / replicas * waiting
                found.append((number, _exchange(layers[number].name, each, self._rate)))
                waiting = 0.0
        return found

    def _template(
        self,
        rank: int,
        replica: int,
        sums: Sequence[tuple[int, Operation]],
        replicas: int,
        communicator: int,
    ) -> tuple[tuple[Task, ...], dict[tuple[int, Part], tuple[int, ...]]]:
        """Its lines, and which of them are of each part."""
        layers, tasks = self._stages[rank].layers, list[Task]()
        parts: dict[tuple[int, Part], list[int]] = {}

        def add(task: Task, part: Part) -> int:
            tasks.append(task)
            parts.setdefault((rank, part), []).append(len(tasks) - 1)
            return len(tasks) - 1

        enters = self._boundaries[rank - 1][replica] if rank else None
        leaves = self._boundaries[rank][replica] if rank + 1 < len(self._stages) else None
        after = (add(Task(enters[0].operation), Part.FORWARD),) if enters else ()
        for layer in layers:
            made = _product(layer.name, Phase.FORWARD, layer.forward_s)
            after = (add(Task(made, after), Part.FORWARD),)
        if leaves:
            add(
                Task(leaves[0].operation, after, 1, communicator=leaves[0].communicator),
                Part.FORWARD,
            )
            after = (add(Task(leaves[1].operation), Part.BACKWARD),)
        exchanged = list[int]()
        behind = dict(sums)
        stream: tuple[int, ...] = ()
        for number in reversed(range(len(layers))):
            layer = layers[number]
            made = _product(layer.name, Phase.BACKWARD, layer.backward_s)
            after = (add(Task(made, after), Part.BACKWARD),)
            if number in behind:
                line = Task(behind[number], (*after, *stream), replicas, communicator=communicator)
                stream = (add(line, Part.SUMS),)
                exchanged += stream
        # a part of its own, so that what is sent behind the whole backward knows its end
        add(Task(_product(layers[0].name, Phase.GRADIENT, 0.0), after), Part.WEIGHTS)
        if enters:
            add(
                Task(enters[1].operation, after, 1, communicator=enters[1].communicator),
                Part.BACKWARD,
            )
        add(Task(_product(layers[0].name, Phase.UPDATE, 0.0), tuple(exchanged)), Part.UPDATE)
        return tuple(tasks), {key: tuple(lines) for key, lines in parts.items()}


def _product(layer: str, phase: Phase, seconds: float) -> Operation:
    return Operation(Kind.COMPUTE, phase, layer, duration_ps=duration_ps(seconds, 1.0))


def _exchange(layer: str, each: float, rate: float) -> Operation:
    took = duration_ps(each, rate)
    return Operation(Kind.SUMS, Phase.GRADIENT, layer, BETWEEN, took, received=(each / 2, each / 2))
