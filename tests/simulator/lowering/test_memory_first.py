"""What stages compute alone says how full they get: as the whole program does."""

import random
from dataclasses import replace

import pytest

from experiments.studies.case import Case, plan_of
from experiments.studies.model_options import with_options
from hardware import Array, load_array
from planners import AXES, Axes, Update
from simulator import OutOfMemoryError, deployed, overflow, program_of
from simulator.lowering import pipeline as lowering
from simulator.lowering.memory_first import alike_stages
from tests.effort import calls
from workloads import Network, cut, load_network
from workloads.network import unnamed
from workloads.stages import first_alike


def strict(network: Network, array: Array, options: dict[str, str], *, full: bool) -> str | None:
    """The refusal of a step that is to fit, or None; ``full`` writes all that there is first."""
    execution = with_options(deployed(array), options | {"tied": "copies"})
    case = Case(network, AXES, array, 32, execution=execution)
    plan = plan_of(case)
    if full:
        memory = program_of(network, plan, array, execution).memory
        return overflow(plan.network, plan.planner, array.name, memory)
    try:
        program_of(network, plan, array, replace(execution, strict_memory=True))
    except OutOfMemoryError as error:
        return str(error)
    return None


@pytest.mark.parametrize("seed", range(12))
def test_a_refusal_is_the_same_word_for_word(seed: int) -> None:
    """Random axes and options, on HBM that is too small for some."""
    dice = random.Random(seed)  # noqa: S311
    layers = dice.choice((4, 5, 8))
    network = load_network(f"llama3-8b:layers={layers}:seq=128")
    hbm = f'devices.0.hbm.capacity="{dice.choice((2, 3, 4, 6, 40))} GiB"'
    array = load_array("h100-cluster", ["nodes=2", hbm])
    axes = Axes(pp=dice.choice((2, 4)), tp=dice.choice((1, 2, 4)), sp=False)
    options = {
        "parallel": str(axes),
        "micro_batch": dice.choice(("1", "2")),
        "recompute": dice.choice(("none", "selective", "full", "stages:0")),
        "update": dice.choice(("replicated", "sharded", "gradients")),
        "overlap": dice.choice(("full", "none")),
    }
    found = [strict(network, array, options, full=full) for full in (False, True)]
    assert found[0] == found[1]


def test_what_fits_has_the_same_memory() -> None:
    network, array = load_network("llama3-8b:layers=8:seq=128"), load_array("h100-cluster")
    options = {"parallel": "pp=4,tp=2", "tied": "copies"}
    case = Case(network, AXES, array, 32, execution=with_options(deployed(array), options))
    plan, strictly = plan_of(case), replace(case.execution, strict_memory=True)
    whole = program_of(network, plan, array, case.execution).memory
    assert program_of(network, plan, array, strictly).memory == whole
    assert len({one.operator for one in whole}) == 4


def test_stages_that_are_alike() -> None:
    """Eight blocks in four stages: the first has the embedding, the last the head."""
    network = load_network("llama3-8b:layers=8:seq=16")
    array = load_array("h100-cluster", ["nodes=1", "devices.0.count=8"])
    execution = with_options(deployed(array), {"parallel": "pp=4"})
    plan = plan_of(Case(network, AXES, array, 8, execution=execution))
    assert plan.pipeline is not None
    stages = cut(network, plan.pipeline.firsts)
    assert alike_stages(stages, plan.pipeline, array) == [0, 1, 1, 3]
    second = plan.pipeline.stages[2]
    updates = (Update.SHARDED,) * len(second.plan.nodes)
    for other in (
        replace(second.plan, updates=updates),
        replace(second.plan, update_order="arrival"),
        replace(second.plan, bucket_bytes=0.0),
    ):
        first, one, _, last = plan.pipeline.stages
        pipeline = replace(plan.pipeline, stages=(first, one, replace(second, plan=other), last))
        assert alike_stages(stages, pipeline, array) == [0, 1, 2, 3]
    names = [unnamed(one) for one in stages.networks]
    assert [names.index(name) for name in names] == list(first_alike(stages))
    assert cut(network, plan.pipeline.firsts) is stages  # what is kept by it is kept on


def test_a_refusal_is_found_before_exchanges_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    network = load_network("llama3-8b:layers=8:seq=128")
    array = load_array("h100-cluster", ["nodes=2", 'devices.0.hbm.capacity="1 GiB"'])
    options = {"parallel": "pp=8,tp=2"}
    strict(network, array, options, full=False)  # what is kept by the network
    quick = calls(lambda: strict(network, array, options, full=False))
    monkeypatch.setattr(lowering._Writing, "_memory_first", lambda *_: None)
    assert quick < 0.6 * calls(lambda: strict(network, array, options, full=False))
