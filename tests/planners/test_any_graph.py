"""The search on any graph: against brute force, and its bounds where it cannot be exact."""

import itertools
import json
import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from experiments.cli import main
from hardware import Array, Group, load_array
from planners import TIME, TRAFFIC, Objective, PartitionType, Plan, Split, load_planner
from planners.partition import WHOLE, Scale, Sizes, boundary, shrunk, sizes
from tests.planners.graphs import added_at_random, every_pair_added, general, series_parallel
from tests.planners.test_hierarchy import joined, side_cost
from workloads import Graph, Network, partition_graph

COUNT = 250
ALIKE = load_array("accpar-homogeneous", ["devices.0.count=4"])
ODD = load_array("accpar-mixed", ["devices.0.count=3", "devices.1.count=2"])


def least(graph: Graph, size: Sequence[Sizes], group: Group, objective: Objective) -> float:
    """The least cost of one split at shares by number: every combination, one axis a node."""
    first, second = group.halves()
    parts = [(first, first.size / group.size), (second, second.size / group.size)]
    total = np.zeros((1,) * len(graph))
    for v, node in enumerate(graph):
        for producers in [(p,) for p in node.producers] if node.join else [node.producers]:
            term = terms(graph, v, producers, parts, objective, size)
            scope = sorted({v, *producers})
            values = [
                term(dict(zip(scope, types, strict=True)))
                for types in itertools.product(PartitionType, repeat=len(scope))
            ]
            shape = [3 if u in scope else 1 for u in range(len(graph))]
            total = total + np.array(values).reshape(shape)
    return float(total.min())


def terms(
    graph: Graph,
    v: int,
    producers: Sequence[int],
    parts: Sequence[tuple[Group, float]],
    objective: Objective,
    size: Sequence[Sizes],
) -> Callable[[dict[int, PartitionType]], float]:
    """What the slower side spends on a layer, or on one edge into a join."""

    def spent(types: dict[int, PartitionType], group: Group, share: float) -> float:
        known = [types.get(u, PartitionType.I) for u in range(len(graph))]
        if not graph[v].join:
            return side_cost(graph, v, known, share, group, objective, size)
        (p,) = producers
        elements = size[v].input * sum(boundary(joined(graph, p, known), types[v], share))
        return elements * (2 / group.link_bytes_per_s if objective.seconds else 1.0)

    return lambda types: max(spent(types, group, share) for group, share in parts)


def check_every_split(network: Network, plan: Plan, array: Array, objective: Objective) -> int:
    """Compare every split's cost with brute force on what the splits above have left."""
    graph = partition_graph(network)
    checked = 0

    def follow(split: Split | None, group: Group, scales: Sequence[Scale]) -> None:
        nonlocal checked
        if split is None:
            return
        size = [sizes(node, plan.batch, s) for node, s in zip(graph, scales, strict=True)]
        assert split.cost == pytest.approx(least(graph, size, group, objective), rel=1e-9)
        assert split.lower_bound is None
        checked += 1
        halves = zip(split.halves, group.halves(), shrunk(scales, split.partitions), strict=False)
        for half, side, kept in halves:
            follow(half, side, kept)

    follow(plan.root, array.group, [WHOLE] * len(graph))
    return checked


@pytest.mark.parametrize("draw", [series_parallel, general])
def test_every_level_of_500_random_graphs_costs_the_least(draw: Callable[[int], Network]) -> None:
    accpar = load_planner("accpar")
    joins = wide = 0
    for seed in range(COUNT):
        network = draw(seed)
        graph = partition_graph(network)
        joins += any(node.join for node in graph)
        wide += len(graph) == 9
        array, objective = ((ALIKE, TIME), (ALIKE, TRAFFIC), (ODD, TRAFFIC))[seed % 3]
        plan = accpar(network, array, 64, objective)
        assert check_every_split(network, plan, array, objective) == (4 if array is ODD else 2)
    assert joins > COUNT / 4
    assert wide > COUNT / 20


def clique_least(network: Network, array: Array) -> float:
    graph = partition_graph(network)
    size = [sizes(node, 512, WHOLE) for node in graph]
    return least_without_sums(graph, size, array.group)


def least_without_sums(graph: Graph, size: Sequence[Sizes], group: Group) -> float:
    """Brute force over the layers, each sum (read by nobody) at its own best."""
    first, second = group.halves()
    parts = [(first, first.size / group.size), (second, second.size / group.size)]
    layers = [v for v, node in enumerate(graph) if not node.join]
    total = np.zeros((1,) * len(layers))
    for v, node in enumerate(graph):
        scope = [v] if not node.join else sorted(node.producers)
        pieces = [
            terms(graph, v, (p,) if node.join else (), parts, TIME, size)
            for p in (node.producers if node.join else (v,))
        ]
        values = []
        for types in itertools.product(PartitionType, repeat=len(scope)):
            known = dict(zip(scope, types, strict=True))
            own = [known[v]] if not node.join else list(PartitionType)
            values.append(min(sum(piece(known | {v: kind}) for piece in pieces) for kind in own))
        shape = [3 if u in scope else 1 for u in layers]
        total = total + np.array(values).reshape(shape)
    return float(total.min())


@pytest.mark.parametrize("seed", range(3))
def test_a_graph_too_wide_is_bounded_from_both_sides(seed: int) -> None:
    network = every_pair_added(13, seed)
    plan = load_planner("accpar")(network, ALIKE, 512, TIME)
    assert plan.root is not None
    optimum = clique_least(network, ALIKE)
    assert plan.root.lower_bound is not None
    assert plan.root.lower_bound <= optimum * (1 + 1e-12)
    assert optimum <= plan.root.cost * (1 + 1e-12)
    assert plan.gap is not None
    assert plan.gap < 0.25
    assert load_planner("accpar")(network, ALIKE, 512, TIME) == plan
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_one_layer_fewer_is_exact() -> None:
    network = every_pair_added(12)
    plan = load_planner("accpar")(network, ALIKE, 512, TIME)
    assert plan.root is not None
    assert plan.gap is None
    assert plan.root.cost == pytest.approx(clique_least(network, ALIKE), rel=1e-9)


def test_the_bounds_of_a_large_wide_graph_come_in_time() -> None:
    """docs/model.md: some five seconds a split for 1,000 nodes."""
    network = added_at_random(300, 700)
    two = load_array("accpar-homogeneous", ["devices.0.count=2"])
    started = time.perf_counter()
    plan = load_planner("accpar")(network, two, 512, TIME)
    assert time.perf_counter() - started < 20  # five, and room for a busy machine
    assert plan.gap is not None
    assert 0 < plan.gap < 1


def test_commands_say_that_a_plan_is_not_exact(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    network = every_pair_added(13)
    monkeypatch.setattr("workloads.load_network", lambda name: network)
    options = [
        "drawn",
        "--planner",
        "accpar",
        "--set",
        "devices.0.count=2",
        "--set",
        "devices.1.count=2",
    ]
    for command in ("plan", "simulate"):
        assert main([command, *options]) == 0
        assert "above a lower bound on the least" in capsys.readouterr().out
        assert main([command, *options, "--format", "json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert data["exact"] is False
        assert data["gap"] > 0
    assert main(["plan", "lenet", *options[1:], "--format", "json"]) == 0
