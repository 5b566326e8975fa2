"""The search on any graph: against brute force, and its bounds where it cannot be exact."""

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from experiments.cli import main
from experiments.studies.comparison import compare
from hardware import Array, Group, load_array
from planners import TIME, TRAFFIC, Objective, PartitionType, Plan, Split, load_planner
from planners.partition import WHOLE, Shard, Sizes, legal
from tests.planners.graphs import added_at_random, every_pair_added, general, series_parallel
from tests.planners.slow_sizes import shrunk, sizes
from tests.strategies import port_bytes_per_s
from workloads import Graph, Network, Node, partition_graph

Types = Mapping[int, PartitionType]
COUNT = 250
ALIKE = load_array("accpar-homogeneous", ["devices.0.count=4"])
ODD = load_array("accpar-mixed", ["devices.0.count=3", "devices.1.count=2"])


def weighed(node: Node, scale: Shard = WHOLE) -> list[PartitionType]:
    """The types that planners weigh unless they are asked for positions (V), too."""
    return [kind for kind in legal(node, scale) if str(kind) != "V"]


def lacking(graph: Graph, producer: int, types: Types, consumer: PartitionType, a: float) -> float:
    """docs/model.md's table, F and E together, for the side with share ``a`` of the consumer."""
    made = {"I": "rows", "II": "whole", "III": "columns", "IV": "columns"}[str(types[producer])]
    if graph[producer].join:
        made = {"I": "rows", "II": "columns", "III": "whole"}[str(types[producer])]
    read = {"I": "rows", "II": "columns", "III": "whole", "IV": "columns"}[str(consumer)]
    if made == "whole":
        return 0.0 if read == "whole" else 1 - a
    if made == read:
        return 0.0
    return 1 - a if read == "whole" else 2 * a * (1 - a)


def least(
    graph: Graph, scales: Sequence[Shard], batch: int, group: Group, objective: Objective
) -> float:
    """The least cost of one split at shares by number: every combination, one axis a node."""
    size = [sizes(node, batch, scale) for node, scale in zip(graph, scales, strict=True)]
    kinds = [weighed(node, scale) for node, scale in zip(graph, scales, strict=True)]
    total = np.zeros((1,) * len(graph))
    for v, node in enumerate(graph):
        edges = range(len(node.producers))
        for part in [(e,) for e in edges] if node.join else [tuple(edges)]:
            scope = sorted({v, *(node.producers[e] for e in part)})
            values = [
                slower(graph, v, part, dict(zip(scope, types, strict=True)), size, group, objective)
                for types in itertools.product(*(kinds[u] for u in scope))
            ]
            shape = [len(kinds[u]) if u in scope else 1 for u in range(len(graph))]
            total = total + np.array(values).reshape(shape)
    return float(total.min())


def slower(
    graph: Graph,
    v: int,
    edges: Sequence[int],
    types: Types,
    size: Sequence[Sizes],
    group: Group,
    objective: Objective,
) -> float:
    """What the slower side spends on a layer with its edges, or on one edge into a join."""
    node, s = graph[v], size[v]
    spent = []
    for side in group.halves():
        share = side.size / group.size
        elements = sum(
            s.reads[e] * lacking(graph, node.producers[e], types, types[v], share) for e in edges
        )
        if not node.join:
            after = s.pooled if objective.pooled else s.output
            elements += (s.weights, after, s.input, 0.0)[types[v]]
        time_s = (
            elements * 2 / port_bytes_per_s(side) + share * sum(s.flops) / side.peak_flops_per_s
        )
        spent.append(time_s if objective.seconds else elements)
    return max(spent)


def check_every_split(network: Network, plan: Plan, array: Array, objective: Objective) -> int:
    """Compare every split's cost with brute force on what the splits above have left."""
    graph = partition_graph(network)
    checked = 0

    def follow(split: Split | None, group: Group, scales: Sequence[Shard]) -> None:
        nonlocal checked
        if split is None:
            return
        found = least(graph, scales, plan.batch, group, objective)
        assert split.cost == pytest.approx(found, rel=1e-9)
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
    """Brute force over the layers of ``every_pair_added``, each sum at its own best."""
    graph = partition_graph(network)
    size = [sizes(node, 512, WHOLE) for node in graph]
    layers = [v for v, node in enumerate(graph) if not node.join]
    kinds = [weighed(node) for node in graph]
    total = np.zeros((1,) * len(layers))
    for v, node in enumerate(graph):
        scope = sorted(node.producers) if node.join else [v]
        parts = [(e,) for e in range(len(node.producers))] if node.join else [()]
        values = [
            min(
                sum(
                    slower(graph, v, part, known | {v: kind}, size, array.group, TIME)
                    for part in parts
                )
                for kind in (kinds[v] if node.join else [known[v]])
            )
            for types in itertools.product(*(kinds[u] for u in scope))
            for known in [dict(zip(scope, types, strict=True))]
        ]
        shape = [len(kinds[u]) if u in scope else 1 for u in layers]
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


def test_a_large_wide_graph_has_bounds_too() -> None:
    network = added_at_random(300, 700)
    two = load_array("accpar-homogeneous", ["devices.0.count=2"])
    plan = load_planner("accpar")(network, two, 512, TIME)
    assert plan.gap is not None
    assert 0 < plan.gap < 1


@pytest.mark.slow
def test_commands_say_that_a_plan_is_not_exact(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
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
        assert 0 <= data["gap"] < 1
    assert main(["timeline", *options, "--output", str(tmp_path / "t.csv")]) == 0
    assert "drawn, accpar: not exact" in capsys.readouterr().err.replace(network.name, "drawn")
    both = [*options[:1], "--planners", "hypar,accpar", *options[3:]]
    assert main(["compare", *both]) == 0
    assert capsys.readouterr().err.count("accpar: not exact") == 1
    assert main(["explain", *options]) == 0
    assert "above a lower bound on the least" in capsys.readouterr().out
    (row,) = compare(load_array("accpar-mixed", options[4::2]), [network], ["accpar"], 512).rows
    assert row.exact is False
    assert row.gap is not None
    assert 0 <= row.gap < 1
    assert main(["plan", "lenet", *options[1:], "--format", "json"]) == 0
