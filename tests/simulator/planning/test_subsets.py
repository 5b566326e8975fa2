"""Layouts by estimate: of many cores the states near a good layout's are looked at, too."""

import math

import pytest

from hardware import load_array
from planners import TIME
from planners.partition import II, III, I
from simulator import DEPLOYED, simulate
from simulator.planning.judge import Judge
from simulator.planning.lifting import whole
from simulator.planning.placements import Placement, blank
from simulator.planning.states import is_state
from simulator.planning.subsets import Subset, subset_of
from workloads import load_network, partition_graph

NETWORK = load_network("alexnet")


def subset(boards: int, batch: int) -> tuple[Subset, Judge]:
    array = DEPLOYED.planned(load_array("tpu-v3-pod", [f"devices.0.count={boards}"]))
    judge = Judge(NETWORK, array, DEPLOYED)
    ((device, size),) = whole(array)
    found = subset_of(judge, device, size, batch, 0.0, math.inf)
    assert found is not None
    return found, judge


def test_the_first_is_the_best_of_those_estimated() -> None:
    one, _ = subset(1, 64)
    found = one.estimated()
    assert found == sorted(found)
    for seconds, picks in found:
        assert seconds == one.schedule.seconds(picks)
        assert one.number(one.types(picks)) == picks
    better = one.improved(found[0][1])
    assert one.schedule.seconds(better) <= found[0][0]


def test_of_few_cores_all_states_are_there() -> None:
    one, _ = subset(1, 64)
    picks = one.estimated()[0][1]
    assert one.refined(picks) == (one, picks)


def test_of_many_cores_states_nearby_are_better() -> None:
    """256 cores: types that change once from level to level, and then some that change twice."""
    one, judge = subset(32, 128)
    picks = one.improved(one.estimated()[0][1])
    near, found = one.refined(picks)
    assert near.schedule.seconds(found) < 0.99 * one.schedule.seconds(picks)
    kinds = (I, II, III)
    assert all(is_state(kinds, types) for types in one.types(picks))
    assert not all(is_state(kinds, types) for types in near.types(found))
    like = blank("alexnet", [node.name for node in partition_graph(NETWORK)], 128, TIME)
    steps = [
        simulate(
            NETWORK,
            Placement((some.piece(layout),), (1.0,)).plan(judge.array, like),
            judge.array,
            DEPLOYED,
        ).iteration_s
        for some, layout in ((one, picks), (near, found))
    ]
    assert steps[1] < 0.99 * steps[0]


def test_too_slow_a_subset_is_left_out() -> None:
    one, judge = subset(1, 64)
    floor_s = one.chain.tables.products_s
    args = (judge, one.device, one.size, 64, 0.0)
    assert subset_of(*args, floor_s) is None
    assert subset_of(*args, 1e3 * floor_s) is not None
    with pytest.raises(KeyError):
        one.number([()] * len(one.chain.nodes))


def test_what_a_subset_takes_at_least_is_below_all_its_layouts() -> None:
    one, _ = subset(2, 512)
    assert 0 < one.least_s() <= one.estimated()[0][0]


def test_nothing_is_known_of_cores_that_may_be_left_without_a_node() -> None:
    """Of up to eight cores layouts may leave some without work: estimates of these are too low."""
    assert subset(1, 64)[0].least_s() == 0


def test_a_layout_is_estimated_once() -> None:
    """What is asked for again counts all the same: the effort does not depend on what is kept."""
    one, _ = subset(1, 64)
    picks = one.estimated()[0][1]
    spent, known = one.schedule.spent, len(one.schedule._known)
    one.schedule.seconds(picks)
    assert (one.schedule.spent, len(one.schedule._known)) == (spent + len(picks), known)
    one.schedule.seconds(picks, 0.0)  # with buckets of another size it is another
    assert len(one.schedule._known) == known + 1
