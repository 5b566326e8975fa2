"""What is exposed along each axis: all that is, each exchange along one of them."""

from dataclasses import replace
from math import fsum

import pytest

from experiments.studies.case import Case, step_of
from experiments.studies.step_numbers import AXES, axis_fields, axis_of
from hardware import load_array
from planners import Axes, Staging
from planners.order import Kind, Phase
from simulator import DEPLOYED, shares
from workloads import load_network, partition_graph

MIXTRAL = "mixtral-8x7b:layers=2:seq=64:hidden=64:heads=8:kv_heads=8:ffn=64"


def exposed(network: str, axes: str, batch: int = 32) -> dict[str, float]:
    array = load_array("h100-cluster", ["devices.0.count=4", "nodes=2"])
    staging = Staging(parallel=Axes.parse(axes), micro_batch=2)
    case = Case(
        load_network(network), "axes", array, batch, execution=replace(DEPLOYED, staging=staging)
    )
    _, timeline = step_of(case)
    found: dict[str, float] = axis_fields(case, timeline)["exposed_by_axis_s"]
    whole = shares(timeline).communicating * timeline.iteration_s
    assert fsum(found.values()) == pytest.approx(whole, rel=1e-9)
    assert list(found) == [axis for axis in AXES if axis in found]
    return found


@pytest.mark.parametrize(
    ("network", "axes", "along"),
    [
        ("gpt2:layers=2:seq=64", "dp=8", {"dp"}),
        ("gpt2:layers=2:seq=64", "dp=2,tp=4", {"dp", "tp"}),
        ("gpt2:layers=2:seq=64", "dp=2,tp=4,sp", {"dp", "tp"}),
        ("gpt2:layers=2:seq=64", "dp=2,cp=4", {"dp", "cp"}),
        ("gpt2:layers=2:seq=64:attention=fused", "dp=2,cp=4", {"dp", "cp"}),
        ("resnet18", "dp=4,cp=2", {"dp", "cp"}),
        ("gpt2:layers=4:seq=64", "dp=2,pp=2,tp=2", {"dp", "pp", "tp"}),
        (MIXTRAL, "dp=8,ep=8", {"dp", "ep"}),
        (MIXTRAL, "dp=4,ep=4,tp=2", {"dp", "ep", "tp"}),
    ],
)
def test_each_exchange_is_along_one_axis(network: str, axes: str, along: set[str]) -> None:
    assert set(exposed(network, axes)) == along


def test_none_without_axes() -> None:
    array = load_array("tpu-v3-8")
    case = Case(load_network("lenet"), "data_parallel", array, 64, execution=DEPLOYED)
    assert axis_fields(case, step_of(case)[1]) == {}


@pytest.mark.parametrize("attention", ["fused", "unfused"])
def test_gradients_of_keys_and_values_are_along_cp_beside_tp(attention: str) -> None:
    """tp sums those of layers' inputs; both are gradients of activations."""
    array = load_array("h100-cluster", ["devices.0.count=4", "nodes=2"])
    net = load_network(f"gpt2:layers=2:seq=64:attention={attention}")
    axes = Axes.parse("dp=2,cp=2,tp=2")
    how = replace(DEPLOYED, staging=Staging(parallel=axes))
    timeline = step_of(Case(net, "axes", array, 64, execution=how))[1]
    nodes = {node.name: node for node in partition_graph(net)}
    found = {
        (nodes[one.layer].computed, axis_of(one, nodes, axes))
        for one in timeline.operations
        if (one.kind, one.phase) == (Kind.SUMS, Phase.BACKWARD) and one.layer in nodes
    }
    assert found == {(True, "cp"), (False, "tp")}
