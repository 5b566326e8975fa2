"""Planning against brute force, with costs written again from the tables."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, Group, bisection_of, by_core, load_array
from planners import (
    TIME,
    TRAFFIC,
    Objective,
    PartitionType,
    Plan,
    PlanError,
    Split,
    load_planner,
)
from planners.partition import WHOLE, I, Sizes, boundary, usual
from tests.planners.slow_sizes import sizes
from tests.strategies import arrays, networks, port_bytes_per_s
from workloads import Graph, Network, load_network, partition_graph

LENET = load_network("lenet")


def joined(graph: Graph, v: int, types: Sequence[PartitionType]) -> PartitionType:
    """How consumers see node v: a join swaps II and III."""
    if not graph[v].join:
        return types[v]
    return PartitionType((0, 2, 1)[types[v]])


def tied(
    graph: Graph, v: int, types: Sequence[PartitionType], share: float, size: Sequence[Sizes]
) -> float:
    """What a side exchanges for a tied weight beyond what it would for one of its own."""
    owner = graph[v].tied
    if owner is None:
        return 0.0
    mine, theirs = ["I", "II", "III", "IV"][types[v]], ["I", "II", "III", "IV"][types[owner]]
    if mine == "I":
        return -min(size[v].weights, size[owner].weights) if theirs == "I" else 0.0
    if graph[v].kind == "fc":  # the table transposed
        theirs = {"II": "III", "III": "II"}.get(theirs, theirs)
    return 0.0 if theirs in ("I", mine) else 2 * share * (1 - share) * size[v].weights


def side_cost(
    graph: Graph,
    v: int,
    types: Sequence[PartitionType],
    share: float,
    group: Group,
    objective: Objective,
    size: Sequence[Sizes],
) -> float:
    """What a side with ``share`` of node v spends on it and on the edges into it."""
    node, s = graph[v], size[v]
    elements = 0.0
    if not node.join:
        after = s.pooled if objective.pooled else s.output
        elements += (s.weights, after, s.input, 0.0)[types[v]]
        elements += tied(graph, v, types, share, size)
    for producer, read in zip(node.producers, s.reads, strict=True):
        elements += read * sum(boundary(joined(graph, producer, types), types[v], share))
    per_element = 2 / port_bytes_per_s(group) if objective.seconds else 1.0
    computing = share * sum(s.flops) / group.peak_flops_per_s if objective.computing else 0.0
    return computing + elements * per_element


def brute_force(graph: Graph, size: Sequence[Sizes], group: Group, objective: Objective) -> float:
    """Least cost of one split with shares by number, every combination tried."""
    first, second = group.halves()
    share = first.size / group.size

    def cost(types: Sequence[PartitionType]) -> float:
        total = 0.0
        for v, node in enumerate(graph):
            if node.join:  # each edge into a join is an exchange of its own
                for p, read in zip(node.producers, size[v].reads, strict=True):
                    fraction = [
                        sum(boundary(joined(graph, p, types), types[v], a))
                        for a in (share, 1 - share)
                    ]
                    prices = [
                        2 / port_bytes_per_s(g) if objective.seconds else 1.0
                        for g in (first, second)
                    ]
                    total += read * max(f * p for f, p in zip(fraction, prices, strict=True))
            else:
                total += max(
                    side_cost(graph, v, types, share, first, objective, size),
                    side_cost(graph, v, types, 1 - share, second, objective, size),
                )
        return total

    return min(cost(types) for types in itertools.product(*map(usual, graph)))


@settings(max_examples=60, deadline=None)
@given(networks(most=5), arrays(kinds=1), st.integers(1, 8))
def test_every_level_is_optimal_on_alike_boards(network: Network, array: Array, batch: int) -> None:
    graph = partition_graph(network)
    for objective in (TIME, TRAFFIC):
        plan = load_planner("accpar")(network, array, batch, objective)
        if plan.root is None or (objective is TIME and len(plan.root.halves) == 2):
            continue  # nothing to split, or shares are balanced: tested below
        size = [sizes(node, batch, WHOLE) for node in graph]
        least = brute_force(graph, size, array.group, objective)
        assert plan.root.cost == pytest.approx(least, rel=1e-12)


@settings(max_examples=60, deadline=None)
@given(networks(most=4), arrays(kinds=2), st.integers(1, 8))
def test_balanced_shares_are_searched_exactly(network: Network, array: Array, batch: int) -> None:
    check_balanced_shares(network, array, batch, of_parabola)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(networks(most=4), arrays(kinds=2), st.integers(1, 8))
def test_balanced_shares_are_found_on_a_grid(network: Network, array: Array, batch: int) -> None:
    check_balanced_shares(network, array, batch, on_grid)


GRID = [i / 2000 for i in range(2001)]
Gap = Callable[[float], float]


def on_grid(gap: Gap) -> list[float]:
    """Where the gap changes its sign, whatever its form."""
    return [bisect(gap, a, b) for a, b in itertools.pairwise(GRID) if gap(a) * gap(b) <= 0]


def of_parabola(gap: Gap) -> list[float]:
    """Where it is zero, from three values: what a side spends has a(1 - a) in it at most."""
    low, middle, high = gap(0.0), gap(0.5), gap(1.0)
    scale = max(map(abs, (low, middle, high)))
    if not scale:
        return GRID
    bent = 2 * (low + high - 2 * middle)
    slope = high - low - bent
    assert gap(0.3) == pytest.approx(low + 0.3 * slope + 0.09 * bent, abs=1e-9 * scale)
    bent = 0.0 if abs(bent) < 1e-12 * scale else bent
    roots = np.roots([bent, slope, low])
    real = roots.real[np.abs(roots.imag) < 1e-9]
    return [min(max(root, 0.0), 1.0) for root in real.tolist() if -1e-9 < root < 1 + 1e-9]


def check_balanced_shares(
    network: Network, array: Array, batch: int, zeros: Callable[[Gap], list[float]]
) -> None:
    """Brute force over all types, each layer's share solved for its own pair of types."""
    first, second = array.group.halves() if array.group.size > 1 else (array.group, array.group)
    if first == second:
        return
    graph = partition_graph(network)
    size = [sizes(node, batch, WHOLE) for node in graph]

    solved: dict[tuple[object, ...], float] = {}

    def share_of(v: int, types: Sequence[PartitionType]) -> float:
        if graph[v].join:
            main = graph[v].main
            return 0.5 if main is None else share_of(main, types)
        owner = graph[v].tied
        seen = tuple(joined(graph, p, types) for p in graph[v].producers)
        key = (v, types[v], seen, None if owner is None else types[owner])
        if key not in solved:
            solved[key] = solve(v, types)
        return solved[key]

    def solve(v: int, types: Sequence[PartitionType]) -> float:
        def gap(a: float) -> float:
            return side_cost(graph, v, types, a, first, TIME, size) - side_cost(
                graph, v, types, 1 - a, second, TIME, size
            )

        def slower(a: float) -> float:
            return max(
                side_cost(graph, v, types, a, first, TIME, size),
                side_cost(graph, v, types, 1 - a, second, TIME, size),
            )

        return min(zeros(gap) or [0.0, 1.0], key=lambda a: (slower(a), a))

    def cost(types: Sequence[PartitionType]) -> float:
        total = 0.0
        for v, node in enumerate(graph):
            share = share_of(v, types)
            edges = range(len(node.producers)) if node.join else [None]
            for edge in edges:
                total += max(
                    edge_or_layer(v, edge, types, share, first),
                    edge_or_layer(v, edge, types, 1 - share, second),
                )
        return total

    def edge_or_layer(
        v: int, edge: int | None, types: Sequence[PartitionType], a: float, group: Group
    ) -> float:
        if edge is None:
            return side_cost(graph, v, types, a, group, TIME, size)
        producer = joined(graph, graph[v].producers[edge], types)
        lacking = size[v].reads[edge] * sum(boundary(producer, types[v], a))
        return lacking * 2 / port_bytes_per_s(group)

    plan = load_planner("accpar")(network, array, batch, TIME)
    assert plan.root is not None
    found = cost(plan.root.types)
    least = min(cost(types) for types in itertools.product(*map(usual, graph)))
    assert plan.root.cost == pytest.approx(found, rel=1e-6, abs=1e-15)
    assert plan.root.cost == pytest.approx(least, rel=1e-6, abs=1e-15)


def bisect(gap: Gap, low: float, high: float) -> float:
    for _ in range(60):
        middle = (low + high) / 2
        if gap(low) * gap(middle) <= 0:
            high = middle
        else:
            low = middle
    return (low + high) / 2


def depth_first(split: Split | None) -> list[Split]:
    return [] if split is None else [split, *(s for h in split.halves for s in depth_first(h))]


def test_alike_halves_are_planned_once() -> None:
    plan = load_planner("accpar")(
        load_network("vgg16"),
        Array("a", "", Group(((homogeneous().group.kinds[0][0], 1 << 14),))),
        512,
    )
    assert len(depth_first(plan.root)) == 14


def homogeneous() -> Array:
    from hardware import load_array

    return load_array("accpar-homogeneous")


def test_shares_follow_the_number_of_boards() -> None:
    from hardware import load_array

    array = load_array("accpar-homogeneous", ["devices.0.count=3"])
    plan = load_planner("data_parallel")(load_network("lenet"), array, 512)
    assert plan.root is not None
    assert {p.share for p in plan.root.partitions} == {2 / 3}
    assert [type(half) for half in plan.root.halves] == [Split, type(None)]


@pytest.mark.parametrize("batch", [0, -1, 1 << 25])
def test_absurd_batches_are_refused(batch: int) -> None:
    with pytest.raises(PlanError, match=f"batch {batch} is out of range"):
        load_planner("data_parallel")(load_network("lenet"), homogeneous(), batch)


def test_plans_say_who_made_them() -> None:
    plan: Plan = load_planner("hypar")(load_network("lenet"), homogeneous(), 64, TRAFFIC)
    assert (plan.planner, plan.network, plan.batch, plan.objective) == (
        "hypar",
        "lenet",
        64,
        "traffic",
    )
    assert plan.nodes == ("conv1", "conv2", "fc1", "fc2")
    assert I in plan.root.types if plan.root else False


@pytest.mark.parametrize("kind", ["torus", "mesh"])
@pytest.mark.parametrize("counts", [(1, 3), (3, 5), (5, 7)])
def test_unlike_boards_on_a_grid_are_planned(kind: str, counts: tuple[int, int]) -> None:
    """Halves of such splits need not be neighbours: others pass their messages on."""
    settings = [f"devices.{i}.count={count}" for i, count in enumerate(counts)]
    array = load_array("accpar-mixed", [f"topology.kind={kind}", *settings])
    plan = load_planner("hypar")(LENET, by_core(array), 64)
    assert all(0 < split.cost < 1 for split in plan.splits())


def test_halves_that_do_the_same_are_one_entry_whatever_their_wires() -> None:
    """On a torus of 2 x 3 boards those of one half are joined otherwise than the other's."""
    array = by_core(load_array("accpar-homogeneous", ["topology.kind=torus", "devices.0.count=6"]))
    first, second = bisection_of(array).section(array.group).below
    assert first.group == second.group
    assert first is not second
    plan = load_planner("data_parallel")(LENET, array, 64)
    assert plan.levels() is None  # 3 boards are 2 and 1
    assert plan.root is not None
    assert len(plan.root.halves) == 1
