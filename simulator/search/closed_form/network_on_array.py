"""What the first pass takes and gives, and what it knows of a network on an array."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from hardware import Array
from planners import Axes, PlanError
from planners.axes.stage_cuts import blocks_of, usual_first_nodes
from planners.pipeline.staging import usual_schedule
from planners.plan.updates import ZERO_STAGE
from simulator.cost.memory import capacity_bytes
from simulator.lowering.execution import Execution
from simulator.search.closed_form.exchange_times import ExchangeTimes
from simulator.search.closed_form.pieces import Pieces, Table, Tied
from workloads import Network, partition_graph

SCHEDULES = ("1f1b", "interleaved", "gpipe", "zero-bubble")
"""Those with a closed form."""
ZERO_STAGE_OF = {update: int(stage) for update, stage in ZERO_STAGE.items() if stage != "0"}
"""How much of the optimizer's state, gradients and weights replicas keep in parts, by update."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A plan that can be estimated: axes whose ``dp`` is known, and options.

    ``firsts`` are the first node of each stage (none: as planner "axes" cuts).
    """

    axes: Axes
    micro_batch: int
    recompute: str = "none"
    update: str = ""
    schedule: str = ""
    firsts: tuple[int, ...] = ()

    @property
    def usual_schedule(self) -> str:
        """The schedule that is named, or else what is usual."""
        return self.schedule or usual_schedule(self.axes.vp)


class Estimate(NamedTuple):
    """Seconds of a step, bytes on the fullest device, and which share of its memory they are."""

    seconds: float
    peak_bytes: float
    share: float


class NetworkOnArray:
    """A network on an array, which is as the execution model plans for it: pieces and exchanges."""

    def __init__(self, network: Network, array: Array, batch: int, execution: Execution) -> None:
        self.array, self.execution, self.batch = array, execution, batch
        self.exchanges = ExchangeTimes(array, execution)
        self._network, self._pieces = network, Pieces(network, array, execution)
        self._tables: dict[Hashable, Table] = {}
        self._usual: dict[int, tuple[int, ...]] = {}

    def cuts(self, layout: Layout) -> tuple[int, ...]:
        """The first piece of each stage, and the end."""
        stages = layout.axes.pp * layout.axes.vp
        if not layout.firsts and stages not in self._usual:
            self._usual[stages] = usual_first_nodes(self._network, stages)
        firsts = layout.firsts or self._usual[stages]
        if not set(firsts) <= self._numbers.keys():
            raise PlanError("stages begin where pieces do not")
        return (*(self._numbers[node] for node in firsts), len(self._numbers))

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {node: number for number, node in enumerate(self._pieces.begins)}

    @cached_property
    def layers(self) -> tuple[int, int]:
        """Layers with weights, and those with any parameters, as norms."""
        layers = self._network.layers
        return sum(one.weighted for one in layers), sum(one.parameters > 0 for one in layers)

    @cached_property
    def parts(self) -> list[list[float]]:
        """Of each piece, the shares of its weights that its layers have, the last layer first."""
        pieces = self._pieces.cut.networks
        sizes = [[one.parameters for one in reversed(piece.layers)] for piece in pieces]
        return [[one / sum(some) for one in some if one] for some in sizes]

    def micro_batches(self, layout: Layout) -> int:
        """Of each replica."""
        return self.batch // (layout.axes.dp * layout.micro_batch)

    def tables(self, axes: Axes, micro_batch: int, recompute: str) -> list[Table]:
        """At each place the pieces of a split, on those of its devices where they take longest.

        A place's replicas are not alike where their devices are of other kinds, or nodes part them.
        """
        split = replace(axes, dp=axes.ep_of_dp, pp=1, vp=1)
        each, many = axes.dp * axes.tp * axes.cp, split.dp * split.tp * split.cp
        tables = []
        for first in range(0, axes.pp * each, each):
            runs = {*self.exchanges.nodes.unlike(first, each, many)}
            for end in self._kinds_end:
                if first < end < first + each:
                    run = end - (end - first) % many
                    runs |= {run, min(run + many, first + each - many)}
            found = (self._table(split, run, many, micro_batch, recompute) for run in sorted(runs))
            tables.append(max(found, key=lambda one: one.seconds))
        return tables

    def _table(self, split: Axes, first: int, many: int, micro_batch: int, recompute: str) -> Table:
        """On so many devices from the ``first`` on."""
        kinds = (bisect_right(self._kinds_end, one) for one in (first, first + many - 1))
        key = split, *kinds, self.exchanges.nodes.parted(first, many), micro_batch, recompute
        if key not in self._tables:
            of = self._pieces.measured(split, micro_batch, first, recompute)
            self._tables[key] = Table(*of, self.tied)
        return self._tables[key]

    def capacity_bytes(self, axes: Axes, place: int) -> float:
        """HBM of a core of the smallest of a place's devices."""
        each = axes.dp * axes.tp * axes.cp
        first = bisect_right(self._kinds_end, place * each)
        last = bisect_right(self._kinds_end, (place + 1) * each - 1)
        return capacity_bytes(self.array.group.kinds[first : last + 1])

    @cached_property
    def _kinds_end(self) -> list[int]:
        """The device behind the last one of each kind."""
        return list(accumulate(self.array.group.leaves))

    @cached_property
    def blocks(self) -> tuple[int, int]:
        """The first of the pieces that are blocks, and the one behind the last."""
        begins, blocks = self._pieces.begins, blocks_of(partition_graph(self._network))
        if not blocks.firsts:
            return 0, len(begins)
        found = [k for k, node in enumerate(begins) if node < blocks.end]
        return int(blocks.firsts[0] in begins[1:2]), len(found)

    @cached_property
    def crossings(self) -> list[float]:
        """Bytes of a sample that cross the cut in front of each piece."""
        found = [0.0] * len(self._pieces.begins)
        for one in self._pieces.cut.crossings:
            for piece in range(one.source + 1, one.target + 1):
                found[piece] += one.tensor.elements * self.array.group.arithmetic.activation_bytes
        return found

    @cached_property
    def tied(self) -> Tied | None:
        """The pieces that share weights, if any do."""
        if not (ties := self._pieces.cut.ties):
            return None
        one = ties[0]
        whole = self._pieces.cut.networks[one.source].parameters
        share = self.tied_bytes / (whole * self.array.group.arithmetic.gradient_bytes)
        return Tied(one.source, one.target, share)

    @cached_property
    def tied_bytes(self) -> float:
        """Gradients of weights that a later piece uses too, without tp."""
        return self._pieces.tied_bytes(Axes(dp=1))

    @cached_property
    def weight_share(self) -> float:
        """Bytes of weights as operators read them, for each byte of their gradients."""
        arithmetic = self.array.group.arithmetic
        return arithmetic.weight_bytes / arithmetic.gradient_bytes

    @cached_property
    def slower(self) -> float:
        """What a second of a hidden exchange adds to computing."""
        most = max(device.roofline.contention for device, _ in self.array.group.kinds)
        return most / (1 + most)
