"""The least largest load against all contiguous splits of small graphs, and of the paper's."""

import json
import math
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from planners import PlanError
from planners.pipeline.contraction import disordered, units_of
from planners.pipeline.load_graph import LoadGraph, LoadNode, read_load_graph
from planners.pipeline.max_load import load_s, max_load
from tests.effort import calls

DATA = Path(__file__).parents[2] / "data" / "dnn_partitioning"


@pytest.mark.parametrize(
    ("name", "cpus", "milliseconds", "one"),
    [
        ("bert24", None, 41.7458, 217.813),  # what the authors' program printed
        ("bert24", 0, 41.7458, 217.813),
        ("gnmt", None, 107.0044, 520.453),  # from here on ours, to see them change
        ("resnet50", None, 78.6318, 462.381),
        ("resnet50", 0, 80.4549, 462.381),
    ],
)
def test_the_papers_graphs(name: str, cpus: int | None, milliseconds: float, one: float) -> None:
    graph = read_load_graph(DATA / f"{name}_training.json")
    assert (graph.accelerators, graph.cpus) == (6, 1)
    plan = max_load(graph, 6, cpus)
    assert plan.max_load_s * 1e3 == pytest.approx(milliseconds, abs=5e-5)
    assert plan.one_device_s * 1e3 == pytest.approx(one, abs=5e-4)
    check(graph, plan)


def check(graph: LoadGraph, plan: Any) -> None:
    """Every node is on one device, whose load is what is said, in an order that edges follow."""
    index = {node.name: i for i, node in enumerate(graph.nodes)}
    place = {index[name]: i for i, one in enumerate(plan.devices) for name in one.nodes}
    assert len(place) == sum(len(one.nodes) for one in plan.devices) == len(graph.nodes)
    for a, b in graph.edges:
        if not graph.nodes[b].backward:
            assert place[a] <= place[b]
    colours = {(graph.nodes[v].colour, i) for v, i in place.items()}
    assert len(colours) == len({colour for colour, _ in colours})
    loads = [
        slow_load(graph, {v for v in place if place[v] == i}, d.kind)
        for i, d in enumerate(plan.devices)
    ]
    assert loads == pytest.approx([one.load_s for one in plan.devices])
    assert max(loads) == pytest.approx(plan.max_load_s)


def slow_load(graph: LoadGraph, own: set[int], kind: str) -> float:
    """By the definition, node by node; infinite where it does not fit."""
    nodes = [graph.nodes[v] for v in own]
    if kind == "cpu":
        return sum(node.cpu_s for node in nodes)
    if sum(node.bytes for node in nodes) > graph.memory_bytes:
        return math.inf
    if not all(node.on_accelerator for node in nodes):
        return math.inf
    total = sum(node.accelerator_s for node in nodes)
    for v, node in enumerate(graph.nodes):
        users = {b for a, b in graph.edges if a == v}
        goes = v in own and users - own
        comes = v not in own and users & own
        total += node.output_s if goes or comes else 0
    return total


def splits(graph: LoadGraph, devices: int) -> Iterator[list[set[int]]]:
    """Colours to devices in a row such that no forward edge goes back; backward twins follow."""
    colours = sorted({node.colour for node in graph.nodes})
    forward = {node.colour for node in graph.nodes if not node.backward}
    order = []
    for a, b in graph.edges:
        one, two = graph.nodes[a].colour, graph.nodes[b].colour
        if not graph.nodes[b].backward:
            order.append((one, two))
        elif graph.nodes[a].backward and (one not in forward or two not in forward):
            order.append((two, one))
    for chosen in product(range(devices), repeat=len(colours)):
        place = dict(zip(colours, chosen, strict=True))
        if all(place[a] <= place[b] for a, b in order):
            yield [
                {v for v, node in enumerate(graph.nodes) if place[node.colour] == d}
                for d in range(devices)
            ]


def slow_least(graph: LoadGraph, devices: int, cpus: int) -> float:
    best = math.inf
    for split in splits(graph, devices + cpus):
        for cpu in range(devices + cpus) if cpus else [None]:
            kinds = ["cpu" if d == cpu else "accelerator" for d in range(devices + cpus)]
            loads = (slow_load(graph, o, k) for o, k in zip(split, kinds, strict=True) if o)
            best = min(best, max(loads))
    return best


def random_graph(dice: random.Random) -> LoadGraph:
    """Layers forward and, mostly, backward, with shared colours and layers without work."""
    count = dice.randint(1, 5)
    nodes, edges = [], []
    colours = [dice.choice([i, i, i, i, max(0, i - 1)]) for i in range(count)]
    idle = [dice.random() < 0.45 for _ in range(count)]
    for backward in (False, True):
        for i in range(count):
            work = (0, 0) if idle[i] else (dice.randint(1, 9), dice.randint(1, 40))
            nodes.append(
                LoadNode(
                    f"{i}{'b' * backward}",
                    *work,
                    dice.choice([0, 1, 2, 5]),
                    backward,
                    # Now and then a backward node is of a colour of its own.
                    100 + i if backward and dice.random() < 0.15 else colours[i],
                    dice.choice([0, 0, 1, 3]),
                    dice.random() > 0.05,
                )
            )
    parallel = dice.random() < 0.3
    for a in range(count):
        for b in range(a + 1, count):
            if dice.random() < 0.5:
                edges.append((a, b))
                edges.append((count + a, count + b) if parallel else (count + b, count + a))
        if dice.random() < 0.4:
            edges.append((a, count + a))
    memory = dice.choice([1e9, 1e9, 6.0])
    return LoadGraph("random", tuple(nodes), tuple(edges), 2, 0, memory)


@pytest.mark.parametrize("seed", range(150))
def test_all_splits_of_small_graphs(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  (not cryptography)
    graph, devices, cpus = random_graph(dice), dice.randint(1, 3), dice.randint(0, 1)
    wanted = slow_least(graph, devices, cpus)
    if math.isinf(wanted):
        with pytest.raises(PlanError, match="no split over"):
            max_load(graph, devices, cpus)
        return
    plan = max_load(graph, devices, cpus)
    assert plan.max_load_s == pytest.approx(wanted, rel=1e-12)
    check(graph, plan)
    if cpus:
        assert plan.accelerators_only_s == pytest.approx(slow_least(graph, devices, 0))


def test_small_graphs_have_units_to_join() -> None:
    """Otherwise the brute force above would not try what joining units does."""
    joined = 0
    for seed in range(150):
        graph = random_graph(random.Random(seed))  # noqa: S311  (not cryptography)
        joined += len({node.colour for node in graph.nodes}) > len(units_of(graph).nodes)
    assert joined > 30


def test_a_load_by_hand() -> None:
    """a (2 s, output 1 s) feeds b (3 s, output 4 s) and c (5 s); b feeds c."""
    nodes = [
        LoadNode(name, work, 10 * work, out, False, i, 0.0, True)
        for i, (name, work, out) in enumerate([("a", 2.0, 1.0), ("b", 3.0, 4.0), ("c", 5.0, 0.0)])
    ]
    graph = LoadGraph("abc", tuple(nodes), ((0, 1), (0, 2), (1, 2)), 2, 0, 1.0)
    assert load_s(graph, {0}, "accelerator") == 3.0  # one transfer, though two need it
    assert load_s(graph, {1}, "accelerator") == 3 + 1 + 4
    assert load_s(graph, {1, 2}, "accelerator") == 9.0
    assert load_s(graph, {2}, "accelerator") == 10.0
    assert load_s(graph, {2}, "cpu") == 50.0
    plan = max_load(graph, 3)
    assert [device.nodes for device in plan.devices] == [("a",), ("b", "c")]
    assert plan.max_load_s == 9.0
    assert plan.one_device_s == 10.0


@pytest.mark.parametrize("turned", [False, True])
def test_units_without_work_stay_apart_where_joining_orders_others(turned: bool) -> None:
    """c (no work) feeds d (10 s) and e (5 s), f (5 s) feeds d: f, c and e fit before d."""
    work = {"c": 0.0, "d": 10.0, "e": 5.0, "f": 5.0}
    nodes = tuple(
        LoadNode(name, seconds, 0.0, 0.0, False, i, 0.0, True)
        for i, (name, seconds) in enumerate(work.items())
    )
    edges: tuple[tuple[int, int], ...] = ((0, 1), (0, 2), (3, 1))
    if turned:
        edges = tuple((b, a) for a, b in edges)
    graph = LoadGraph("cdef", nodes, edges, 2, 0, 1.0)
    assert max_load(graph, 2).max_load_s == slow_least(graph, 2, 0) == 10.0


def test_backward_edges_against_the_order_are_said() -> None:
    nodes = tuple(LoadNode(str(i), 1.0, 1.0, 1.0, i > 2, i % 3, 0.0, True) for i in range(6))
    forward = ((0, 1), (1, 2))
    mirrored = LoadGraph("m", nodes, (*forward, (4, 3), (5, 4)), 2, 0, 1.0)
    parallel = LoadGraph("p", nodes, (*forward, (3, 4), (4, 5)), 2, 0, 1.0)
    mixed = LoadGraph("x", nodes, (*forward, (3, 4), (5, 4), (5, 3)), 2, 0, 1.0)
    assert not max_load(mirrored, 2).notes + max_load(parallel, 2).notes
    (said,) = max_load(mixed, 2).notes
    assert said.startswith("1 backward edges do not follow")


def data() -> dict[str, Any]:
    node = {"supportedOnFpga": 1, "cpuLatency": 10.0, "fpgaLatency": 1.0, "size": 5.0}
    return {
        "maxSizePerFPGA": 100.0,
        "maxFPGAs": 2,
        "maxCPUs": 0,
        "nodes": [node | {"id": i, "isBackwardNode": 0, "colorClass": i} for i in (7, 8)],
        "edges": [{"sourceId": 7, "destId": 8, "cost": 0.5}],
    }


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    whole = data()
    del whole["nodes"][1]["colorClass"], whole["nodes"][1]["size"]
    path.write_text(json.dumps(whole))
    graph = read_load_graph(path)
    assert graph.nodes[0] == LoadNode("7", 0.001, 0.01, 0.0005, False, 7, 5.0, True)
    assert graph.nodes[1] == LoadNode("8", 0.001, 0.01, 0.0, False, -9, 0.0, True)
    assert graph.edges == ((0, 1),)


def test_graphs_that_are_too_wide() -> None:
    nodes = tuple(LoadNode(str(i), 1.0, 1.0, 1.0, False, i, 0.0, True) for i in range(16))
    with pytest.raises(PlanError, match="more than 20000 ways to cut it in two"):
        max_load(LoadGraph("wide", nodes, (), 2, 0, 1.0), 2)


def graph(
    work: list[float],
    edges: list[tuple[int, int]],
    *,
    colours: list[int] | None = None,
    backward: int = 0,
    output_s: float = 1.0,
    sizes: list[float] | None = None,
    memory: float = 100.0,
) -> LoadGraph:
    """Nodes of so much work, the last ``backward`` of them backward ones."""
    count = len(work)
    nodes = tuple(
        LoadNode(
            str(i),
            work[i],
            work[i],
            output_s,
            i >= count - backward,
            colours[i] if colours else i,
            sizes[i] if sizes else 0.0,
            True,
        )
        for i in range(count)
    )
    return LoadGraph("graph", nodes, tuple(edges), 2, 0, memory)


def together(one: LoadGraph) -> list[list[int]]:
    return sorted(map(sorted, units_of(one).nodes))


def test_colours_stay_together() -> None:
    both = graph([1, 1, 1, 1], [(0, 1), (1, 2), (2, 3)], colours=[7, 8, 8, 7], backward=2)
    assert together(both) == [[0, 3], [1, 2]]
    units = units_of(both)
    assert units.edges == {(0, 1)}
    assert units.outputs == [(1.0, 0b11), (1.0, 0b11)]  # of 0 and of 2; 1 feeds its own unit


def test_colours_on_a_cycle_are_one_unit() -> None:
    """1 and 3 share a colour, and 2 is between them."""
    assert together(graph([1, 1, 1, 1], [(0, 1), (1, 2), (2, 3)], colours=[0, 1, 2, 1])) == [
        [0],
        [1, 2, 3],
    ]


def test_backward_nodes_without_a_forward_one_are_ordered_the_other_way() -> None:
    alone = graph([1, 1, 1, 1], [(0, 1), (1, 2), (2, 3)], colours=[0, 1, 5, 0], backward=2)
    units = units_of(alone)
    place = {tuple(nodes): i for i, nodes in enumerate(units.nodes)}
    # 2 -> 3 runs backward, so in the forward order 3's colour (0's) comes before 2's.
    assert units.edges == {(place[0, 3], place[(1,)]), (place[0, 3], place[(2,)])}


def test_an_input_without_work_joins_its_one_user() -> None:
    assert together(graph([0, 1, 1], [(0, 1), (1, 2)])) == [[0, 1], [2]]
    assert together(graph([1, 1, 0], [(0, 1), (1, 2)])) == [[0], [1, 2]]


def test_what_only_passes_on_stays_if_outputs_differ() -> None:
    """0's output is needed at 1 only, 1's at 2: 1 may be on either side of a cut."""
    assert together(graph([1, 0, 1], [(0, 1), (1, 2)])) == [[0], [1], [2]]
    free = graph([1, 0, 1], [(0, 1), (1, 2)], output_s=0.0)
    assert together(free) == [[0], [1, 2]]


def test_a_user_that_is_not_behind_the_host_keeps_an_input_apart() -> None:
    assert together(graph([0, 1, 1], [(0, 1), (0, 2)])) == [[0], [1], [2]]
    assert together(graph([0, 1, 1], [(0, 1), (0, 2), (1, 2)])) == [[0, 1], [2]]


def test_bytes_keep_units_apart_where_memory_binds() -> None:
    edges = [(0, 1), (1, 2)]
    assert together(graph([0, 1, 1], edges, sizes=[5, 5, 5], memory=15)) == [[0, 1], [2]]
    assert together(graph([0, 1, 1], edges, sizes=[5, 5, 5], memory=14)) == [[0], [1], [2]]
    assert together(graph([0, 1, 1], edges, sizes=[0, 5, 5], memory=9)) == [[0, 1], [2]]


def test_joining_goes_on_until_nothing_joins() -> None:
    assert together(graph([0, 0, 0, 1], [(0, 1), (1, 2), (2, 3)], output_s=0.0)) == [[0, 1, 2, 3]]


def test_a_long_chain_without_work_is_joined_soon() -> None:
    """All in one round, each unit with the outputs that are left."""
    chain = graph([0] * 240, [(k, k + 1) for k in range(239)])
    assert calls(lambda: units_of(chain)) < 240**2


def test_more_devices_than_nodes_are_left_out() -> None:
    many, few = (max_load(graph([1, 2, 3], [(0, 1), (1, 2)]), n, n) for n in (1024, 3))
    assert (many.max_load_s, many.accelerators_only_s) == (few.max_load_s, few.accelerators_only_s)
    assert (many.devices, many.cpus) == (few.devices, 1024)
    assert calls(lambda: max_load(graph([1, 2, 3], []), 1024, 1024)) < 20_000


def test_the_backward_pass_has_the_forward_ones_order() -> None:
    forward, colours = [(0, 1), (1, 2)], [0, 1, 2] * 2
    work = [1.0] * 6
    mirrored = [*forward, (5, 4), (4, 3)]
    parallel = [*forward, (3, 4), (4, 5)]
    mixed = [*forward, (3, 4), (5, 4), (5, 3)]
    for edges, odd in ((mirrored, 0), (parallel, 0), (mixed, 1), (forward, 0)):
        assert disordered(graph(work, edges, colours=colours, backward=3)) == odd
