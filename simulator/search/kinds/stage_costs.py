"""Time and memory of possible stages on each kind of device, measured by the engine.

The network is cut wherever a stage may begin. The engine runs each piece alone, on the devices
of one replica. Identical pieces are run once. The time of a stage is the sum over its pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, inf
from typing import NamedTuple

import numpy as np

from hardware import Array, Wires, wires_of
from planners import Axes, planned_by_axes
from planners.axes.stage_cuts import blocks_of, single_crossings
from planners.axes.stage_search import BEHIND, Floats, Option
from planners.order import Phase
from planners.pipeline.staging import cut_into
from simulator.engine.operations import Worker
from simulator.engine.picoseconds import PICOSECONDS
from simulator.engine.replay import run
from simulator.lowering.execution import Execution
from simulator.lowering.models import rules_of
from simulator.lowering.pipeline.transfers import between
from simulator.lowering.step.training_step import alone_s, training_step
from workloads import Cut, Graph, Network, partition_graph
from workloads.stages import first_alike

IN_PARTS = {"sharded": 1, "gradients": 2, "weights": 3}
"""How much of the optimizer's state, gradients and weights replicas keep in parts, by update."""


class Piece(NamedTuple):
    """Seconds of a micro-batch and of the update, and bytes on the fullest device.

    ``state``, ``gradients`` and ``weights`` are held during the whole step, and ``kept`` from the
    forward to the backward pass. ``passing`` is the temporary memory of a pass. ``sums`` hold
    accumulated gradients, from the second micro-batch on. ``tied`` are gradients of weights that
    a later piece uses too.
    """

    seconds: float
    update_s: float
    state: float
    gradients: float
    weights: float
    kept: float
    passing: float
    sums: float
    tied: float = 0.0


@dataclass(frozen=True, eq=False)
class StageCosts:
    """Stages of a network on an array, with micro-batches of ``micro_batch`` samples."""

    network: Network
    array: Array
    execution: Execution
    micro_batch: int
    by_positions: bool = False

    def split_by_positions(self) -> StageCosts:
        """The same with sequence parallelism. Costs without tp are reused."""
        found = replace(self, by_positions=True)
        found.known.update({key: each for key, each in self.known.items() if key[1] == 1})
        return found

    @cached_property
    def cut(self) -> Cut:
        """The network in its pieces."""
        return cut_into(self.network, pieces_of(self.network))

    @property
    def nodes(self) -> list[int]:
        """Of each kind, how many devices are in a node."""
        levels = self.array.topology.levels
        inside = levels[0].members if levels else 0
        return [min(count, inside or count) for _, count in self.array.group.kinds]

    @cached_property
    def widths(self) -> list[list[int]]:
        """Of each kind, the widths of tensor parallelism: within a node, of whole heads."""
        heads = gcd(*(node.groups for node in partition_graph(self.network) if node.computed))
        found = []
        for most in self.nodes:
            powers = [1 << k for k in range(most.bit_length())]
            found.append([tp for tp in powers if tp == 1 or (heads and not heads % tp)])
        return found

    def options(self, micro_batches: int) -> list[Option]:
        """Stages of each kind, width and number of replicas."""
        return [
            self._option(kind, tp, many, once=many == micro_batches)
            for kind, (_, count) in enumerate(self.array.group.kinds)
            for tp in self.widths[kind]
            for many in replicas_of(count // tp, micro_batches)
        ]

    def _option(self, kind: int, tp: int, replicas: int, *, once: bool) -> Option:
        """A stage, of which each replica has one micro-batch ``once``, or several."""
        pieces = self._pieces(kind, tp)
        parts, arithmetic = IN_PARTS.get(self.execution.update, 0), self.array.group.arithmetic
        (_, count), room = self.array.group.kinds[kind], self._room_bytes(kind)
        held = [
            sum(
                each / (replicas if number < parts else 1)
                for number, each in enumerate((one.state, one.gradients, one.weights))
            )
            + (0.0 if once else one.sums)
            for one in pieces
        ]
        seconds = _spans([one.seconds for one in pieces])
        seconds[np.tri(len(seconds), dtype=bool)] = inf
        gradients = [
            one.weights / arithmetic.weight_bytes * arithmetic.gradient_bytes for one in pieces
        ]
        update_s = _spans([one.update_s for one in pieces])
        each_s, bucket_s = self._sum_s(kind, tp, replicas)
        sums_s = each_s * _spans(gradients)
        if self.execution.overlap:  # beside the last micro-batch's way back
            sums_s = np.maximum(sums_s - BEHIND * seconds, np.minimum(sums_s, bucket_s))
        return Option(
            kind,
            tp,
            replicas,
            seconds,
            sums_s + update_s / (replicas if parts else 1),
            (_spans(held) + _most([one.passing for one in pieces])) / room,
            _spans([one.kept for one in pieces]) / room,
            self._send_s(kind, count - 1, self._crossing_bytes),
            self._send_s(kind, min(1, count - 1), self._crossing_bytes)[kind],
            self._send_s(kind, count - 1, pieces[0].tied),
        )

    def _room_bytes(self, kind: int) -> float:
        device, _ = self.array.group.kinds[kind]
        each = device.hbm_capacity_bytes / device.cores_per_chip
        return each * (1 - self.execution.memory_reserve)

    def first(self, kind: int) -> int:
        """The number of a kind's first device."""
        return sum(count for _, count in self.array.group.kinds[:kind])

    def _pieces(self, kind: int, tp: int) -> list[Piece]:
        if (kind, tp) not in self.known:
            cut, part = self.cut, self.array.part(self.first(kind), tp)
            alike = first_alike(cut)
            ran = {k: self._ran(k, part, tp) for k in sorted(set(alike))}
            self.known[kind, tp] = [ran[k] for k in alike]
        return self.known[kind, tp]

    @cached_property
    def known(self) -> dict[tuple[int, int], list[Piece]]:
        """Pieces by kind and width."""
        return {}

    def _ran(self, number: int, part: Array, tp: int) -> Piece:
        network, first = self.cut.networks[number], self.cut.firsts[number]
        axes = Axes(dp=1, tp=tp, sp=self.by_positions and tp > 1)
        plan = planned_by_axes(network, part, self.micro_batch, axes)
        free = replace(self.execution, staging=None, strict_memory=False, update="")
        rules = rules_of(network, plan, part, free, folded=True)
        program = training_step(rules)
        tied = [tie.owner - first for tie in self.cut.ties if tie.source == number]
        worker = program.workers[0]
        update_ps = sum(
            task.operation.duration_ps
            for task in worker.template
            if task.operation.phase == Phase.UPDATE
        )
        state = worker.held_bytes - worker.weight_bytes - worker.gradient_bytes
        kept, passing = _held(worker)
        seconds = run(program).iteration_s - update_ps / PICOSECONDS
        return Piece(
            seconds,
            update_ps / PICOSECONDS,
            state,
            worker.gradient_bytes,
            worker.weight_bytes,
            kept,
            passing,
            sum(task.once for task in worker.template),
            sum(map(rules.tied_largest, tied)),
        )

    def _sum_s(self, kind: int, tp: int, replicas: int) -> tuple[float, float]:
        """Seconds of a byte of gradients, and of a bucket, that replicas sum."""
        if replicas == 1:
            return 0.0, 0.0
        first, size = self.first(kind), max(self.execution.bucket_of(), 1.0)
        members = [self.array.part(first + k * tp, tp) for k in range(replicas)]
        summed = between(self.array, self.execution, 0).sums(members, size, "")
        seconds = alone_s(self._wires, summed)
        return seconds / size, seconds

    @cached_property
    def _wires(self) -> Wires:
        return wires_of(self.array)

    @cached_property
    def _crossing_bytes(self) -> float:
        """Of a micro-batch, what crosses the cut in the middle."""
        middle = len(self.cut.firsts) // 2
        elements = sum(
            one.tensor.elements for one in self.cut.crossings if one.source < middle <= one.target
        )
        return self.micro_batch * elements * self.array.group.arithmetic.activation_bytes

    def _send_s(self, kind: int, devices: int, size: float) -> Floats:
        """Seconds to send ``size`` bytes from a kind's first device to each kind.

        The target is ``devices`` further within the kind, or the first device of another kind.
        """
        source, found = self.first(kind), []
        for other, (_, count) in enumerate(self.array.group.kinds):
            target = self.first(other) + (min(devices, count - 1) if other == kind else 0)
            links = list(self._wires.route(source, target))
            slowest = self._wires.bandwidth[links].min() if links else inf
            latency_s = self._wires.message_latency_s([source], [target])
            found.append(size / slowest + latency_s)
        return np.array(found)


def pieces_of(network: Network) -> tuple[int, ...]:
    """The nodes in front of which stages may begin: blocks, and what is before and behind them.

    Without blocks, wherever one tensor crosses; each piece has weights.
    """
    graph = partition_graph(network)
    blocks = blocks_of(graph)
    begins = (0, *blocks.firsts, blocks.end) if blocks.firsts else tuple(single_crossings(graph))
    weighted = {layer.name for layer in network.layers if layer.weighted}
    whole = blocks.firsts and blocks.firsts[0] > 0 and blocks.end < len(graph)
    if whole and all(_any(graph, weighted, *ends) for ends in ((0, begins[1]), (begins[-1], None))):
        return begins
    if blocks.firsts:
        return (0, *blocks.firsts[1:])
    found, last = [0], 0
    for begin in begins[1:]:
        if _any(graph, weighted, last, begin) and _any(graph, weighted, begin, None):
            found.append(begin)
            last = begin
    return tuple(found)


def _any(graph: Graph, weighted: set[str], first: int, end: int | None) -> bool:
    return any(node.name in weighted for node in graph[first:end])


def replicas_of(most: int, micro_batches: int) -> list[int]:
    """Numbers of replicas to try: powers of two, and equal parts for one to four stages."""
    if most < 9:
        found = {*range(1, most + 1)}
    else:
        found = {1 << k for k in range(most.bit_length())} | {most // k for k in range(1, 5)}
    return sorted(many for many in found if many and not micro_batches % many)


def _held(worker: Worker) -> tuple[float, float]:
    """Bytes that are kept from forward to backward, and what is needed besides at the most."""
    level = most = kept = 0.0
    for task in worker.template:
        most = max(most, level + task.held.most)
        level += task.held.more
        if task.operation.phase == Phase.FORWARD:
            kept = max(kept, level)
    return kept, most - kept


def _spans(each: Sequence[float]) -> Floats:
    """Sums over pieces ``first`` to ``end - 1``, as a matrix [first, end]."""
    ends = np.concatenate([[0.0], np.cumsum(each)])
    found: Floats = ends[None, :] - ends[:, None]
    return found


def _most(each: Sequence[float]) -> Floats:
    """The largest of pieces ``first`` to ``end - 1``, as a matrix [first, end]."""
    found = np.zeros((len(each) + 1, len(each) + 1))
    for first in range(len(each)):
        found[first, first + 1 :] = np.maximum.accumulate(each[first:])
    return found
