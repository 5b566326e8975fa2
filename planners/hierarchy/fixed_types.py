"""A plan of given types: what somebody else chose, or one point of a search space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from hardware import Array, Group, Section, bisection_of
from planners.cost.objective import TIME, Objective
from planners.errors import PlanError
from planners.hierarchy.cost_table import CostTable, Terms
from planners.hierarchy.search import Search, check_table
from planners.partition import Partition, PartitionType
from planners.plan import Plan
from planners.plan.split import Split
from planners.sizing import kept, shares_of, sizing, types_of, whole
from workloads import Graph, Network, partition_graph

Types = Sequence[PartitionType]
Share = float | Sequence[float]
"""The first half's: of every node, or one for each."""


def plan_of_types(
    network: Network,
    array: Array,
    batch: int,
    levels: Sequence[Types],
    objective: Objective = TIME,
    *,
    shares: Sequence[Share] | None = None,
    balance: bool = False,
) -> Plan:
    """The plan with these types, one sequence a level from the top, a type for each node.

    All groups of a level do the same; the top level of an array of several kinds is between
    kinds, and a group that is split up sooner leaves the last levels out. ``shares`` are
    the first halves', level by level; without them halves get theirs by numbers of
    accelerators, or, with ``balance``, where halves are unlike each node's by the objective's
    prices, as AccPar's.
    Otherwise the objective only prices the result. Raises PlanError where types or shares
    do not fit network or array.
    """
    graph = partition_graph(network)
    depth = _depth(array.group)
    whose = f"given types for {network.name!r} on {array.name!r}"
    if len(levels) != depth or any(len(types) != len(graph) for types in levels):
        raise PlanError(
            f"{whose}: expected {depth} levels of {len(graph)} types, found "
            f"{[len(types) for types in levels]}"
        )
    domains = [[(one,) for one in types] for types in levels]
    for domain in domains:
        check_table("given", graph, domain, objective.communication)
    names = tuple(node.name for node in graph)
    plan = Plan("given", network.name, batch, objective.name, names, None, objective.communication)
    if shares is None:
        search = Search(graph, domains, batch, objective, array, balance=balance)
        return replace(plan, root=search.split(array.group, whole(graph)))
    if balance or len(shares) != depth:
        raise PlanError(
            f"{whose}: shares of {len(shares)} levels{', and balanced ones' * balance}; give those "
            f"of all {depth}, or let them be balanced"
        )
    pairs = zip(levels, shares, strict=True)
    root = _tree(array.group, [_partitions(*both, whose) for both in pairs])
    return priced(network, array, replace(plan, root=root), objective)


@cache
def _depth(group: Group) -> int:
    """How many levels there are down to single accelerators."""
    below = set(group.halves()) if group.size > 1 else set()
    return max((1 + _depth(half) for half in below), default=0)


def _partitions(types: Types, share: Share, whose: str) -> tuple[Partition, ...]:
    each = [share] * len(types) if isinstance(share, int | float) else [*share]
    if len(each) != len(types):
        raise PlanError(f"{whose}: {len(each)} shares for {len(types)} types of a level")
    return tuple(map(Partition, types, map(float, each)))


def _tree(group: Group, levels: Sequence[tuple[Partition, ...]]) -> Split | None:
    """Both halves of a split do the same; where they are alike that is one object."""
    if group.size == 1:
        return None
    halves = dict.fromkeys(group.halves())
    return Split(levels[0], 0.0, tuple(_tree(half, levels[1:]) for half in halves))


def priced(network: Network, array: Array, plan: Plan, objective: Objective) -> Plan:
    """The same plan with the costs that the objective gives its splits, and no lower bounds.

    A half that takes part in nothing costs nothing.
    """
    graph = partition_graph(network)
    fused = array.group.arithmetic.fused

    @cache
    def follow(split: Split | None, section: Section, held: bytes) -> Split | None:
        if split is None:
            return None
        shards = np.frombuffer(held).reshape(len(graph), -1)
        left = kept(shards, types_of(split.partitions), shares_of(split.partitions))
        ends = (split.halves[0], split.halves[-1])
        sides = zip(ends, section.below, left, strict=True)
        below = [follow(half, inner, shard.tobytes()) for half, inner, shard in sides]
        size = sizing(graph).of(plan.batch, shards, fused=fused)
        domains = [(kind,) for kind in split.types]
        prices = (objective.prices(section.halves[0]), objective.prices(section.halves[1]))
        terms = Terms(graph, domains, objective.communication, balanced=False)
        choices = CostTable(terms, size, prices, 0.5, objective).choices()
        cost = float(choices.cost(prices, np.array(_shares(graph, split))).sum())
        halves = tuple(below) if len(split.halves) == 2 else (max(below, key=_cost),)
        return replace(split, cost=cost, halves=halves, lower_bound=None)

    section = bisection_of(array).section(array.group, array.first)
    root = follow(plan.root, section, whole(graph).tobytes())
    return replace(plan, root=root, objective=objective.name)


def _shares(graph: Graph, split: Split) -> list[float]:
    """The share of every term: a product's, and a join's for each tensor that it reads."""
    return [
        partition.share
        for node, partition in zip(graph, split.partitions, strict=True)
        for _ in (node.producers if node.join else (None,))
    ]


def _cost(split: Split | None) -> float:
    return split.cost if split else 0.0
