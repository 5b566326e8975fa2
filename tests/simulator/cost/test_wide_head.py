"""Logits are made in the format of activations, however narrow products compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hardware import load_array
from simulator.cost.operators import Operators
from simulator.cost.roofline import Core, core_of, costs
from simulator.cost.training_operators import operators
from tests.simulator.shapes import unsplit
from workloads import load_network, partition_graph
from workloads.stages import cut

MODELS = ("gpt2:layers=1:seq=128", "llama3-8b:layers=1:seq=128")


STACKS: list[list[str]] = [[], ["stack=megatron-2025"]]


def core(precision: str, changes: Sequence[str] = ()) -> Core:
    ((device, _),) = load_array("h100-cluster", [*changes, f"precision={precision}"]).group.kinds
    return core_of(device)


def made(of: Operators, node: int, in_: Core) -> list[tuple[str, float]]:
    shard = unsplit(of.graph[node], 4)
    return [
        (one.name, one.compute_s)
        for phase in ("forward", "backward", "gradient")
        for one in costs(getattr(of.nodes[node], phase), shard, in_)
    ]


@pytest.mark.parametrize("changes", STACKS)
@pytest.mark.parametrize("model", MODELS)
def test_a_head_takes_as_long_in_fp8_as_in_bf16_and_casts_nothing(
    model: str, changes: list[str]
) -> None:
    """Also where fp8's products reach another share of their peak than bf16's."""
    found = operators(load_network(model))
    assert found.graph[found.logits or 0].name == "head"
    assert made(found, len(found.nodes) - 1, core("fp8", changes)) == made(
        found, len(found.nodes) - 1, core("bf16", changes)
    )


def test_a_share_of_products_in_bf16_is_read_where_others_are_narrower() -> None:
    """A tenth of the share takes ten times as long, and other products as long as before."""
    found = operators(load_network(MODELS[0]))
    head = len(found.nodes) - 1
    before = core("fp8")
    after = core("fp8", ["devices.0.roofline.wide_efficiency=0.1"])
    at_peak = replace(before, computed_flops_per_s=989e12)
    assert [s for _, s in made(found, head, after)] == pytest.approx(
        [10 * s for _, s in made(found, head, at_peak)]
    )
    assert made(found, 1, after) == made(found, 1, before)


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
