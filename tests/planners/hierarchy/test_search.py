"""The search of one array: what is solved once, and what earlier splits have left."""

import pytest

from hardware import Array, Group, by_core, load_array
from planners import (
    TIME,
    TRAFFIC,
    Partition,
    PartitionType,
    PlanError,
    Split,
    load_planner,
)
from planners.cost.objective import Prices
from planners.hierarchy import plan_hierarchy
from planners.hierarchy.cost_table import CostTable
from planners.hierarchy.min_sum import TooWideError
from planners.hierarchy.search import Search
from planners.partition import LAYOUTS, WHOLE, legal
from planners.sizing import whole
from tests.planners.graphs import every_pair_added, general
from tests.planners.slow_sizes import sizes
from workloads import Builder, Network, load_network, partition_graph

I, II, III, IV, V = PartitionType  # noqa: E741
LENET = load_network("lenet")


def count_levels(monkeypatch: pytest.MonkeyPatch) -> list[CostTable]:
    solved: list[CostTable] = []
    solve = CostTable.solve

    def counted(self: CostTable) -> tuple[float, list[Partition], float | None]:
        solved.append(self)
        return solve(self)

    monkeypatch.setattr(CostTable, "solve", counted)
    return solved


@pytest.mark.parametrize(("count", "distinct"), [(1, 0), (2, 1), (64, 6), (1024, 10), (3, 2)])
def test_alike_halves_are_solved_once(
    count: int, distinct: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved = count_levels(monkeypatch)
    array = load_array("accpar-homogeneous", [f"devices.0.count={count}"])
    load_planner("accpar")(LENET, array, 64)
    assert len(solved) == distinct


def test_a_bisection_by_core_is_searched_to_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two boards of four chips of two cores: 16 leaves, 4 levels, each once."""
    solved = count_levels(monkeypatch)
    array = by_core(load_array("accpar-homogeneous", ["devices.0.count=2"]))
    plan = load_planner("data_parallel")(LENET, array, 64)
    assert len(plan.levels() or []) == len(solved) == 4


def test_a_levels_prices_come_from_the_wires_where_it_ends_in_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solved = count_levels(monkeypatch)
    array = by_core(load_array("tpu-v2-pod"))
    load_planner("data_parallel")(LENET, array, 64)
    hbm = 700e9
    assert solved[-1].prices == (Prices(1 / 22.5e12, 2 / (hbm / 4)),) * 2
    assert solved[-2].prices == (Prices(1 / 45e12, 2 / 62e9),) * 2


def test_each_level_works_on_what_the_levels_above_have_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solved = count_levels(monkeypatch)
    array = load_array("accpar-homogeneous", ["devices.0.count=8"])
    graph = partition_graph(LENET)
    load_planner("data_parallel")(LENET, array, 64)
    for depth, level in enumerate(solved):
        shard = WHOLE._replace(rows=0.5**depth)
        wanted = [sizes(node, 64, shard) for node in graph]
        assert level.size.weights.tolist() == [size.weights for size in wanted]
        assert level.size.output.tolist() == [size.output for size in wanted]


def test_types_that_are_not_legal_any_more_give_way_to_the_batch() -> None:
    """Two groups part once; a planner that wants groups alone splits the batch from then on."""
    net = Builder("groups", 4, 3, 3)
    net.conv("conv", 4, 3, 1, 1, groups=2)
    array = load_array("accpar-homogeneous", ["devices.0.count=4"])
    plan = plan_hierarchy("mine", net.build(), array, 64, TRAFFIC, lambda node: (IV,))
    assert [split.types for split in plan.levels() or []] == [(IV,), (I,)]


def test_a_join_may_have_any_layout_whatever_a_planner_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = load_network("resnet18")
    graph = partition_graph(network)
    array = load_array("accpar-homogeneous", ["devices.0.count=2"])
    solved = count_levels(monkeypatch)
    plan_hierarchy("mine", network, array, 64, TRAFFIC, lambda node: (II,))
    for node, domain in zip(graph, solved[0].terms.domains, strict=True):
        assert domain == (LAYOUTS if node.join else (II,))


def small(most: int = 6) -> Network:
    return every_pair_added(most)


def test_a_graph_too_wide_for_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=2"])
    exact = load_planner("accpar")(small(), array, 8).root

    def refuse(*_: object) -> None:
        raise TooWideError("elimination needs a table over 13 layers")

    monkeypatch.setattr("planners.hierarchy.cost_table.Elimination", refuse)
    plan = load_planner("accpar")(small(), array, 8)
    found = plan.root
    assert found is not None
    assert exact is not None
    assert exact.lower_bound is None
    assert found.lower_bound is not None
    assert found.lower_bound <= exact.cost <= found.cost * (1 + 1e-12)
    assert plan.gap == pytest.approx(found.cost / found.lower_bound - 1)


@pytest.mark.parametrize("seed", range(20))
def test_every_split_of_a_random_graph_has_legal_types_and_shares(seed: int) -> None:
    network = general(seed)
    graph = partition_graph(network)
    array = load_array("accpar-mixed", ["devices.0.count=3", "devices.1.count=2"])
    plan = load_planner("accpar")(network, array, 64)

    def walk(split: Split | None, group: Group) -> int:
        if split is None:
            assert group.size == 1
            return 0
        assert len(split.partitions) == len(graph)
        for node, partition in zip(graph, split.partitions, strict=True):
            assert partition.type in legal(node)
            assert 0.0 <= partition.share <= 1.0
        first, second = group.halves()
        if len(split.halves) == 1:
            assert first == second
        return 1 + sum(
            walk(half, side) for half, side in zip(split.halves, (first, second), strict=False)
        )

    assert walk(plan.root, array.group) >= 3


def test_the_last_level_given_holds_below_too() -> None:
    graph = partition_graph(LENET)
    array = load_array("accpar-homogeneous", ["devices.0.count=8"])
    first, rest = [(II,)] * len(graph), [(I,)] * len(graph)
    root = Search(graph, [first, rest], 64, TIME, array).split(array.group, whole(graph))
    levels = []
    while root is not None:
        levels.append(set(root.types))
        root = root.halves[0]
    assert levels == [{II}, {I}, {I}]


def test_a_split_solved_at_one_level_is_not_anothers() -> None:
    """The same group with the same shards, first where type II is given and then below it."""
    graph = partition_graph(LENET)
    array = load_array("accpar-homogeneous", ["devices.0.count=2"])
    search = Search(graph, [[(II,)] * len(graph), [(I,)] * len(graph)], 64, TIME, array)
    found = [search.split(array.group, whole(graph), level) for level in (0, 1, 2)]
    assert [set(split.types) for split in found if split] == [{II}, {I}, {I}]
    assert found[1] is found[2]


@pytest.mark.parametrize("batch", [1, 1 << 24])
def test_a_batch_may_be_as_small_or_as_large(batch: int) -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=2"])
    assert load_planner("data_parallel")(LENET, array, batch).batch == batch


def test_a_plan_for_one_accelerator_has_no_split() -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=1"])
    for objective in (TIME, TRAFFIC):
        plan = load_planner("accpar")(LENET, array, 64, objective)
        assert (plan.root, plan.gap, plan.levels()) == (None, None, [])


def test_a_topology_that_does_not_fit_is_the_planners_error_on_a_bus_alone() -> None:
    group = load_array("ring-8").group
    array = Array("mine", "", Group(group.kinds), topology=load_array("hypar-16").topology)
    load_planner("accpar")(LENET, array, 64)
    three = Array("mine", "", Group(((group.kinds[0][0], 3),)), topology=array.topology)
    with pytest.raises(PlanError, match=r"array 'mine': topology.kind = 'bus'"):
        load_planner("accpar")(LENET, three, 64)
