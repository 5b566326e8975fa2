"""Tensor and sequence parallelism: what each core keeps, and what is gathered again for it."""

from dataclasses import replace

import pytest

from hardware import load_array
from planners import Axes, Plan, Staging, planned_by_axes
from planners.order import Kind, Phase
from simulator import DEPLOYED, Execution, Timeline, simulate
from simulator.lowering.models import rules_of
from simulator.lowering.step.training_step import Writer
from workloads import Network, Transformer, transformer

ARRAY = load_array("tpu-v3-8", ["devices.0.roofline.tile=false"])
B, S, H, A = 4, 32, 64, 8


def gpt(layers: int) -> Network:
    return transformer(Transformer("g", layers, H, A, 96, seq=S, dropout=True, compiled=False))


def planned(network: Network, axes: str, execution: Execution = DEPLOYED) -> Plan:
    return planned_by_axes(network, execution.planned(ARRAY), B, Axes.parse(axes), Staging())


def kept(layers: int, axes: str, mode: str) -> float:
    """Bytes of activations that a core holds when forward is over."""
    network, execution = gpt(layers), replace(DEPLOYED, recompute=mode)
    rules = rules_of(network, planned(network, axes, execution), ARRAY, execution, folded=True)
    program = Writer(rules).programs[0]
    use = rules.memory_use(program.device, program.shards, program.updated)
    assert use is not None
    last = max(i for i, (_, phase) in enumerate(use.products) if phase is Phase.FORWARD)
    return use.kept[last] - use.held_bytes


@pytest.mark.parametrize(("axes", "t"), [("tp=8", 8), ("dp=2,tp=4", 4), ("dp=4,tp=2", 2)])
@pytest.mark.parametrize("mode", ["none", "selective", "full"])
@pytest.mark.parametrize("sp", [False, True])
def test_a_block_keeps_what_the_table_says(axes: str, t: int, mode: str, sp: bool) -> None:
    """Korthikanti et al. 2022, Table 2, to the byte, of plans as they are divided and written."""
    sbh, scores = S * (B * t // 8) * H, 5 * A * S * S * (B * t // 8)
    formula = {
        ("none", False): sbh * (10 + 24 / t) + scores / t,
        ("selective", False): sbh * (10 + 24 / t),
        ("full", False): 2 * sbh,
        ("none", True): (sbh * 34 + scores) / t,
        ("selective", True): 34 * sbh / t,
        ("full", True): 2 * sbh / t,
    }[mode, sp]
    asked = f"{axes},sp" if sp else axes
    assert kept(3, asked, mode) - kept(2, asked, mode) == pytest.approx(formula)


def run(mode: str, axes: str = "tp=8,sp", *, folded: bool = True) -> Timeline:
    network, execution = gpt(3), replace(DEPLOYED, recompute=mode)
    plan = planned(network, axes, execution)
    return simulate(network, plan, ARRAY, execution, folded=folded)


def moved(timeline: Timeline, phase: Phase, kind: Kind = Kind.BOUNDARY) -> float:
    total = timeline.totals().get((phase, kind))
    return total.bytes if total else 0.0


def test_what_is_gathered_is_gathered_again() -> None:
    """Megatron: of each block the inputs of both first products, and the head's."""
    forward = [
        op.layer
        for op in run("none").operations
        if (op.phase, op.kind) == (Phase.FORWARD, Kind.BOUNDARY)
    ]
    again = [
        op.layer
        for op in run("none").operations
        if (op.phase, op.kind) == (Phase.RECOMPUTE, Kind.BOUNDARY)
    ]
    gathered = [f"layer{i}.add1 to layer{i}.fc1" for i in range(3)]
    gathered += [f"layer{i}.add2 to layer{i + 1}.attention.qkv" for i in range(2)]
    gathered += ["embedding to layer0.attention.qkv", "layer2.add2 to head"]
    assert sorted(again) == sorted(gathered)
    assert set(again) <= set(forward)
    assert moved(run("none", "tp=8"), Phase.RECOMPUTE) == 0


def test_blocks_that_are_computed_again_gather_for_forward_and_for_gradients() -> None:
    """Megatron's checkpoint runs forward with its two all-gathers, backward has its own two."""
    none, full = run("none"), run("full")
    forward = moved(full, Phase.FORWARD)
    assert forward == moved(none, Phase.RECOMPUTE)  # two a block, and the head's
    heads = forward / 7
    assert moved(full, Phase.RECOMPUTE) == pytest.approx(2 * forward - heads)
    # sums are scattered to positions again, as they were: half of what an all-reduce moves
    sums = moved(full, Phase.RECOMPUTE, Kind.SUMS)
    whole = moved(run("full", "tp=8"), Phase.RECOMPUTE, Kind.SUMS)
    assert sums == pytest.approx(whole / 2)
    assert moved(none, Phase.RECOMPUTE, Kind.SUMS) == 0


def test_it_goes_when_errors_come() -> None:
    """Not before: else each would be held from forward on."""
    timeline = run("none")
    columns = timeline.columns
    start: dict[tuple[str, str, str], int] = {}
    for row, number in enumerate(columns.operation):
        op = timeline.operations[number]
        key = op.layer, op.phase, op.kind
        start[key] = min(start.get(key, columns.start[row]), columns.start[row])
    for i in range(3):
        again = start[f"layer{i}.add1 to layer{i}.fc1", Phase.RECOMPUTE, Kind.BOUNDARY]
        assert again >= start[f"layer{i}.fc2", Phase.BACKWARD, Kind.COMPUTE]
        assert again <= start[f"layer{i}.fc1", Phase.GRADIENT, Kind.COMPUTE]


@pytest.mark.parametrize("mode", ["none", "selective", "full"])
@pytest.mark.parametrize("axes", ["tp=8,sp", "dp=2,tp=4,sp", "tp=4,cp=2,sp"])
def test_folded_is_unfolded(axes: str, mode: str) -> None:
    folded, whole = (run(mode, axes, folded=f) for f in (True, False))
    assert folded.iteration_s == whole.iteration_s
    assert folded.totals() == whole.totals()


def test_nothing_that_is_kept_is_whole() -> None:
    """The embedding's sums and its norm are kept in parts, too: 2 and 16 of 2 sbh / t otherwise."""
    assert kept(3, "tp=8,sp", "full") < 10 * 2 * S * B * H / 8
