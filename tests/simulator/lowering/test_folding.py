"""Folded and unfolded runs agree to the picosecond, the byte and the flop."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, load_array
from planners import PLANNERS, Plan, load_planner
from simulator import Timeline, program_of, shares, simulate
from simulator.engine.timeline import Total
from tests.strategies import arrays, networks, plans
from workloads import ZOO, Network, load_network

SMALL = ("lenet", "alexnet")
"""Run unfolded on 2,048 cores by default; the whole zoo with -m slow, and by digests."""


def alike(one: dict[tuple[str, str], Total], other: dict[tuple[str, str], Total]) -> bool:
    """Whole numbers are the same; sums of bytes and FLOPs to the last digits but some."""
    return one.keys() == other.keys() and all(
        tuple(one[key]) == pytest.approx(tuple(other[key]), rel=1e-12) for key in one
    )


def both(network: Network, plan: Plan, array: Array) -> tuple[Timeline, Timeline]:
    folded, unfolded = (simulate(network, plan, array, folded=f) for f in (True, False))
    assert folded.iteration_ps == unfolded.iteration_ps
    assert alike(folded.totals(), unfolded.totals())  # operations, core-ps, bytes, FLOPs
    assert shares(folded) == shares(unfolded)
    assert folded.flops_by_device() == pytest.approx(unfolded.flops_by_device(), rel=1e-12)
    assert folded.cores == unfolded.cores == array.group.cores
    return folded, unfolded


def spans(timeline: Timeline) -> dict[tuple[str, str, str, int, int, int], int]:
    """How often each (layer, phase, kind, level, start, end) happened in the whole array."""
    count: dict[tuple[str, str, str, int, int, int], int] = {}
    for r in timeline:
        key = (r.layer, r.phase, r.kind, r.level, r.start_ps, r.end_ps)
        count[key] = count.get(key, 0) + r.multiplicity
    return count


@pytest.mark.parametrize("name", ["accpar-mixed", "accpar-homogeneous"])
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize(
    "network",
    [
        pytest.param(load_network(n), id=n, marks=[] if n in SMALL else [pytest.mark.slow])
        for n in ZOO
    ],
)
def test_the_zoo_on_the_papers_arrays(network: Network, planner: str, name: str) -> None:
    array = load_array(name)
    folded, unfolded = both(network, load_planner(planner)(network, array, 512), array)
    if name == "accpar-mixed":
        assert 50 * len(folded) <= len(unfolded)


@pytest.mark.parametrize("planner", ["owt", "accpar"])
@pytest.mark.parametrize(
    "name", ["inception-v3", "densenet121", "mobilenet-v2", "bert-base:seq=16", "gnmt:seq=5"]
)
def test_graphs_that_are_not_chains(name: str, planner: str) -> None:
    array = load_array("accpar-mixed", ["devices.0.count=4", "devices.1.count=3"])
    network = load_network(name)
    folded, unfolded = both(network, load_planner(planner)(network, array, 64), array)
    assert spans(folded) == spans(unfolded)


@pytest.mark.parametrize(
    "changes",
    [
        ("devices.0.count=1", "devices.1.count=1"),
        ("devices.0.count=5", "devices.1.count=12"),
        pytest.param(("devices.0.count=127",), marks=pytest.mark.slow),
        ("devices.1.network.bandwidth=3 Gbit/s", "devices.0.count=3", "devices.1.count=8"),
        ("devices.1.device=accpar-tpu-v2", "devices.1.chips=3", "devices.0.count=16"),
        ("devices.0.chip.cores=1", "devices.0.count=7", "devices.1.count=9"),
    ],
)
@pytest.mark.parametrize("planner", PLANNERS)
def test_uneven_arrays_and_overrides(planner: str, changes: tuple[str, ...]) -> None:
    array, network = load_array("accpar-mixed", changes), load_network("alexnet")
    folded, unfolded = both(network, load_planner(planner)(network, array, 512), array)
    assert spans(folded) == spans(unfolded)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 16))
def test_any_graph_array_and_plan(data: st.DataObject, batch: int) -> None:
    """Random shares and sub-plans; the plan says by itself which halves are alike."""
    network, array = data.draw(networks()), data.draw(arrays(most=9))
    plan = data.draw(plans(network, array, batch))
    folded, unfolded = both(network, plan, array)
    assert spans(folded) == spans(unfolded)


def test_classes_split_exactly_where_they_must() -> None:
    """A class for each kind and, where counts are odd, for each size that halving leaves."""
    network = load_network("lenet")

    def boards(*changes: str, planner: str = "data_parallel") -> int:
        array = load_array("accpar-mixed", changes)
        plan = load_planner(planner)(network, array, 512)
        timeline = simulate(network, plan, array)
        return sum(resource.kind == "core" for resource in timeline.resources)

    assert boards() == 2
    assert boards("devices.0.count=1", "devices.1.count=64") == 2
    assert boards("devices.1.device=accpar-tpu-v2") == 1
    # 3 = 2 + 1, and 127 = 64 + 32 + 16 + 8 + 4 + 2 + 1 beside the one that differs
    assert boards("devices.0.count=3", "devices.1.count=1") == 3
    assert boards("devices.0.count=1", "devices.1.count=127") == 1 + 7


def test_folding_does_not_change_what_workers_do() -> None:
    network, array = load_network("lenet"), load_array("accpar-homogeneous")
    plan = load_planner("accpar")(network, array, 512)
    folded, unfolded = (program_of(network, plan, array, folded=f) for f in (True, False))
    (one,) = folded.workers
    lines = [(str(task.operation), task.needs) for task in one.template]
    assert one.multiplicity == len(unfolded.workers) == 128
    for number, worker in enumerate(unfolded.workers):
        assert (worker.multiplicity, worker.first) == (1, number)
        assert [(str(task.operation), task.needs) for task in worker.template] == lines
