"""Replicas that do the same are followed once: against all of them."""

from dataclasses import replace

import pytest

from experiments.studies.case import Case, step_of
from hardware import Array, load_array
from planners import (
    Axes,
    Pipeline,
    Place,
    Plan,
    Stage,
    Staging,
    load_planner,
    planned_by_axes,
)
from simulator import PUBLISHED, Timeline, simulate
from simulator.lowering.execution import deployed
from workloads import cut, load_network, partition_graph

BATCH = 96


def plan_of(array: Array, replicas: tuple[int, ...], each: int, schedule: str, many: int) -> Plan:
    """AlexNet in as many stages as there are numbers of replicas."""
    network = load_network("alexnet")
    names = tuple(node.name for node in partition_graph(network))
    firsts = [k * len(names) // len(replicas) for k in range(len(replicas))]
    planner, first = load_planner("accpar"), 0
    places, stages = [], []
    for k, (begin, part) in enumerate(zip(firsts, cut(network, firsts).networks, strict=True)):
        places.append(Place(first, replicas[k] * each, replicas[k]))
        own = planner(part, array.part(first, each), BATCH // many)
        stages.append(Stage(begin, k, own))
        first += replicas[k] * each
    pipeline = Pipeline(tuple(stages), tuple(places), schedule, many)
    return Plan("by hand", "alexnet", BATCH, "time", names, None, pipeline=pipeline)


def steps(
    array: Array, replicas: tuple[int, ...], each: int, schedule: str, many: int
) -> tuple[Timeline, Timeline]:
    plan = plan_of(array, replicas, each, schedule, many)
    network = load_network("alexnet")
    once = simulate(network, plan, array, PUBLISHED)
    return once, simulate(network, plan, array, PUBLISHED, folded=False)


def followed(timeline: Timeline) -> int:
    """How many replicas of places are simulated."""
    programs = [worker.rank_program for worker in timeline.program.workers]
    return len({(one.rank, one.replica) for one in programs if one})


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zero-bubble"])
@pytest.mark.parametrize(
    ("replicas", "copies"), [((2, 2), 2), ((4, 4, 4), 4), ((4, 2), 2), ((3, 1), 1), ((2, 4, 2), 2)]
)
@pytest.mark.parametrize("each", [1, 2])
def test_alike_pipelines_are_one(
    schedule: str, replicas: tuple[int, ...], copies: int, each: int
) -> None:
    array = load_array("accpar-homogeneous", [f"devices.0.count={sum(replicas) * each}"])
    once, all_ = steps(array, replicas, each, schedule, 12)
    assert once.makespan_ps == all_.makespan_ps
    ours, theirs = once.totals(), all_.totals()
    assert ours.keys() == theirs.keys()
    for key, total in theirs.items():
        assert ours[key].operations == total.operations, key
        assert ours[key].core_ps == total.core_ps, key
        assert ours[key].bytes == pytest.approx(total.bytes)
        assert ours[key].flops == pytest.approx(total.flops)
    assert once.cores == all_.cores
    assert followed(once) == sum(replicas) // copies


def test_unlike_devices_are_no_copies() -> None:
    """A place of two replicas on boards of two kinds: each is followed."""
    array = load_array("accpar-mixed", ["devices.0.count=1", "devices.1.count=3"])
    once, all_ = steps(array, (2, 2), 1, "1f1b", 8)
    assert once.makespan_ps == all_.makespan_ps
    assert len(once.program.workers) == 4


def wired(nodes: int, axes: str, *changes: str) -> tuple[Timeline, Timeline]:
    """A small transformer by named axes in three replicas on nodes of GPUs, folded and not."""
    array = load_array("h100-cluster", [f"nodes={nodes}", "stack=nemo-2024", *changes])
    execution = deployed(array)
    network, made = load_network("gpt2-medium:layers=4"), execution.planned(array)
    one, staging = made.part(0, made.group.size // 3), Staging(micro_batch=1)
    plan = planned_by_axes(network, one, 16, Axes.parse(axes), staging)
    assert plan.pipeline is not None
    each = plan.pipeline.places[0].count
    places = tuple(Place(3 * each * k, 3 * each, 3) for k in range(len(plan.pipeline.places)))
    many = 3 * plan.pipeline.micro_batches
    pipeline = replace(plan.pipeline, places=places, micro_batches=many)
    plan = replace(plan, batch=48, pipeline=pipeline)
    once = simulate(network, plan, made, execution)
    return once, simulate(network, plan, made, execution, folded=False)


@pytest.mark.parametrize(
    ("nodes", "axes", "stages"), [(3, "tp=8", 1), (6, "pp=2,tp=8", 2), (6, "dp=2,pp=2,tp=4", 2)]
)
def test_replicas_on_wires_of_their_own_are_one(nodes: int, axes: str, stages: int) -> None:
    once, all_ = wired(nodes, axes)
    assert once.makespan_ps == all_.makespan_ps
    assert once.traffic_bytes == pytest.approx(all_.traffic_bytes)
    assert (followed(once), followed(all_)) == (stages, 3 * stages)
    peaks = [{one.peak_bytes for one in timeline.memory} for timeline in (once, all_)]
    assert peaks[0] == peaks[1]


@pytest.mark.parametrize(
    ("nodes", "changes"),
    [
        (6, ["topology.levels.1.oversubscription=4"]),
        (3, ["topology.levels.1.rails=1", "devices.0.count=16"]),
        (8, ["devices.0.count=6"]),
    ],
)
def test_replicas_that_share_wires_are_followed_each(nodes: int, changes: list[str]) -> None:
    """Of a switch, of a node's port; or nodes of 6 that part the 8 of a replica differently."""
    once, all_ = wired(nodes, "pp=2,tp=8", *changes)
    assert once.makespan_ps == all_.makespan_ps
    assert followed(once) == followed(all_) == 6


@pytest.mark.parametrize(
    ("nodes", "axes"),
    [(3, "dp=3,tp=8"), (3, "dp=6,tp=4"), (6, "dp=3,pp=2,tp=8"), (6, "dp=6,pp=2,vp=2,tp=4")],
)
@pytest.mark.parametrize("update", ["", "sharded"])
def test_ways_of_dp_that_are_no_power_of_two_fold(nodes: int, axes: str, update: str) -> None:
    array = load_array("h100-cluster", [f"nodes={nodes}", "stack=nemo-2024"])
    staging = Staging(parallel=Axes.parse(axes), micro_batch=1)
    execution = replace(deployed(array), staging=staging, update=update)
    network = load_network("llama3-8b:layers=4:hidden=256:heads=8:kv_heads=8:ffn=512:seq=128")
    case = Case(network, "axes", array, 24, execution=execution)
    plan, once = step_of(case)
    all_ = simulate(network, plan, array, execution, folded=False)
    assert once.makespan_ps == all_.makespan_ps
    assert once.traffic_bytes == pytest.approx(all_.traffic_bytes)
    assert len(once.program.workers) < len(all_.program.workers)
