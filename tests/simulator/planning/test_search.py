"""The planner that asks the simulator never loses to the others, whatever the array."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hardware import Array, Group, load_array
from planners import BASELINES, PLANNERS, TIME, Plan, PlanError, load_planner
from simulator import DEPLOYED, PUBLISHED, Execution, OutOfMemoryError, simulate
from simulator.planning.candidates import with_one_share
from simulator.planning.lifting import alone, lifted, powers_of_two
from simulator.planning.search import search
from tests.strategies import arrays, networks
from workloads import Network, load_network

OTHERS = {**PLANNERS, **BASELINES}


def rivals(network: Network, array: Array, batch: int) -> Iterator[Plan]:
    """Every other planner's plan, with one share by peak, and on each power of two of a kind."""
    for planner in OTHERS.values():
        plan = planner(network, array, batch, TIME)
        yield plan
        yield from with_one_share(plan, array.group)
        for device, size in powers_of_two(array):
            part = alone(array, device, size)
            if part is not None:
                some = planner(network, part, batch, TIME)
                root = lifted(some.root, array.group, device, size, len(some.nodes))
                yield replace(some, root=root)


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],
)
@given(
    networks(4),
    arrays(5),
    st.sampled_from((1, 7, 64)),
    st.sampled_from(
        (
            PUBLISHED,
            DEPLOYED,
            Execution("deployed", overlap=False),
            Execution("deployed", whole_shards=False, bucket_bytes=0),
        )
    ),
)
def test_it_never_loses(network: Network, array: Array, batch: int, execution: Execution) -> None:
    planned = execution.planned(array)
    plan = search(network, planned, batch, execution=execution)
    ours = simulate(network, plan, array, execution).iteration_s
    for rival in rivals(network, planned, batch):
        assert ours <= seconds(network, rival, array, execution)


def seconds(network: Network, plan: Plan, array: Array, execution: Execution) -> float:
    """What a plan takes; forever where it cannot be run.

    A bus runs no plan with idle halves, and one share for all may leave less
    than two groups where the plan's own left enough to part them again.
    """
    try:
        return simulate(network, plan, array, execution).iteration_s
    except PlanError:
        return math.inf


NAMED = {
    "v3-8": (load_array("tpu-v3-8"), DEPLOYED, 512),
    "torus": (load_array("tpu-v3-pod", ["devices.0.count=3"]), DEPLOYED, 100),
    "tori": (
        load_array("tpu-mixed", ["devices.0.count=2", "devices.1.count=3"]),
        DEPLOYED,
        512,
    ),
    "paper's": (load_array("accpar-mixed"), PUBLISHED, 512),
    "bus": (load_array("hypar-16"), PUBLISHED, 256),
}


@pytest.mark.parametrize("name", ["lenet", "alexnet", "resnet18"])
@pytest.mark.parametrize("where", list(NAMED))
def test_it_never_loses_on_arrays_with_names(name: str, where: str) -> None:
    network, (array, execution, batch) = load_network(name), NAMED[where]
    planned = execution.planned(array)
    plan = search(network, planned, batch, execution=execution)
    ours = simulate(network, plan, array, execution).iteration_s
    for rival in rivals(network, planned, batch):
        assert ours <= seconds(network, rival, array, execution)


def test_it_is_found_by_name_and_told_how_plans_are_run() -> None:
    assert load_planner("search") is search
    array = Execution("deployed").planned(load_array("tpu-v3-8"))
    plan = search(load_network("lenet"), array, 512)
    assert plan.planner == "search"
    assert plan == search(load_network("lenet"), array, 512, execution=DEPLOYED)


def test_three_kinds_of_boards() -> None:
    (first, _), (second, _) = load_array("accpar-mixed").group.kinds
    third = replace(first, name="third", network_bytes_per_s=4e9)
    array = Array("three", "", Group(((first, 3), (second, 2), (third, 1))))
    network = load_network("lenet")
    for execution in (PUBLISHED, DEPLOYED):
        planned = execution.planned(array)
        plan = search(network, planned, 64, execution=execution)
        ours = simulate(network, plan, array, execution).iteration_s
        for rival in rivals(network, planned, 64):
            assert ours <= seconds(network, rival, array, execution)


def test_with_strict_memory_it_takes_what_fits() -> None:
    """Of a tenth less memory than the fastest plan needs, another one makes do."""
    network, roomy = load_network("gpt2:seq=64"), load_array("tpu-v3-8")
    plan = search(network, DEPLOYED.planned(roomy), 64, execution=DEPLOYED)
    (most,) = simulate(network, plan, roomy, DEPLOYED).memory
    chip = 0.9 * most.peak_bytes * 2
    array = load_array("tpu-v3-8", [f"devices.0.hbm.capacity={chip:.0f} B"])
    strict = replace(DEPLOYED, strict_memory=True)
    with pytest.raises(OutOfMemoryError):
        simulate(network, plan, array, strict)
    fitting = search(network, strict.planned(array), 64, execution=strict)
    assert all(one.fits for one in simulate(network, fitting, array, strict).memory)


def test_where_nothing_fits_it_takes_what_needs_least() -> None:
    network = load_network("vgg16")
    array = load_array("tpu-v3-8", ["devices.0.hbm.capacity=1 MiB"])
    strict = replace(DEPLOYED, strict_memory=True)
    plan = search(network, strict.planned(array), 512, execution=strict)
    peaks = [
        simulate(
            network, PLANNERS[name](network, strict.planned(array), 512, TIME), array, DEPLOYED
        )
        for name in PLANNERS
    ]
    ours = simulate(network, plan, array, DEPLOYED).memory[0].peak_bytes
    assert ours <= min(step.memory[0].peak_bytes for step in peaks)
