"""Megatron's layout by axes is the same written by hand, to the picosecond."""

import pytest

from hardware import by_core, load_array
from planners import Axes, Staging, planned_by_axes
from planners.axes.node_types import types_along
from planners.cost.objective import TIME
from planners.hierarchy.search import Search
from planners.order import Kind, Phase
from planners.partition import LAYOUTS
from planners.sizing import whole
from simulator import DEPLOYED, simulate
from tests.planners.axes.test_planner import SMALL, by_hand, types
from workloads import load_network, partition_graph


def test_the_layout_of_megatron_by_hand() -> None:
    array, network = load_array("ripples-16", ["devices.0.count=2"]), load_network(SMALL)
    plan = planned_by_axes(network, by_core(array), 16, Axes(2, 2, 2), Staging(micro_batch=2))
    steps = [simulate(network, one, array, DEPLOYED) for one in (plan, by_hand(network, 16))]
    assert steps[0].iteration_ps == steps[1].iteration_ps
    assert steps[0].traffic_bytes == steps[1].traffic_bytes > 0


def test_one_node_as_accpar_with_these_types_alone() -> None:
    """Its search, allowed no other types of the products, finds those of the joins."""
    array = by_core(load_array("ripples-16", ["devices.0.count=1"]))
    network = load_network(SMALL)
    graph = partition_graph(network)
    tp = types_along("tp", graph)
    domains = [LAYOUTS if node.join else (one,) for node, one in zip(graph, tp, strict=True)]
    search = Search(graph, [domains], 16, TIME, array)
    root = search.split(search.root, whole(graph))
    plan = planned_by_axes(network, array, 16, Axes(tp=4))
    assert plan.root is not None
    assert root is not None
    assert types(plan) == [set(tp)] * 2
    assert [root.types, root.halves[0] and root.halves[0].types] == [tp, tp]


def moved(axes: str) -> dict[tuple[str, str], float]:
    """Bytes received in a whole step of a small model on one node, by phase and kind."""
    array, network = load_array("ripples-16", ["devices.0.count=1"]), load_network(GPT)
    plan = planned_by_axes(network, by_core(array), BATCH, Axes.parse(axes))
    return {
        key: total.bytes for key, total in simulate(network, plan, array, DEPLOYED).totals().items()
    }


GPT = "gpt2:layers=2:seq=64"
BATCH, TOKENS, HIDDEN, EACH = 4, 64, 768, 4  # the array computes in float32
STREAM = BATCH * TOKENS * HIDDEN * EACH
"""Bytes of the residual stream."""


def test_positions_beside_features_move_as_much_as_features_alone() -> None:
    """Two all-reduces a block and direction are two reduce-scatters and two all-gathers.

    The embedding's sums are scattered, too, and its errors gathered (Megatron-LM).
    """
    plain, by_positions = moved("tp=4"), moved("tp=4,sp")
    ways = 3 * STREAM  # a ring of four: each byte of a whole tensor is received by three
    blocks = 2 * 2
    forward, backward = (Phase.FORWARD, Kind.SUMS), (Phase.BACKWARD, Kind.SUMS)
    assert plain[forward] == plain[backward] == 2 * (blocks + 1) * ways
    assert by_positions[forward] == by_positions[backward] == (blocks + 1) * ways
    assert by_positions[Phase.FORWARD, Kind.BOUNDARY] == (blocks + 1) * ways
    assert by_positions[Phase.BACKWARD, Kind.BOUNDARY] == (blocks + 1) * ways


def test_keys_and_values_go_round() -> None:
    """(c - 1) / c of both for each device, layer and direction, and all weights' gradients."""
    found = moved("cp=4")
    each = 2 * 3 * 2 * STREAM  # two layers, keys and values
    assert found[Phase.FORWARD, Kind.BOUNDARY] == each
    weights = load_network(GPT).parameters * EACH
    assert found[Phase.BACKWARD, Kind.SUMS] == each
    assert found[Phase.GRADIENT, Kind.SUMS] == pytest.approx(2 * 3 * weights, rel=1e-6)
    assert (Phase.BACKWARD, Kind.BOUNDARY) not in found
