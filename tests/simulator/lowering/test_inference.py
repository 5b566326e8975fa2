"""Forward-only steps: the forward part of a training step, with nothing of gradients held."""

from dataclasses import replace

import pytest

from hardware import load_array
from planners import PlanError, load_planner
from planners.order import Phase
from simulator import DEPLOYED, PUBLISHED, Execution, simulate
from workloads import load_network


@pytest.mark.parametrize("name", ["alexnet", "resnet18", "bert-base", "gnmt"])
@pytest.mark.parametrize("planner", ["data_parallel", "model_parallel"])
def test_inference_is_the_forward_phase_of_training(name: str, planner: str) -> None:
    network, array = load_network(name), load_array("tpu-v3-8")
    plan = load_planner(planner)(network, DEPLOYED.planned(array), 64)
    whole = simulate(network, plan, array, DEPLOYED)
    forward = simulate(network, plan, array, replace(DEPLOYED, mode="inference"))
    assert {phase for phase, _ in forward.totals()} == {Phase.FORWARD}
    for key, total in forward.totals().items():
        assert total == whole.totals()[key]
    assert forward.iteration_ps == max(r.end_ps for r in whole if r.phase == Phase.FORWARD)


def test_weights_and_what_is_still_read_is_all_that_is_held() -> None:
    """A perceptron of 1000 to 1000 to 1000: 2 B weights, and two maps of 8 x 1000 at a time."""
    from workloads import Builder

    builder = Builder("n", 1000, 1)
    builder.fc("a", 1000)
    builder.fc("b", 1000)
    network = builder.build()
    array = load_array("wham-1")
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(array), 8)
    (memory,) = simulate(network, plan, array, replace(DEPLOYED, mode="inference")).memory
    assert memory.peak_bytes == 2 * 2_000_000 + 2 * 2 * 8 * 1000
    (training,) = simulate(network, plan, array, DEPLOYED).memory
    assert training.peak_bytes > 4 * memory.peak_bytes


def test_published_steps_too() -> None:
    network, array = load_network("alexnet"), load_array("accpar-mixed")
    plan = load_planner("accpar")(network, array, 256)
    forward = simulate(network, plan, array, replace(PUBLISHED, mode="inference"))
    whole = simulate(network, plan, array)
    assert {phase for phase, _ in forward.totals()} == {Phase.FORWARD}
    assert 0 < forward.iteration_ps < whole.iteration_ps


def test_the_mode_is_in_the_name_and_stages_are_refused() -> None:
    from experiments.studies.case import Case, plan_of
    from planners import Staging

    execution = Execution("deployed", mode="inference", staging=Staging(2, 2))
    assert str(execution).endswith("inference")
    assert execution.inference
    assert not DEPLOYED.inference
    case = Case(load_network("vgg11"), "owt", load_array("tpu-v3-8"), 64, execution=execution)
    with pytest.raises(PlanError, match="stages are of training alone"):
        simulate(case.network, plan_of(case), case.array, execution)
