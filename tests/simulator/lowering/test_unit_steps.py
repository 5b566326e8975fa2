"""A core's step on units that are open: prices, and the estimate against the engine."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelarray as aa
from experiments.design.runs import with_units
from hardware import MatrixUnit, Units, VectorUnit, load_array
from planners import Staging, load_planner
from planners.order import Phase
from simulator import DEPLOYED, Execution, simulate
from simulator.analysis.worker_records import worker_rows
from simulator.cost.units.matrix import cycles, cycles_of_all
from simulator.cost.units.pricing import missed_by_all, missed_bytes
from simulator.cost.units.product import Product
from simulator.lowering.units.cores import sites
from simulator.lowering.units.estimate import UnitStep
from simulator.lowering.units.list_scheduling import urgency
from workloads import load_network

UNITS = Units(700e6, (MatrixUnit(128, 128, 2),), (VectorUnit(128, 16),), 2.0**25)
SIDE = st.integers(1, 5000)


def step(name: str, batch: int = 16, execution: Execution = DEPLOYED) -> UnitStep:
    network, array = load_network(name), load_array("wham-1")
    plan = load_planner("data_parallel")(network, execution.planned(array), batch)
    (site,) = sites(network, plan, array, execution)
    return site.step


def run(name: str, batch: int, units: Units, execution: Execution = DEPLOYED) -> float:
    network, array = load_network(name), load_array("wham-1")
    plan = load_planner("data_parallel")(network, execution.planned(array), batch)
    return simulate(network, plan, with_units(array, [units]), execution).iteration_s


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


@pytest.mark.parametrize("name", ["lenet", "resnet18", "bert-base", "gnmt"])
def test_estimates_are_between_the_path_and_one_after_the_other(name: str) -> None:
    one = step(name)
    priced = one.priced(UNITS)
    path_s = max(urgency(one.tasks(priced))) * 1e-12
    estimate = one.estimate_s(UNITS)
    assert path_s <= estimate * (1 + 1e-9)
    assert estimate <= priced.alone_s.sum() * (1 + 1e-6)


@pytest.mark.parametrize("name", ["lenet", "resnet18", "gpt2"])
@pytest.mark.parametrize("overhead", ["0 s", "3 us"])
@pytest.mark.parametrize("host", ["0 s", "20 us"])
def test_one_after_the_other_is_what_simulate_says_without_overlap(
    name: str, overhead: str, host: str
) -> None:
    """With overheads, and a host that needs its time for each operator."""
    changes = [f"devices.0.roofline.overhead={overhead}", f"devices.0.roofline.host={host}"]
    network, array = load_network(name), load_array("wham-1", changes)
    serial = dataclasses.replace(DEPLOYED, overlap=False)
    plan = load_planner("data_parallel")(network, serial.planned(array), 16)
    (site,) = sites(network, plan, array, DEPLOYED)
    found = simulate(network, plan, array, serial).iteration_s
    assert site.step.priced(UNITS).alone_s.sum() == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("name", ["lenet", "resnet18", "gpt2"])
@pytest.mark.parametrize(
    "units",
    [UNITS, Units(1e9, (MatrixUnit(64, 64, 4),), (VectorUnit(64, 2),), 2.0**22)],
    ids=str,
)
def test_the_engine_is_no_faster_than_its_bounds_and_near_the_estimate(
    name: str, units: Units
) -> None:
    one, seconds = step(name, 4), run(name, 4, units)
    priced = one.priced(units)
    moved_s = priced.hbm_bytes.sum() / one.memory_bytes_per_s
    assert seconds >= moved_s * (1 - 1e-9)
    assert seconds >= max(urgency(one.tasks(priced))) * 1e-12 * (1 - 1e-9)
    assert seconds == pytest.approx(one.estimate_s(units), rel=0.2)


def test_a_memory_that_nobody_waits_for_makes_the_estimate_exact() -> None:
    network = load_network("resnet18")
    array = load_array("wham-1", ["devices.0.hbm.bandwidth=1e9 GB/s"])
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(array), 16)
    (site,) = sites(network, plan, array, DEPLOYED)
    timeline = simulate(network, plan, array, DEPLOYED)
    assert site.step.estimate_s(UNITS) == pytest.approx(timeline.iteration_s, rel=1e-7)


def test_inference_is_the_forward_part() -> None:
    forward = step("resnet18", execution=dataclasses.replace(DEPLOYED, mode="inference"))
    whole = step("resnet18")
    ahead = [p.operator.name for p in whole.parts if p.operator.phase is Phase.FORWARD]
    names = [part.operator.name for part in forward.parts]
    assert names == [name for name in ahead if not name.endswith(" statistics")]
    assert forward.estimate_s(UNITS) < 0.45 * whole.estimate_s(UNITS)


def test_each_stage_and_kind_of_core_is_a_site() -> None:
    from experiments.studies.case import Case, plan_of

    execution = Execution("deployed", staging=Staging(2, 4))
    array = load_array("wham-1", ["devices.0.count=2"])
    case = Case(load_network("vgg11"), "data_parallel", array, 64, execution=execution)
    found = sites(case.network, plan_of(case), array, execution)
    assert [site.stage for site in found] == [0, 1]
    one = step("vgg11", 64)
    flops = [site.step.flops.sum() for site in found]
    assert 4 * sum(flops) == pytest.approx(one.flops.sum())


@pytest.mark.parametrize(
    ("schedule", "planner"),
    [("1f1b", "data_parallel"), *((name, "pipedream") for name in ("1f1b", "2bw", "pipedream"))],
)
def test_a_micro_batch_has_its_part_of_the_updates_that_the_engine_does(
    schedule: str, planner: str
) -> None:
    """Four replicas take two of eight micro-batches each; stashing, each updates after each."""
    made = aa.simulate(
        "alexnet",
        planner,
        "wham-1",
        set=["devices.0.count=4"],
        batch=64,
        micro_batches=8,
        schedule=schedule,
        stages=2 if planner == "data_parallel" else 1,
    )
    (first, *_), columns = made.timeline.program.workers, made.timeline.columns
    assert first.rank_program is not None
    turns = {mb for _, _, mb, *_ in first.rank_program.instructions}
    rows = worker_rows(made.timeline)[0].computed
    updates = [
        columns.end[row] - columns.start[row]
        for row in rows
        if made.timeline.operations[columns.operation[row]].phase is Phase.UPDATE
    ]
    array, units = made.case.array, made.case.array.group.kinds[0][0].units
    assert units is not None
    site, *_ = sites(made.case.network, made.plan, array, made.case.execution)
    tasks = site.step.tasks(site.step.priced(units))
    part = sum(task.duration_ps for task in tasks if task.phase is Phase.UPDATE)
    assert sum(updates) / len(turns) == pytest.approx(part, rel=0.01)


def test_steps_that_differ_have_other_digests() -> None:
    base = step("lenet")
    assert base.digest() == step("lenet").digest()
    inference = dataclasses.replace(DEPLOYED, mode="inference")
    others = [step("lenet", 32), step("lenet", execution=inference), step("alexnet")]
    assert len({base.digest(), *(one.digest() for one in others)}) == 4


def test_more_lanes_and_multipliers_are_no_slower_one_after_the_other() -> None:
    one = step("resnet18")
    more = replace(UNITS, matrix=(MatrixUnit(128, 128, 4),), vector=(VectorUnit(128, 64),))
    assert one.priced(more).alone_s.sum() <= one.priced(UNITS).alone_s.sum()
