"""The search of one array: what is solved once, and what earlier splits have left."""

import pytest

from hardware import bisection_of, by_core, load_array
from planners import TIME, TRAFFIC, Partition, PartitionType, PlanError, Split, load_planner
from planners.cost.objective import Prices
from planners.hierarchy import plan_hierarchy
from planners.hierarchy.cost_table import CostTable
from planners.hierarchy.search import Search
from planners.partition import LAYOUTS, WHOLE
from planners.sizing import whole
from tests.planners.slow_sizes import sizes
from workloads import Builder, load_network, partition_graph

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


def test_the_last_level_given_holds_below_too() -> None:
    graph = partition_graph(LENET)
    array = load_array("accpar-homogeneous", ["devices.0.count=8"])
    first, rest = [(II,)] * len(graph), [(I,)] * len(graph)
    search = Search(graph, [first, rest], 64, TIME, array)
    root = search.split(search.root, whole(graph))
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
    found = [search.split(search.root, whole(graph), level) for level in (0, 1, 2)]
    assert [set(split.types) for split in found if split] == [{II}, {I}, {I}]
    assert found[1] is found[2]


def test_shares_follow_the_number_of_boards() -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=3"])
    plan = load_planner("data_parallel")(load_network("lenet"), array, 512)
    assert plan.root is not None
    assert {p.share for p in plan.root.partitions} == {2 / 3}
    assert [type(half) for half in plan.root.halves] == [Split, type(None)]


@pytest.mark.parametrize("batch", [0, -1, 1 << 25])
def test_absurd_batches_are_refused(batch: int) -> None:
    with pytest.raises(PlanError, match=f"batch {batch} is out of range"):
        load_planner("data_parallel")(LENET, load_array("accpar-homogeneous"), batch)


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
