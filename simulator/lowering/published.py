"""The papers' execution model: peak-rate computing, and nothing overlaps.

Each exchange of a split costs bytes / (link bandwidth of one accelerator of
that side), the slower side deciding. Samples and channels are split in exact
fractions, accelerators (boards) do all of their own cores' work together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import count
from typing import NamedTuple

from hardware import Device, bisection_of
from planners.medium import check_medium
from planners.order import SUMMED_IN, Item, Kind, Phase, flops, published_order, received
from planners.partition import PartitionType, Shard, Sizes, sizes
from simulator.cost.energy import computing_j, transfer_j_per_byte
from simulator.engine.operations import Operation
from simulator.engine.picoseconds import duration_ps
from simulator.lowering.placement import Counting, Division, Part, parts
from simulator.lowering.rules import Exchange, Rules


class Published(Rules):
    """Rules of the published model."""

    unit = "board"
    joint = False

    def _prepare(self) -> None:
        """Raises PlanError for a plan that no bus can run."""
        check_medium(self.array, self.plan)
        self._known: dict[tuple[int, Shard], Sizes] = {}

    @cached_property
    def _splits(self) -> list[_Divided]:
        """Every split, top first."""
        bisection = bisection_of(self.array)
        found = []
        for part in parts(self.root):
            if part.halves:
                size = list(map(self._size, count(), part.shards))
                sides = bisection.halves(part.group)
                rates = sides[0].link_bytes_per_s, sides[1].link_bytes_per_s
                joules = [transfer_j_per_byte(side.group) for side in sides]
                found.append(_Divided(part, size, rates, (joules[0], joules[1])))
        return found

    @cached_property
    def _by_type(self) -> list[dict[PartitionType, list[_Divided]]]:
        """For each node, the splits of each type: the only ones to complete some partial sums."""
        found: list[dict[PartitionType, list[_Divided]]] = [{} for _ in self.graph]
        for split in self._splits:
            for of, partition in zip(found, split.part.partitions, strict=True):
                of.setdefault(partition.type, []).append(split)
        return found

    def _division(self) -> Division:
        """Boards, down to single ones, each with fractions of everything."""
        return Division(self.graph, Counting.FRACTIONS, blocks=False, folded=self.shared)

    def _size(self, v: int, shard: Shard) -> Sizes:
        found = self._known.get((v, shard))
        if found is None:
            fused = self.array.group.arithmetic.fused
            found = sizes(self.graph[v], self.plan.batch, shard, fused=fused)
            self._known[v, shard] = found
        return found

    def order(self) -> Iterable[Item]:
        """Each product, then its sums; boundaries right before whoever reads them."""
        return published_order(self.graph)

    def product(self, v: int, phase: Phase, shard: Shard, device: Device) -> Operation | None:
        """A board's FLOPs at its peak, each of its cores doing as much."""
        work = flops(phase, self._size(v, shard))
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
        if self.graph[v].join or self.graph[v].kind == "matmul" or self.graph[v].tied is not None:
            return 0.0
        return self._size(v, shard).weights * self.array.group.arithmetic.element_bytes

    def exchanges(self, item: Item) -> Iterator[Exchange]:
        """One at every split that moves something, the top one first."""
        layer, splits = self.graph[item.node].name, self._splits
        if item.kind is Kind.BOUNDARY:
            layer += f" to {self.graph[item.consumer].name}"
        elif self.graph[item.node].tied is None:
            splits = self._by_type[item.node].get(SUMMED_IN[item.phase], [])
        table, element_bytes = self.plan.communication, self.array.group.arithmetic.element_bytes
        for split in splits:
            part = split.part
            first, second = received(item, self.graph, part.partitions, split.size, table)
            if first or second:
                amounts = (first * element_bytes, second * element_bytes)
                yield Exchange(part, item.kind, item.phase, layer, (split, amounts))

    def carry(self, exchange: Exchange) -> Operation:
        """Both ways at once, on the halves' links."""
        split, amounts = exchange.what
        (first, second), (rate, other), (each, its) = amounts, split.rates, split.joules
        return Operation(
            exchange.kind,
            exchange.phase,
            exchange.layer,
            exchange.part.level,
            max(duration_ps(first, rate), duration_ps(second, other)),
            received=amounts,
            energy_j=first * each + second * its,
        )


class _Divided(NamedTuple):
    """A split: the sizes of its nodes, each side's link (B/s), and its joules of a byte."""

    part: Part
    size: list[Sizes]
    rates: tuple[float, float]
    joules: tuple[float, float]
