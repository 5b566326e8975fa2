"""What an objective says of a plan that somebody made otherwise: the cost of each of its splits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardware import Array, Section, bisection_of
from planners.level import Level
from planners.objective import Objective
from planners.plan import Plan
from planners.sizing import Floats, kept, shares_of, sizing, types_of, whole
from planners.split import Split
from planners.terms import links_of, terms_of
from workloads import Graph, Network, partition_graph


def priced(network: Network, array: Array, plan: Plan, objective: Objective) -> Plan:
    """The same plan with the costs that the objective gives its splits, and no lower bounds.

    A half that takes part in nothing costs nothing.
    """
    graph = partition_graph(network)
    links, fused = links_of(graph), array.group.arithmetic.fused
    known: dict[tuple[int, Section, bytes], Split] = {}

    def follow(split: Split | None, section: Section, shards: Floats) -> Split | None:
        if split is None:
            return None
        key = (id(split), section, shards.tobytes())
        if key in known:
            return known[key]
        left = kept(shards, types_of(split.partitions), shares_of(split.partitions))
        ends = (split.halves[0], split.halves[-1])
        below = [follow(*item) for item in zip(ends, section.below, left, strict=True)]
        size = sizing(graph).of(plan.batch, shards, fused=fused)
        domains = tuple((kind,) for kind in split.types)
        terms = terms_of(links, domains, objective.communication, balanced=False)
        prices = (objective.prices(section.halves[0]), objective.prices(section.halves[1]))
        choices = Level(graph, domains, terms, size, prices, 0.5, objective).choices()
        cost = float(choices.cost(prices, np.array(_shares(graph, split))).sum())
        halves = tuple(below) if len(split.halves) == 2 else (max(below, key=_cost),)
        known[key] = made = replace(split, cost=cost, halves=halves, lower_bound=None)
        return made

    root = follow(plan.root, bisection_of(array).section(array.group), whole(graph))
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
