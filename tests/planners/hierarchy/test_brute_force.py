"""Every split against all choices of types; costs follow docs/explanation/models.md."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.cli import main
from experiments.studies.comparison import compare
from hardware import Array, Group, by_core, load_array
from planners import TIME, TRAFFIC, Objective, PartitionType, Plan, Split, load_planner
from planners.partition import II, WHOLE, I, Shard, Sizes, boundary, legal, usual
from tests.planners.slow_sizes import shrunk, sizes
from tests.planners.wide_graphs import added_at_random, every_pair_added
from tests.strategies import arrays, networks, port_bytes_per_s
from workloads import Graph, Network, load_network, partition_graph

Types = Mapping[int, PartitionType]
ALIKE = load_array("accpar-homogeneous", ["devices.0.count=4"])


def joined(graph: Graph, v: int, types: Types) -> PartitionType:
    """How consumers see node v: a join swaps II and III."""
    return PartitionType((0, 2, 1)[types[v]]) if graph[v].join else types[v]


def tied(graph: Graph, v: int, types: Types, share: float, size: Sequence[Sizes]) -> float:
    """What a side exchanges for a tied weight beyond what it would for one of its own."""
    owner = graph[v].tied
    if owner is None:
        return 0.0
    mine, theirs = str(types[v]), str(types[owner])
    if mine == "I":
        return -min(size[v].weights, size[owner].weights) if theirs == "I" else 0.0
    if graph[v].kind == "fc":  # the table transposed
        theirs = {"II": "III", "III": "II"}.get(theirs, theirs)
    return 0.0 if theirs in ("I", mine) else 2 * share * (1 - share) * size[v].weights


class Level:
    """One split: what its halves spend on a layer with its edges, or on one edge into a join."""

    def __init__(
        self, graph: Graph, size: Sequence[Sizes], group: Group, objective: Objective, balance: bool
    ) -> None:
        self.graph, self.size, self.objective, self.balance = graph, size, objective, balance
        self.halves = group.halves()
        self.share = self.halves[0].size / group.size

    def side(self, v: int, edges: Sequence[int], types: Types, share: float, group: Group) -> float:
        """What a half with that share of node v spends."""
        node, s = self.graph[v], self.size[v]
        elements = 0.0
        if not node.join:
            after = s.pooled if self.objective.pooled else s.output
            elements += (s.weights, after, s.input, 0.0)[types[v]]
            elements += tied(self.graph, v, types, share, self.size)
        for e in edges:
            producer = joined(self.graph, node.producers[e], types)
            elements += s.reads[e] * sum(boundary(producer, types[v], share))
        if not self.objective.seconds:
            return elements
        work_s = share * sum(s.flops) / group.peak_flops_per_s
        return work_s + elements * 2 / port_bytes_per_s(group)

    def both(self, v: int, edges: Sequence[int], types: Types, share: float) -> tuple[float, float]:
        """What each half spends."""
        first, second = self.halves
        return self.side(v, edges, types, share, first), self.side(
            v, edges, types, 1 - share, second
        )

    def share_of(self, v: int, types: Types) -> float:
        """Where both halves finish together, the cheaper of several; a join's is its product's."""
        if not self.balance:
            return self.share
        main = self.graph[v].main if self.graph[v].join else v
        if main is None:
            return 0.5
        edges = range(len(self.graph[main].producers))

        def gap(share: float) -> float:
            one, other = self.both(main, edges, types, share)
            return one - other

        found = zeros(gap) or [0.0, 1.0]
        return min(found, key=lambda share: (max(self.both(main, edges, types, share)), share))

    def cost(self, v: int, edges: Sequence[int], types: Types) -> float:
        """What the slower half spends."""
        return max(self.both(v, edges, types, self.share_of(v, types)))

    def terms(self) -> Iterator[tuple[int, Sequence[int], set[int]]]:
        """Each layer with its edges, each edge into a join; and whose types decide its cost."""
        for v, node in enumerate(self.graph):
            edges = range(len(node.producers))
            for part in [[e] for e in edges] if node.join else [edges]:
                scope = {v, *(node.producers[e] for e in part)}
                main = node.main if node.join and self.balance else None if node.join else v
                if main is not None:
                    owner = self.graph[main].tied
                    scope |= {main, *self.graph[main].producers}
                    scope |= set() if owner is None else {owner}
                yield v, part, scope

    def every_cost(self, kinds: Sequence[Sequence[PartitionType]]) -> np.ndarray:
        """The cost of every combination of types, an axis for each node."""
        total = np.zeros((1,) * len(kinds))
        for v, edges, scope in self.terms():
            order = sorted(scope)
            values = [
                self.cost(v, edges, dict(zip(order, types, strict=True)))
                for types in itertools.product(*(kinds[u] for u in order))
            ]
            shape = [len(kinds[u]) if u in scope else 1 for u in range(len(kinds))]
            total = total + np.array(values).reshape(shape)
        return total


def zeros(gap: Callable[[float], float]) -> list[float]:
    """Where a gap is zero, from three values: what a side spends has a(1 - a) in it at most."""
    low, middle, high = gap(0.0), gap(0.5), gap(1.0)
    scale = max(map(abs, (low, middle, high)))
    if not scale:
        return [0.0, 0.5, 1.0]
    bent = 2 * (low + high - 2 * middle)
    slope = high - low - bent
    assert gap(0.3) == pytest.approx(low + 0.3 * slope + 0.09 * bent, abs=1e-9 * scale)
    bent = 0.0 if abs(bent) < 1e-12 * scale else bent
    roots = np.roots([bent, slope, low])
    real = roots.real[np.abs(roots.imag) < 1e-9]
    return [min(max(root, 0.0), 1.0) for root in real.tolist() if -1e-9 < root < 1 + 1e-9]


@settings(max_examples=60, deadline=None)
@given(networks(most=6), arrays(most=4, kinds=2), st.sampled_from([TIME, TRAFFIC]))
def test_every_split_costs_the_least(network: Network, array: Array, objective: Objective) -> None:
    """On what the splits above have left; unlike halves share each layer as seconds have it."""
    graph, batch = partition_graph(network), 8
    plan = load_planner("accpar")(network, array, batch, objective)

    def follow(split: Split | None, group: Group, scales: Sequence[Shard]) -> None:
        if split is None:
            return
        first, second = group.halves()
        size = [sizes(node, batch, scale) for node, scale in zip(graph, scales, strict=True)]
        kinds = [
            [one for one in usual(node) if one in legal(node, scale)]
            for node, scale in zip(graph, scales, strict=True)
        ]
        level = Level(graph, size, group, objective, objective is TIME and first != second)
        costs = level.every_cost(kinds)
        assert split.lower_bound is None
        assert split.cost == pytest.approx(costs.min(), rel=1e-6, abs=1e-15)
        chosen = tuple(kinds[v].index(one) for v, one in enumerate(split.types))
        whole = np.broadcast_to(costs, [len(kind) for kind in kinds])
        assert split.cost == pytest.approx(whole[chosen], rel=1e-6, abs=1e-15)
        for half, side, kept in zip(
            split.halves, (first, second), shrunk(scales, split.partitions), strict=False
        ):
            follow(half, side, kept)

    follow(plan.root, array.group, [WHOLE] * len(graph))


def clique_least(network: Network, array: Array) -> float:
    """Brute force over the layers of ``every_pair_added``, each sum at its own best."""
    graph = partition_graph(network)
    level = Level(graph, [sizes(node, 512, WHOLE) for node in graph], array.group, TIME, False)
    layers = [v for v, node in enumerate(graph) if not node.join]
    kinds = [usual(node) for node in graph]
    total = np.zeros((1,) * len(layers))
    for v, node in enumerate(graph):
        scope = sorted(node.producers) if node.join else [v]
        parts = [[e] for e in range(len(node.producers))] if node.join else [[]]
        values = [
            min(
                sum(level.cost(v, part, known | {v: kind}) for part in parts)
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
    small = ["--set", "devices.0.count=2", "--set", "devices.1.count=2"]
    options = ["drawn", "--planner", "accpar", *small]
    for command in ("plan", "simulate"):
        assert main([command, *options]) == 0
        assert "above a lower bound on the least" in capsys.readouterr().out
        assert main([command, *options, "--format", "json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert data["exact"] is False
        assert 0 <= data["gap"] < 1
    assert main(["timeline", *options, "--output", str(tmp_path / "t.csv")]) == 0
    assert "drawn, accpar: not exact" in capsys.readouterr().err.replace(network.name, "drawn")
    assert main(["compare", "drawn", "--planners", "hypar,accpar", *small]) == 0
    assert capsys.readouterr().err.count("accpar: not exact") == 1
    assert main(["explain", *options]) == 0
    assert "above a lower bound on the least" in capsys.readouterr().out
    (row,) = compare(load_array("accpar-mixed", small[1::2]), [network], ["accpar"], 512).rows
    assert row.exact is False
    assert row.gap is not None
    assert 0 <= row.gap < 1
    assert main(["plan", "lenet", *options[1:], "--format", "json"]) == 0


@pytest.mark.parametrize("kind", ["torus", "mesh"])
@pytest.mark.parametrize("counts", [(1, 3), (3, 5), (5, 7)])
def test_unlike_boards_on_a_grid_are_planned(kind: str, counts: tuple[int, int]) -> None:
    """Halves of such splits need not be neighbours: others pass their messages on."""
    settings = [f"devices.{i}.count={count}" for i, count in enumerate(counts)]
    array = load_array("accpar-mixed", [f"topology.kind={kind}", *settings])
    plan = load_planner("hypar")(load_network("lenet"), by_core(array), 64)
    assert all(0 < split.cost < 1 for split in plan.splits())
    assert {one for split in plan.splits() for one in split.types} <= {I, II}
