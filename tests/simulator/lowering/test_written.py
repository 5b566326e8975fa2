"""Steps timed again for other speeds are those that are written anew."""

from dataclasses import replace

import pytest

from hardware import load_array
from planners import Plan, Update, load_planner
from simulator import DEPLOYED, program_of
from simulator.engine.operations import Operation, Program
from simulator.engine.replay import run
from simulator.lowering.training_step import STEPS
from simulator.lowering.written import Kept, Written, apart_from_speeds, splits_of
from workloads import load_network

NETWORK = load_network("alexnet")
SMALL = ("devices.0.count=4", "devices.1.count=4")
SPEEDS = (
    "network.bandwidth=1 Gbit/s",
    "devices.0.hbm.bandwidth=9 TB/s",
    "devices.1.chip.peak=3 TFLOP/s",
    "devices.1.network.latency=3 us",
)
OTHERS = ("devices.0.hbm.capacity=3 GB", "devices.0.roofline.overhead=9 us", "topology.kind=switch")


def made(plan: Plan, *changes: str) -> Program:
    array = load_array("accpar-mixed", [*SMALL, *changes])
    return program_of(NETWORK, plan, array, DEPLOYED)


def plan(batch: int = 64) -> Plan:
    array = load_array("accpar-mixed", [*SMALL])
    return load_planner("accpar")(NETWORK, DEPLOYED.planned(array), batch)


@pytest.mark.parametrize("change", SPEEDS)
def test_what_is_timed_again_is_what_would_be_written(change: str) -> None:
    STEPS.clear()
    made(plan())
    writes = STEPS.puts
    again = run(made(plan(), change))
    assert STEPS.puts == writes  # of an equal plan, made anew
    STEPS.clear()
    anew = run(made(plan(), change))
    assert STEPS.puts == writes + 1
    assert again.columns == anew.columns
    assert again.joins == anew.joins
    assert again.link_bytes.tolist() == anew.link_bytes.tolist()
    assert again.memory_bytes == anew.memory_bytes
    assert again.program.memory == anew.program.memory
    assert [str(op) for op in again.operations] == [str(op) for op in anew.operations]
    assert [w.device for w in again.program.workers] == [w.device for w in anew.program.workers]


@pytest.mark.parametrize("change", OTHERS)
def test_what_depends_on_more_than_speeds_is_written(change: str) -> None:
    STEPS.clear()
    made(plan())
    writes = STEPS.puts
    made(plan(), change)
    assert STEPS.puts == writes + 1


def test_kinds_that_become_alike_are_written() -> None:
    """Two kinds that differ in speeds alone are told apart; with the same speeds they are not."""
    same = ("devices.0.device=accpar-tpu-v3", "devices.1.device=accpar-tpu-v3")
    STEPS.clear()
    made(plan(), *same, "devices.0.chip.peak=9 TFLOP/s")
    writes = STEPS.puts
    made(plan(), *same, "devices.0.chip.peak=8 TFLOP/s")
    assert STEPS.puts == writes
    made(plan(), *same)
    assert STEPS.puts == writes + 1
    made(plan(32), *same)
    assert STEPS.puts == writes + 2


def test_kinds_that_are_the_same_are_told_from_those_that_are_not() -> None:
    """Halves of the same devices may be one class; of devices that differ in speed never."""
    (first, _), (second, _) = load_array("accpar-mixed").group.kinds
    faster = replace(first, hbm_bytes_per_s=2 * first.hbm_bytes_per_s)
    assert apart_from_speeds([first, second, first]) == apart_from_speeds([faster, second, faster])
    assert apart_from_speeds([first, second, first]) != apart_from_speeds([first, second, faster])


def test_plans_that_split_alike_are_told_from_others() -> None:
    assert splits_of(plan()) == splits_of(plan())
    array = load_array("accpar-mixed", [*SMALL])
    other = load_planner("data_parallel")(NETWORK, DEPLOYED.planned(array), 64)
    assert splits_of(other) != splits_of(plan())
    updates = (Update.SHARDED, *[Update.REPLICATED] * (len(other.nodes) - 1))
    shared = replace(other, updates=updates)
    assert (
        len({splits_of(one) for one in (other, shared, replace(other, updates=updates[::-1]))}) == 3
    )
    assert splits_of(replace(other, bucket_bytes=0.0)) != splits_of(other)


def test_the_steps_of_longest_ago_are_forgotten() -> None:
    program = made(plan())
    one = Written(program, (), dict[Operation, tuple](), {})  # type: ignore[type-arg]
    kept = Kept(most_tasks=2 * one.tasks)
    for name in ("a", "b"):
        kept.put(name, one)
    assert kept.get("a") is one
    kept.put("c", one)
    assert kept.get("b") is None
    assert kept.get("a") is one
