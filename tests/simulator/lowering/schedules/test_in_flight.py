"""Micro-batches in flight, and versions of weights: counted from what a run did, and when."""

from __future__ import annotations

from math import ceil

import pytest

from planners import PlanError
from simulator import Program, Timeline, run
from simulator.analysis.memory_timeline import held, peak
from simulator.engine.operations import Part
from simulator.lowering.schedules.instructions import check
from simulator.lowering.schedules.registry import schedule_of
from simulator.lowering.schedules.versions import alive
from tests.simulator.lowering.pipelines_by_hand import Times, pipeline_of, program

TIMES = Times(7, 9, 5)


def ran(
    schedule: str,
    replicas: tuple[int, ...],
    micro_batches: int,
    *,
    v: int = 1,
    batches: int = 1,
    vertical_sync: bool = False,
) -> tuple[Program, Timeline]:
    stages = len(replicas) * v
    pipeline = pipeline_of(schedule, stages, micro_batches, replicas, vertical_sync=vertical_sync)
    made = program(pipeline, [TIMES] * stages, [3] * (stages - 1), batches)
    return made, run(made)


def computed(timeline: Timeline, worker: int) -> list[tuple[str, int]]:
    """Phase and micro-batch of what a core did, in the order of time."""
    core = timeline.resources[timeline.all_resources.workers[worker].cores[0]].name
    mine = [r for r in timeline if r.resource == core]
    return [(r.phase, r.micro_batch) for r in sorted(mine, key=lambda r: r.start_ps)]


def most_in_flight(order: list[tuple[str, int]], ends: str = "gradient") -> int:
    """The most chunks that were between their forward and the end of backward."""
    most = here = 0
    for phase, _ in order:
        here += (phase == "forward") - (phase == ends)
        most = max(most, here)
    assert here == 0
    return most


def in_flight(schedule: str, p: int, m: int, v: int = 1, ends: str = "gradient") -> list[int]:
    made, timeline = ran(schedule, (1,) * p, m, v=v)
    found = [most_in_flight(computed(timeline, w), ends) for w in range(p)]
    for worker, most in zip(made.workers, found, strict=True):
        assert worker.rank_program is not None
        if ends == "gradient":
            assert max(one.in_flight for one in held(worker)) == most
    return found


@pytest.mark.parametrize("p", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 12])
def test_activations_in_flight_are_those_of_the_tables(p: int, m: int) -> None:
    ranks = range(p)
    assert in_flight("gpipe", p, m) == [m] * p
    assert in_flight("1f1b", p, m) == [min(p - s, m) for s in ranks]
    # ZB-H1: errors as 1F1B; with the gradients that wait all hold as many as its first rank
    assert in_flight("zero-bubble", p, m, ends="backward") == [min(p - s, m) for s in ranks]
    assert in_flight("zero-bubble", p, m) == [min(p, m)] * p


@pytest.mark.parametrize(("p", "v", "m"), [(2, 2, 4), (4, 2, 8), (4, 3, 12), (3, 4, 3)])
def test_interleaved_holds_a_little_more(p: int, v: int, m: int) -> None:
    """In chunks, each a v-th of a rank's layers: the first rank p v + p - 1 of them.

    That is p (1 + (p - 1) / (p v)) ranks' worth.
    """
    found = in_flight("interleaved", p, m, v)
    assert found == [min(2 * (p - s - 1) + (v - 1) * p + 1, m * v) for s in range(p)]
    if m >= 2 * p:
        assert found[0] / v == pytest.approx(p * (1 + (p - 1) / (p * v)))


REPLICAS = [(1,), (1, 1, 1, 1), (3, 1), (15, 1), (2, 1, 1), (9, 5, 1, 1), (1, 2), (2, 3, 4)]


@pytest.mark.parametrize("replicas", REPLICAS, ids=str)
def test_pipedream_keeps_as_many_versions_as_it_computes_ahead_and_one(
    replicas: tuple[int, ...],
) -> None:
    """Its runtime: floor((R - 1 - sum of r_i before) / r_s) ahead, that and one more versions."""
    turns = 60 * (3 if max(replicas) % 9 == 0 else 1)
    made, timeline = ran("pipedream", replicas, 1, batches=turns)
    for number, worker in enumerate(made.workers):
        route = worker.rank_program
        assert route is not None
        rank, r = route.rank, replicas[route.rank]
        warm_up = (sum(replicas) - 1 - sum(replicas[:rank])) // r
        order = computed(timeline, number)
        assert order[: warm_up + 1] == [
            ("forward", route.replica + k * r) for k in range(warm_up + 1)
        ]
        assert order[warm_up + 1][0] == "backward"
        assert most_in_flight(order) == warm_up + 1
        kept = versions_kept(order, dict(route.versions))
        assert max(kept) == warm_up + 1
        assert [one.versions for one in held(worker)] == kept
        assert [one.in_flight for one in held(worker)] == flights(order)


def flights(order: list[tuple[str, int]]) -> list[int]:
    """How many are in flight during each computation."""
    found, here = list[int](), 0
    for phase, _ in order:
        here += phase == "forward"
        found.append(here)
        here -= phase == "gradient"
    return found


def versions_kept(order: list[tuple[str, int]], versions: dict[int, int]) -> list[int]:
    """How many versions a replica has during each computation.

    The newest, and those with which micro-batches are computed that are not through. It
    updates after each of its gradients.
    """
    found, updates = list[int](), 0
    through: set[int] = set()
    for phase, micro_batch in order:
        needed = {v for t, v in versions.items() if t not in through and v <= updates}
        found.append(len(needed | {updates}))
        if phase == "gradient":
            through.add(micro_batch)
            updates += 1
    return found


@pytest.mark.parametrize("replicas", REPLICAS, ids=str)
@pytest.mark.parametrize("sync", [False, True])
def test_every_backward_finds_the_version_of_its_forward(
    replicas: tuple[int, ...], sync: bool
) -> None:
    """A version is there from its update on; forward uses one that is there."""
    turns = 180
    made, timeline = ran("pipedream", replicas, 1, batches=turns, vertical_sync=sync)
    for number, worker in enumerate(made.workers):
        assert worker.rank_program is not None
        versions, updates = worker.rank_program.versions, 0
        for phase, micro_batch in computed(timeline, number):
            assert 0 <= versions[micro_batch] <= updates or phase != "forward"
            updates += phase == "gradient"
            if not sync and phase == "forward":
                assert versions[micro_batch] == updates


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_staleness_of_straight_pipelines(n: int) -> None:
    """Stage k of n (from 1) computes minibatch t with w^(t - n + k); in sync with w^(t - n + 1)."""
    for sync in (False, True):
        made, _ = ran("pipedream", (1,) * n, 1, batches=20, vertical_sync=sync)
        for k, worker in enumerate(made.workers, 1):
            assert worker.rank_program is not None
            behind = n - 1 if sync else n - k
            wanted = {t: max(t - behind, 0) for t in range(20)}
            assert worker.rank_program.versions == wanted


def test_in_sync_a_version_is_as_many_minibatches_everywhere() -> None:
    """An update of two replicas is two minibatches: version 3 there is version 6 of one."""
    made, _ = ran("pipedream", (2, 1, 4), 1, batches=40, vertical_sync=True)
    seen: dict[int, set[int]] = {}
    for worker in made.workers:
        assert worker.rank_program is not None
        r = (2, 1, 4)[worker.rank_program.rank]
        for micro_batch, version in worker.rank_program.versions.items():
            first = seen.setdefault(micro_batch, set())
            first.add(version * r // 4)
    assert all(len(found) == 1 for found in seen.values())


@pytest.mark.parametrize(
    ("replicas", "m"), [((1, 1, 1), 3), ((1, 1, 1), 5), ((1, 1, 1, 1), 4), ((2, 1), 4), ((1, 4), 8)]
)
def test_two_buffers_are_enough(replicas: tuple[int, ...], m: int) -> None:
    """Batch t is computed with version t - 1, which is there, and no older one is needed."""
    batches = 6
    made, timeline = ran("2bw", replicas, m, batches=batches)
    for number, worker in enumerate(made.workers):
        route = worker.rank_program
        assert route is not None
        r = replicas[route.rank]
        assert route.versions == {
            t: max(t // m - 1, 0) for t in range(route.replica, m * batches, r)
        }
        order = computed(timeline, number)
        done = 0
        for phase, micro_batch in order:
            updates = done // (m // r)
            if phase == "forward":
                assert route.versions[micro_batch] in (updates, updates - 1)
            done += phase == "gradient"
        assert max(one.versions for one in held(worker)) == 2


@pytest.mark.parametrize(
    ("replicas", "m"), [((1, 1, 1), 2), ((1, 4, 4), 4), ((2, 2, 2), 4), ((1, 4), 4)]
)
def test_too_few_micro_batches_for_two_buffers_are_refused(
    replicas: tuple[int, ...], m: int
) -> None:
    pipeline = pipeline_of("2bw", len(replicas), m, replicas)
    with pytest.raises(PlanError, match=f"from {sum(replicas)} micro-batches on, not with {m}"):
        check(schedule_of("2bw"), pipeline)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zero-bubble"])
def test_a_flush_has_one_version(schedule: str) -> None:
    """Also of several stages a place, whose updates follow one another."""
    v = 2 if schedule in ("gpipe", "interleaved") else 1
    made, _ = ran(schedule, (2, 2), 8, v=v)
    for worker in made.workers:
        route = worker.rank_program
        assert route is not None
        assert set(route.versions.values()) == {0}
        assert {one.versions for one in held(worker)} == {1}
        assert set(alive(route.instructions, route.versions)) == {1}
        most = peak(worker)
        assert most is not None
        assert most.versions == 1
        updates = [a for a in route.instructions if Part.UPDATE in a.parts]
        assert [a.stage for a in updates] == list(range(route.rank, 2 * v, 2))
        assert route.instructions[-v:] == tuple(updates)


@pytest.mark.parametrize("replicas", [(1, 1, 2, 3, 4), (1, 4), (1, 1, 3), (4, 1, 2)], ids=str)
@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble", "gpipe"])
def test_unlike_replicas_do_not_wait_for_one_another_for_ever(
    schedule: str, replicas: tuple[int, ...]
) -> None:
    """With p - s - 1 ahead one replica before four would wait for the first of them alone."""
    _, timeline = ran(schedule, replicas, 12)
    assert {r.micro_batch for r in timeline} == set(range(12))
    for rank, many in enumerate(replicas):
        wanted = ceil(sum(replicas[rank:]) / many)
        worker = sum(replicas[:rank])
        if schedule == "1f1b":
            assert most_in_flight(computed(timeline, worker)) == min(wanted, 12 // many)
