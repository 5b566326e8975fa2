"""Workers that die and that join late: when a run ends, and what their time is called."""

import pytest

from simulator.asynchronous.stragglers import Slowdowns, parse_slowdowns
from tests.simulator.asynchronous.clusters import watched


@pytest.mark.parametrize("method", ["ad-psgd", "async-ps", "backup"])
def test_everybody_is_everybody_who_lives(method: str) -> None:
    """Nobody waits for the iterations of who has died."""
    ours = watched(method, 4, 6, slow=Slowdowns(dies_s={0: 1e-7}), everybody=True)
    assert ours.run.done[0] == 0
    assert min(ours.run.done[1:]) >= 6


def test_the_first_death_and_the_last_start_count() -> None:
    slow = parse_slowdowns(["die:0:2", "die:0:1", "join:1:1", "join:1:2", "join:2:0"], 4, 5)
    assert slow.dies_s == {0: 1.0}
    assert slow.joins_s == {1: 2.0}
    assert parse_slowdowns(["die:0:1", "die:0:2"], 4, 5).dies_s == {0: 1.0}


@pytest.mark.parametrize("share", [0.5, 0.9, 1.5])
def test_time_before_the_start_and_behind_the_end_is_booked(share: float) -> None:
    """Whether or not the run goes on beyond it."""
    alone_ps = watched("async-ps", 4, 12).timeline.makespan_ps
    at_s = share * alone_ps / 1e12
    late = watched("async-ps", 4, 12, slow=Slowdowns(joins_s={0: at_s}))
    ends_ps = late.timeline.makespan_ps
    assert late.run.waits[0]["its own start"] == pytest.approx(min(at_s * 1e12, ends_ps), abs=2)
    dead = watched("async-ps", 4, 12, slow=Slowdowns(dies_s={0: at_s}))
    rest_ps = max(dead.timeline.makespan_ps - at_s * 1e12, 0)
    assert dead.run.waits[0]["its own end"] == pytest.approx(rest_ps, abs=2)


def test_nobody_is_late_for_ever() -> None:
    """Eight alike, one of whom each round does without: he has the same weights as all others."""
    ours = watched("backup", 8, 20)
    assert max(ours.run.done) - min(ours.run.done) <= 1


@pytest.mark.parametrize("method", ["all-reduce", "ps", "local-sgd", "hop", "async-ps"])
def test_all_of_a_dead_workers_time_has_a_name(method: str) -> None:
    """It computes, waits, or is dead; also where it waits when it dies, or has not begun."""
    alone_ps = watched(method, 4, 12).timeline.makespan_ps
    slow = Slowdowns(joins_s={1: 0.8 * alone_ps / 1e12}, dies_s={1: 0.3 * alone_ps / 1e12})
    ours = watched(method, 4, 12, slow=slow)
    whole_ps = ours.timeline.makespan_ps
    assert sum(ours.run.waits[1].values()) == pytest.approx(whole_ps, abs=9)


@pytest.mark.parametrize("method", ["all-reduce", "ps", "hop"])
def test_who_dies_after_everybody_has_stopped_was_waiting_until_then(method: str) -> None:
    """Worker 0 is dead at once, and all others wait for it; worker 3 dies a second later."""
    ours = watched(method, 4, 12, slow=Slowdowns(dies_s={0: 0.0, 3: 1.0}))
    assert ours.timeline.makespan_ps < 0.1e12
    for worker in range(4):
        assert sum(ours.run.waits[worker].values()) <= ours.timeline.makespan_ps
    assert ours.hang is not None
    assert ours.hang.dead == (0,)
    assert 3 in ours.hang.waits


def test_a_run_of_the_dead_is_said_to_stop() -> None:
    dead = Slowdowns(dies_s={0: 0.0, 1: 1e-7})
    ours = watched("async-ps", 2, 6, slow=dead, everybody=True)
    assert ours.hang is not None
    assert ours.hang.dead == (0, 1)
