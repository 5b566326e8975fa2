"""Planners' tables, costs and predictions against counts of single elements."""

from dataclasses import replace
from itertools import product

import pytest

from hardware import Array, Group, load_array
from planners import (
    TIME,
    TRAFFIC,
    Partition,
    PartitionType,
    Plan,
    Split,
    load_planner,
    predict,
    uncharged_s,
)
from planners.hierarchy.fixed_types import plan_of_types as with_types
from planners.order import Item, Kind, Phase, received
from planners.partition import WHOLE, boundary
from tests.planners.cost.by_coordinates import Chain, step_s
from tests.planners.slow_sizes import sizes
from workloads import Builder, Network, partition_graph

BATCH, CHANNELS = 4, (8, 4, 12)
TYPES = ("I", "II", "III")
SHARES = (0.25, 0.5, 0.75)
PAIRS = list(product(TYPES, TYPES))


def network(channels: tuple[int, ...] = CHANNELS) -> Network:
    net = Builder("chain", channels[0], 1)
    for i, out in enumerate(channels[1:]):
        net.fc(f"fc{i}", out)
    return net.build()


GRAPH = partition_graph(network())
SIZES = [sizes(node, BATCH, WHOLE) for node in GRAPH]


def partitions(*layers: tuple[str, float]) -> tuple[Partition, ...]:
    return tuple(Partition(PartitionType[kind], share) for kind, share in layers)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT])
def test_each_type_leaves_partial_sums_in_one_phase(phase: Phase, kind: str, share: float) -> None:
    """Of every element that both halves add to, each receives what the other has."""
    chain = Chain(BATCH, CHANNELS, [(kind, share)] * 2)
    for v in (0, 1):
        item = Item(Kind.SUMS, phase, v)
        wanted = float(chain.sums(phase.value, v))
        assert received(item, GRAPH, partitions(*chain.layers), SIZES) == (wanted, wanted)


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.BACKWARD])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(("producer", "consumer"), PAIRS)
def test_each_half_receives_what_it_reads_and_did_not_make(
    producer: str, consumer: str, share: float, phase: Phase
) -> None:
    """Of halves with one share for both layers, as even splits and joins have."""
    chain = Chain(BATCH, CHANNELS, [(producer, share), (consumer, share)])
    lacks = (chain.lacks_features, chain.lacks_errors)[phase is Phase.BACKWARD]
    at = 0 if phase is Phase.BACKWARD else 1
    item = Item(Kind.BOUNDARY, phase, 0, 1)
    found = received(item, GRAPH, partitions(*chain.layers), SIZES)
    assert found == pytest.approx((lacks(at, 0), lacks(at, 1)))


TWO = load_array("accpar-homogeneous", ["devices.0.count=2"])


@pytest.mark.parametrize("types", PAIRS)
def test_a_plan_costs_what_its_slower_half_receives(types: tuple[str, str]) -> None:
    chain = Chain(BATCH, CHANNELS, [(kind, 0.5) for kind in types])
    plan = with_types(network(), TWO, BATCH, [[PartitionType[kind] for kind in types]], TRAFFIC)
    assert plan.root is not None
    wanted = sum(max(chain.elements(v, half) for half in (0, 1)) for v in (0, 1))
    assert plan.root.cost == pytest.approx(wanted)


@pytest.mark.parametrize("types", PAIRS)
def test_a_plan_costs_the_seconds_of_its_slower_half(types: tuple[str, str]) -> None:
    chain = Chain(BATCH, CHANNELS, [(kind, 0.5) for kind in types])
    ((board, _),) = TWO.group.kinds
    plan = with_types(network(), TWO, BATCH, [[PartitionType[kind] for kind in types]], TIME)
    assert plan.root is not None
    elements = sum(max(chain.elements(v, half) for half in (0, 1)) for v in (0, 1))
    work = sum(sum(size.flops) for size in SIZES) / 2
    wanted = work / board.peak_flops_per_s + 2 * elements / board.network_bytes_per_s
    assert plan.root.cost == pytest.approx(wanted)


def below(types: tuple[str, str], batch: int, channels: tuple[int, ...]) -> int:
    """Elements of the second level, where every half is halved again the same way."""
    total = 0
    for v, kind in enumerate(types):
        chain = left(types, batch, channels, v)
        total += max(chain.elements(v, half) for half in (0, 1))
        assert chain.layers[v] == (kind, 0.5)
    return total


def left(types: tuple[str, str], batch: int, channels: tuple[int, ...], v: int) -> Chain:
    """What a first split of the same types has left: layer v's own sizes, on both sides of it."""
    halved = {"I": (2, 1, 1), "II": (1, 2, 1), "III": (1, 1, 2)}[types[v]]
    sizes = list(channels)
    sizes[v] //= halved[1]
    sizes[v + 1] //= halved[2]
    return Chain(batch // halved[0], sizes, [(kind, 0.5) for kind in types])


@pytest.mark.parametrize("types", PAIRS)
def test_the_next_level_splits_what_the_first_has_left(types: tuple[str, str]) -> None:
    four = load_array("accpar-homogeneous", ["devices.0.count=4"])
    level = [PartitionType[kind] for kind in types]
    plan = with_types(network(), four, BATCH, [level, level], TRAFFIC)
    _, second = plan.levels() or []
    assert second.cost == pytest.approx(below(types, BATCH, CHANNELS))


def test_the_search_finds_the_least_of_all_types_by_count() -> None:
    """27 ways to split three layers, each counted element by element."""
    channels = (8, 4, 12, 2)
    for objective in (TRAFFIC, replace(TRAFFIC, pooled=False)):
        costs = {}
        for types in product(TYPES, repeat=3):
            chain = Chain(BATCH, channels, [(kind, 0.5) for kind in types])
            costs[types] = sum(max(chain.elements(v, half) for half in (0, 1)) for v in range(3))
        plan = load_planner("accpar")(network(channels), TWO, BATCH, objective)
        assert plan.root is not None
        assert plan.root.cost == pytest.approx(min(costs.values()))
        assert costs[tuple(map(str, plan.root.types))] == min(costs.values())


UNLIKE = load_array("accpar-mixed", ["devices.0.count=1", "devices.1.count=1"])


@pytest.mark.parametrize("array", [TWO, UNLIKE], ids=["alike", "unlike"])
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("types", PAIRS)
def test_prediction_of_two_boards(types: tuple[str, str], share: float, array: Array) -> None:
    """Two clocks that wait for each other at every exchange, each exchange counted by elements."""
    chain = Chain(BATCH, CHANNELS, [(kind, share) for kind in types])
    root = Split(partitions(*chain.layers), 0.0, (None, None))
    plan = Plan("mine", "chain", BATCH, "time", ("fc0", "fc1"), root)
    boards = [board for board, count in array.group.kinds for _ in range(count)]
    peaks = (boards[0].peak_flops_per_s, boards[1].peak_flops_per_s)
    element_s = tuple(2 / board.network_bytes_per_s for board in boards)
    wanted = step_s(chain, peaks, (element_s[0], element_s[1]))
    assert predict(network(), plan, array) == pytest.approx(wanted, rel=1e-12)


def test_boundaries_between_unlike_shares_follow_the_consumers() -> None:
    """The published model's simplification: the producer's own share is not asked for."""
    half = boundary(PartitionType.III, PartitionType.III, 0.25)
    item = Item(Kind.BOUNDARY, Phase.FORWARD, 0, 1)
    found = received(item, GRAPH, partitions(("III", 0.5), ("III", 0.25)), SIZES)
    assert found == (half[0] * SIZES[1].input, 0.25 * SIZES[1].input)


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.BACKWARD])
@pytest.mark.parametrize("shares", list(product(SHARES, SHARES)))
@pytest.mark.parametrize(("producer", "consumer"), PAIRS)
def test_what_changes_hands_between_unlike_shares_is_counted_where_asked(
    producer: str, consumer: str, shares: tuple[float, float], phase: Phase
) -> None:
    chain = Chain(BATCH, CHANNELS, [(producer, shares[0]), (consumer, shares[1])])
    lacks = (chain.lacks_features, chain.lacks_errors)[phase is Phase.BACKWARD]
    at = 0 if phase is Phase.BACKWARD else 1
    item = Item(Kind.BOUNDARY, phase, 0, 1)
    found = received(item, GRAPH, partitions(*chain.layers), SIZES, unlike_shares=True)
    assert found == pytest.approx((lacks(at, 0), lacks(at, 1)))


@pytest.mark.parametrize("types", PAIRS)
def test_what_a_step_leaves_out_is_what_it_takes_with_every_element_charged(
    types: tuple[str, str],
) -> None:
    chain = Chain(BATCH, CHANNELS, [(types[0], 0.25), (types[1], 0.75)])
    root = Split(partitions(*chain.layers), 0.0, (None, None))
    plan = Plan("mine", "chain", BATCH, "time", ("fc0", "fc1"), root)
    boards = [board for board, _ in UNLIKE.group.kinds]
    peaks = (boards[0].peak_flops_per_s, boards[1].peak_flops_per_s)
    element_s = tuple(2 / board.network_bytes_per_s for board in boards)
    wanted = step_s(chain, peaks, (element_s[0], element_s[1]))
    assert predict(network(), plan, UNLIKE, unlike_shares=True) == pytest.approx(wanted, rel=1e-12)
    step = predict(network(), plan, UNLIKE)
    left_out = max(wanted - step, 0.0)
    assert uncharged_s(network(), plan, UNLIKE, step) == pytest.approx(left_out, abs=1e-15)


def test_nothing_is_left_out_where_all_shares_are_alike() -> None:
    plan = load_planner("hypar")(network(), UNLIKE, BATCH)
    assert uncharged_s(network(), plan, UNLIKE, predict(network(), plan, UNLIKE)) is None


def test_one_board_has_nothing_to_wait_for() -> None:
    alone = Array("alone", "", Group(((TWO.group.kinds[0][0], 1),)))
    plan = load_planner("accpar")(network(), alone, BATCH)
    wanted = sum(sum(size.flops) for size in SIZES) / TWO.group.kinds[0][0].peak_flops_per_s
    assert predict(network(), plan, alone) == pytest.approx(wanted)
