"""Hop's claims on slow workers, its options, and its queues one by one."""

from itertools import pairwise

import pytest

from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.stragglers import Slowdowns, parse_slowdowns
from tests.simulator.asynchronous.clusters import Watched, one_slow, watched

N = 16


def rate(ours: Watched) -> float:
    return sum(ours.run.done) / ours.timeline.makespan_s


def hop(slow: Slowdowns | None, k: int = 120, **options: int) -> Watched:
    """On the ring-based graph, where computing and not the network decides."""
    words = {name: str(value) for name, value in options.items()}
    return watched("hop", N, k, slow=slow, options=words, port=1e12)


RANDOM = parse_slowdowns([f"random:{1 / N}:6"], N, 120)


@pytest.mark.parametrize(
    "options", [{"tokens": 4, "backup": 1}, {"tokens": 5, "staleness": 5}], ids=str
)
def test_backup_and_staleness_recover_random_slowdown_and_no_deterministic_one(
    options: dict[str, int],
) -> None:
    """A random delay of a turn is worked off later; one that comes every turn is not."""
    standard, loose = rate(hop(RANDOM)), rate(hop(RANDOM, **options))
    assert loose > 1.2 * standard
    slow = one_slow(4.0)
    assert rate(hop(slow, **options)) < 1.15 * rate(hop(slow))


def test_skipping_recovers_a_deterministic_slowdown() -> None:
    slow = one_slow(4.0)
    without = rate(hop(slow, tokens=5, backup=1))
    skipping = hop(slow, tokens=5, backup=1, skip=10)
    assert rate(skipping) > 2 * without
    assert rate(skipping) > 0.75 * rate(hop(None))
    assert skipping.run.done[0] < 0.5 * max(skipping.run.done)  # it leaves gradients out,
    assert skipping.run.at[0] > 0.9 * max(skipping.run.at)  # and keeps up


def test_a_skipped_iteration_sends_nothing_and_computes_nothing() -> None:
    ours = hop(one_slow(4.0), tokens=5, backup=1, skip=10)
    sent = [about[1] for _, word, *about in ours.run.history if word == "send" and about[0] == 0]
    computed = [
        about[1] for _, word, *about in ours.run.history if word == "gradient" and not about[0]
    ]
    assert sent == computed
    steps = [b - a for a, b in pairwise(sent)]
    assert max(steps) > 1
    assert max(steps) <= 11


def test_notify_ack_waits_for_acknowledgements() -> None:
    """One-way links of a loop: the ack of a slow successor holds its sender back."""
    from simulator.asynchronous.graphs import Graph

    loop = Graph.of("loop", 6, [], [(i, (i + 1) % 6) for i in range(6)])
    ours = watched(
        "hop", 6, 40, graph=loop, slow=one_slow(6.0), options={"protocol": "notify-ack"}, port=1e12
    )
    standard = watched("hop", 6, 40, graph=loop, slow=one_slow(6.0), port=1e12)
    assert sum(waits["acknowledgements"] for waits in ours.run.waits) > 0
    assert not any(waits["acknowledgements"] for waits in standard.run.waits)
    # 5 is ahead of 0 by two at most, where without acknowledgements it is up to five
    ahead = [max(at[5] - at[0] for at in one.seen) for one in (ours, standard)]
    assert ahead[0] <= 2
    assert ahead[1] <= 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"backup": 1}, "option tokens=0"),
        ({"tokens": 2, "skip": 3}, "option skip: needs backup or staleness"),
        ({"tokens": -1}, "option tokens=-1: at least 0"),
        ({"tokens": 2, "backup": 3}, "option backup=3: some worker of graph 'ring-based'"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, int], said: str) -> None:
    with pytest.raises(TrainingError, match=said):
        hop(None, **options)


def test_notify_ack_has_no_backup() -> None:
    options = {"protocol": "notify-ack", "tokens": "2", "backup": "1"}
    with pytest.raises(TrainingError, match="notify-ack: has neither backup nor staleness"):
        watched("hop", 4, options=options)
