"""HBM bytes of a deployed step, counted again from cores and operators."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, Device, Group, load_array
from planners import Plan, Split, load_planner
from planners.order import Kind
from planners.partition import Shard
from planners.plan.updates import sharded
from simulator import DEPLOYED, Execution, Timeline, simulate
from simulator.cost.roofline import core_of, traffic
from simulator.cost.training_operators import operators
from tests.strategies import WEIGHTED, arrays, networks, plans
from workloads import Network, load_network, partition_graph

EXACT = Execution("deployed", whole_shards=False)


def fractions(
    split: Split | None, group: Group, above: tuple[tuple[float, ...], ...]
) -> Iterator[tuple[Device, tuple[tuple[float, ...], ...]]]:
    """Every core's device, and what it has of each node: of samples, inputs, outputs, groups."""
    if split is None:
        yield group.kinds[0][0], above
        return
    for i, half in enumerate(group.halves()):
        below = tuple(
            tuple(
                part * (share if i == 0 else 1 - share) if field == kind else part
                for field, part in enumerate(parts)
            )
            for parts, (kind, share) in zip(
                above, ((p.type, p.share) for p in split.partitions), strict=True
            )
        )
        yield from fractions(split.halves[min(i, len(split.halves) - 1)], half, below)


def counted(network: Network, plan: Plan, array: Array) -> float:
    """Bytes that all cores read from and write to their HBMs.

    Where an update is shared out every parameter is updated once, by whoever it is.
    """
    graph, ops = partition_graph(network), operators(network)
    whole = [
        (plan.batch, node.in_channels / node.groups, node.out_channels / node.groups, node.groups)
        for node in graph
    ]
    shared = sharded(plan.updates)
    schedule = [op for op in ops.schedule() if not (op.phase == "update" and op.node in shared)]
    core = core_of(array.group.kinds[0][0])
    once = [op for op in ops.schedule() if op not in schedule]
    assert not any(op.channel.updated for op in once), "of which those cut by inputs have copies"
    amounts = [traffic(op, Shard(*whole[op.node]), core) for op in once]
    for device, parts in fractions(plan.root, array.group, ((1.0,) * 5,) * len(graph)):
        core = core_of(device)
        for op in schedule:
            *cut, positions = parts[op.node]
            shard = Shard(*(map(prod, zip(whole[op.node], cut, strict=True))))
            # of half of all positions there are half as many samples
            shard = shard._replace(rows=shard.rows * positions, positions=positions)
            amounts.append(0.0 if 0.0 in shard else traffic(op, shard, core))
    return fsum(amounts)


def recorded(timeline: Timeline) -> float:
    return fsum(r.multiplicity * r.bytes for r in timeline if r.kind == Kind.MEMORY)


@st.composite
def steps(draw: st.DrawFn) -> tuple[Network, Plan, Array]:
    """Any plan of any chain of products: joins are cut by what they read, as tested elsewhere."""
    network, array = draw(networks(4, joins=False, kinds=WEIGHTED)), draw(arrays(3, 2))
    return network, draw(plans(network, EXACT.planned(array), 12)), array


@settings(max_examples=40, deadline=None)
@given(steps(), st.booleans())
def test_every_byte_of_every_core_is_recorded(
    case: tuple[Network, Plan, Array], folded: bool
) -> None:
    network, plan, array = case
    timeline = simulate(*case, EXACT, folded=folded)
    wanted = counted(network, plan, EXACT.planned(array))
    assert recorded(timeline) == pytest.approx(wanted, rel=1e-9)
    workers = timeline.program.workers
    crossed = [
        worker.multiplicity * timeline.memory_bytes[worker.hbm]
        for worker in workers
        if worker.hbm is not None
    ]
    assert len(crossed) == len(workers)
    assert fsum(crossed) == pytest.approx(wanted, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(steps())
def test_bytes_move_while_their_core_computes(case: tuple[Network, Plan, Array]) -> None:
    """Each operation's begin with it and take what one core's slice of the HBM needs for them."""
    timeline = simulate(*case, DEPLOYED)
    computing = {
        (r.resource.removesuffix(".core"), r.phase, r.layer): r
        for r in timeline
        if r.kind == Kind.COMPUTE
    }
    slices = {
        f"core{number}": core_of(worker.device).hbm_bytes_per_s
        for number, worker in enumerate(timeline.program.workers)
        if isinstance(worker.device, Device)
    }
    moving = [record for record in timeline if record.kind == Kind.MEMORY]
    for r in moving:
        core = r.resource.removesuffix(".hbm")
        operation = computing[core, r.phase, r.layer]
        assert operation.start_ps == r.start_ps
        assert operation.end_ps >= r.end_ps
        assert (r.end_ps - r.start_ps) * 1e-12 == pytest.approx(
            r.bytes / slices[core], rel=1e-9, abs=2e-12
        )
    assert len(moving) == len(computing)


def test_what_crosses_an_hbm_is_not_received_from_anybody() -> None:
    network, array = load_network("lenet"), load_array("accpar-mixed")
    plan = load_planner("accpar")(network, DEPLOYED.planned(array), 512)
    timeline = simulate(network, plan, array, DEPLOYED)
    of_kinds = {
        memory: fsum(r.bytes * r.multiplicity for r in timeline if (r.kind == "memory") is memory)
        for memory in (False, True)
    }
    assert min(of_kinds.values()) > 0.0
    assert timeline.traffic_bytes == pytest.approx(of_kinds[False], rel=1e-12)
