"""What stages did, counted by hand on equal stages."""

import itertools
from dataclasses import replace

import pytest

import accelarray as aa
from experiments.studies.case import Case, step_of
from experiments.studies.difference import core_ps_by_phase
from experiments.studies.options import with_options
from hardware import load_array
from planners import Axes, Plan, Staging
from planners.order import Kind, Phase
from simulator import DEPLOYED, PUBLISHED, Timeline, shares
from simulator.analysis.stages import bubble, passes, stage_uses
from workloads import Builder, Network, load_network

STAGES, MANY = 4, 8


def chain(count: int) -> Network:
    builder = Builder("chain", 256, 1)
    builder.flatten("flat")
    for i in range(count):
        builder.fc(f"fc{i}", 256)
    return builder.build()


def step(schedule: str, recompute: str = "", batches: int = 0) -> tuple[Plan, Timeline]:
    settings = [f"devices.0.count={STAGES}", "devices.0.network.bandwidth=1e11 GB/s"]
    options = {"stages": str(STAGES), "micro_batches": str(MANY), "schedule": schedule}
    options |= {"recompute": recompute} if recompute else {}
    options |= {"batches": str(batches)} if batches else {}
    execution = with_options(PUBLISHED, options)
    array = load_array("accpar-homogeneous", settings)
    return step_of(Case(chain(STAGES), "data_parallel", array, 64, execution=execution))


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_the_bubble_is_that_of_the_books(schedule: str) -> None:
    _, timeline = step(schedule)
    uses = stage_uses(timeline)
    assert bubble(uses) == pytest.approx((STAGES - 1) / MANY, rel=1e-3)
    wanted = [MANY] * STAGES if schedule == "gpipe" else [4, 3, 2, 1]
    assert [use.in_flight for use in uses] == wanted
    assert [use.versions for use in uses] == [1] * STAGES
    assert all(use.busy + use.waiting == use.run_ps for use in uses)


def test_passes_are_in_the_schedules_order() -> None:
    _, timeline = step("1f1b")
    order = [(one.letter, one.micro_batch) for one in passes(timeline, STAGES - 1)]
    assert order == [(letter, micro_batch) for micro_batch in range(MANY) for letter in "FB"]
    for worker in range(STAGES):
        found = list(passes(timeline, worker))
        assert all(a.end_ps <= b.start_ps for a, b in itertools.pairwise(found))


def test_forward_again_costs_forward_and_may_begin_before_errors_come() -> None:
    _, plain = step("1f1b")
    _, again = step("1f1b", recompute="stages:all")
    forward = next(passes(plain, 0))
    for one, other in zip(stage_uses(plain), stage_uses(again), strict=True):
        assert other.computing - one.computing == MANY * (forward.end_ps - forward.start_ps)
    first, second = (next(p for p in passes(t, 0) if p.letter == "B") for t in (plain, again))
    assert second.start_ps < first.start_ps


def test_versions_without_a_flush() -> None:
    _, timeline = step("pipedream")
    for worker in range(STAGES):
        ahead = STAGES - 1 - worker
        for one in passes(timeline, worker):
            assert one.version == max(one.micro_batch - ahead, 0)
    assert [use.versions for use in stage_uses(timeline)] == [4, 3, 2, 1]


def test_what_a_batch_takes_of_a_run_of_many() -> None:
    """Without a flush traffic is a batch's, whatever was run, and a core's time its step."""
    _, timeline = step("pipedream")
    _, flushed = step("1f1b")
    assert timeline.batches > 1
    assert timeline.traffic_bytes == pytest.approx(flushed.traffic_bytes)
    spent = sum(core_ps_by_phase(timeline).values())
    assert 0 < spent <= timeline.iteration_ps * timeline.cores
    both = core_ps_by_phase(flushed), core_ps_by_phase(timeline)
    for of in both[0].keys() & both[1].keys() - {(Phase.UPDATE, Kind.COMPUTE)}:
        if of[1] == Kind.COMPUTE:  # the same passes, of which none fills or drains
            assert both[1][of] == pytest.approx(both[0][of], rel=1e-9)


def test_the_bubble_of_the_long_run_is_no_share_of_filling_and_draining() -> None:
    """Equal stages without a flush are always busy, however long the run is."""
    found = []
    for batches in (4, 40):
        _, timeline = step("pipedream", batches=batches)
        assert timeline.batches == batches
        assert bubble(stage_uses(timeline)) < 1e-3
        found.append(shares(timeline))
    assert found[0].computing == pytest.approx(1, rel=1e-3)
    assert found[0].computing == pytest.approx(found[1].computing, rel=1e-9)


def test_shares_where_no_rhythm_is_seen_are_of_the_run() -> None:
    """Three batches of 2bw are too few for one: no more than the whole is computed."""
    _, timeline = step("2bw", batches=2)
    assert timeline.period is None
    found = shares(timeline)
    assert min(found) >= 0
    assert sum(found) == pytest.approx(1)
    assert timeline.long_run_ps == timeline.makespan_ps
    assert bubble(stage_uses(timeline)) > 0


def test_an_update_in_pieces_is_what_its_core_computes() -> None:
    """The last stage waits for the embedding's gradients, which are the head's."""
    network = load_network("gpt2:layers=2:seq=64")
    array = load_array("dgx-h100", ["topology.levels.0.bandwidth=1 GB/s"])
    how = replace(DEPLOYED, staging=Staging(parallel=Axes(pp=2, dp=4), micro_batch=1))
    _, timeline = step_of(Case(network, "axes", array, 8, execution=how))
    last = len(timeline.program.workers) - 1
    (core,) = timeline.all_resources.workers[last].cores
    name = timeline.resources[core].name
    updates = [one for one in timeline if one.resource == name and one.phase == Phase.UPDATE]
    computed_ps = sum(one.end_ps - one.start_ps for one in updates if one.kind == Kind.COMPUTE)

    def update_ps(*, whole: bool) -> int:
        found = passes(timeline, last, whole=whole)
        return sum(one.end_ps - one.start_ps for one in found if one.letter == "U")

    assert update_ps(whole=False) == computed_ps < 0.5 * update_ps(whole=True)


def test_receiving_is_part_of_waiting() -> None:
    """In inference stages fill once, and then compute without a pause."""
    step = aa.simulate(
        "llama-7b:layers=4:seq=128", array="dgx-1-v100", parallel="pp=2,tp=2", batch=32,
        mode="inference",
    )  # fmt: skip
    uses = stage_uses(step.timeline)
    assert all(0 <= use.receiving <= use.waiting for use in uses)
    assert min(use.waiting for use in uses) == 0
