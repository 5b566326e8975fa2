"""The papers' execution model: peak-rate computing, and nothing overlaps.

Each exchange of a split costs bytes / (link bandwidth of one accelerator of
that side), the slower side deciding. Samples and channels are split in exact
fractions, accelerators (boards) do all of their own cores' work together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from hardware import Device, bisection_of
from planners.cost.shared_medium import check_medium
from planners.errors import PlanError
from planners.order import (
    Item,
    Kind,
    Phase,
    flops,
    gathered_order,
    lowest_first,
    published_order,
    received,
    shared_out,
)
from planners.partition import Shard, Sizes
from planners.plan.updates import Kept, kept_by_sides
from planners.sizing import array_of, sizing
from simulator.cost.energy import computing_j, transfer_j_per_byte
from simulator.engine.operations import Operation
from simulator.engine.picoseconds import duration_ps
from simulator.lowering.step.rules import Exchange, Rules
from simulator.sharding.mesh import Counting, Division, Mesh, working
from simulator.sharding.updates import boards


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
    def _splits(self) -> list[_Split]:
        """Every split of which no half sits out, top first."""
        bisection, kept = bisection_of(self.array), self._kept
        found = []
        for part in working(self.root):
            if part.halves and not part.idle:
                sides = bisection.halves(part.group)
                rates = sides[0].link_bytes_per_s, sides[1].link_bytes_per_s
                joules = [transfer_j_per_byte(side.group) for side in sides]
                sizes = [self._sizes[key] for key in enumerate(part.shards)]
                found.append(_Split(part, rates, (joules[0], joules[1]), sizes, kept(part)))
        return found

    @cached_property
    def _shared(self) -> frozenset[int]:
        """The nodes whose update is shared out."""
        return shared_out(self.graph, self.plan.updates)

    @cached_property
    def _kept(self) -> Callable[[Mesh], Sequence[Kept | None]]:
        """Of a split: where it shares out an update, what each side updates of the weights."""
        if not self._shared:
            return lambda part: ()
        count = boards(self.root)

        def kept(part: Mesh) -> Sequence[Kept | None]:
            first, second = map(count, part.halves)
            return kept_by_sides(self._shared, part.partitions, (first, second))

        return kept

    @cached_property
    def _sizes(self) -> dict[tuple[int, Shard], Sizes]:
        """The sizes of every node for what each part of the mesh has of it, idle ones too."""
        found, fused = sizing(self.graph), self.array.group.arithmetic.fused
        table = dict[tuple[int, Shard], Sizes]()
        parts = [self.root]
        for part in parts:  # grows as it goes
            parts += part.distinct()
            shards = array_of([part.shards], len(self.graph))[0]
            sizes = found.each(self.plan.batch, shards, fused=fused)
            table |= zip(enumerate(part.shards), sizes, strict=True)
        return table

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
        work = flops(phase, self._sizes[v, shard])
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
        weights = self._sizes[v, shard].weights
        return weights * self.array.group.arithmetic.element_bytes

    def exchanges(self, item: Item) -> Iterator[Exchange]:
        """One at every split that moves something, the top one first (but ``lowest_first``)."""
        layer = self.graph[item.node].name
        if item.kind is Kind.BOUNDARY:
            layer += f" to {self.graph[item.consumer].name}"
        table, element = self.plan.communication, self.array.group.arithmetic.element_bytes
        for split in reversed(self._splits) if lowest_first(item, self._shared) else self._splits:
            partitions, kept = split.part.partitions, split.kept
            first, second = received(item, self.graph, partitions, split.sizes, table, kept)
            if first or second:
                moved = split, (first * element, second * element)
                yield Exchange(split.part, item.kind, item.phase, layer, moved)

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


class _Split(NamedTuple):
    """Each side's link (B/s) and its joules of a byte, sizes of all nodes, and what is updated."""

    part: Mesh
    rates: tuple[float, float]
    joules: tuple[float, float]
    sizes: Sequence[Sizes]
    kept: Sequence[Kept | None]
