"""The HBM as a link: its bytes, and who has to share it."""

from dataclasses import replace

import pytest

from hardware import load_array
from planners import load_planner
from planners.order import Kind
from simulator import DEPLOYED, Machine, Program, run, simulate
from simulator.analysis.critical_path import critical_path
from tests.simulator.engine.programs import compute, cores, in_order, log
from workloads import load_network


def one_memory(count: int) -> Program:
    """Cores that share an HBM of 1 TB/s: a byte a picosecond."""
    return replace(cores(count, hbm=0), hbms=(1e12,))


def test_an_operation_is_over_when_its_cores_and_its_memory_are_through() -> None:
    program = one_memory(1)
    worker = replace(
        program.workers[0],
        template=in_order(compute("core", 10, hbm_bytes=4.0), compute("hbm", 10, hbm_bytes=30.0)),
    )
    timeline = run(replace(program, workers=(worker,)))
    assert log(timeline) == [
        ("core0.hbm", "core", 0, 0, 4),
        ("core0.core", "core", 0, 0, 10),
        ("core0.hbm", "hbm", 0, 10, 40),
        ("core0.core", "hbm", 0, 10, 40),
    ]
    assert timeline.memory_bytes == (34.0,)
    (slowed,) = (s for s in critical_path(timeline) if s.operation.layer == "hbm")
    assert slowed.bounds_ps() == {"FLOPs": 10, "slowed": 20}


def test_unlike_units_contend_for_one_memory() -> None:
    """Two units move 30 B each over a byte a picosecond: both take 60 ps, alone 30."""
    machine = Machine(one_memory(2))
    for worker in (0, 1):
        machine.compute(worker, compute(f"unit{worker}", 10, hbm_bytes=30.0))
    timeline = machine.run()
    assert {(row[1], *row[3:]) for row in log(timeline)} == {("unit0", 0, 60), ("unit1", 0, 60)}
    assert timeline.memory_bytes == (60.0,)


def test_who_comes_later_shares_what_is_left() -> None:
    """The first has moved 20 of 30 B when the second comes: 10 B at half the rate, then alone."""
    machine = Machine(one_memory(2))
    machine.compute(0, compute("early", 10, hbm_bytes=30.0))
    machine.compute(1, compute("wait", 20))
    machine.compute(1, compute("late", 5, hbm_bytes=30.0))
    ends = {row[1]: row[4] for row in log(machine.run()) if row[0].endswith("core")}
    assert ends == {"early": 40, "wait": 20, "late": 60}


def test_the_bytes_of_a_step_are_on_the_links_and_in_the_records() -> None:
    network, array = load_network("resnet18"), load_array("tpu-v3-8")
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(array), 64)
    for folded in (True, False):
        timeline = simulate(network, plan, array, DEPLOYED, folded=folded)
        template = timeline.program.workers[0].template
        moved = sum(task.operation.hbm_bytes for task in template)
        assert timeline.memory_bytes == pytest.approx([moved] * len(timeline.program.workers))
        records = sum(r.bytes * r.multiplicity for r in timeline if r.kind == Kind.MEMORY)
        assert records == pytest.approx(8 * moved)
