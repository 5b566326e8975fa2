"""AD-PSGD: averages are atomic, it never hangs with two sides, and without them it can."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.graphs import Graph
from simulator.asynchronous.stragglers import Slowdowns
from tests.simulator.asynchronous.clusters import Watched, one_slow, watched
from tests.simulator.asynchronous.test_gap_bounds import delays, graphs

PORTS = st.sampled_from((1e7, 1e9))


def averages(ours: Watched) -> list[tuple[int, int, frozenset[int]]]:
    """Start, end and pair of every average, from the timeline's own records."""
    columns, joins = ours.timeline.columns, ours.timeline.participants
    pairs: dict[int, set[int]] = {}
    for worker, row in zip(joins.worker, joins.row, strict=True):
        pairs.setdefault(row, set()).add(worker)
    return [(columns.start[row], columns.end[row], frozenset(who)) for row, who in pairs.items()]


@settings(max_examples=30, deadline=None)
@given(graphs(), delays(), st.booleans(), PORTS, st.integers(0, 99))
def test_averages_are_atomic_and_nobody_hangs(
    graph: Graph, slow: Slowdowns, overlap: bool, port: float, seed: int
) -> None:
    """No two averages of one worker overlap, nor does its own update fall into one."""
    options = {"overlap": "yes" if overlap else "no"}
    ours = watched(
        "ad-psgd", len(graph), 12, graph=graph, slow=slow, options=options, port=port, seed=seed
    )
    assert ours.hang is None
    even, _ = graph.sides
    spans: dict[int, list[tuple[int, int]]] = {}
    for start, end, pair in averages(ours):
        assert len(pair) == 2
        assert len(pair & even) == 1  # one of each side
        a, b = pair
        assert b in graph.neighbours[a]
        for w in pair:
            spans.setdefault(w, []).append((start, end))
    for mine in spans.values():
        mine.sort()
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(mine))
    for now, word, *about in ours.run.history:
        if word == "update":
            assert not any(start < now < end for start, end in spans.get(about[0], []))


@pytest.mark.parametrize("overlap", ["no", "yes"])
def test_staleness_is_how_often_a_model_changed_between_read_and_update(overlap: str) -> None:
    """Counted again from what happened, by hand."""
    slow = one_slow(3.0, worker=1)
    ours = watched("ad-psgd", 6, 20, slow=slow, options={"overlap": overlap}, port=1e8)
    version, read = [0] * 6, [0] * 6
    counted: dict[int, int] = {}
    for _, word, *about in ours.run.history:
        if word == "gradient":
            read[about[0]] = version[about[0]]
        elif word == "average":
            for w in about[0]:
                version[w] += 1
        elif word == "update":
            stale = version[about[0]] - read[about[0]]
            counted[stale] = counted.get(stale, 0) + 1
            version[about[0]] += 1
    assert counted == dict(ours.run.staleness)
    assert max(counted) >= 1


def test_without_two_sides_it_hangs_and_says_who_waits_for_whom() -> None:
    """Everybody holds its own model and wants its neighbour's: round the ring."""
    ours = watched("ad-psgd", 5, 200, graph="ring", options={"bipartite": "no"}, port=1e7)
    hang = ours.hang
    assert hang is not None
    assert set(hang.waits) == set(range(5))
    for w, (cause, whom) in hang.waits.items():
        assert cause == "an average"
        assert set(whom) <= {(w - 1) % 5, (w + 1) % 5}
    assert "worker 0 waits for an average (worker" in str(hang)


def test_a_slow_worker_slows_nobody_else() -> None:
    """With one of n workers five times slower the throughput falls by less than 1/n + 10 %."""
    n = 16
    fair = watched("ad-psgd", n, 60, port=1e9)
    slow = watched("ad-psgd", n, 60, port=1e9, slow=one_slow(5.0))
    rates = [sum(one.run.done) / one.timeline.makespan_s for one in (fair, slow)]
    assert rates[1] > (1 - 1 / n - 0.1) * rates[0]


@pytest.mark.parametrize("port", [1e8, 1e10, 1e12])
def test_overlapped_averages_go_on_while_steps_are_computed(port: float) -> None:
    """Of two workers, who asks takes step and swap one after the other, or the longer of them."""
    blocking = watched("ad-psgd", 2, 10, port=port)
    overlapped = watched("ad-psgd", 2, 10, port=port, options={"overlap": "yes"})
    step = blocking.run.cluster.steps[0].duration_ps
    (start, end, _), *_ = averages(blocking)
    swap = end - start
    assert blocking.run.ends[0][4] == 5 * (step + swap)
    assert overlapped.run.ends[0][4] == 5 * max(step, swap)


def test_a_dead_neighbour_answers_nobody() -> None:
    ours = watched("ad-psgd", 4, 50, slow=Slowdowns(dies_s={1: 1e-4}))
    assert ours.hang is not None
    assert ours.hang.dead == (1,)
    assert any(1 in whom for _, whom in ours.hang.waits.values())


def test_one_way_edges_are_refused() -> None:
    graph = Graph.of("loop", 3, [], [(0, 1), (1, 2), (2, 0)])
    with pytest.raises(TrainingError, match="some edges go one way"):
        watched("ad-psgd", 3, graph=graph)
