"""Computing again on the engine: time, exchanges and memory of whole steps."""

import math
from dataclasses import replace

import pytest

from hardware import load_array
from planners import Axes, Plan, PlanError, Staging, load_planner, planned_by_axes
from planners.order import Kind, Phase
from simulator import DEPLOYED, Timeline, simulate
from simulator.cost.roofline import core_of, costs
from simulator.cost.training_operators import operators
from simulator.engine.operations import Part
from tests.simulator.analysis.over_time import peak_bytes
from tests.simulator.cost.test_transformer_blocks import shards
from workloads import Network, Transformer, load_network, transformer

GPT = transformer(Transformer("g", 4, 64, 8, 100, seq=32, dropout=True, compiled=False, tied=False))
ARRAY = load_array("tpu-v3-8")
SECONDS = 1e-12
PASSES = Phase.RECOMPUTE, Phase.BACKWARD


def plan_of(network: Network, axes: str, batch: int, **asked: int) -> Plan:
    planned = DEPLOYED.planned(ARRAY)
    return planned_by_axes(network, planned, batch, Axes.parse(axes), Staging(**asked))  # type: ignore[arg-type]


def run(plan: Plan, mode: str, *, folded: bool = True, overlap: bool = True) -> Timeline:
    execution = replace(DEPLOYED, recompute=mode, overlap=overlap)
    return simulate(GPT, plan, ARRAY, execution, folded=folded)


def spent(timeline: Timeline, phase: Phase, kind: Kind = Kind.COMPUTE) -> float:
    total = timeline.totals().get((phase, kind))
    return 0.0 if total is None else total.bytes if kind is not Kind.COMPUTE else total.flops


@pytest.mark.parametrize("mode", ["selective", "full", "2"])
def test_one_core_takes_as_much_longer_as_what_runs_again(mode: str) -> None:
    """Samples alone are split: the step's computing is its own operators', one after the other."""
    plan = load_planner("data_parallel")(GPT, DEPLOYED.planned(ARRAY), 16)
    step = operators(GPT, recompute=mode)
    core = core_of(ARRAY.group.kinds[0][0])
    each = shards(step, 2)
    again_s = math.fsum(
        cost.seconds
        for v, node in enumerate(step.nodes)
        for cost in costs(node.recompute, each[v], core)
    )
    assert again_s > 0
    without, with_it = run(plan, "none", overlap=False), run(plan, mode, overlap=False)
    more_s = with_it.iteration_s - without.iteration_s
    assert more_s == pytest.approx(again_s, abs=len(GPT.layers) * SECONDS)
    assert spent(with_it, Phase.FORWARD) == spent(without, Phase.FORWARD)


@pytest.mark.parametrize("mode", ["selective", "full", "1"])
@pytest.mark.parametrize("axes", ["dp=8", "tp=8", "dp=2,tp=4"])
def test_folded_is_unfolded(axes: str, mode: str) -> None:
    plan = plan_of(GPT, axes, 16)
    for overlap in (True, False):
        folded, whole = (run(plan, mode, folded=f, overlap=overlap) for f in (True, False))
        assert folded.iteration_s == whole.iteration_s
        assert folded.totals() == whole.totals()


def test_a_checkpointed_block_sums_its_outputs_again() -> None:
    """Megatron: two all-reduces a block forward, as many when it is computed again."""
    plan = plan_of(GPT, "tp=8", 8)
    forward = spent(run(plan, "full"), Phase.FORWARD, Kind.SUMS)
    again = spent(run(plan, "full"), Phase.RECOMPUTE, Kind.SUMS)
    one = spent(run(plan, "1"), Phase.RECOMPUTE, Kind.SUMS)
    assert forward > 0
    assert one == pytest.approx(again / 4)
    assert again == pytest.approx(forward * 8 / 9)  # forward the embedding's rows are, too
    assert spent(run(plan, "selective"), Phase.RECOMPUTE, Kind.SUMS) == 0
    assert spent(run(plan, "none"), Phase.RECOMPUTE, Kind.SUMS) == 0


def test_nothing_is_computed_again_before_the_block_behind_it_is_done() -> None:
    """The order of one core's lines: a block's second forward is right before its backward."""
    timeline = run(plan_of(GPT, "tp=8", 8), "full")
    columns = timeline.columns
    rows = sorted(range(len(columns.start)), key=columns.start.__getitem__)
    seen = [
        (op.layer, op.phase)
        for op in (timeline.operations[columns.operation[row]] for row in rows)
        if op.phase in PASSES and op.kind is Kind.COMPUTE
    ]
    place = {one: i for i, one in reversed(list(enumerate(seen)))}
    for n in range(4):
        again, back = ([place[f"layer{n}.fc{i}", phase] for i in (1, 2)] for phase in PASSES)
        assert max(again) < min(back)
        if n < 3:  # the block behind it is through by then
            assert place[f"layer{n + 1}.attention.qkv", Phase.BACKWARD] < min(again)


@pytest.mark.parametrize("axes", ["pp=2,tp=2,dp=2", "pp=4,tp=2", "pp=2,tp=4,vp=2"])
def test_stages_hold_less_and_take_longer(axes: str) -> None:
    plan = plan_of(GPT, axes, 16, micro_batch=1)
    peaks, times = [], []
    for mode in ("none", "selective", "full"):
        timeline = run(plan, mode)
        peaks.append(max(one.peak_bytes for one in timeline.memory))
        times.append(timeline.iteration_s)
        most = max(peak_bytes(timeline, i) for i in range(len(timeline.program.workers)))
        assert most == pytest.approx(max(one.peak_bytes for one in timeline.memory))
    assert peaks[2] < peaks[1] < peaks[0]
    assert times[0] < times[1] < times[2]


def test_in_a_stage_it_belongs_to_the_backward_pass() -> None:
    timeline = run(plan_of(GPT, "pp=2,tp=4", 8, micro_batch=1), "full")
    for worker in timeline.program.workers:
        rank_program = worker.rank_program
        assert rank_program is not None
        lines = {part: found for (_, part), found in rank_program.lines.items()}
        again = {
            i for i, task in enumerate(worker.template) if task.operation.phase is Phase.RECOMPUTE
        }
        assert again
        assert again <= set(lines[Part.BACKWARD])


def test_a_network_without_blocks_is_refused() -> None:
    network = load_network("lenet")
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(ARRAY), 16)
    with pytest.raises(PlanError, match="has no repeated blocks"):
        simulate(network, plan, ARRAY, replace(DEPLOYED, recompute="full"))


def test_so_many_blocks_are_computed_again_in_each_stage() -> None:
    """Of two stages of two blocks each: one of each, or both as "full" has it."""
    plan = plan_of(GPT, "dp=4,pp=2", 16, micro_batch=2)
    one, two, full = (spent(run(plan, mode), Phase.RECOMPUTE) for mode in ("1", "2", "full"))
    assert full > 0
    assert one == pytest.approx(full / 2)
    assert two == pytest.approx(full)


def test_one_stage_of_axes_is_computed_again_where_asked() -> None:
    plan = plan_of(GPT, "dp=8", 16, recompute="all")  # type: ignore[arg-type]
    assert plan.pipeline is not None
    assert [stage.recompute for stage in plan.pipeline.stages] == [True]
    kept = plan_of(GPT, "dp=8", 16)
    assert run(plan, "none").iteration_ps > 1.2 * run(kept, "none").iteration_ps
    with pytest.raises(PlanError, match="there is no stage 5; stages are 0 to 0"):
        plan_of(GPT, "dp=8", 16, recompute="5")  # type: ignore[arg-type]
