"""The event engine against bare SimPy, and folded runs against unfolded ones.

A core's operation is its record, and its share of what surrounds it: its
process, the board's event, the board's control and the exchanges. The measure is
wall time per core operation over the time of a bare timeout with as many
processes, both taken in turn in the same run.
"""

import gc
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest
import simpy
from pytest_benchmark.fixture import BenchmarkFixture

from hardware import load_array
from planners import load_planner
from simulator import DEPLOYED, Machine, Program, Timeline, program_of, replay, run
from workloads import load_network, partition_graph

MIXED = load_array("accpar-mixed")
NETWORK = load_network("resnet50")
CORES = MIXED.group.cores
STEPS = 3 * sum(not node.join for node in partition_graph(NETWORK))
MOST_TIMEOUTS = 3.0
LEAST_RECORDS = 0.6
"""Records a second, by bare timeouts a second."""


def bare_timeouts(processes: int, each: int) -> Callable[[], object]:
    """A SimPy run of nothing but timeouts, ready to go."""
    env = simpy.Environment(initial_time=0)

    def process() -> Generator[simpy.Event, Any, None]:
        for _ in range(each):
            yield env.timeout(1000)

    for _ in range(processes):
        env.process(process())

    return env.run


def program(planner: str, *, folded: bool = False) -> Program:
    plan = load_planner(planner)(NETWORK, MIXED, 512)
    return program_of(NETWORK, plan, MIXED, folded=folded)


def ready(lowered: Program) -> Callable[[], Timeline]:
    """A run of a program, ready to go."""
    machine = Machine(lowered)
    for worker in range(len(lowered.workers)):
        machine.process(replay(machine, worker), worker)
    return machine.run


def seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def test_bare_timeouts(benchmark: BenchmarkFixture) -> None:
    def setup() -> tuple[tuple[()], dict[str, Any]]:
        return (), {"run": bare_timeouts(CORES, STEPS)}

    benchmark.extra_info["records"] = CORES * STEPS
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda run: run(), setup=setup, rounds=5
    )


@pytest.mark.parametrize("folded", [False, True], ids=["unfolded", "folded"])
@pytest.mark.parametrize("planner", ["data_parallel", "accpar"])
def test_resnet50_on_the_mixed_array(
    benchmark: BenchmarkFixture, planner: str, folded: bool
) -> None:
    lowered = program(planner, folded=folded)

    def setup() -> tuple[tuple[()], dict[str, Any]]:
        return (), {"run": ready(lowered)}

    benchmark.extra_info["records"] = len(ready(lowered)())
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda run: run(), setup=setup, rounds=5
    )


def pod() -> Program:
    """ResNet-50 on 1,024 cores of a pod, every one followed with its own slice of HBM."""
    array = load_array("tpu-v3-pod", ["devices.0.count=128"])
    plan = load_planner("data_parallel")(NETWORK, DEPLOYED.planned(array), 8192)
    return program_of(NETWORK, plan, array, DEPLOYED, folded=False)


def test_resnet50_deployed_on_1024_cores_unfolded(benchmark: BenchmarkFixture) -> None:
    lowered = pod()
    benchmark.extra_info["records"] = len(ready(lowered)())
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda run: run(), setup=lambda: ((), {"run": ready(lowered)}), rounds=3
    )


def test_1024_cores_write_records_as_bare_timeouts_pass() -> None:
    """Those of the timeline, on cores, HBMs and links, with the machine's own making.

    Half a million records come of 12,000 events: what a core does until it has to wait
    for somebody is one event, and its records are worked out in the end, all at once.
    """
    lowered = pod()
    cores, records = len(lowered.workers), len(run(lowered))
    each = records // cores
    pairs = [(seconds(bare_timeouts(cores, each)), seconds(lambda: run(lowered))) for _ in range(5)]
    bare, ours = (min(times) for times in zip(*pairs, strict=True))
    rates = cores * each / bare, records / ours
    print(
        f"\n{cores:,} cores: {records:,} records, {rates[1] / 1e6:.2f} M a second; "
        f"bare timeouts {rates[0] / 1e6:.2f} M, ratio {rates[1] / rates[0]:.2f}"
    )
    assert rates[1] >= LEAST_RECORDS * rates[0]


@pytest.mark.parametrize("planner", ["data_parallel", "accpar"])
def test_a_core_operation_costs_at_most_three_timeouts(planner: str) -> None:
    """Without Python's garbage collector, which looks again and again through what is kept."""
    lowered, per, ratios = program(planner), CORES * STEPS, list[float]()
    try:
        for collecting in (gc.enable, gc.disable):
            collecting()
            pairs = [
                (seconds(bare_timeouts(CORES, STEPS)), seconds(ready(lowered))) for _ in range(5)
            ]
            bare, ours = (min(times) for times in zip(*pairs, strict=True))
            ratios.append(ours / bare)
            print(
                f"\n{planner}, garbage collector {collecting.__name__}d: bare timeout "
                f"{bare / per * 1e9:.0f} ns, core operation {ours / per * 1e9:.0f} ns, "
                f"ratio {ours / bare:.2f}"
            )
    finally:
        gc.enable()
    assert ratios[-1] <= MOST_TIMEOUTS
