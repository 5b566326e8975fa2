"""What is not flushed: run until its rhythm is seen, and no longer."""

from itertools import accumulate
from types import SimpleNamespace
from typing import cast

import pytest

from hardware import Array, Device, Group
from planners import Pipeline, Place, Plan, PlanError, Stage, load_planner
from simulator import Timeline, simulate
from simulator.analysis.period import micro_batch_ends, steady_period
from simulator.engine.timeline import Period
from workloads import Builder, Network, cut, partition_graph


def chain(*widths: int) -> Network:
    net = Builder("chain", widths[0], 1)
    net.flatten("flat")
    for i, width in enumerate(widths[1:]):
        net.fc(f"fc{i}", width)
    return net.build()


def device(port: float = 1e21) -> Device:
    return Device("fast", 1, 1, 1e9, 1e9, 1e9, port)


def staged(
    network: Network,
    replicas: tuple[int, ...],
    schedule: str,
    micro: int,
    batches: int,
    port: float,
) -> tuple[Plan, Array]:
    """One layer a stage, on single boards."""
    array = Array("fast", "", Group(((device(port), sum(replicas)),)))
    places, first = [], 0
    for many in replicas:
        places.append(Place(first, many, many))
        first += many
    parts = cut(network, range(len(replicas))).networks
    stages = tuple(
        Stage(k, k, load_planner("data_parallel")(part, array.part(k, 1), 8))
        for k, part in enumerate(parts)
    )
    pipeline = Pipeline(stages, tuple(places), schedule, micro, batches=batches)
    names = tuple(node.name for node in partition_graph(network))
    return (
        Plan("p", network.name, 8 * micro, "time", names, None, pipeline=pipeline),
        array,
    )


def ran(
    *widths: int,
    replicas: tuple[int, ...],
    schedule: str = "pipedream",
    micro: int = 1,
    batches: int = 0,
    port: float = 1e21,
) -> Timeline:
    network = chain(*widths)
    plan, array = staged(network, replicas, schedule, micro, batches, port)
    return simulate(network, plan, array)


def step_ps(inputs: int, outputs: int) -> int:
    """A layer's three products of 8 samples at 1e9 FLOPs a second."""
    forward, errors = 8 * outputs * (2 * inputs - 1), 8 * inputs * (2 * outputs - 1)
    return (forward + errors + inputs * outputs * 15) * 1000


def test_the_slowest_stage_is_the_rhythm() -> None:
    """Not the time of the run over its batches, which has the pipe's filling in it."""
    timeline = ran(64, 64, 96, 32, replicas=(1, 1, 1))
    slowest = max(step_ps(64, 64), step_ps(64, 96), step_ps(96, 32))
    assert timeline.period is not None
    assert timeline.iteration_ps == pytest.approx(slowest, abs=20)
    assert timeline.makespan_ps > timeline.iteration_ps * 10
    ends = micro_batch_ends(timeline)
    assert len(ends) >= 16


def test_a_batch_of_several_micro_batches_takes_as_many() -> None:
    one = ran(64, 64, 96, replicas=(1, 1))
    four = ran(64, 64, 96, replicas=(1, 1), micro=4)
    assert four.iteration_ps == pytest.approx(4 * one.iteration_ps, rel=1e-6)
    assert one.period is not None
    assert four.period is not None


def test_replicas_that_end_at_once_are_one_round() -> None:
    """Fifteen replicas end together: gaps of nothing, which are no rhythm by themselves."""
    timeline = ran(64, 64, 1, replicas=(15, 1))
    assert timeline.period is not None
    assert timeline.period.micro_batches % 15 == 0
    sums = timeline.iteration_ps * 15 - step_ps(64, 64)
    # the ring moves 2 * 14 / 15 of 8,192 bytes on a link without end: a picosecond
    assert 0 <= sums <= 100


def test_sums_of_replicas_go_with_the_last_minibatch_in_them() -> None:
    """So that a minibatch ends when it does, and a rhythm is said to begin where it begins."""
    timeline = ran(64, 64, 96, replicas=(3, 1), port=1e9)
    sums = [record for record in timeline if record.kind == "partial sums"]
    assert [record.micro_batch for record in sums] == list(range(2, len(sums) * 3, 3))
    for record in sums:  # behind the gradient of each of the three
        taken = [
            r.end_ps
            for r in timeline
            if (r.layer, r.phase) == ("fc0", "gradient")
            and record.micro_batch - 3 < r.micro_batch <= record.micro_batch
        ]
        assert len(taken) == 4  # the sum itself, too
        assert record.start_ps == sorted(taken)[-2]
    ends = micro_batch_ends(timeline)
    assert ends == sorted(ends)


def ends_at(*gaps: int) -> Timeline:
    """A run whose turns end with these gaps between them."""
    ends = [0, *accumulate(gaps)]
    columns = SimpleNamespace(micro_batch=list(range(len(ends))), end=ends)
    return cast("Timeline", SimpleNamespace(columns=columns))


def test_a_few_equal_gaps_at_the_end_are_no_rhythm() -> None:
    """Four in flight that come back together: 5, 1, 1, 1, and the run is cut behind them."""
    burst = (5, 1, 1, 1)
    assert steady_period(ends_at(9, 9, *burst * 5)) == Period(8, 4, 2)
    assert steady_period(ends_at(*burst * 6), 18) == Period(8, 4, 0)
    assert steady_period(ends_at(3, 3, 7, 9, 1, 1, 1)) is None
    assert steady_period(ends_at(7, *[2] * 9), unit=3) == Period(6, 3, 1)


def test_so_many_batches_are_so_many() -> None:
    timeline = ran(64, 64, 96, replicas=(1, 1), batches=7)
    assert sorted({record.micro_batch for record in timeline}) == list(range(7))
    more = ran(64, 64, 96, replicas=(1, 1), micro=3, batches=5)
    assert sorted({record.micro_batch for record in more}) == list(range(15))


def test_batches_that_do_not_go_round_are_refused() -> None:
    with pytest.raises(PlanError, match="7 batches of 1 do not go round all replicas; take 9"):
        ran(64, 64, 96, replicas=(3, 1), batches=7)


def test_too_short_a_run_says_no_rhythm_and_takes_the_mean() -> None:
    timeline = ran(64, 64, 96, 32, replicas=(1, 1, 1), batches=4)
    assert timeline.period is None
    assert timeline.iteration_ps > 0


def test_more_minibatches_do_not_change_the_rhythm() -> None:
    """Nor does the end of a run, where none follow and all hurry."""
    found = [ran(96, 64, 32, 80, replicas=(1, 1, 1), port=2e7, batches=n) for n in (0, 64, 128)]
    assert len({timeline.iteration_ps for timeline in found}) == 1
    ends = micro_batch_ends(found[2])
    assert (ends[90] - ends[60]) / 30 == pytest.approx(found[2].iteration_ps, rel=1e-6)
    assert isinstance(found[0].period, Period)


def test_infinite_micro_batches_approach_the_slowest_stage() -> None:
    """With a flush each further micro-batch takes as long as the slowest stage, exactly."""
    slowest = step_ps(64, 96)
    times = [
        ran(64, 64, 96, 32, replicas=(1, 1, 1), schedule="1f1b", micro=m).iteration_ps
        for m in (16, 32, 64)
    ]
    assert times[1] - times[0] == pytest.approx(16 * slowest, rel=1e-6)
    assert times[2] - times[1] == pytest.approx(32 * slowest, rel=1e-6)
    overheads = [t / (m * slowest) - 1 for t, m in zip(times, (16, 32, 64), strict=True)]
    assert overheads[0] > 1.9 * overheads[1] > 3.6 * overheads[2] > 0
