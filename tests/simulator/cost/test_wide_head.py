"""Logits are made in the format of activations, however narrow products compute."""

from __future__ import annotations

import pytest

from hardware import load_array
from simulator.cost.operators import Operators
from simulator.cost.roofline import Core, core_of, costs
from simulator.cost.training_operators import operators
from tests.simulator.shapes import unsplit
from workloads import load_network, partition_graph
from workloads.stages import cut

MODELS = ("gpt2:layers=1:seq=128", "llama3-8b:layers=1:seq=128")


def core(precision: str) -> Core:
    ((device, _),) = load_array("h100-cluster", [f"precision={precision}"]).group.kinds
    return core_of(device)


def made(of: Operators, node: int, in_: Core) -> list[tuple[str, float]]:
    shard = unsplit(of.graph[node], 4)
    return [
        (one.name, one.compute_s)
        for phase in ("forward", "backward", "gradient")
        for one in costs(getattr(of.nodes[node], phase), shard, in_)
    ]


@pytest.mark.parametrize("model", MODELS)
def test_a_head_takes_as_long_in_fp8_as_in_bf16_and_casts_nothing(model: str) -> None:
    found = operators(load_network(model))
    assert found.graph[found.logits or 0].name == "head"
    assert made(found, len(found.nodes) - 1, core("fp8")) == made(
        found, len(found.nodes) - 1, core("bf16")
    )


@pytest.mark.parametrize("model", MODELS)
def test_other_products_are_twice_as_fast(model: str) -> None:
    found = operators(load_network(model))
    others = [v for v, node in enumerate(found.graph) if node.name in ("layer0.fc1", "layer0.up")]
    assert others
    for v in others:
        fast, slow = dict(made(found, v, core("fp8"))), dict(made(found, v, core("bf16")))
        assert fast.keys() >= slow.keys()  # casts
        for name, seconds in slow.items():
            assert fast[name] == pytest.approx(seconds / 2, rel=1e-3)


def test_a_stage_that_sends_its_last_outputs_makes_no_logits() -> None:
    network = load_network(MODELS[0])
    head = len(partition_graph(network)) - 1
    first, last = map(operators, cut(network, [0, head]).networks)
    assert not any(operator.wide for operator in first.schedule())
    assert {operator.name for operator in last.schedule() if operator.wide} == {
        f"head {phase}" for phase in ("forward", "backward", "gradient")
    }
