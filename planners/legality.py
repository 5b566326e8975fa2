"""Whether a plan splits layers only in ways in which they can be split."""

from __future__ import annotations

from planners.errors import PlanError
from planners.partition import WHOLE, Shard, legal, shrunk
from planners.plan import Plan
from planners.split import Split
from workloads import Graph


def check_types(plan: Plan, graph: Graph) -> None:
    """Raise PlanError, with layer and level, for a type that a layer of the graph cannot have."""
    seen: set[tuple[int, tuple[Shard, ...]]] = set()

    def check(split: Split | None, shards: tuple[Shard, ...], level: int) -> None:
        if split is None or (id(split), shards) in seen:
            return
        seen.add((id(split), shards))
        for node, shard, partition in zip(graph, shards, split.partitions, strict=True):
            if partition.type not in legal(node, shard):
                raise PlanError(
                    f"the plan splits {node.name!r} ({node.kind}) by type {partition.type} at "
                    f"level {level}, which it cannot be; one of "
                    f"{', '.join(map(str, legal(node, shard)))}"
                )
        for half, kept in zip(split.halves, shrunk(shards, split.partitions), strict=False):
            check(half, kept, level + 1)

    check(plan.root, (WHOLE,) * len(graph), 0)
