"""The papers' execution model: peak-rate computing, and nothing overlaps.

Each exchange of a split costs bytes / (link bandwidth of one accelerator of
that side), the slower side deciding. Samples and channels are split in exact
fractions, accelerators (boards) do all of their own cores' work together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardware import Device, bisection_of
from planners.cost.shared_medium import check_medium
from planners.errors import PlanError
from planners.order import Item, Kind, Phase, gathered_order, published_order, shared_out
from planners.partition import SAME_WEIGHTS, Shard, sizes
from planners.sizing import AllSizes, Floats, array_of, shares_of, sizing, types_of
from simulator.cost.energy import computing_j, transfer_j_per_byte
from simulator.engine.operations import Operation
from simulator.engine.picoseconds import duration_ps
from simulator.lowering.moved import Moved, moved
from simulator.lowering.placement import Counting, Division, Part, parts, working
from simulator.lowering.rules import Exchange, Rules
from simulator.lowering.updating import boards, updated


class Published(Rules):
    """Rules of the published model."""

    unit = "board"
    joint = False

    def _prepare(self) -> None:
        """Raises PlanError for what no bus can run, and for gradients or weights in parts."""
        check_medium(self.array, self.plan)
        if any(update.scatters for update in self.plan.updates):
            raise PlanError(
                "the published model has no memory, which is what gradients and weights in parts "
                "are for (ZeRO stages 2 and 3): take --zero 1 or --execution deployed"
            )

    @cached_property
    def _splits(self) -> list[_Divided]:
        """Every split of which no half sits out, top first."""
        bisection = bisection_of(self.array)
        found = []
        for part in working(self.root):
            if part.halves and not part.idle:
                sides = bisection.halves(part.group)
                rates = sides[0].link_bytes_per_s, sides[1].link_bytes_per_s
                joules = [transfer_j_per_byte(side.group) for side in sides]
                found.append(_Divided(part, rates, (joules[0], joules[1])))
        return found

    @cached_property
    def _moved(self) -> Moved:
        """What they move."""
        divided = [split.part for split in self._splits]
        return moved(
            self.graph,
            self._sizes(divided),
            np.array([types_of(part.partitions) for part in divided]),
            np.array([shares_of(part.partitions) for part in divided]),
            self.plan.communication,
            self.array.group.arithmetic.element_bytes,
            self._kept(divided) if self._shared else None,
        )

    @cached_property
    def _shared(self) -> frozenset[int]:
        """The nodes whose update is shared out."""
        return shared_out(self.graph, self.plan.updates)

    def _kept(self, divided: Sequence[Part]) -> tuple[Floats, Floats]:
        """Where a split shares out an update, what each side updates of the weights; else 1."""
        found = updated(self.root, self._shared, boards(self.root))
        shares = np.zeros(len(self.graph), bool)
        shares[list(self._shared)] = True
        types = np.array([types_of(part.partitions) for part in divided])
        shares = shares & np.isin(types, SAME_WEIGHTS)
        first, second = (
            np.where(shares, [found[id(part.halves[i])] for part in divided], 1.0) for i in (0, 1)
        )
        return first, second

    @cached_property
    def _flops(self) -> dict[Phase, dict[tuple[int, Shard], float]]:
        """FLOPs of every product on every board."""
        boards = [part for part in parts(self.root) if not part.halves]
        found = self._sizes(boards).flops
        keys = [(v, shard) for board in boards for v, shard in enumerate(board.shards)]
        return {
            phase: dict(zip(keys, flops.ravel().tolist(), strict=True))
            for phase, flops in zip(Phase, found, strict=False)
        }

    def _sizes(self, of: Sequence[Part]) -> AllSizes:
        fused = self.array.group.arithmetic.fused
        shards = array_of((part.shards for part in of), len(self.graph))
        return sizing(self.graph).of(self.plan.batch, shards, fused=fused)

    def _division(self) -> Division:
        """Boards, down to single ones, each with fractions of everything."""
        return Division(self.graph, Counting.FRACTIONS, blocks=False, folded=self.shared)

    def order(self) -> Iterable[Item]:
        """New weights, then each product and its sums; boundaries right before who reads them."""
        return (*gathered_order(self._shared), *published_order(self.graph))

    def product(
        self, v: int, phase: Phase, shard: Shard, device: Device, updated: float = 1.0
    ) -> Operation | None:
        """A board's FLOPs at its peak, each of its cores doing as much; updates have none."""
        del updated
        if phase is Phase.UPDATE:
            return None
        work = self._flops[phase][v, shard]
        share = work / device.cores
        return Operation(
            Kind.COMPUTE,
            phase,
            self.graph[v].name,
            duration_ps=duration_ps(work, device.peak_flops_per_s),
            flops=share,
            energy_j=computing_j(device, share),
        )

    def gradient_bytes(self, v: int, shard: Shard) -> float:
        """A(W) of a node that has weights of its own."""
        if self.graph[v].join or self.graph[v].computed or self.graph[v].tied is not None:
            return 0.0
        weights = sizes(self.graph[v], self.plan.batch, shard).weights
        return weights * self.array.group.arithmetic.element_bytes

    def exchanges(self, item: Item) -> Iterator[Exchange]:
        """One at every split that moves something, the top one first."""
        layer = self.graph[item.node].name
        if item.kind is Kind.BOUNDARY:
            layer += f" to {self.graph[item.consumer].name}"
        splits = self._splits
        for number, first, second in self._moved.of(item) if splits else ():
            split = splits[number]
            yield Exchange(split.part, item.kind, item.phase, layer, (split, (first, second)))

    def carry(self, exchange: Exchange) -> Operation:
        """Both ways at once, on the halves' links."""
        split, amounts = exchange.what
        (first, second), (rate, other), (each, its) = amounts, split.rates, split.joules
        longest = duration_ps(first, rate)
        if (first, rate) != (second, other):
            longest = max(longest, duration_ps(second, other))
        return Operation(
            exchange.kind,
            exchange.phase,
            exchange.layer,
            exchange.part.level,
            longest,
            received=amounts,
            energy_j=first * each + second * its,
        )


class _Divided(NamedTuple):
    """A split: each side's link (B/s), and its joules of a byte."""

    part: Part
    rates: tuple[float, float]
    joules: tuple[float, float]
