"""How full each stage gets: from the run's records, counted anew, against the static script."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

import accelarray as aa
from hardware import Array, load_array
from planners import Plan, load_planner, planned_in_stages
from planners.order import Phase
from planners.pipeline.staging import Staging, places_of
from simulator import (
    DEPLOYED,
    Execution,
    Machine,
    OutOfMemoryError,
    Timeline,
    program_of,
    run,
    simulate,
)
from simulator.analysis.memory_timeline import (
    at_rest,
    filled,
    fullest,
    held,
    peak,
)
from simulator.engine.operations import (
    CLASSES,
    MOVING,
    Holding,
    Instruction,
    Operation,
    Part,
    RankProgram,
    Task,
    Worker,
)
from tests.simulator.analysis.over_time import memory_over_time, peak_bytes
from tests.simulator.engine.programs import compute, cores
from tests.simulator.lowering.test_deployed import steps
from workloads import Network, load_network, partition_graph
from workloads.builder import Builder

ARRAY = load_array("tpu-v3-8")


def staged(network: str, stages: int, micro: int, schedule: str, **more: Any) -> Plan:
    net = load_network(network)
    graph = partition_graph(net)
    planned = DEPLOYED.planned(ARRAY)
    staging = Staging(stages, micro, schedule, **more)
    many = stages * staging.virtual
    firsts = [k * len(graph) // many for k in range(many)]
    places = [replace(place) for place in places_of(planned, stages)]
    return planned_in_stages("data_parallel", net, planned, 8 * micro, staging, firsts, places)


def with_replicas(plan: Plan, network: str) -> Plan:
    """Two replicas of one core each, instead of two cores."""
    assert plan.pipeline is not None
    net, planned = load_network(network), DEPLOYED.planned(ARRAY)
    staging = Staging(
        len(plan.pipeline.places), plan.pipeline.micro_batches, plan.pipeline.schedule
    )
    places = [replace(place, replicas=2) for place in plan.pipeline.places]
    firsts = plan.pipeline.firsts
    return planned_in_stages("data_parallel", net, planned, plan.batch, staging, firsts, places)


def ran(network: str, plan: Plan) -> Timeline:
    return simulate(load_network(network), plan, ARRAY, DEPLOYED)


def by_hand(timeline: Timeline, number: int) -> list[float]:
    """The most that a worker holds at each of its computations, in the order of time.

    What each product brings and leaves is on its line. By micro-batch; gradients are
    there once; older versions of weights as long as a micro-batch in flight was begun
    with them; a stage that computes again holds its inputs alone in between.
    """
    worker: Worker = timeline.program.workers[number]
    route = worker.rank_program
    assert route is not None
    lines = {task.operation: task for task in worker.template}
    stage_of = {
        worker.template[i].operation: stage
        for (stage, _), some in route.lines.items()
        for i in some
    }
    core = timeline.all_resources.workers[number].cores[0]
    rows = [i for i, r in enumerate(timeline.columns.resource) if r == core]
    rows.sort(key=lambda i: (timeline.columns.start[i], timeline.columns.end[i]))
    live: dict[tuple[int, int], float] = {}
    gradients: dict[tuple[int, Operation], float] = {}
    last_forward = _last_of(worker, Part.FORWARD)
    first_forward = _last_of(worker, Part.FORWARD, behind=False)
    last_weights = _last_of(worker, Part.WEIGHTS)
    last_update = _last_of(worker, Part.UPDATE)
    done: dict[tuple[int, int], int] = {}
    through, updates, found = set[int](), 0, list[float]()
    for i in rows:
        operation = timeline.operations[timeline.columns.operation[i]]
        micro_batch, task = timeline.columns.micro_batch[i], lines[operation]
        stage = stage_of[operation]
        key = stage, micro_batch
        new = (stage, operation) not in gradients and operation.phase is not Phase.UPDATE
        once = task.accumulated if new else 0.0
        most = task.held[0] - (0.0 if new or operation.phase is Phase.UPDATE else task.accumulated)
        more = task.held[1] - (0.0 if operation.phase is Phase.UPDATE else task.accumulated)
        begun = {route.versions[t] for t in route.versions if t not in through}
        versions = len({v for v in begun if v < updates} | {updates})
        extra = (versions - 1) * worker.weight_bytes if not _flushes(route.instructions) else 0.0
        again = operation is first_forward[stage] and done.get(key) == 1
        if again and stage in route.inputs:  # which then are among what it keeps
            live[key] -= route.inputs[stage]
        level = worker.held_bytes + sum(live.values()) + sum(gradients.values())
        found.append(level + most + extra)
        if operation.phase is Phase.UPDATE:
            gradients[stage, operation] = gradients.get((stage, operation), 0.0) + more
        else:
            live[key] = live.get(key, 0.0) + more
            if task.accumulated:
                gradients[stage, operation] = gradients.get((stage, operation), 0.0) + once
        if operation is last_forward[stage]:
            done[key] = done.get(key, 0) + 1
            if stage in route.inputs and done[key] == 1:
                live[key] = route.inputs[stage]  # nothing but inputs, until it is computed again
        if operation is last_weights[stage]:
            through.add(micro_batch)
        if operation is last_update.get(stage):
            gradients = {k: v for k, v in gradients.items() if k[0] != stage}
            updates += 1
    return found


def _flushes(instructions: Any) -> bool:
    """Whether all updates come at the end."""
    kinds = [Part.UPDATE in instruction.parts for instruction in instructions]
    return kinds == sorted(kinds)


def _last_of(worker: Worker, part: Part, *, behind: bool = True) -> dict[int, Operation]:
    """The last computation of each stage's part, or the first."""
    assert worker.rank_program is not None
    found: dict[int, Operation] = {}
    for (stage, of), some in worker.rank_program.lines.items():
        computed = [
            worker.template[i].operation
            for i in some
            if not worker.template[i].parties and not worker.template[i].receives
        ]
        if of is part and computed:
            found[stage] = computed[-1 if behind else 0]
    return found


CASES = [
    ("vgg16", 4, 8, "1f1b", {}),
    ("vgg16", 4, 6, "gpipe", {}),
    ("alexnet", 2, 4, "zero-bubble", {}),
    ("vgg16", 2, 4, "interleaved", {"virtual": 2}),
    ("vgg16", 4, 8, "1f1b", {"recompute": "0,2"}),
    ("resnet18", 2, 4, "gpipe", {"recompute": "all"}),
    ("alexnet", 2, 1, "pipedream", {"batches": 12}),
    ("vgg16", 4, 1, "pipedream", {"batches": 20}),
    ("vgg16", 4, 4, "2bw", {"batches": 6}),
]


@pytest.mark.parametrize(("network", "stages", "micro", "schedule", "more"), CASES, ids=str)
def test_from_the_records_as_from_the_script(
    network: str, stages: int, micro: int, schedule: str, more: dict[str, Any]
) -> None:
    plan = staged(network, stages, micro, schedule, **more)
    timeline = ran(network, plan)
    for number, worker in enumerate(timeline.program.workers):
        assert worker.rank_program is not None
        counted = by_hand(timeline, number)
        script = [one.most for one in held(worker)]
        assert script == pytest.approx(counted, rel=1e-9)
        times = list(memory_over_time(timeline, number))
        assert [most for _, _, most in times] == script
        assert [start for start, _, _ in times] == sorted(start for start, _, _ in times)
        top = peak(worker)
        assert top is not None
        assert top.most == pytest.approx(max(counted), rel=1e-12)
        assert peak_bytes(timeline, number) == pytest.approx(max(counted), rel=1e-12)
        end = list(held(worker))[-1]
        if plan.pipeline is not None and not more.get("batches"):
            assert end.after == pytest.approx(worker.held_bytes, rel=1e-9)
    named = [float(m.peak_bytes) for m in timeline.memory]
    assert len(named) == stages
    assert max(named) == pytest.approx(
        max(peak_bytes(timeline, n) for n in range(len(timeline.program.workers))), rel=1e-12
    )


def peaks(network: str, *args: Any, **more: Any) -> list[float]:
    return [m.peak_bytes for m in ran(network, staged(network, *args, **more)).memory]


def test_1f1b_holds_less_than_gpipe_and_recompute_less_than_both() -> None:
    """All but the last place: there GPipe holds all micro-batches, 1F1B one."""
    gpipe, plain = peaks("vgg16", 4, 8, "gpipe"), peaks("vgg16", 4, 8, "1f1b")
    again = peaks("vgg16", 4, 8, "gpipe", recompute="all")
    assert all(a > b for a, b in zip(gpipe, plain, strict=True))
    assert all(a > b for a, b in zip(gpipe, again, strict=True))


def test_what_each_micro_batch_more_in_flight_takes() -> None:
    """GPipe's first stage holds its activations once more for each: a straight line."""
    found = [peaks("vgg16", 4, m, "gpipe")[0] for m in (2, 3, 4, 7)]
    each = found[1] - found[0]
    assert each > 0
    assert found[2] - found[1] == pytest.approx(each)
    assert found[3] - found[2] == pytest.approx(3 * each)


def test_versions_of_weights_take_as_much_as_weights() -> None:
    """PipeDream's first of four stages: three versions more than 1F1B, as many in flight."""
    flush = ran("vgg16", staged("vgg16", 4, 8, "1f1b"))
    stash = ran("vgg16", staged("vgg16", 4, 1, "pipedream", batches=20))
    two = ran("vgg16", staged("vgg16", 4, 4, "2bw", batches=6))
    assert "4 versions" in stash.memory[0].operator
    assert "2 versions" in two.memory[0].operator
    assert "versions" not in flush.memory[0].operator
    worker = stash.program.workers[0]
    assert worker.weight_bytes > 0
    more = stash.memory[0].peak_bytes - flush.memory[0].peak_bytes
    assert more == pytest.approx(3 * worker.weight_bytes, rel=0.2)


def test_replicas_hold_fewer_and_are_one_entry() -> None:
    plan = staged("vgg16", 4, 8, "gpipe")
    timeline = ran("vgg16", with_replicas(plan, "vgg16"))
    assert [m.cores for m in timeline.memory] == [2, 2, 2, 2]
    for number in range(len(timeline.program.workers)):
        route = timeline.program.workers[number].rank_program
        assert route is not None
        assert max(h.in_flight for h in held(timeline.program.workers[number])) == 4


def test_a_stage_that_does_not_fit_is_named() -> None:
    plan = staged("vgg16", 4, 64, "gpipe")
    small = load_array("tpu-v3-8", ["devices.0.hbm.capacity=8 GiB"])
    strict = replace(DEPLOYED, strict_memory=True)
    with pytest.raises(OutOfMemoryError, match=r"stage 0 \(tpu-v3\)"):
        simulate(load_network("vgg16"), plan, small, strict)


@settings(max_examples=25, deadline=None)
@given(steps())
def test_the_peak_of_a_run_is_what_was_counted_before_it(
    case: tuple[Network, Plan, Array, Execution],
) -> None:
    timeline = simulate(*case)
    peaks: dict[str, float] = {}
    for number, worker in enumerate(timeline.program.workers):
        name, peak = worker.device.name, peak_bytes(timeline, number)
        peaks[name] = max(peak, peaks.get(name, 0.0))
        held = sum(task.held[1] for task in worker.template)
        assert held == pytest.approx(0.0, abs=1e-6 * peak)  # everything is let go in the end
    assert peaks == pytest.approx({one.device: one.peak_bytes for one in timeline.memory})


def test_a_real_step_peaks_where_the_commands_say() -> None:
    network, array = load_network("resnet50"), load_array("tpu-v3-8")
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(array), 256)
    timeline = simulate(network, plan, array, DEPLOYED)
    (memory,) = timeline.memory
    spans = list(memory_over_time(timeline, 0))
    assert max(most for _, _, most in spans) == memory.peak_bytes
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))


def test_two_turns_in_flight_hold_twice_as_much() -> None:
    """Forward keeps 10 B of 15; backward gives them back; turn 1 goes forward before that."""
    forward, backward = compute("forward", 1), compute("backward", 2)
    there, back = Holding(15.0, 10.0), Holding(3.0, -10.0)
    template = (Task(forward, held=there), Task(backward, (0,), held=back))
    turns = [(Part.FORWARD, 0), (Part.FORWARD, 1), (Part.BACKWARD, 0), (Part.BACKWARD, 1)]
    followed = RankProgram(
        tuple(Instruction(frozenset({part}), 0, turn) for part, turn in turns),
        {(0, Part.FORWARD): (0,), (0, Part.BACKWARD): (1,)},
    )
    program = cores(1, template=template, held_bytes=100.0, rank_program=followed)
    timeline = run(program)
    assert list(memory_over_time(timeline, 0)) == [
        (0, 1, 115.0),
        (1, 2, 125.0),
        (2, 4, 123.0),
        (4, 6, 113.0),
    ]
    assert peak_bytes(timeline, 0) == 125.0


def test_units_that_make_all_errors_first_hold_them_all() -> None:
    """Of eight layers backward makes seven errors before the first gradient frees any.

    A map of 16384 samples has 32 MiB: 9 of forward and 7 errors. Of the 2^20 weights of a layer
    there are 10 bytes each, and of the first gradient 4. Without overlap an error is freed before
    the next but one is made.
    """
    net = Builder("mlp", 1024, 1)
    for number in range(8):
        net.linear(f"fc{number}", 1024)
    network, array = net.build(), load_array("wham-1")
    planned = DEPLOYED.planned(array)
    plan = load_planner("data_parallel")(network, planned, 16384)
    timeline = simulate(network, plan, array, DEPLOYED)
    (memory,) = timeline.memory
    assert memory.peak_bytes == (8 * 10 + 9 * 32 + 7 * 32 + 4) * 2**20
    assert memory.operator == "fc7 gradient"
    assert max(one.most for one in filled(timeline, 0)) == memory.peak_bytes
    (alone,) = simulate(network, plan, array, replace(DEPLOYED, overlap=False)).memory
    assert alone.peak_bytes == (8 * 10 + 9 * 32 + 32 + 4) * 2**20


def test_published_workers_hold_nothing_that_is_known() -> None:
    network, array = load_network("lenet"), load_array("accpar-homogeneous")
    plan = load_planner("owt")(network, array, 512)
    assert peak_bytes(simulate(network, plan, array), 0) == 0.0


def test_strictness_is_asked_before_anything_runs() -> None:
    network, array = load_network("lenet"), load_array("tpu-v3-8")
    plan = load_planner("owt")(network, DEPLOYED.planned(array), 64)
    strict = program_of(network, plan, array, replace(DEPLOYED, strict_memory=True))
    assert strict.memory[0].fits


def checked(timeline: Timeline) -> None:
    """At every moment the classes are all there is; at the peak they are the table's."""
    tops: dict[float, tuple[float, ...]] = {}
    for number, worker in enumerate(timeline.program.workers):
        moments = list(filled(timeline, number))
        assert [one[:3] for one in moments] == list(memory_over_time(timeline, number))
        for one in moments:
            assert len(one.by_class) == len(CLASSES)
            assert min(one.by_class) >= 0
            assert math.fsum(one.by_class) == pytest.approx(one.most, rel=1e-9, abs=1e-3)
        assert math.fsum(at_rest(timeline, number)) == pytest.approx(worker.held_bytes)
        if moments:
            top = max(moments, key=lambda one: one.most)
            tops[top.most] = top.by_class
    for full in timeline.memory:
        if full.operator:
            nearest = min(tops, key=lambda most: abs(most - full.peak_bytes))
            assert nearest == pytest.approx(full.peak_bytes, rel=1e-12)
            assert tops[nearest] == pytest.approx(full.by_class, rel=1e-6, abs=1e-2)


@settings(max_examples=25, deadline=None)
@given(steps())
def test_of_one_stage(case: tuple[Network, Plan, Array, Execution]) -> None:
    timeline = simulate(*case)
    checked(timeline)
    number = fullest(timeline)
    (device,) = {timeline.program.workers[number].device.name}
    full = max(timeline.memory, key=lambda one: one.peak_bytes / one.capacity_bytes)
    assert device == full.device
    most = max((one.most for one in filled(timeline, number)), default=None)
    assert most is None or most == pytest.approx(full.peak_bytes, rel=1e-12)


@pytest.mark.parametrize(("network", "stages", "micro", "schedule", "more"), CASES, ids=str)
def test_of_pipelines(
    network: str, stages: int, micro: int, schedule: str, more: dict[str, Any]
) -> None:
    timeline = ran(network, staged(network, stages, micro, schedule, **more))
    checked(timeline)
    full = max(timeline.memory, key=lambda one: one.peak_bytes / one.capacity_bytes)
    number = fullest(timeline)
    found = max(one.most for one in filled(timeline, number))
    assert found == pytest.approx(full.peak_bytes, rel=1e-12)


def series(timeline: Timeline, number: int) -> list[dict[str, float]]:
    return [dict(zip(CLASSES, one.by_class, strict=True)) for one in filled(timeline, number)]


def test_weights_are_always_there_and_gradients_until_the_update() -> None:
    timeline = ran("vgg16", staged("vgg16", 4, 8, "1f1b"))
    for number, worker in enumerate(timeline.program.workers):
        found = series(timeline, number)
        assert {one["weights"] for one in found} == {worker.weight_bytes}
        assert len({one["optimizer"] for one in found}) == 1
        operations = [
            timeline.operations[i].phase
            for i, r in zip(timeline.columns.operation, timeline.columns.resource, strict=True)
            if r == timeline.all_resources.workers[number].cores[0]
        ]
        ends = operations.index(Phase.UPDATE)
        before = [one["gradients"] for one in found[:ends]]
        assert all(b >= a * (1 - 1e-12) for a, b in pairwise(before))
        # each parameter's once, whatever the number of micro-batches
        once = math.fsum(task.accumulated for task in worker.template)
        assert before[-1] == pytest.approx(once, rel=1e-9)
        assert found[0]["gradients"] == 0


def test_gpipe_s_activations_grow_by_as_much_with_each_micro_batch() -> None:
    timeline = ran("vgg16", staged("vgg16", 4, 6, "gpipe"))
    worker = timeline.program.workers[0]
    once = sum(task.held.more for task in worker.template if task.operation.phase is Phase.FORWARD)
    found = series(timeline, 0)
    forward = sum(
        task.operation.phase is Phase.FORWARD and not task.parties and not task.receives
        for task in worker.template
    )
    begins = [found[micro_batch * forward]["activations"] for micro_batch in range(6)]
    each = [b - a for a, b in pairwise(begins)]
    assert each == pytest.approx([once] * 5, rel=1e-9)
    assert {one["logits"] for one in found} == {0.0}  # what the next stage reads is none


def test_stages_that_compute_again_keep_their_inputs_alone() -> None:
    timeline = ran("resnet18", staged("resnet18", 2, 4, "gpipe", recompute="all"))
    for number, worker in enumerate(timeline.program.workers):
        assert worker.rank_program is not None
        ((stage, inputs),) = worker.rank_program.inputs.items()
        forward = sum(
            task.operation.phase is Phase.FORWARD and not task.parties and not task.receives
            for task in worker.template
        )
        found = series(timeline, number)
        for micro_batch in range(1, 4):
            first, nothing = found[micro_batch * forward], found[0]
            kept = first["activations"] - nothing["activations"]
            assert kept == pytest.approx(micro_batch * inputs), (stage, micro_batch)


def kept_inputs(network: str, **how: Any) -> dict[int, float]:
    """Bytes that a device keeps of a micro-batch's inputs, by stage."""
    step = aa.simulate(network, array="dgx-a100", recompute="stages:all", **how)
    found: dict[int, float] = {}
    for worker in step.timeline.program.workers:
        assert worker.rank_program is not None
        found |= worker.rank_program.inputs
    return found


GPT2 = "gpt2:layers=8:seq=1024:tied=no"
SEQUENCE = 2 * 1024 * 768  # bytes of a sequence's features


@pytest.mark.parametrize(
    ("network", "how", "bytes_"),
    [
        # the product for queries, keys and values reads it, and the residual sum
        (GPT2, {"parallel": "pp=4"}, SEQUENCE),
        (GPT2, {"parallel": "pp=4,tp=2"}, SEQUENCE),
        (GPT2, {"parallel": "pp=4,tp=2,sp"}, SEQUENCE / 2),
        (GPT2, {"parallel": "pp=4,cp=2"}, SEQUENCE / 2),
        ("llama-7b:layers=4:seq=1024", {"parallel": "pp=4"}, 2 * 1024 * 4096),
        # both of the sum's operands cross this cut
        (GPT2, {"parallel": "pp=2", "cuts": "layer4.add1"}, 2 * SEQUENCE),
    ],
)
def test_a_stage_keeps_each_tensor_that_it_receives_once(
    network: str, how: dict[str, Any], bytes_: float
) -> None:
    found = kept_inputs(network, batch=16, micro_batch=1, **how)
    assert found.pop(0) == 2 * 1024 / (2 if "cp" in how["parallel"] else 1)  # ids of tokens
    assert {*found.values()} == {bytes_}


@pytest.mark.parametrize(("cut", "tensors"), [("layer1.1.conv1", 1), ("layer1.0.add", 2)])
def test_a_convolutional_stage_keeps_each_tensor_that_it_receives_once(
    cut: str, tensors: int
) -> None:
    how: dict[str, Any] = {"planner": "data_parallel", "stages": 2, "micro_batches": 8}
    found = kept_inputs("resnet18", batch=64, cuts=cut, **how)  # 2 samples on each of 4 devices
    assert found == {0: 2 * 2 * 3 * 224 * 224, 1: tensors * 2 * 2 * 64 * 56 * 56}


def test_computed_again_a_stage_holds_what_it_held_the_first_time() -> None:
    """Of two products 1,300 numbers a sample: 800 that it receives, 500 for the second one."""
    step = aa.simulate(
        "lenet", array="dgx-a100", planner="data_parallel", stages=2, micro_batches=4, cuts="fc1",
        batch=64 * 4 * 16, precision="fp32", recompute="stages:all",
    )  # fmt: skip
    worker = step.timeline.program.workers[-1]
    assert worker.rank_program is not None
    found = [
        dict(zip(MOVING, one.by_class, strict=True))["activations"]
        for one in held(worker)
        if one.operation.phase is Phase.FORWARD and one.operation.layer == "fc2"
    ]
    samples, four = 64 * 16 / 4, 4
    first, again, *_ = (one / samples / four for one in found)
    assert (first, again) == (1300, 1300)


@pytest.mark.parametrize("axes", ["tp=4,pp=2,sp", "tp=4,pp=2"])
def test_gradients_in_parts_wait_for_passes_of_their_own(axes: str) -> None:
    """Of eight replicas each keeps at least its eighth of the gradients that all had whole."""

    def fullest_of(zero: int) -> tuple[float, dict[str, float]]:
        step = aa.simulate(
            "bert-base", array="tpu-v4-slice", parallel=axes, batch=64, micro_batch=1,
            optimizer="adam", schedule="zero-bubble", attention="unfused", zero=zero,
        )  # fmt: skip
        memory = step.timeline.memory[-1]
        return memory.peak_bytes, dict(zip(CLASSES, memory.by_class, strict=True))

    whole, parts = fullest_of(1), fullest_of(2)
    for most, by_class in (whole, parts):
        assert sum(by_class.values()) == pytest.approx(most, rel=1e-9)
    assert parts[0] >= whole[0] - 7 / 8 * whole[1]["gradients"] > 0


def test_inference_keeps_no_inputs_for_later() -> None:
    def peaks(recompute: str, batch: int) -> list[float]:
        step = aa.simulate(
            GPT2, array="dgx-a100", parallel="pp=2", batch=batch, micro_batch=2,
            mode="inference", recompute=recompute,
        )  # fmt: skip
        return [one.peak_bytes for one in step.timeline.memory]

    assert peaks("stages:all", 64) == peaks("none", 16)


def test_each_version_of_the_weights_counts_to_them() -> None:
    timeline = ran("vgg16", staged("vgg16", 4, 1, "pipedream", batches=20))
    worker = timeline.program.workers[0]
    most = max(one["weights"] for one in series(timeline, 0))
    assert most == pytest.approx(4 * worker.weight_bytes)
    assert len({one["optimizer"] for one in series(timeline, 0)}) == 1


def test_a_program_that_says_nothing_of_its_memory_has_no_classes() -> None:
    forward = compute("forward", 1)
    template = (Task(forward, held=Holding(15.0, 10.0)),)
    machine = Machine(cores(1, template=template, held_bytes=100.0))
    machine.compute(0, forward, 0)
    (one,) = filled(machine.run(), 0)
    assert one == (0, 1, 115.0, ())
