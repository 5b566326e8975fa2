"""What must be quick, in seconds: limits that a busy machine may break, hence not in tests."""

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pytest

from hardware import Wires, load_array, load_device
from planners import TIME, load_planner
from planners.partition import Shard
from simulator.cost.roofline import core_of, cost
from simulator.cost.training_operators import operators
from tests.planners.wide_graphs import added_at_random
from workloads import FURTHER, ZOO, load_network

PLANNING_S = {"gpt2-xl": 5.0, "llama-7b": 5.0, "llama3-8b": 5.0, "llama3-405b": 15.0}


def least_s(
    work: Callable[[], object], times: int = 3, clock: Callable[[], float] = time.process_time
) -> float:
    """The least time of several runs: of the processor, which others share, or by the wall."""
    taken = []
    for _ in range(times):
        started = clock()
        work()
        taken.append(clock() - started)
    return min(taken)


@pytest.mark.parametrize("name", [*ZOO, *FURTHER])
def test_planning_takes_a_second_five_for_the_largest(name: str) -> None:
    network, array = load_network(name), load_array("accpar-mixed")
    planner = load_planner("accpar")
    assert least_s(lambda: planner(network, array, 512)) < PLANNING_S.get(name, 1.0)


def test_the_bounds_of_a_large_wide_graph_take_five_seconds() -> None:
    """docs/explanation/models.md: some five seconds a split for 1,000 nodes."""
    network = added_at_random(300, 700)
    two = load_array("accpar-homogeneous", ["devices.0.count=2"])
    assert least_s(lambda: load_planner("accpar")(network, two, 512, TIME), 1) < 5


def test_resnet50_is_costed_in_ten_milliseconds() -> None:
    ops, core = operators(load_network("resnet50")), core_of(load_device("tpu-v3")[0])
    shards = [Shard(32, node.in_channels, node.out_channels) for node in ops.graph]
    assert least_s(lambda: [cost(op, shards[op.node], core) for op in ops.schedule()]) < 0.01


@pytest.mark.parametrize("name", ["accpar-mixed", "tpu-mixed", "tpu-v3-pod"])
def test_wires_of_large_arrays_take_half_a_second(name: str) -> None:
    array = load_array(name)

    def joined() -> None:
        wires = Wires(array)
        wires.loads(np.arange(wires.cores), np.roll(np.arange(wires.cores), 1))

    assert least_s(joined) < 0.5


def test_help_takes_half_a_second() -> None:
    command = [sys.executable, "-m", "experiments.cli", "--help"]

    def helped() -> None:
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603

    assert least_s(helped, clock=time.perf_counter) < 0.5
