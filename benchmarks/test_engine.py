"""The event engine against bare SimPy, and folded runs against unfolded ones.

A core's operation is one resumption of its process, its record, and its share
of what surrounds it: the board's event, the board's control and the
exchanges. The measure is wall time per core operation over the time of a
bare timeout with as many processes, both taken in turn in the same run.
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
from simulator import DEPLOYED, Machine, Program, Timeline, program_of, replay
from simulator.engine.collecting import no_collecting
from simulator.engine.records import Log
from workloads import load_network, partition_graph

MIXED = load_array("accpar-mixed")
NETWORK = load_network("resnet50")
CORES = MIXED.group.cores
STEPS = 3 * sum(not node.join for node in partition_graph(NETWORK))
MOST_TIMEOUTS = 3.0


def bare_timeouts(processes: int, each: int) -> Callable[[], object]:
    """A SimPy run of nothing but timeouts, ready to go."""
    env = simpy.Environment(initial_time=0)

    def process() -> Generator[simpy.Event, Any, None]:
        for _ in range(each):
            yield env.timeout(1000)

    for _ in range(processes):
        env.process(process())

    def run() -> None:
        gc.disable()
        try:
            env.run()
        finally:
            gc.enable()

    return run


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

    benchmark.extra_info["events"] = CORES * STEPS
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

    benchmark.extra_info["events"] = ready(lowered)().events
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda run: run(), setup=setup, rounds=5
    )


def test_resnet50_deployed_on_1024_cores_unfolded(benchmark: BenchmarkFixture) -> None:
    """Every core with its own slice of HBM: two events an operation."""
    pod = load_array("tpu-v3-pod", ["devices.0.count=128"])
    plan = load_planner("data_parallel")(NETWORK, DEPLOYED.planned(pod), 8192)
    lowered = program_of(NETWORK, plan, pod, DEPLOYED, folded=False)
    benchmark.extra_info["events"] = ready(lowered)().events
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda run: run(), setup=lambda: ((), {"run": ready(lowered)}), rounds=3
    )


def two_records_each(processes: int, each: int) -> Callable[[], object]:
    """The least that an operation on a core with its own HBM takes: two events, two records.

    One process a core, written out; nothing is lowered, met, waited for or named.
    """
    env, log = simpy.Environment(initial_time=0), Log()

    def ends(_: simpy.Event) -> None:
        log.over(0, 0, 0, int(env.now), -1)
        log.resource.append(0)
        log.done.append(0)

    def process() -> Generator[simpy.Event, Any, None]:
        for _ in range(each):
            memory, core = env.timeout(700), env.timeout(1000)
            for event in (memory, core):
                event.callbacks.append(ends)
            yield core

    for _ in range(processes):
        env.process(process())

    def run() -> None:
        with no_collecting():
            env.run()

    return run


def test_two_records_an_operation(benchmark: BenchmarkFixture) -> None:
    """The ceiling of the step above: compare events a second with those of bare timeouts."""
    benchmark.extra_info["events"] = 2 * CORES * STEPS
    benchmark.pedantic(  # type: ignore[no-untyped-call]
        lambda run: run(), setup=lambda: ((), {"run": two_records_each(CORES, STEPS)}), rounds=3
    )


@pytest.mark.parametrize("planner", ["data_parallel", "accpar"])
def test_a_core_operation_costs_at_most_three_timeouts(planner: str) -> None:
    lowered = program(planner)
    pairs = [(seconds(bare_timeouts(CORES, STEPS)), seconds(ready(lowered))) for _ in range(5)]
    bare, ours = (min(times) for times in zip(*pairs, strict=True))
    per = CORES * STEPS
    print(
        f"\n{planner}: bare timeout {bare / per * 1e9:.0f} ns, "
        f"core operation {ours / per * 1e9:.0f} ns, ratio {ours / bare:.2f}"
    )
    assert ours / bare <= MOST_TIMEOUTS
