"""Whole shards: rounding, cores without work, groups with them in between, full buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Array, Group, Topology, load_array
from planners import Axes, Partition, PartitionType, Plan, Split, load_planner
from planners.axes.planner import planned_by_axes
from planners.order import Kind, Phase
from planners.partition import II, III, I
from simulator import DEPLOYED, Execution, Timeline, simulate
from simulator.lowering.models import rules_of
from tests.wiring import device
from workloads import Builder, Network, load_network, partition_graph

BYTES_PER_S = 1e9


def boards(count: int, kind: str = "switch", shape: tuple[int, ...] = ()) -> Array:
    """Boards of one core each."""
    board = device(network=BYTES_PER_S)
    return Array(kind, "", Group(((board, count),)), (), Topology(kind, "boards", shape))


def chain(layers: int, features: int) -> Network:
    net = Builder("chain", features, 1, 1)
    for i in range(layers):
        net.fc(f"fc{i}", features)
    return net.build()


@st.composite
def halvings(draw: st.DrawFn, cores: int) -> Split | None:
    """Any split of one layer down to single cores; the shares are exact in binary."""
    if cores == 1:
        return None
    kind = draw(st.sampled_from((I, II, III)))
    share = draw(st.integers(0, 64)) / 64
    halves = (draw(halvings((cores + 1) // 2)), draw(halvings(cores // 2)))
    return Split((Partition(kind, share),), 0.0, halves)


def held(split: Split | None, shard: Sequence[int]) -> list[Sequence[int]]:
    """Samples, input and output channels of every core: the first half's rounded, half up."""
    if split is None:
        return [shard]
    ((kind, share),) = ((p.type, p.share) for p in split.partitions)
    first, second = list(shard), list(shard)
    first[kind] = floor(Fraction(shard[kind]) * Fraction(share) + Fraction(1, 2))
    second[kind] = shard[kind] - first[kind]
    return held(split.halves[0], first) + held(split.halves[1], second)


def flops_of_cores(timeline: Timeline) -> dict[str, float]:
    """What each core of an unfolded run did."""
    found: dict[str, float] = defaultdict(float)
    for record in timeline:
        found[record.resource] += record.flops
    return found


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), halvings(n))), st.integers(1, 9))
def test_the_first_half_gets_the_nearest_whole_number(
    case: tuple[int, Split | None], batch: int
) -> None:
    cores, root = case
    network = chain(1, 5)
    plan = Plan("by hand", network.name, batch, "time", ("fc0",), root)
    timeline = simulate(network, plan, boards(cores), DEPLOYED, folded=False)
    flops = flops_of_cores(timeline)
    for number, (rows, inputs, outputs) in enumerate(held(root, (batch, 5, 5))):
        both_products = 2 * 2 * rows * inputs * outputs  # nobody needs the error of the input
        assert flops[f"core{number}.core"] == both_products


@pytest.mark.parametrize(("batch", "first"), [(1, 1), (2, 1), (3, 2), (5, 3), (7, 4)])
def test_of_an_odd_number_the_first_half_gets_one_more(batch: int, first: int) -> None:
    network = chain(1, 5)
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(boards(2)), batch)
    flops = flops_of_cores(simulate(network, plan, boards(2), DEPLOYED, folded=False))
    assert flops["core0.core"] == 100 * first
    assert flops["core1.core"] == 100 * (batch - first)


def halved(rows: int, cores: int) -> list[int]:
    """Rows of every core, halved level by level, the first half getting one more."""
    if cores == 1:
        return [rows]
    return halved((rows + 1) // 2, cores // 2) + halved(rows // 2, cores // 2)


@pytest.mark.parametrize("batch", range(9, 17))
def test_sums_of_some_cores_take_the_cheaper_way(batch: int) -> None:
    """Of 16 cores 9 to 15 have a sample: no torus. With the idle ones between them they are.

    All 16 of a 4 x 4 torus send in four directions at once: 2 x 15/16 of the
    tensor over four links. On a switch idle cores would only make the ring
    longer: 2 x (n - 1) / n of it through one port.
    """
    features = 64
    size = 4 * features**2
    busy = sum(rows > 0 for rows in halved(batch, 16))
    assert busy == batch
    network = chain(1, features)
    for array, wanted_s in (
        (boards(16, "torus", (4, 4)), 2 * 15 / 16 * size / (4 * BYTES_PER_S)),
        (boards(16, "switch"), 2 * (busy - 1) / busy * size / BYTES_PER_S),
    ):
        plan = load_planner("data_parallel")(network, DEPLOYED.planned(array), batch)
        for folded in (True, False):
            timeline = simulate(network, plan, array, DEPLOYED, folded=folded)
            (sums,) = [r for r in timeline if r.kind == Kind.SUMS]
            assert (sums.end_ps - sums.start_ps) * 1e-12 == pytest.approx(wanted_s, rel=1e-6)


def buckets(bucket_bytes: float, layers: int = 4, features: int = 32) -> list[tuple[str, float]]:
    """Every exchange of gradients in order, and its share of all their bytes."""
    network, array = chain(layers, features), boards(4)
    execution = Execution("deployed", bucket_bytes=bucket_bytes)
    plan = load_planner("data_parallel")(network, execution.planned(array), 8)
    timeline = simulate(network, plan, array, execution)
    sums = [r for r in timeline if (r.kind, r.phase) == (Kind.SUMS, Phase.GRADIENT)]
    whole = sum(record.bytes for record in sums)
    return [(record.layer, record.bytes / whole) for record in sums]


def test_a_bucket_that_is_just_full_goes() -> None:
    gradient = 4.0 * 32 * 32
    one, two = [(f"fc{i}", 0.25) for i in (3, 2, 1, 0)], [("fc3 and 1 more", 0.5)]
    assert buckets(0.0) == buckets(gradient) == one
    assert buckets(gradient + 1) == buckets(2 * gradient) == [*two, ("fc1 and 1 more", 0.5)]
    assert buckets(2 * gradient + 1) == [("fc3 and 2 more", 0.75), ("fc0", 0.25)]
    assert buckets(4 * gradient) == buckets(1e9) == [("fc3 and 3 more", 1.0)]


def test_layers_whose_gradients_are_not_summed_fill_no_bucket() -> None:
    """Gradients of samples are summed, of channels not: they are there where they are needed."""
    network, array = chain(4, 32), boards(4)
    types: tuple[PartitionType, ...] = (I, II, I, I)
    bottom = Split(tuple(Partition(kind, 0.5) for kind in types), 0.0, (None,))
    plan = Plan(
        "by hand",
        network.name,
        8,
        "time",
        tuple(f"fc{i}" for i in range(4)),
        Split(bottom.partitions, 0.0, (bottom,)),
    )
    execution = Execution("deployed", bucket_bytes=1e9)
    sums = [
        record.layer
        for record in simulate(network, plan, array, execution)
        if (record.kind, record.phase) == (Kind.SUMS, Phase.GRADIENT)
    ]
    assert sums == ["fc3 and 2 more"]


def test_equal_plans_take_equal_times() -> None:
    """A plan that was read has halves that are equal, where the planner's are one object."""
    network, array = load_network("gpt2:seq=64"), load_array("tpu-v3-8")
    plan = planned_by_axes(network, DEPLOYED.planned(array), 8, Axes(dp=2, tp=4))
    assert plan.root is not None
    (half,) = plan.root.halves
    two = replace(plan, root=replace(plan.root, halves=(half, half)))
    again = Plan.from_json(two.to_json())
    assert again == two
    once, *others = (simulate(network, one, array, DEPLOYED) for one in (plan, two, again))
    assert [other.iteration_ps for other in others] == [once.iteration_ps] * 2


def test_who_sits_out_of_a_group_without_samples_is_who_the_plan_names() -> None:
    """Four cores of two pairs, of each pair the first one works; one layer is the first pair's."""
    network = load_network("lenet")
    names = tuple(node.name for node in partition_graph(network))
    pair = Split((Partition(I, 1.0),) * len(names), 0.0, (None, None), idle=True)
    even = (Partition(I, 0.5),) * (len(names) - 1)
    root = Split((Partition(I, 1.0), *even), 0.0, (pair, replace(pair)))
    plan = Plan("mine", network.name, 8, "time", names, root)
    array = DEPLOYED.planned(load_array("h100-cluster", ["nodes=1"])).part(0, 4)
    second = rules_of(network, plan, array, DEPLOYED, folded=True).root.halves[1]
    assert [second.halves.index(half) for half in second.working_halves] == [0]
    assert simulate(network, plan, array, DEPLOYED).idle_cores == 2
