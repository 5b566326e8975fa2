"""A plan's iteration time without the event engine: barriers and maxima."""

from __future__ import annotations

from dataclasses import dataclass, field

from hardware import Array, Group, bisection_of
from planners.cost.shared_medium import check_medium
from planners.errors import PlanError
from planners.order import (
    Item,
    Kind,
    flops,
    gathered_order,
    lowest_first,
    published_order,
    received,
    shared_out,
)
from planners.partition import Communication, Sizes
from planners.plan import Plan
from planners.plan.split import Split
from planners.plan.updates import Kept, kept_by_sides
from planners.sizing import Floats, kept, shares_of, sizing, types_of, whole
from workloads import Graph, Network, partition_graph


@dataclass(slots=True)
class _Clock:
    """Accelerators that always do the same: their time so far, in seconds."""

    peak_flops_per_s: float
    size: list[Sizes]
    now: float = 0.0


@dataclass(slots=True)
class _Exchange:
    """A split: where its two sides meet; ``element_s`` is what an element costs each.

    ``kept`` has what each side updates of the weights whose update it shares out.
    """

    split: Split
    element_s: tuple[float, float]
    size: list[Sizes]
    kept: list[Kept | None]
    clocks: list[_Clock] = field(default_factory=list)

    def meet(
        self, item: Item, graph: Graph, table: Communication, *, unlike_shares: bool = False
    ) -> None:
        """Wait for the last accelerator of both sides, then for the slower side."""
        of = (item, graph, self.split.partitions, self.size, table, self.kept)
        elements = received(*of, unlike_shares=unlike_shares)
        if any(elements):
            seconds = max(e * s for e, s in zip(elements, self.element_s, strict=True))
            now = max(clock.now for clock in self.clocks) + seconds
            for clock in self.clocks:
                clock.now = now


def uncharged_s(network: Network, plan: Plan, array: Array, iteration_s: float) -> float | None:
    """Seconds that a published step leaves out, as tensors between unlike shares move for free.

    The papers charge nothing where two layers have one layout and unlike shares, though a part
    of their tensor has to change hands. None where all shares are alike; 0 where other boundaries
    are charged more than they move.
    """
    if all(len({one.share for one in split.partitions}) == 1 for split in plan.splits()):
        return None
    return max(predict(network, plan, array, unlike_shares=True) - iteration_s, 0.0)


def predict(network: Network, plan: Plan, array: Array, *, unlike_shares: bool = False) -> float:
    """Seconds of one training step under the published model.

    An exchange starts when every accelerator of its split has arrived and
    ends when the slower side has received, as in the engine; alike
    accelerators are followed once, idle ones not at all. With ``unlike_shares`` tensors between
    layers of unlike shares are charged, too. Raises PlanError for a
    plan with stages, whose order only a simulation knows.
    """
    if plan.pipeline is not None:
        raise PlanError(f"the plan for {plan.network!r} has stages: simulate it")
    check_medium(array, plan)
    graph, bisection = partition_graph(network), bisection_of(array)
    shared, exchanges = shared_out(graph, plan.updates), list[_Exchange]()

    def down(split: Split | None, group: Group, shards: Floats) -> list[_Clock]:
        """Clocks of a group, its exchanges appended parents first."""
        arithmetic = group.arithmetic
        size = sizing(graph).each(plan.batch, shards, fused=arithmetic.fused)
        if split is None:
            return [_Clock(group.peak_flops_per_s, size)]
        sides = bisection.halves(group)
        left = kept(shards, types_of(split.partitions), shares_of(split.partitions))
        below, groups = (split.halves[0], split.halves[-1]), (sides[0].group, sides[1].group)
        if split.idle:  # nobody to exchange anything with
            (i,) = split.working
            return down(below[i], groups[i], left[i])
        first, second = map(working, below, groups)
        own = kept_by_sides(shared, split.partitions, (first, second))
        one, other = (arithmetic.element_bytes / side.link_bytes_per_s for side in sides)
        exchange = _Exchange(split, (one, other), size, own)
        exchanges.append(exchange)
        even = all(partition.share == 0.5 for partition in split.partitions)
        for i in range(len(split.halves) if even else 2):
            exchange.clocks += down(below[i], groups[i], left[i])
        return exchange.clocks

    clocks = down(plan.root, plan.group(array), whole(graph))
    for item in gathered_order(shared):
        for exchange in exchanges:
            exchange.meet(item, graph, plan.communication)
    for item in published_order(graph):
        if item.kind is Kind.COMPUTE:
            for clock in clocks:
                clock.now += flops(item.phase, clock.size[item.node]) / clock.peak_flops_per_s
        else:
            for exchange in reversed(exchanges) if lowest_first(item, shared) else exchanges:
                exchange.meet(item, graph, plan.communication, unlike_shares=unlike_shares)
    return max(clock.now for clock in clocks)


def working(split: Split | None, group: Group) -> int:
    """How many accelerators of a group do not sit out."""
    if split is None:
        return group.size
    halves = group.halves()
    if len(split.halves) == 1:
        return len(split.working) * working(split.halves[0], halves[0])
    return sum(working(split.halves[i], halves[i]) for i in split.working)
