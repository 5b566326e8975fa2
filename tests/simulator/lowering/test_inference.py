"""Forward-only steps: the forward part of a training step, with nothing of gradients held."""

from dataclasses import replace

import pytest

from experiments.studies.case import Case, plan_of
from hardware import Array, load_array, load_device
from planners import TIME, Place, Plan, Staging, load_planner, planned_in_stages
from planners.order import Kind, Phase
from simulator import DEPLOYED, PUBLISHED, Execution, Timeline, simulate
from simulator.analysis.memory_timeline import held
from simulator.analysis.worker_records import worker_rows
from simulator.cost.roofline import core_of, costs
from simulator.cost.training_operators import operators
from tests.simulator.analysis.over_time import memory_over_time
from tests.simulator.shapes import unsplit
from workloads import load_network


@pytest.mark.parametrize("name", ["alexnet", "bert-base", "lenet"])
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


def forward_bytes(name: str, *, inference: bool) -> dict[str, float]:
    """What each operator of a forward pass moves, of a batch of four, by name."""
    found, core = (
        operators(load_network(name), inference=inference),
        core_of(load_device("v100-32")[0]),
    )
    return {
        one.name: one.bytes
        for index, node in enumerate(found.nodes)
        for one in costs(node.forward, unsplit(found.graph[index], 4), core)
    }


@pytest.mark.parametrize("name", ["resnet18", "mobilenet-v2"])
def test_batch_norms_have_their_statistics_already(name: str) -> None:
    """They were summed up anew: 53 passes of ResNet-50, a third of its time on an H100."""
    training, inference = (forward_bytes(name, inference=one) for one in (False, True))
    sums = {name for name in training if name.endswith(" statistics")}
    assert len(sums) == sum(x.kind == "batch_norm" for x in load_network(name).layers)
    assert inference == {name: moved for name, moved in training.items() if name not in sums}


def test_cells_keep_no_gates_for_a_pass_that_never_comes() -> None:
    """An LSTM cell of 1,024 units keeps four gates and a state of each step: in fp16, 2 B."""
    training, inference = (forward_bytes("gnmt", inference=one) for one in (False, True))
    cells = [x for x in load_network("gnmt").layers if x.kind == "lstm"]
    assert cells
    for cell in cells:
        kept = training[f"{cell.name} forward"] - inference[f"{cell.name} forward"]
        assert kept == 2 * 4 * 5 * cell.output.elements


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


def test_the_mode_is_in_the_name() -> None:
    execution = Execution("deployed", mode="inference", staging=Staging(2, 2))
    assert str(execution).endswith("inference")
    assert execution.inference
    assert not DEPLOYED.inference


def stages_of(
    name: str, array: Array, execution: Execution, stages: int, many: int, **more: object
) -> tuple[Timeline, Plan]:
    execution = replace(
        execution,
        mode="inference",
        staging=Staging(stages, many, **more),  # type: ignore[arg-type]
    )
    case = Case(load_network(name), "data_parallel", array, 64, execution=execution)
    plan = plan_of(case)
    return simulate(case.network, plan, array, execution), plan


def by_stage(timeline: Timeline, micro_batch: int) -> dict[int, int]:
    """Picoseconds that each worker computes of one micro-batch."""
    busy: dict[int, int] = {}
    for worker, mine in enumerate(worker_rows(timeline)):
        for row in mine.computed.tolist():
            if timeline.columns.micro_batch[row] == micro_batch:
                took = timeline.columns.end[row] - timeline.columns.start[row]
                busy[worker] = busy.get(worker, 0) + took
    return busy


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "pipedream", "2bw", "zero-bubble"])
@pytest.mark.parametrize("overlap", [True, False])
def test_a_pipeline_is_as_fast_as_its_slowest_stage(schedule: str, overlap: bool) -> None:
    """Nothing is flushed, whatever the schedule: only a stage, or what it sends, takes time."""
    array = load_array("tpu-v3-8")
    execution = replace(DEPLOYED, overlap=overlap)
    timeline, _ = stages_of("vgg11", array, execution, 4, 8, schedule=schedule)
    busy = by_stage(timeline, 3)
    assert len(busy) == 4
    sends = [
        r.end_ps - r.start_ps for r in timeline if r.kind == str(Kind.SEND) and r.micro_batch == 3
    ]
    slowest = max(busy.values())
    assert timeline.period is not None
    assert timeline.period.micro_batch_ps >= slowest
    if overlap:
        assert max(sends) < slowest
        assert timeline.iteration_ps == 8 * slowest
    else:  # a stage waits for what it sends, and the next one for what it is sent
        assert timeline.iteration_ps <= 8 * (slowest + 2 * max(sends))
    assert {phase for phase, _ in timeline.totals()} == {Phase.FORWARD}
    assert not [r for r in timeline.resources if "return" in r.name or "replicas" in r.name]


@pytest.mark.parametrize("schedule", ["1f1b", "2bw"])
@pytest.mark.parametrize("name", ["vgg11", "bert-base"])
def test_a_pipeline_does_the_forward_work_of_every_batch(name: str, schedule: str) -> None:
    """FLOPs of all stages and micro-batches, and nothing held from one to the next."""
    array = load_array("tpu-v3-8")
    timeline, plan = stages_of(name, array, DEPLOYED, 2, 4, schedule=schedule)
    alone = replace(DEPLOYED, mode="inference")
    whole_plan = load_planner("data_parallel")(load_network(name), DEPLOYED.planned(array), 64)
    whole = simulate(load_network(name), whole_plan, array, alone)
    done, once = (sum(t.flops_by_device().values()) for t in (timeline, whole))
    assert done == pytest.approx(timeline.batches * once, rel=1e-6)
    assert plan.pipeline is not None
    for worker, mine in enumerate(timeline.program.workers):
        most = {most for _, _, most in memory_over_time(timeline, worker)}
        assert min(most) >= mine.held_bytes
        first, *_, last = held(mine)
        assert last.after == pytest.approx(mine.held_bytes)
        assert first.in_flight == last.in_flight == 1
        assert max(last.versions, first.versions) == 1
        assert {task.operation.phase for task in mine.template} == {Phase.FORWARD}
        assert mine.rank_program is not None
        assert set(mine.rank_program.versions.values()) == {0}


def test_replicas_take_micro_batches_in_turn() -> None:
    """A first stage on twice as many cores, as two replicas: half of its time each."""
    array, execution = load_array("tpu-v3-8"), replace(DEPLOYED, mode="inference")
    _, plan = stages_of("vgg11", array, DEPLOYED, 2, 4)
    assert plan.pipeline is not None
    staged = planned_in_stages(
        "data_parallel",
        load_network("vgg11"),
        DEPLOYED.planned(array),
        64,
        Staging(2, 4),
        plan.pipeline.firsts,
        (Place(0, 4, 2), Place(4, 2)),
        TIME,
    )
    found = simulate(load_network("vgg11"), staged, array, execution)
    busy = by_stage(found, 2) | by_stage(found, 3)
    of_rank: dict[int, int] = {}
    for worker, ps in busy.items():
        rank_program = found.program.workers[worker].rank_program
        assert rank_program is not None
        of_rank[rank_program.rank] = ps
    each = max(of_rank[0] / 2, of_rank[1])
    assert found.iteration_ps == pytest.approx(4 * each, rel=1e-3)


def test_several_stages_a_place_and_weights_that_two_use() -> None:
    """Weights in both stages, without a word on who sums gradients that nobody computes."""
    array = load_array("tpu-v3-8")
    timeline, _ = stages_of("bert-base", array, DEPLOYED, 2, 4, virtual=2)
    busy = by_stage(timeline, 5)
    assert timeline.iteration_ps >= 4 * max(busy.values())
    assert timeline.iteration_ps <= 4 * 1.2 * max(busy.values())


def test_replicas_of_the_papers_model_are_the_same_folded() -> None:
    """Two replicas of each of two stages: as fast as half of a stage's time, folded or not."""
    array = load_array("hypar-16")
    execution = replace(PUBLISHED, mode="inference", staging=Staging(2, 4))
    network = load_network("vgg11")
    case = Case(network, "data_parallel", array, 64, execution=execution)
    firsts = plan_of(case).pipeline.firsts  # type: ignore[union-attr]
    places = (Place(0, 8, 2), Place(8, 8, 2))
    staged = planned_in_stages(
        "data_parallel", network, array, 64, Staging(2, 4), firsts, places, TIME
    )
    folded, unfolded = (
        simulate(network, staged, array, execution, folded=folded) for folded in (True, False)
    )
    assert folded.iteration_ps == unfolded.iteration_ps
    assert sum(folded.flops_by_device().values()) == pytest.approx(
        sum(unfolded.flops_by_device().values())
    )


def test_published_pipelines_too() -> None:
    timeline, _ = stages_of("vgg11", load_array("hypar-16"), PUBLISHED, 4, 4)
    whole = max(by_stage(timeline, 2).values())
    assert timeline.iteration_ps >= 4 * whole
    assert {phase for phase, _ in timeline.totals()} == {Phase.FORWARD}
