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
from planners.partition import PartitionType
from planners.plan import Plan
from planners.plan.split import Split
from planners.sizing import kept, shares_of, sizing, types_of, whole
from workloads import Graph, Network, partition_graph

Types = Sequence[PartitionType]


def plan_of_types(
    network: Network, array: Array, batch: int, levels: Sequence[Types], objective: Objective = TIME
) -> Plan:
    """The plan with these types, one sequence a level from the top, a type for each node.

    All groups of a level do the same; the top level of an array of several kinds is between
    kinds, and a group that is split up sooner leaves the last levels out. Halves get shares
    by numbers of accelerators; the objective only prices the result. Raises PlanError where
    types do not fit network or array.
    """
    graph = partition_graph(network)
    depth = _depth(array.group)
    if len(levels) != depth or any(len(types) != len(graph) for types in levels):
        raise PlanError(
            f"given types for {network.name!r} on {array.name!r}: expected {depth} levels of "
            f"{len(graph)} types, found {[len(types) for types in levels]}"
        )
    domains = [[(one,) for one in types] for types in levels]
    for domain in domains:
        check_table("given", graph, domain, objective.communication)
    plan = Plan.blank("given", network, batch, objective)
    search = Search(graph, domains, batch, objective, array)
    return replace(plan, root=search.split(search.root, whole(graph)))


@cache
def _depth(group: Group) -> int:
    """How many levels there are down to single accelerators."""
    below = set(group.halves()) if group.size > 1 else set()
    return max((1 + _depth(half) for half in below), default=0)


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
        dearest = max(below, key=lambda half: half.cost if half else 0.0)
        halves = tuple(below) if len(split.halves) == 2 else (dearest,)
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
