"""Time and memory of possible stages on each kind of device: sums over measured pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, inf

import numpy as np

from hardware import Array, Wires, wires_of
from planners import Axes
from planners.axes.degrees import powers_to
from planners.axes.stage_search import BEHIND, Option
from simulator.cost.memory import capacity_bytes
from simulator.engine.jobs import Floats
from simulator.lowering.execution import Execution
from simulator.lowering.pipeline.transfers import between
from simulator.lowering.step.training_step import alone_s
from simulator.search.closed_form.network_on_array import ZERO_STAGE_OF
from simulator.search.closed_form.pieces import Piece, Pieces
from workloads import Cut, Network, partition_graph


@dataclass(frozen=True, eq=False)
class StageCosts:
    """Stages of a network on an array, with micro-batches of ``micro_batch`` samples.

    With ``by_positions`` devices of tp share positions, too (sequence parallelism); ``ep``
    replicas of a stage share the experts of each layer (expert parallelism).
    """

    network: Network
    array: Array
    execution: Execution
    micro_batch: int
    by_positions: bool = False
    ep: int = 1

    @cached_property
    def _of(self) -> Pieces:
        return Pieces(self.network, self.array, self.execution)

    @property
    def cut(self) -> Cut:
        """The network in its pieces."""
        return self._of.cut

    @property
    def nodes(self) -> list[int]:
        """Of each kind, how many devices are in a node."""
        levels = self.array.topology.levels
        inside = levels[0].members if levels else 0
        return [min(count, inside or count) for count in self.array.group.leaves]

    @cached_property
    def widths(self) -> list[list[int]]:
        """Of each kind, the widths of tensor parallelism: within a node, of whole heads."""
        heads = gcd(*(node.groups for node in partition_graph(self.network) if node.computed))
        return [
            [tp for tp in powers_to(most) if tp == 1 or (heads and not heads % tp)]
            for most in self.nodes
        ]

    def options(self, micro_batches: int) -> list[Option]:
        """Stages of each kind, width and number of replicas."""
        return [
            self._option(kind, tp, many, once=many == micro_batches)
            for kind, count in enumerate(self.array.group.leaves)
            for tp in self.widths[kind]
            for many in replicas_of(count // tp, micro_batches)
            if not many % self.ep
        ]

    def _option(self, kind: int, tp: int, replicas: int, *, once: bool) -> Option:
        """A stage, of which each replica has one micro-batch ``once``, or several."""
        alone, pieces = self._pieces(kind, tp)
        parts = ZERO_STAGE_OF.get(self.execution.update, 0)
        count, room = self.array.group.leaves[kind], self._room_bytes(kind)
        part = 1 / replicas if parts > 1 else 1.0  # of gradients

        def held(one: Piece) -> float:
            each = (one.state, one.gradients, one.weights)
            whole = sum(size / (replicas if k < parts else 1) for k, size in enumerate(each))
            return whole + (0.0 if once else one.sums * part)

        seconds = _spans([one.seconds for one in pieces])
        seconds[np.tri(len(seconds), dtype=bool)] = inf
        update_s = _spans([one.update_s for one in pieces])
        passing = _passing(alone, pieces, part if once else 0.0)
        members = self._members(kind, tp, replicas)
        sums_s = self._exposed_s(members, _spans(self._gradients(pieces)), seconds)
        return Option(
            kind,
            tp,
            replicas,
            seconds,
            sums_s + update_s / (replicas if parts else 1),
            (_held([*map(held, pieces)], [*map(held, alone)]) + passing) / room,
            _held([one.kept for one in pieces], [one.kept for one in alone]) / room,
            self._send_s(kind, count - 1, self._crossing_bytes),
            self._send_s(kind, min(1, count - 1), self._crossing_bytes)[kind],
            self._send_s(kind, count - 1, self._of.tied_bytes(Axes(dp=1, tp=tp))),
        )

    def seconds(self, kind: int, tp: int) -> float:
        """Of a micro-batch that goes through all layers on ``tp`` devices of a kind."""
        _, pieces = self._pieces(kind, tp)
        return sum(one.seconds for one in pieces)

    def _room_bytes(self, kind: int) -> float:
        alone = [self.array.group.kinds[kind]]
        return (1 - self.execution.memory_reserve) * capacity_bytes(alone)

    def first(self, kind: int) -> int:
        """The number of a kind's first device."""
        return sum(self.array.group.leaves[:kind])

    def _pieces(self, kind: int, tp: int) -> tuple[list[Piece], list[Piece]]:
        """Pieces alone, and what each adds to a stage."""
        if (kind, tp) not in self._known:
            axes = Axes(dp=self.ep, ep=self.ep, tp=tp, sp=self.by_positions and tp > 1)
            at, again = self.first(kind), self.execution.recompute
            self._known[kind, tp] = self._of.measured(axes, self.micro_batch, at, again)
        return self._known[kind, tp]

    @cached_property
    def _known(self) -> dict[tuple[int, int], tuple[list[Piece], list[Piece]]]:
        """Pieces by kind and width."""
        return {}

    def sums_of_all_s(self, widths: Sequence[int], replicas: Sequence[int], stages: int) -> float:
        """Seconds that sums last longer, where replicas of all kinds have an equal stage.

        ``widths`` and ``replicas`` are by kind. The narrowest have the most to sum, and come first:
        what is summed is told of the first one.
        """
        kinds = sorted(range(len(widths)), key=widths.__getitem__)
        seconds = [self.seconds(kind, widths[kind]) for kind in kinds]
        members = [
            one for kind in kinds for one in self._members(kind, widths[kind], replicas[kind])
        ]
        _, pieces = self._pieces(kinds[0], widths[kinds[0]])
        size, behind_s = sum(self._gradients(pieces)), min(seconds)
        return float(self._exposed_s(members, np.array(size / stages), np.array(behind_s / stages)))

    def _gradients(self, pieces: Sequence[Piece]) -> list[float]:
        """Bytes of gradients of each piece."""
        arithmetic = self.array.group.arithmetic
        each = arithmetic.gradient_bytes / arithmetic.weight_bytes
        return [one.weights * each for one in pieces]

    def _members(self, kind: int, tp: int, replicas: int) -> list[Array]:
        """The replicas of a stage that begins at a kind's first device."""
        first = self.first(kind)
        return [self.array.part(first + k * tp, tp) for k in range(replicas)]

    def _exposed_s(self, members: Sequence[Array], gradients: Floats, seconds: Floats) -> Floats:
        """What sums of so many bytes take longer than a micro-batch's way back, if they overlap."""
        if len(members) == 1:
            return np.zeros_like(gradients)
        size = max(self.execution.bucket_of(), 1.0)
        summed = between(self.array, self.execution, 0).sums(members, size, "")
        bucket_s = alone_s(self._wires, summed)
        sums_s = bucket_s / size * gradients
        if not self.execution.overlap:
            return sums_s
        found: Floats = np.maximum(sums_s - BEHIND * seconds, np.minimum(sums_s, bucket_s))
        return found

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
        for other, count in enumerate(self.array.group.leaves):
            target = self.first(other) + (min(devices, count - 1) if other == kind else 0)
            crossed = self._wires.loads(source, target) > 0
            slowest = self._wires.bandwidth[crossed].min(initial=inf)
            latency_s = self._wires.message_latency_s([source], [target])
            found.append(size / slowest + latency_s)
        return np.array(found)


def replicas_of(most: int, micro_batches: int) -> list[int]:
    """Numbers of replicas to try: powers of two, and equal parts for one to four stages."""
    found = {*powers_to(most)} | {most // k for k in range(1, 5)}
    return sorted(many for many in found if many and not micro_batches % many)


def _spans(each: Sequence[float]) -> Floats:
    """Sums over pieces ``first`` to ``end - 1``, as a matrix [first, end]."""
    ends = np.concatenate([[0.0], np.cumsum(each)])
    found: Floats = ends[None, :] - ends[:, None]
    return found


def _held(added: Sequence[float], alone: Sequence[float]) -> Floats:
    """The same, where the first of a span counts as it is alone."""
    found = _spans(added)
    found[:-1] += (np.array(alone) - np.array(added))[:, None]
    return found


def _passing(alone: Sequence[Piece], added: Sequence[Piece], made: float) -> Floats:
    """What pieces ``first`` to ``end - 1`` need at the most beside what they keep.

    When a piece computes backward, what the pieces behind it kept is free again, and the share
    ``made`` of their gradients is there.
    """
    found = np.zeros((len(added) + 1, len(added) + 1))
    kept = np.cumsum([one.kept - made * one.sums for one in added])
    for first, one in enumerate(alone):
        of = [one, *added[first + 1 :]]
        passing = np.array([each.beginning if made == 1.0 else each.passing for each in of])
        found[first, first + 1 :] = np.maximum.accumulate(passing + kept[first:]) - kept[first:]
    return found
