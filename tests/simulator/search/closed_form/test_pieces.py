"""What pieces add, beside stages that the engine runs as a whole."""

from typing import Any

import pytest

import accelarray
from hardware import load_array
from planners import Axes, planned_by_axes
from planners.pipeline.staging import cut_into
from simulator import Execution, deployed
from simulator.engine.replay import run
from simulator.lowering.models import rules_of
from simulator.lowering.step.training_step import training_step
from simulator.search.closed_form.pieces import Pieces, Table
from workloads import load_network


def whole_s(pieces: Pieces, first: int, end: int, axes: Axes, execution: Execution) -> float:
    """Seconds of a stage without its update, which one device alone has no exchange before."""
    begins = pieces.begins
    cut = cut_into(pieces.network, (0, begins[first], *begins[end : end + 1]))
    part = pieces.array.part(0, axes.tp * axes.cp)
    plan = planned_by_axes(cut.networks[1], part, 2, axes)
    timeline = run(training_step(rules_of(cut.networks[1], plan, part, execution, folded=True)))
    ends = (record.end_ps for record in timeline if record.phase != "update")
    return max(ends) / 1e12


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("axes", [Axes(dp=1), Axes(dp=1, tp=4), Axes(dp=1, tp=4, sp=True)], ids=str)
def test_the_pieces_of_a_stage_are_the_stage(axes: Axes, recompute: str) -> None:
    array = load_array("h100-cluster", ["nodes=1"], usual=True)
    execution = deployed(array)
    network = load_network("gpt2:layers=8:hidden=1024:heads=16")
    pieces = Pieces(network, execution.planned(array), execution)
    table = Table(*pieces.measured(axes, 2, recompute=recompute), None)
    own = Execution("deployed", bucket_bytes=execution.bucket_bytes, recompute=recompute)
    for first, end in ((2, 4), (2, 6), (4, 9)):
        found = table.stage(first, end)
        entry = table.added[first, :2].sum() - table.alone[first, :2].sum()
        wanted = whole_s(pieces, first, end, axes, own)
        assert found.seconds - entry == pytest.approx(wanted, rel=0.02)
    # sequence parallelism gathers what a block reads, at its entry too
    assert (table.added[4, 0] > 1.001 * table.alone[4, 0]) == axes.sp


def test_identical_pieces_are_run_once() -> None:
    array = load_array("h100-cluster", ["nodes=1"], usual=True)
    pieces = Pieces(load_network("llama3-70b"), array, deployed(array))
    networks, alone, pairs = pieces._distinct
    assert (len(alone), len(pairs)) == (82, 81)
    assert (
        len(networks) == 6
    )  # embedding, block, head; and embedding and block, two blocks, the end


def test_experts_are_told_from_other_weights() -> None:
    """Of Mixtral's block 8 experts of 3 matrices, 4096 x 14336, on 8 devices; else attention."""
    array = load_array("h100-cluster", ["nodes=1", "stack=nemo-mlperf"])  # no update waits
    execution = deployed(array)
    pieces = Pieces(load_network("mixtral-8x7b:layers=2"), array, execution)
    _, added = pieces.measured(Axes(dp=8, ep=8), 1)
    block = added[2]
    experts = 3 * 4096 * 14336
    others = 4096 * (2 * 4096 + 2 * 1024 + 8)
    share = block.experts / block.weights
    assert share == pytest.approx(experts / (experts + others), rel=0.01)
    assert block.weights == pytest.approx(2 * (experts + others), rel=0.01)


@pytest.mark.parametrize(("stack", "waits"), [("megatron-2025", True), ("nemo-mlperf", False)])
def test_updates_that_wait_for_their_host_are_not_shared_out(stack: str, waits: bool) -> None:
    """All of a small block's take 70 us, of however few of their weights.

    But for its first norm's, which are updated with the embedding's where both are in a stage.
    """
    array = load_array("h100-cluster", ["nodes=1", f"stack={stack}"])
    pieces = Pieces(load_network("gpt2:layers=2:seq=128"), array, deployed(array))
    block = pieces.measured(Axes(dp=8), 1)[1][1]
    assert (block.launch_s == pytest.approx(block.update_s, rel=1e-4)) is waits
    assert waits or block.launch_s < 0.7 * block.update_s


def test_a_block_that_is_computed_again_is_not_late_twice() -> None:
    """A host starts a layer of experts later than the core is done: once in a pass, at its end."""
    array = load_array("h100-cluster", ["nodes=1"], usual=True)
    execution = deployed(array)
    pieces = Pieces(load_network("mixtral-8x7b:layers=4:seq=512"), array, execution)
    axes = Axes(dp=8, ep=8)
    found = {mode: pieces.measured(axes, 1, recompute=mode)[0][2] for mode in ("none", "full")}
    more_s = found["full"].backward_s - found["none"].backward_s
    assert more_s < 1.1 * found["none"].forward_s


@pytest.mark.parametrize("network", ["gpt2:layers=2", "llama-7b:layers=2"])
def test_two_blocks_have_one_norm_behind_them(network: str) -> None:
    """The last pair of blocks, whose end has it, is the only pair of its kind."""
    asked: Any = {"set": {"nodes": 1}, "mode": "inference", "batch": 64}
    vary = {"parallel": ["dp=8", "dp=4,tp=2"]}
    exact, estimate = (
        accelarray.sweep(vary, network, "axes", "h100-cluster", estimate=one, **asked).to_frame()
        for one in (False, True)
    )
    for key in ("iteration_s", "peak_memory_bytes"):
        assert estimate[key].tolist() == pytest.approx(exact[key].tolist(), rel=1e-3)
