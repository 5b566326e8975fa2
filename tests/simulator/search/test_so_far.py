"""The earliest end of a step in the making: never behind what the engine finds."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hardware import load_array
from planners import BASELINES, PLANNERS, TIME
from planners.order import Kind, Phase
from planners.partition import WHOLE
from simulator import DEPLOYED, Execution, simulate
from simulator.engine.operations import Operation, Task
from simulator.engine.replay import run
from simulator.lowering.models import rules_of
from simulator.lowering.step.rules import Rules
from simulator.lowering.step.training_step import Writer
from simulator.search.judge import FOLLOWED, SoFar, step_below
from workloads import Builder, load_network

S = 10**12


class OneScript(SimpleNamespace):
    """A script by hand, itself alone."""

    __hash__ = object.__hash__


def test_by_hand() -> None:
    """Products of 2 and 3 s, and an exchange of 4 s between them that the second waits for."""

    tasks = [
        Task(Operation(Kind.COMPUTE, Phase.FORWARD, "a", duration_ps=2 * S)),
        Task(Operation(Kind.SUMS, Phase.FORWARD, "a", duration_ps=4 * S), (0,), parties=1),
        Task(Operation(Kind.COMPUTE, Phase.FORWARD, "b", duration_ps=3 * S), (1,)),
    ]
    some = {
        "wires": None,
        "execution": DEPLOYED,
        "phases": (Phase.FORWARD,),
        "node_ps": lambda *_: 10 * S,
    }
    rules = cast("Rules", SimpleNamespace(**some))
    of = {"device": None, "shards": (WHOLE,), "updated": (1.0,)}
    script = cast("Any", OneScript(tasks=tasks, units=(), **of))
    so_far = SoFar(rules)
    assert so_far.follow([script]) == 9 + 5  # of products of 10 s 5 are written
    tasks.append(Task(Operation(Kind.COMPUTE, Phase.FORWARD, "c", duration_ps=5 * S)))
    assert so_far.follow([script]) == 14
    written = cast("Rules", SimpleNamespace(**some | {"node_ps": lambda *_: 0}))
    assert SoFar(written).follow([script]) == 14  # the last waits for nothing but the core
    script.units = ("matrix", "vector")
    assert SoFar(rules).follow([script]) == 0


@pytest.mark.parametrize("name", [*PLANNERS, *BASELINES])
@pytest.mark.parametrize("execution", [DEPLOYED, Execution("deployed", overlap=False)])
@pytest.mark.parametrize(
    "spec", [("tpu-v3-8", []), ("accpar-mixed", ["devices.0.count=3", "devices.1.count=4"])]
)
def test_no_step_is_over_before(name: str, execution: Execution, spec: Any) -> None:
    network, array = load_network("resnet18"), execution.planned(load_array(*spec))
    plan = (PLANNERS | BASELINES)[name](network, array, 64, TIME)
    rules = rules_of(network, plan, array, execution, folded=True)
    writer, so_far, before = Writer(rules), SoFar(rules), 0.0
    for item in rules.items:
        writer.write(item)
        found = so_far.follow(writer.scripts)
        assert found >= before
        before = found
    taken = simulate(network, plan, array, execution).iteration_s
    assert 0.2 * taken < before <= taken * (1 + 1e-9)


@pytest.mark.parametrize("layers", [1, 6])
def test_a_step_is_followed_to_its_end(layers: int) -> None:
    """Whether few items are written or many, the last of them count, too."""
    net = Builder("layers", 64, 1, 1)
    net.flatten("flatten")
    for number in range(layers):
        net.fc(f"fc{number}", 64)
    network, array = net.build(), DEPLOYED.planned(load_array("tpu-v3-8"))
    plan = PLANNERS["data_parallel"](network, array, 64, TIME)
    rules = rules_of(network, plan, array, DEPLOYED, folded=True)
    assert (len(rules.items) < FOLLOWED) is (layers == 1)
    assert len(rules.items) % FOLLOWED
    writer, so_far = Writer(rules), SoFar(rules)
    for item in rules.items:
        writer.write(item)
    least_s = so_far.follow(writer.scripts)
    program, few = step_below(rules, least_s * (1 - 1e-9))
    assert program is None
    program, many = step_below(rules, least_s * (1 + 1e-9))
    assert program is not None
    assert 0 < few <= many == sum(len(worker.template) for worker in program.workers)


def test_memory_that_nobody_asks_for_changes_nothing_else() -> None:
    network, array = load_network("alexnet"), DEPLOYED.planned(load_array("tpu-v3-8"))
    plan = PLANNERS["accpar"](network, array, 512, TIME)
    rules = rules_of(network, plan, array, DEPLOYED, folded=True)
    both = [step_below(rules, math.inf, memory=memory)[0] for memory in (False, True)]
    assert [one and bool(one.memory) for one in both] == [False, True]
    assert len({one and run(one).iteration_s for one in both}) == 1
    assert step_below(rules, 1e-9)[0] is None
