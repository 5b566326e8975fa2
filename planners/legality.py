"""Whether a plan splits layers only in ways in which they can be split."""

from __future__ import annotations

from itertools import zip_longest

from planners.errors import PlanError
from planners.hierarchy.search import check_table
from planners.partition import Communication, Shard, legal
from planners.plan import Plan
from planners.plan.split import Split, splits_below
from planners.sizing import Floats, kept, shares_of, sizing, types_of, whole
from workloads import Graph


def check_nodes(plan: Plan, network: str, graph: Graph) -> None:
    """Raise PlanError, with the first layer that differs, where a plan is not for this graph."""
    names = tuple(node.name for node in graph)
    if names == plan.nodes:
        return
    if plan.network != network:
        raise PlanError(f"the plan is for {plan.network!r}, not for {network!r}")
    both = zip_longest(plan.nodes, names)
    i, (theirs, ours) = next((i, pair) for i, pair in enumerate(both) if pair[0] != pair[1])
    raise PlanError(
        f"the plan is for another {network!r}: layer {i} is {_named(theirs)} in the plan, "
        f"{_named(ours)} in the network"
    )


def _named(layer: str | None) -> str:
    return "none" if layer is None else repr(layer)


def check_types(plan: Plan, graph: Graph) -> None:
    """Raise PlanError, with layer and level, for a type that a layer of the graph cannot have.

    Nor may its communication table have no entry for one.
    """
    if plan.root and plan.communication is Communication.PLOTTED:
        chosen = [*zip(*(split.types for split in splits_below(plan.root)), strict=True)]
        check_table(plan.planner, graph, chosen, plan.communication)
    seen = set[tuple[bytes, bytes]]()

    def check(split: Split | None, shards: Floats, level: int) -> None:
        if split is None or (split.digest, shards.tobytes()) in seen:
            return
        seen.add((split.digest, shards.tobytes()))
        types = types_of(split.partitions)
        wrong = sizing(graph).illegal(shards, types)
        if wrong is not None:
            node, shard = graph[wrong], Shard(*shards[wrong].tolist())
            raise PlanError(
                f"the plan splits {node.name!r} ({node.kind}) by type "
                f"{split.partitions[wrong].type} at "
                f"level {level}, which it cannot be; one of "
                f"{', '.join(map(str, legal(node, shard)))}"
            )
        sides = kept(shards, types, shares_of(split.partitions))
        for half, left in zip((split.halves[0], split.halves[-1]), sides, strict=True):
            check(half, left, level + 1)

    check(plan.root, whole(graph), 0)
