"""Exchanges of gradients over nodes: what a ring's steps take, and how large buckets are."""

from dataclasses import replace

import pytest

from hardware import Array, Stack, by_core, load_array
from planners import Axes, Place, Staging, planned_by_axes, planned_in_stages
from planners.order import Kind
from planners.plan.updates import Update, updates_of
from simulator import DEPLOYED, simulate
from simulator.lowering.execution import deployed
from simulator.lowering.models import rules_of
from simulator.lowering.step.deployed import Deployed
from workloads import Builder, load_network

NETWORK = load_network("llama3-8b:layers=2:seq=256")
STEPS = (3.4e-6, 14e-6)


def rules(nodes: int, axes: Axes, stack: Stack | None) -> Deployed:
    array: Array = load_array("h100-cluster", [f"nodes={nodes}", "precision=bf16"])
    array = replace(array, stack=stack)
    cores = by_core(array)
    plan = planned_by_axes(NETWORK, cores, 8 * nodes, axes)
    plan = replace(plan, updates=updates_of([Update.SHARDED] * len(plan.nodes)))
    found = rules_of(NETWORK, plan, cores, deployed(array), folded=True)
    assert isinstance(found, Deployed)
    return found


def latencies(of: Deployed, kind: Kind) -> set[int]:
    """Nanoseconds that exchanges of a kind take besides their bytes."""
    items = [item for item in of.items if item.kind is kind and item.bucket]
    carried = [of.carry(exchange) for item in items for exchange in of.exchanges(item)]
    return {round(1e9 * sum(job.latency_s for job in one.jobs)) for one in carried}


@pytest.mark.parametrize(
    ("nodes", "axes", "expected"),
    [
        (4, Axes(dp=32), 3 * 14_000 + 28 * 3_400),
        (4, Axes(dp=4, tp=8), 3 * 14_000),
        (16, Axes(dp=128), 15 * 14_000 + 112 * 3_400),
    ],
)
def test_a_ring_goes_through_all_members(nodes: int, axes: Axes, expected: int) -> None:
    """Of m nodes m - 1 steps are between two of them, the others inside one."""
    slow = rules(nodes, axes, Stack("s", ring_steps_s=STEPS))
    assert expected in latencies(slow, Kind.WEIGHTS)
    assert expected not in latencies(rules(nodes, axes, Stack("s")), Kind.WEIGHTS)


def test_inside_a_node_links_say_it() -> None:
    one = rules(1, Axes(dp=8), Stack("s", ring_steps_s=STEPS))
    assert latencies(one, Kind.WEIGHTS) == latencies(rules(1, Axes(dp=8), None), Kind.WEIGHTS)


@pytest.mark.parametrize(
    ("axes", "ranks"),
    [(Axes(dp=32), 32), (Axes(dp=4, tp=4, cp=2), 8), (Axes(dp=24), 24), (Axes(dp=12, tp=2), 12)],
)
def test_buckets_grow_with_the_ranks(axes: Axes, ranks: int) -> None:
    """Those of data and of context parallelism; with ``--bucket`` they are as is said."""
    stack = Stack("s", bucket_bytes=30.0, bucket_rank_bytes=2.0)
    nodes = axes.dp * axes.tp * axes.cp // 8
    assert rules(nodes, axes, stack).bucket_bytes == max(30.0, 2.0 * ranks)
    assert DEPLOYED.bucket_of() == rules(nodes, axes, Stack("s")).bucket_bytes


def test_buckets_grow_with_the_replicas_of_a_stage() -> None:
    """Four layers of 4096 bytes of gradients on four replicas: of 3500 bytes a rank all at once."""
    net = Builder("chain", 32, 1, 1)
    for number in range(4):
        net.fc(f"fc{number}", 32)
    network, counts = net.build(), []
    for each in (1.0, 3500.0):
        stack = Stack("s", bucket_bytes=1.0, bucket_rank_bytes=each)
        array = replace(load_array("tpu-v3-8"), stack=stack)
        planned, staging = DEPLOYED.planned(array), Staging(1, 4, "gpipe")
        asked = "data_parallel", network, planned, 4, staging, [0], [Place(0, 4, 4)]
        timeline = simulate(network, planned_in_stages(*asked), array, deployed(array))
        counts.append(sum(one.kind is Kind.SUMS for one in timeline.operations))
    assert counts == [4, 1]


def test_each_sort_of_groups_fills_its_own_bucket() -> None:
    """Norms between layers of other groups do not cut their bucket in two."""
    axes = Axes(dp=4, tp=2, sp=True)
    with_stack, without = (rules(1, axes, stack) for stack in (Stack("s", bucket_bytes=1e12), None))
    counts = [
        len([item for item in one.items if item.kind is Kind.SUMS and item.bucket])
        for one in (with_stack, without)
    ]
    assert counts[0] == 2 < counts[1]


@pytest.mark.parametrize("axes", [Axes(dp=8), Axes(dp=4, tp=2, sp=True)])
def test_new_weights_come_in_the_order_in_which_forward_needs_them(axes: Axes) -> None:
    """Those of norms too, which other groups have under sp, and whose bucket is never full."""
    found = rules(1, axes, Stack("s", bucket_bytes=64.0 * 2**20))
    gathers = [item.bucket for item in found.items if item.kind is Kind.WEIGHTS]
    assert len(gathers) > 2
    assert gathers == sorted(gathers)
    gradients = [item.bucket for item in found.items if item.kind is Kind.SUMS and item.bucket]
    weights, sums = (sorted(v for one in of for v in one) for of in (gathers, gradients))
    assert weights == sums
