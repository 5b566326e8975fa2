"""Units of weights in parts, and the order of what they need."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hardware import load_array
from planners import Axes, Update, planned_by_axes
from planners.order import Item, Kind, Phase
from simulator import deployed, simulate
from simulator.lowering.step.order import FsdpUnits, units_of
from workloads import load_network, partition_graph


def test_units_are_blocks_and_full_buckets() -> None:
    network = load_network("gpt2:seq=16")
    graph = partition_graph(network)
    units = units_of(network, graph, lambda _: 10.0, 25.0)
    assert [v for unit in units for v in unit] == list(range(len(graph)))
    names = [{graph[v].name.partition(".")[0] for v in unit} for unit in units]
    blocks = [name for name in names if any(one.startswith("layer") for one in name)]
    assert blocks == [{f"layer{k}"} for k in range(12)]
    others = [unit for unit, name in zip(units, names, strict=True) if name not in blocks]
    assert max(map(len, others)) <= 3


def test_without_blocks_a_bucket_of_layers() -> None:
    network = load_network("lenet")
    graph = partition_graph(network)
    sizes = [10.0, 10.0, 30.0, 5.0]
    assert units_of(network, graph, sizes.__getitem__, 20.0) == ((0, 1), (2,), (3,))
    assert units_of(network, graph, sizes.__getitem__, 0.0) == ((0,), (1,), (2,), (3,))
    assert units_of(network, graph, sizes.__getitem__, 1e9) == ((0, 1, 2, 3),)


def test_without_buckets_a_unit_goes_on_to_the_next_layer_with_weights() -> None:
    """What has none is not a unit of its own, behind which nothing would be prefetched."""
    graph = partition_graph(load_network("lenet"))
    sizes = [10.0, 0.0, 30.0, 0.0]
    units = units_of(load_network("lenet"), graph, sizes.__getitem__, 0.0)
    assert units == ((0,), (1, 2), (3,))


def written(*, ahead: bool) -> list[tuple[str, tuple[int, ...], int]]:
    """Of LeNet in three units, of which nodes 0 and 1 are not alike: gathers and products."""
    graph = partition_graph(load_network("lenet"))
    units = ((0, 1), (2,), (3,))
    wrapped = FsdpUnits(graph, units, lambda v: 1.0, [1.0] * 4, lambda u, v: u == v, prefetch=ahead)
    items: list[Item] = [*wrapped.forward()]
    for v in (3, 2, 1, 0):
        items += [*wrapped.before(v), Item(Kind.COMPUTE, Phase.GRADIENT, v), *wrapped.behind(v)]
    sign = {Kind.WEIGHTS: "g", Kind.COMPUTE: "c"}
    found = []
    for item in items:
        if item.kind is Kind.SUMS and item.bucket:
            found.append(("s", item.bucket, -1))
        elif item.kind in sign:
            found.append((sign[item.kind], item.bucket or (item.node,), item.consumer))
    return found


def test_the_next_unit_is_gathered_while_one_computes() -> None:
    assert written(ahead=True) == [
        ("g", (0,), -1),
        ("g", (1,), -1),
        ("g", (2,), -1),
        ("c", (0,), -1),
        ("c", (1,), -1),
        ("g", (3,), 1),  # behind the last product of the unit before
        ("c", (2,), -1),
        ("c", (3,), -1),
        ("g", (2,), 3),  # backward: as soon as forward is over
        ("c", (3,), -1),
        ("s", (3,), -1),
        ("g", (0,), 3),
        ("g", (1,), 3),
        ("c", (2,), -1),
        ("s", (2,), -1),
        ("c", (1,), -1),
        ("c", (0,), -1),
        ("s", (1,), -1),
        ("s", (0,), -1),
    ]


def test_without_overlap_each_right_before_its_use() -> None:
    order = [(what, nodes) for what, nodes, _ in written(ahead=False)]
    forward = [("g", (0,)), ("g", (1,)), ("c", (0,)), ("c", (1,)), ("g", (2,)), ("c", (2,))]
    assert order[: len(forward)] == forward
    assert order[8:13] == [("c", (3,)), ("s", (3,)), ("g", (2,)), ("c", (2,)), ("s", (2,))]


def test_computing_again_waits_for_no_other_units_weights() -> None:
    """FSDP gathers a unit's weights beside the whole backward of the one behind it.

    Only the first unit's gathering and the last one's scattering are exposed, whatever is
    computed again. The norm before a block rides on the sum at the end of the block before,
    and is computed again with its own block.
    """
    array = load_array("h100-cluster", ["nodes=1"], usual=True)
    network = load_network("llama3-8b:layers=6:seq=2048")
    idle_ps = []
    for recompute in ("none", "full"):
        execution = replace(deployed(array), recompute=recompute)
        plan = planned_by_axes(network, execution.planned(array), 16, Axes(dp=8))
        plan = replace(plan, updates=(Update.WEIGHTS,) * len(plan.nodes))
        timeline = simulate(network, plan, array, execution, folded=True)
        computed = (one.end_ps - one.start_ps for one in timeline if one.kind == Kind.COMPUTE)
        idle_ps.append(timeline.iteration_ps - sum(computed))
    assert idle_ps[1] == pytest.approx(idle_ps[0], rel=0.05)
