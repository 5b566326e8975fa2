"""Replicas that do the same are followed once: against all of them."""

import pytest

from hardware import Array, load_array
from planners import Pipeline, Place, Plan, Stage, load_planner
from simulator import PUBLISHED, Timeline, simulate
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
    itineraries = {
        (w.rank_program.rank, w.rank_program.replica)
        for w in once.program.workers
        if w.rank_program
    }
    assert len(itineraries) == sum(replicas) // copies


def test_unlike_devices_are_no_copies() -> None:
    """A place of two replicas on boards of two kinds: each is followed."""
    array = load_array("accpar-mixed", ["devices.0.count=1", "devices.1.count=3"])
    once, all_ = steps(array, (2, 2), 1, "1f1b", 8)
    assert once.makespan_ps == all_.makespan_ps
    assert len(once.program.workers) == 4
