"""Computing takes longer while exchanges go on beside it, and no longer than while they do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hardware import by_core, load_array
from planners import Axes, planned_by_axes
from planners.order import Kind, Phase
from simulator import DEPLOYED, Communicator, Program, Task, Timeline, Worker, run, simulate
from tests.simulator.engine.programs import CORE, compute, exchange
from tests.simulator.engine.programs import log as log_of
from workloads import load_network

MILLI = 1_000_000_000


def ends(exchanged: int, *durations: int, contention: float = 0.25) -> list[int]:
    """Of computations that nothing waits for, behind a first one of 4 ms and its exchange."""
    first = (Task(compute("first", 4 * MILLI)), Task(exchange("x", exchanged), (0,), 1))
    rest = (Task(compute(f"c{i}", each), (0,)) for i, each in enumerate(durations))
    worker = Worker(CORE, (*first, *rest), (0,), unit="core", contention=contention)
    timeline: Timeline = run(Program((worker,), (Communicator(0),)))
    return [end // 1000 for _, layer, _, _, end in log_of(timeline) if layer.startswith("c")]


def milli(*ms: float) -> list[object]:
    return [pytest.approx(each * 1e6, rel=1e-3) for each in ms]


def test_while_an_exchange_goes_on() -> None:
    """8 ms of it, in which 8 / 1.25 = 6.4 ms of the work are done, of 10."""
    assert ends(8 * MILLI, 10 * MILLI) == milli(4 + 8 + 10 - 8 / 1.25)
    assert ends(100 * MILLI, 10 * MILLI) == milli(4 + 10 * 1.25)


def test_each_of_several() -> None:
    assert ends(8 * MILLI, 6 * MILLI, 4 * MILLI) == milli(4 + 7.5, 4 + 8 + 4 - 0.5 / 1.25)


def test_without_any_nothing_is_slowed() -> None:
    assert ends(0, 10 * MILLI, 2 * MILLI) == milli(14, 16)
    assert ends(8 * MILLI, 10 * MILLI, contention=0) == milli(14)


def test_a_step_is_slowed_by_its_exchanges_alone() -> None:
    """Not what is exchanged behind backward, nor a step of one device."""
    network = load_network("gpt2:layers=2:seq=128")

    def took(contention: float, *, overlap: bool = True, devices: int = 8) -> tuple[int, float]:
        changes = [f"devices.0.count={devices}", f"devices.0.roofline.contention={contention}"]
        array = load_array("dgx-h100", ["precision=bf16", *changes])
        execution = replace(DEPLOYED, overlap=overlap)
        plan = planned_by_axes(network, by_core(array), 64, Axes(dp=devices))
        timeline = simulate(network, plan, array, execution)
        return timeline.iteration_ps, timeline.totals()[Phase.BACKWARD, Kind.COMPUTE].core_ps

    assert took(0.2)[1] > took(0.0)[1]
    assert took(0.2, overlap=False) == took(0.0, overlap=False)
    assert took(0.2, devices=1) == took(0.0, devices=1)


@pytest.mark.parametrize("stack", ["nemo-2024", "composer-2023", "deepspeed-2022"])
def test_stacks_on_gpus_have_it(stack: str) -> None:
    array = load_array("a100-cluster", ["precision=bf16", f"stack={stack}"])
    ((device, _),) = array.group.kinds
    assert device.roofline.contention == pytest.approx(0.189)
    assert load_array("tpu-v4-slice").group.kinds[0][0].roofline.contention == 0
