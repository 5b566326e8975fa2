"""A core's step on its units: precedence, prices, and the engine against the estimate."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import MatrixUnit, Units, VectorUnit, load_array
from planners import load_planner
from planners.order import Phase
from simulator import DEPLOYED, Execution, simulate
from simulator.cost.training_operators import operators
from simulator.cost.units.many import cycles_of_all, missed_by_all
from simulator.cost.units.matrix import cycles
from simulator.cost.units.pricing import missed_bytes
from simulator.cost.units.product import Product
from simulator.lowering.unit_sites import sites
from simulator.lowering.unit_steps import UnitStep, needed
from simulator.lowering.unit_tasks import run_tasks, urgency
from tests.strategies import convolutional_networks
from workloads import Network, load_network

UNITS = Units(700e6, (MatrixUnit(128, 128, 2),), (VectorUnit(128, 16),), 2.0**25)
SIDE = st.integers(1, 5000)


def step(name: str, batch: int = 16, *, inference: bool = False) -> UnitStep:
    network, array = load_network(name), load_array("wham-1")
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(array), batch)
    (site,) = sites(network, plan, array, DEPLOYED, inference=inference)
    return site.step


@given(
    st.lists(st.tuples(SIDE, SIDE, SIDE, st.integers(1, 64)), min_size=1, max_size=5),
    st.sampled_from([2, 16, 128, 256]),
    st.sampled_from([2, 16, 128]),
    st.sampled_from([1, 3, 64, 4096]),
    st.sampled_from(["weight_stationary", "output_stationary"]),
    st.integers(100, 10**8),
)
def test_many_at_once_are_each_by_itself(
    sides: list[tuple[int, int, int, int]],
    width: int,
    depth: int,
    count: int,
    flow: str,
    buffer: int,
) -> None:
    unit = MatrixUnit(width, depth, count, flow)  # type: ignore[arg-type]
    products = [Product("p", *side) for side in sides]
    table = np.array([*sides, (0, 0, 0, 0)], dtype=np.int64).T
    assert cycles_of_all(unit, table).tolist() == [*(cycles(unit, p) for p in products), 0]
    kernels = np.array([9.0] * len(sides) + [1.0])
    found = missed_by_all(table, kernels, buffer, 2.0).tolist()
    assert found == pytest.approx([*(missed_bytes(p, 9.0, buffer, 2.0) for p in products), 0.0])


@given(convolutional_networks())
def test_needs_come_before_and_every_operator_once(network: Network) -> None:
    ops = operators(network)
    found = needed(ops)
    assert sorted(id(one.operator) for one in found) == sorted(map(id, ops.schedule()))
    for i, one in enumerate(found):
        assert all(before < i for before in one.needs)
    forward = needed(ops, inference=True)
    assert [one.operator for one in forward] == [op for n in ops.nodes for op in n.forward]


def test_gradients_wait_for_errors_not_for_their_product() -> None:
    """A chain's weight gradient and input gradient read the same error: neither waits."""
    found = needed(operators(load_network("alexnet")))
    by_name = {one.operator.name: one for one in found}
    place = {one.operator.name: i for i, one in enumerate(found)}
    product, gradient = by_name["fc7 backward"], by_name["fc7 gradient"]
    assert product.needs == gradient.needs
    assert place["fc8 backward"] in product.needs
    assert by_name["fc7 update"].needs == (place["fc7 gradient"],)
    assert by_name["fc7 forward"].needs == (place["fc6 forward"],)


@pytest.mark.parametrize("name", ["lenet", "resnet18", "bert-base", "gnmt"])
def test_estimates_are_between_the_path_and_one_after_the_other(name: str) -> None:
    one = step(name)
    priced = one.priced(UNITS)
    path_s = max(urgency(one.tasks(priced, alone=True))) * 1e-12
    estimate, in_order = one.estimate_s(UNITS), one.in_order_s(UNITS)
    assert path_s <= estimate * (1 + 1e-9)
    assert estimate <= in_order * (1 + 1e-6)


@pytest.mark.parametrize("name", ["lenet", "resnet18", "gpt2"])
def test_the_engine_is_no_faster_than_its_bounds_and_near_the_estimate(name: str) -> None:
    one = step(name, 4)
    priced = one.priced(UNITS)
    tasks = one.tasks(priced, alone=False)
    device = load_array("wham-1").group.kinds[0][0]
    timeline = run_tasks(device, 2, tasks, one.memory_bytes_per_s)
    assert timeline.memory_bytes[0] == pytest.approx(priced.hbm_bytes.sum())
    moved_s = priced.hbm_bytes.sum() / one.memory_bytes_per_s
    assert timeline.makespan_s >= moved_s * (1 - 1e-9)
    assert timeline.makespan_s >= max(urgency(tasks)) * 1e-12 * (1 - 1e-9)
    assert timeline.makespan_s == pytest.approx(one.estimate_s(UNITS), rel=0.2)


@pytest.mark.parametrize("name", ["lenet", "resnet18", "gpt2"])
def test_in_order_is_what_simulate_says(name: str) -> None:
    network, array = load_network(name), load_array("wham-1")
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(array), 16)
    timeline = simulate(network, plan, array, DEPLOYED)
    assert array.group.kinds[0][0].units == UNITS
    assert step(name).in_order_s(UNITS) == pytest.approx(timeline.iteration_s, rel=1e-6)


def test_inference_is_the_forward_part() -> None:
    whole, forward = step("resnet18"), step("resnet18", inference=True)
    phases = [part.operator.phase for part in forward.parts]
    assert set(phases) == {Phase.FORWARD}
    assert len(phases) == sum(p.operator.phase is Phase.FORWARD for p in whole.parts)
    assert forward.in_order_s(UNITS) < 0.45 * whole.in_order_s(UNITS)


def test_each_stage_and_kind_of_core_is_a_site() -> None:
    from experiments.studies.case import Case, plan_of
    from planners import Staging

    execution = Execution("deployed", staging=Staging(2, 4))
    array = load_array("wham-1", ["devices.0.count=2"])
    case = Case(load_network("vgg11"), "data_parallel", array, 64, execution=execution)
    found = sites(case.network, plan_of(case), array, execution)
    assert [site.stage for site in found] == [0, 1]
    one = step("vgg11", 64)
    flops = [site.step.flops.sum() for site in found]
    assert 4 * sum(flops) == pytest.approx(one.flops.sum())


def test_steps_that_differ_have_other_digests() -> None:
    base = step("lenet")
    assert base.digest() == step("lenet").digest()
    others = [step("lenet", 32), step("lenet", inference=True), step("alexnet")]
    assert len({base.digest(), *(one.digest() for one in others)}) == 4


def test_more_lanes_and_multipliers_are_no_slower() -> None:
    one = step("resnet18")
    more = replace(UNITS, matrix=(MatrixUnit(128, 128, 4),), vector=(VectorUnit(128, 64),))
    assert one.in_order_s(more) <= one.in_order_s(UNITS)
