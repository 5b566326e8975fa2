"""A plan's iteration time without the event engine: barriers and maxima."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hardware import Array, Group
from planners.objective import ELEMENT_BYTES
from planners.partition import WHOLE, Scale, Sizes, shrunk, sizes
from planners.plan import Plan, Split
from planners.steps import Kind, Step, flops, received, training_steps
from workloads import Graph, Network, partition_graph


@dataclass(slots=True)
class _Clock:
    """Accelerators that always do the same: their time so far, in seconds."""

    peak_flops_per_s: float
    size: list[Sizes]
    now: float = 0.0


@dataclass(slots=True)
class _Exchange:
    """A split: where its two sides meet."""

    split: Split
    links: tuple[float, float]
    size: list[Sizes]
    clocks: list[_Clock] = field(default_factory=list)

    def meet(self, step: Step, graph: Graph) -> None:
        """Wait for the last accelerator of both sides, then for the slower side."""
        elements = received(step, graph, self.split.partitions, self.size)
        if any(elements):
            seconds = max(e * ELEMENT_BYTES / b for e, b in zip(elements, self.links, strict=True))
            now = max(clock.now for clock in self.clocks) + seconds
            for clock in self.clocks:
                clock.now = now


def predict(network: Network, plan: Plan, array: Array) -> float:
    """Seconds of one training step under the published model.

    An exchange starts when every accelerator of its split has arrived and
    ends when the slower side has received, as in the engine; alike
    accelerators are followed once.
    """
    graph = partition_graph(network)
    exchanges: list[_Exchange] = []
    scales = (WHOLE,) * len(graph)
    clocks = _follow(plan.root, array.group, scales, graph, plan.batch, exchanges)
    for step in training_steps(graph):
        if step.kind is Kind.COMPUTE:
            for clock in clocks:
                clock.now += flops(step, clock.size) / clock.peak_flops_per_s
        else:
            for exchange in exchanges:
                exchange.meet(step, graph)
    return max(clock.now for clock in clocks)


def _follow(
    split: Split | None,
    group: Group,
    scales: Sequence[Scale],
    graph: Graph,
    batch: int,
    exchanges: list[_Exchange],
) -> list[_Clock]:
    """Clocks of a group, its exchanges appended parents first."""
    size = [sizes(node, batch, scale) for node, scale in zip(graph, scales, strict=True)]
    if split is None:
        return [_Clock(group.peak_flops_per_s, size)]
    groups = group.halves()
    links = (groups[0].link_bytes_per_s, groups[1].link_bytes_per_s)
    exchange = _Exchange(split, links, size)
    exchanges.append(exchange)
    for half, side, kept in zip(
        split.halves, groups, shrunk(scales, split.partitions), strict=False
    ):
        exchange.clocks += _follow(half, side, kept, graph, batch, exchanges)
    return exchange.clocks
