"""What pipelines are cut by: the times of layers on one accelerator, against a step of its own."""

from dataclasses import replace

import pytest

from hardware import Array, load_array
from planners import load_planner
from simulator import DEPLOYED, PUBLISHED, Execution, simulate
from simulator.lowering.layer_times import layer_times, nodes_of
from workloads import load_network

PHASES = {"forward": "forward_s", "backward": "backward_s", "gradient": "backward_s"}


@pytest.mark.parametrize("name", ["alexnet", "resnet18", "gpt2"])
@pytest.mark.parametrize("execution", [PUBLISHED, DEPLOYED], ids=lambda e: e.model)
def test_each_layer_takes_as_long_as_in_a_step_on_one(name: str, execution: Execution) -> None:
    network, array = load_network(name), load_array("accpar-mixed-switch")
    found = layer_times(network, array, 8, execution)
    assert [one.name for one in found] == list(nodes_of(network))
    alone = execution.planned(array).part(0, 1)
    plan = load_planner("data_parallel")(network, alone, 8)
    single = Array("one", "", alone.group, topology=array.topology)
    spent: dict[tuple[str, str], int] = {}
    for record in simulate(network, plan, single, execution):
        if record.kind == "compute" and record.phase in PHASES:
            key = record.layer, PHASES[record.phase]
            spent[key] = spent.get(key, 0) + record.end_ps - record.start_ps
    assert sum(spent.values()) > 0
    for one in found:
        assert round(one.forward_s * 1e12) == spent.get((one.name, "forward_s"), 0)
        assert round(one.backward_s * 1e12) == spent.get((one.name, "backward_s"), 0)
        assert one.seconds == one.forward_s + one.backward_s


def test_bytes_of_outputs_and_gradients() -> None:
    """AlexNet's first fully connected layer: 9216 times 4096 weights, 4096 outputs a sample."""
    network, array = load_network("alexnet"), load_array("accpar-homogeneous")
    (fc,) = [one for one in layer_times(network, array, 8, PUBLISHED) if one.name == "fc6"]
    assert fc.gradient_bytes == 9216 * 4096 * 2
    assert fc.output_bytes == 8 * 4096 * 2


def test_each_kind_of_accelerator_has_its_own() -> None:
    """Of accpar-mixed the second half is another device: its peak is 420 to 180 TFLOPs."""
    network, array = load_network("alexnet"), load_array("accpar-mixed")
    one, other = (layer_times(network, array, 8, PUBLISHED, n) for n in (0, array.group.size - 1))
    (first, _), (second, _) = array.group.kinds
    ratio = first.peak_flops_per_s / second.peak_flops_per_s
    assert ratio != 1
    for a, b in zip(one, other, strict=True):
        assert b.forward_s == pytest.approx(a.forward_s * ratio, rel=1e-6)


@pytest.mark.parametrize("execution", [PUBLISHED, DEPLOYED], ids=lambda e: e.model)
def test_inference_has_no_backward_pass(execution: Execution) -> None:
    network, array = load_network("alexnet"), load_array("accpar-mixed-switch")
    trained = layer_times(network, array, 8, execution)
    inferred = layer_times(network, array, 8, replace(execution, mode="inference"))
    for one, other in zip(inferred, trained, strict=True):
        assert one.backward_s == 0 < other.backward_s + other.forward_s
        assert one.forward_s == pytest.approx(other.forward_s)
