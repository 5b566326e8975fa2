"""Layouts by estimate: of many cores the states near a good layout's are looked at, too."""

import math
from itertools import islice, product
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Array, load_array
from planners import TIME
from planners.partition import II, III, I
from simulator import DEPLOYED, Execution, simulate
from simulator.planning.chain import Chain
from simulator.planning.judge import Judge
from simulator.planning.layouts import first_cores, tables_of
from simulator.planning.lifting import whole
from simulator.planning.placements import Placement, blank
from simulator.planning.schedule import Schedule
from simulator.planning.states import is_state
from simulator.planning.subsets import FAR, Subset, subset_of
from tests.simulator.planning.cases import BATCHES, EXECUTIONS, chains, like_cores
from workloads import Network, load_network, partition_graph

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


@given(chains(3), like_cores(4), BATCHES, EXECUTIONS, st.sampled_from((1.0, 1.3, math.inf)))
def test_states_are_left_out_that_no_near_layout_has(
    network: Network, whole_: Array, batch: int, execution: Execution, times: float
) -> None:
    """All layouts are gone through; those of up to FAR times what is enough are still there."""
    array = execution.planned(whole_)
    judge = Judge(network, array, execution)
    ((device, size),) = whole(array)
    cores = first_cores(array, device, size)
    assert cores is not None
    tables = tables_of(network, batch, cores, execution)
    schedule, states = Schedule(tables), [costs.states for costs in tables.nodes]
    every = list(islice(product(*(range(len(one)) for one in states)), 3000))
    taken = {picks: schedule.seconds(picks) for picks in every}
    enough_s = times * min(taken.values())
    found = subset_of(judge, device, size, batch, 0.0, enough_s)
    if found is None:
        assert min(taken.values()) >= enough_s
        return
    limit_s = FAR * min(enough_s, taken[tuple(one.numbers[(I,) * cores.levels] for one in states)])
    left = [costs.states.numbers for costs in found.chain.nodes]
    for picks, seconds in taken.items():
        types = [one.at(pick) for one, pick in zip(states, picks, strict=True)]
        if seconds < limit_s and not any(
            n.hollow[p] for n, p in zip(tables.nodes, picks, strict=True)
        ):
            assert all(of_node in some for of_node, some in zip(types, left, strict=True))
            assert found.schedule.seconds(found.number(types)) == seconds


def test_states_are_left_out_by_what_is_known_to_be_enough() -> None:
    """If nothing is, by what samples alone take, which is near the best of a large batch."""
    one, judge = subset(4, 16384)
    two = subset_of(judge, one.device, one.size, 16384, 0.0, one.estimated()[0][0])
    cores = first_cores(judge.array, one.device, one.size)
    assert two is not None
    assert cores is not None
    every = one.chain.nodes, two.chain.nodes, tables_of(NETWORK, 16384, cores, DEPLOYED).nodes
    some, fewer, filled = (sum(int((~costs.hollow).sum()) for costs in nodes) for nodes in every)
    assert fewer < some < 0.9 * filled


def test_what_a_subset_takes_at_least_is_below_all_its_layouts() -> None:
    one, _ = subset(2, 512)
    assert 0 < one.least_s(math.inf) <= one.estimated()[0][0]


def test_a_bound_is_not_sought_further_where_it_is_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, _ = subset(2, 512)
    first_s = one.chain.least(0.0).bound_s
    monkeypatch.setattr(Chain, "best", lambda _: [SimpleNamespace(bound_s=2 * first_s)])
    assert one.least_s(0.9 * first_s) == first_s
    assert one.least_s(1.1 * first_s) == 2 * first_s


def test_nothing_is_known_of_cores_that_may_be_left_without_a_node() -> None:
    """Of up to eight cores layouts may leave some without work: estimates of these are too low."""
    assert subset(1, 64)[0].least_s(math.inf) == 0


def test_a_layout_is_estimated_once() -> None:
    """What is asked for again counts all the same: the effort does not depend on what is kept."""
    one, _ = subset(1, 64)
    picks = one.estimated()[0][1]
    spent, known = one.schedule.spent, len(one.schedule._known)
    one.schedule.seconds(picks)
    assert (one.schedule.spent, len(one.schedule._known)) == (spent + len(picks), known)
    one.schedule.seconds(picks, 0.0)  # with buckets of another size it is another
    assert len(one.schedule._known) == known + 1
