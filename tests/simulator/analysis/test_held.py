"""How full each stage gets: from the run's records, counted anew, against the static script."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hardware import load_array
from planners import Plan, planned_in_stages
from planners.order import Phase
from planners.pipeline.staging import Staging, places_of
from simulator import DEPLOYED, OutOfMemoryError, Timeline, simulate
from simulator.analysis.held import held, peak
from simulator.analysis.memory import memory_over_time, peak_bytes
from simulator.engine.operations import Operation, Part, Worker
from workloads import load_network, partition_graph

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
    route = worker.itinerary
    assert route is not None
    lines = {task.operation: task for task in worker.template}
    stage_of = {
        worker.template[i].operation: stage
        for (stage, _), some in route.lines.items()
        for i in some
    }
    core = timeline.stations.workers[number].cores[0]
    rows = [i for i, r in enumerate(timeline.columns.resource) if r == core]
    rows.sort(key=lambda i: (timeline.columns.start[i], timeline.columns.end[i]))
    live: dict[tuple[int, int], float] = {}
    gradients: dict[tuple[int, Operation], float] = {}
    last_forward = _last_of(worker, Part.FORWARD)
    last_weights = _last_of(worker, Part.WEIGHTS)
    last_update = _last_of(worker, Part.UPDATE)
    done: dict[tuple[int, int], int] = {}
    through, updates, found = set[int](), 0, list[float]()
    for i in rows:
        operation = timeline.operations[timeline.columns.operation[i]]
        turn, task = timeline.columns.turn[i], lines[operation]
        stage = stage_of[operation]
        key = stage, turn
        new = (stage, operation) not in gradients and operation.phase is not Phase.UPDATE
        once = task.once if new else 0.0
        most = task.held[0] - (0.0 if new or operation.phase is Phase.UPDATE else task.once)
        more = task.held[1] - (0.0 if operation.phase is Phase.UPDATE else task.once)
        begun = {route.versions[t] for t in route.versions if t not in through}
        versions = len({v for v in begun if v < updates} | {updates})
        extra = (versions - 1) * worker.weight_bytes if not _flushes(route.actions) else 0.0
        level = worker.held_bytes + sum(live.values()) + sum(gradients.values())
        found.append(level + most + extra)
        if operation.phase is Phase.UPDATE:
            gradients[stage, operation] = gradients.get((stage, operation), 0.0) + more
        else:
            live[key] = live.get(key, 0.0) + more
            if task.once:
                gradients[stage, operation] = gradients.get((stage, operation), 0.0) + once
        if operation is last_forward[stage]:
            done[key] = done.get(key, 0) + 1
            if stage in route.inputs:  # nothing but inputs, until it is computed again
                first = done[key] == 1
                live[key] += -live[key] + route.inputs[stage] if first else -route.inputs[stage]
        if operation is last_weights[stage]:
            through.add(turn)
        if operation is last_update.get(stage):
            gradients = {k: v for k, v in gradients.items() if k[0] != stage}
            updates += 1
    return found


def _flushes(actions: Any) -> bool:
    """Whether all updates come at the end."""
    kinds = [Part.UPDATE in action.parts for action in actions]
    return kinds == sorted(kinds)


def _last_of(worker: Worker, part: Part) -> dict[int, Operation]:
    """The last computation of each stage's part."""
    assert worker.itinerary is not None
    found: dict[int, Operation] = {}
    for (stage, of), some in worker.itinerary.lines.items():
        computed = [
            worker.template[i].operation
            for i in some
            if not worker.template[i].parties and not worker.template[i].receives
        ]
        if of is part and computed:
            found[stage] = computed[-1]
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
        assert worker.itinerary is not None
        counted = by_hand(timeline, number)
        script = [one.most for one in held(worker, worker.itinerary)]
        assert script == pytest.approx(counted, rel=1e-9)
        times = list(memory_over_time(timeline, number))
        assert [most for _, _, most in times] == script
        assert [start for start, _, _ in times] == sorted(start for start, _, _ in times)
        top = peak(worker, worker.itinerary)
        assert top is not None
        assert top.most == pytest.approx(max(counted), rel=1e-12)
        assert peak_bytes(timeline, number) == pytest.approx(max(counted), rel=1e-12)
        end = list(held(worker, worker.itinerary))[-1]
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
        route = timeline.program.workers[number].itinerary
        assert route is not None
        assert max(h.in_flight for h in held(timeline.program.workers[number], route)) == 4


def test_a_stage_that_does_not_fit_is_named() -> None:
    plan = staged("vgg16", 4, 64, "gpipe")
    small = load_array("tpu-v3-8", ["devices.0.hbm.capacity=8 GiB"])
    strict = replace(DEPLOYED, strict_memory=True)
    with pytest.raises(OutOfMemoryError, match=r"stage 0 \(tpu-v3\)"):
        simulate(load_network("vgg16"), plan, small, strict)
