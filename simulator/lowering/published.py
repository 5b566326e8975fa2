"""The papers' execution model: peak-rate computing, and nothing overlaps.

Each exchange of a split costs bytes / (link bandwidth of one accelerator of
that side), the slower side deciding. Samples and channels are split in exact
fractions, accelerators (boards) do all of their own cores' work together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import count

from hardware import Device, Half, bisection_of
from planners.medium import check_medium
from planners.order import Item, Kind, Phase, flops, published_order, received
from planners.partition import Shard, Sizes, sizes
from simulator.cost.energy import computing_j, receiving_j
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
    def _splits(self) -> list[tuple[Part, list[Sizes], tuple[Half, Half]]]:
        """Every split, top first, with the sizes of its nodes and its halves."""
        bisection = bisection_of(self.array)
        found = []
        for part in parts(self.root):
            if part.halves:
                size = list(map(self._size, count(), part.shards))
                found.append((part, size, bisection.halves(part.group)))
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

    def exchanges(self, item: Item) -> Iterator[Exchange]:
        """One at every split that moves something, the top one first."""
        layer = self.graph[item.node].name
        if item.kind is Kind.BOUNDARY:
            layer += f" to {self.graph[item.consumer].name}"
        table, element_bytes = self.plan.communication, self.array.group.arithmetic.element_bytes
        for part, size, sides in self._splits:
            first, second = received(item, self.graph, part.partitions, size, table)
            amounts = (first * element_bytes, second * element_bytes)
            if any(amounts):
                yield Exchange(part, item.kind, item.phase, layer, (sides, amounts))

    def carry(self, exchange: Exchange) -> Operation:
        """Both ways at once, on the halves' links."""
        sides, amounts = exchange.what
        return Operation(
            exchange.kind,
            exchange.phase,
            exchange.layer,
            exchange.part.level,
            max(
                duration_ps(amount, side.link_bytes_per_s)
                for amount, side in zip(amounts, sides, strict=True)
            ),
            received=amounts,
            energy_j=receiving_j([side.group for side in sides], amounts),
        )
