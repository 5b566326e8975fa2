"""Experts over dp and tp together: what is sent, and held, by closed forms."""

from dataclasses import replace

import pytest

from experiments.studies.case import Case, plan_of
from hardware import load_array
from planners import Axes, Staging
from planners.order import Kind, Phase
from simulator import DEPLOYED, Timeline, simulate
from workloads import load_network

SEQ, TOPK, EXPERTS = 256, 2, 8
NETWORK = load_network(f"mixtral-8x7b:layers=1:seq={SEQ}")
HIDDEN, FFN = 4096, 14336
BATCH = 8


def step(axes: Axes) -> Timeline:
    array = load_array("dgx-h100", ["precision=bf16"])
    how = replace(DEPLOYED, staging=Staging(parallel=axes))
    plan = plan_of(Case(NETWORK, "axes", array, BATCH, execution=how))
    return simulate(NETWORK, plan, array, how)


def received(timeline: Timeline, phase: Phase, layer: str) -> float:
    """Bytes of boundaries that end in a layer, of all devices."""
    return sum(
        sum(one.received)
        for one in timeline.operations
        if (one.kind, one.phase) == (Kind.BOUNDARY, phase) and one.layer.endswith(f" to {layer}")
    )


@pytest.mark.parametrize(("tp", "sp"), [(1, False), (2, True), (4, True), (8, True)])
def test_tokens_go_to_their_experts_whoever_has_them(tp: int, sp: bool) -> None:
    """Of 8 devices each has an expert, and 1/8 of the tokens, of which it keeps 1/8."""
    timeline = step(Axes(dp=8 // tp, tp=tp, ep=8, sp=sp))
    tokens = BATCH * SEQ * TOPK * HIDDEN * 2.0
    there = received(timeline, Phase.FORWARD, "layer0.experts.gate")
    back = received(timeline, Phase.FORWARD, "layer0.combine")
    assert there == pytest.approx(tokens * 7 / 8)
    assert back == pytest.approx(tokens * 7 / 8)


@pytest.mark.parametrize("tp", [2, 4, 8])
def test_each_device_holds_one_expert(tp: int) -> None:
    """The experts' part of its weights is that of dp=8, ep=8, and of dp=8/tp, ep=8/tp, too."""
    whole = step(Axes(dp=8 // tp, tp=tp, ep=8, sp=True)).memory[0]
    parts = step(Axes(dp=8 // tp, tp=tp, ep=8 // tp, sp=True)).memory[0]
    assert whole.by_class[0] == pytest.approx(parts.by_class[0], rel=1e-3)
    assert whole.by_class[0] > 2 * 3 * HIDDEN * FFN
