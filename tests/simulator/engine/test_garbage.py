"""Equal steps in one process do not grow, and what a step was run on goes with it."""

import gc
import tracemalloc
import weakref
from collections.abc import Iterator
from dataclasses import replace

import pytest

from experiments.studies.case import Case, plan_of, simulated
from hardware import Array, load_array, wires_of
from planners import AXES, Axes, Staging, load_planner
from simulator import DEPLOYED, simulate
from simulator.search.relaxation import Chain
from simulator.search.search import search
from simulator.search.states import States
from simulator.search.tables import Costs, Tables
from workloads import load_network

NETWORK = load_network("lenet")


def array(bandwidth: str = "1 GB/s") -> Array:
    return load_array(
        "accpar-mixed",
        ["devices.0.count=3", "devices.1.count=5", f"devices.0.network.bandwidth={bandwidth}"],
    )


def step(machines: Array) -> None:
    """Under a plan with uneven halves, so that much of what could be asked for is refused."""
    plan = load_planner("accpar")(NETWORK, DEPLOYED.planned(machines), 60)
    simulate(NETWORK, plan, machines, DEPLOYED)


@pytest.fixture
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("_traced")
def test_equal_steps_do_not_grow() -> None:
    machines = array()
    plan = load_planner("accpar")(NETWORK, DEPLOYED.planned(machines), 60)
    for _ in range(2):
        simulate(NETWORK, plan, machines, DEPLOYED)
    grown = []
    for _ in range(2):  # other threads of the process may allocate, too; a leak is in each
        gc.collect()
        objects, (held, _) = len(gc.get_objects()), tracemalloc.get_traced_memory()
        for _ in range(3):
            simulate(NETWORK, plan, machines, DEPLOYED)
        gc.collect()
        more = tracemalloc.get_traced_memory()[0] - held
        grown.append((more, len(gc.get_objects()) - objects))
    assert min(more for more, _ in grown) < 50_000, grown
    assert min(objects for _, objects in grown) < 200, grown


def test_a_pipeline_goes_when_nobody_has_it_any_more() -> None:
    """Scripts, records and what waited for what, without the collector: in no circle."""
    machines = load_array("h100-cluster", ["nodes=2"])
    network = load_network("gpt2:layers=8:seq=64")
    staging = Staging(parallel=Axes.parse("pp=4,tp=2"), micro_batch=1)
    case = Case(network, AXES, machines, 64, execution=replace(DEPLOYED, staging=staging))
    plan = plan_of(case)
    gc.collect()
    gc.disable()
    try:
        timeline = simulated(case, plan)
        many = len(timeline)
        assert gc.collect() < many / 20
    finally:
        gc.enable()


def test_a_search_leaves_no_tables_to_the_collector() -> None:
    """Costs go by themselves; what does not is of simulated steps."""
    machines = DEPLOYED.planned(load_array("tpu-v3-8"))
    search(NETWORK, machines, 256, execution=DEPLOYED)  # what is kept for the next one, too
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        search(NETWORK, machines, 256, execution=DEPLOYED)
        gc.collect()
        assert not any(isinstance(one, Tables | Chain | Costs | States) for one in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_a_sweep_does_not_hold_every_arrays_wires() -> None:
    """Wires go when the last step on them does, without the collector: nothing holds them."""
    gc.collect()
    gc.disable()
    try:
        wires = []
        for i in range(8):
            machines = array(f"{1 + i} GB/s")
            step(machines)
            wires.append(weakref.ref(wires_of(machines)))
        assert sum(one() is not None for one in wires) <= 3  # which wires_of keeps for planning
    finally:
        gc.enable()
