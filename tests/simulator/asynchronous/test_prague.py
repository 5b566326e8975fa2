"""Prague: nobody in two groups at once, sums of models are kept, everybody is served."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import DEPLOYED
from simulator.asynchronous.algorithms.prague import GROUPS
from simulator.asynchronous.cluster import Cluster, Setting
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.learning.models import Models
from simulator.asynchronous.learning.problems import Quadratic
from simulator.asynchronous.registry import load_algorithm
from simulator.asynchronous.run import Run
from simulator.asynchronous.stragglers import Slowdowns
from tests.simulator.asynchronous.clusters import Watched, array, lenet, one_slow, watched
from tests.simulator.asynchronous.test_ad_psgd import averages
from tests.simulator.asynchronous.test_gap_bounds import delays


def prague(
    n: int,
    group: int,
    groups: str,
    slow: Slowdowns | None = None,
    k: int = 12,
    more: dict[str, str] | None = None,
    port: float = 1e8,
) -> Watched:
    options = {"group": str(group), "groups": groups, **(more or {})}
    return watched("prague", n, k, slow=slow, options=options, port=port)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 9),
    st.integers(2, 5),
    st.sampled_from(GROUPS),
    delays(),
    st.integers(-1, 4),
)
def test_groups(n: int, group: int, groups: str, slow: Slowdowns, most: int) -> None:
    group, most = min(group, n), -1 if groups == "static" else most
    more = {"filter": str(most)}
    ours = prague(n, group, groups, slow, more=more)
    assert ours.hang is None
    spans: dict[int, list[tuple[int, int]]] = {}
    for start, end, members in averages(ours):
        assert len(members) <= group + 1  # one left over joins a group
        for w in members:
            spans.setdefault(w, []).append((start, end))
    for mine in spans.values():
        mine.sort()
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(mine))
    if most < 0 and n > 1:
        assert set(spans) == set(range(n))  # everybody is served
    # no computation of a member falls into a group's average
    notes = [(now, about[0]) for now, word, *about in ours.run.history if word == "gradient"]
    for now, w in notes:
        assert not any(start < now < end for start, end in spans.get(w, []))


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 8), st.sampled_from(GROUPS), delays())
def test_an_average_keeps_the_sum_of_all_models(n: int, groups: str, slow: Slowdowns) -> None:
    ours = prague(n, 2, groups, slow)
    models = Models(Quadratic(0), n, 0, ours.run.history)
    averaged = 0
    for _, word, *about in ours.run.history:
        before = models.of.sum(axis=0)
        models.do(word, about)
        if word == "average":
            averaged += 1
            np.testing.assert_allclose(models.of.sum(axis=0), before, rtol=1e-12, atol=1e-12)
            first, *others = about[0]
            assert all((models.of[w] == models.of[first]).all() for w in others)
    assert averaged


def test_the_static_schedule_has_no_conflicts() -> None:
    """Every iteration divides all workers; within two iterations blocks have mixed."""
    ours = prague(9, 3, "static")
    per_turn = [members for *_, members in sorted(averages(ours), key=lambda one: one[0])]
    for micro_batch in range(12):
        groups = per_turn[3 * micro_batch : 3 * micro_batch + 3]
        assert sorted(w for members in groups for w in members) == list(range(9))
    assert set(per_turn[:3]) != set(per_turn[3:6])
    assert sum(ours.run.waits[0][cause] for cause in ("the others",)) == 0


def test_a_buffer_makes_fewer_groups_than_requests() -> None:
    """Without one every request makes a group; with one, whoever has a group makes none."""
    many, few = (len(averages(prague(9, 3, groups))) for groups in ("random", "buffer"))
    assert many > 2 * few


def test_division_gives_everybody_a_group_at_once() -> None:
    """Alike workers: three groups of three a turn, of workers that are there anyway."""
    ours = prague(9, 3, "division", k=6)
    assert len(averages(ours)) == 3 * 6
    assert {len(members) for *_, members in averages(ours)} == {3}


def test_one_who_is_left_over_joins_a_group() -> None:
    """Ten alike in threes: two of three and one of four, nobody alone."""
    ours = prague(10, 3, "division", k=6)
    assert {len(members) for *_, members in averages(ours)} == {3, 4}
    assert len(averages(ours)) == 3 * 6


def test_groups_aware_of_nodes() -> None:
    """Three boards of two chips: one of each board together, the others; then each board."""
    cluster = Cluster(Setting(lenet(), array(3, chips=2), 6, 4, DEPLOYED))
    assert cluster.nodes == [0, 0, 1, 1, 2, 2]
    run = Run(cluster, 4)
    load_algorithm("prague", {"nodes": "yes"}).start(run)
    timeline, hang = run.run()
    assert hang is None
    micro_batches: dict[int, list[frozenset[int]]] = {}
    for _, end, members in averages(Watched(run, timeline, hang)):
        micro_batches.setdefault(end, []).append(members)
    across = [
        members for groups in micro_batches.values() for members in groups if len(members) == 3
    ]
    inside = [
        members for groups in micro_batches.values() for members in groups if len(members) == 2
    ]
    assert len(across) == 2
    assert all(len({w // 2 for w in members}) == 3 for members in across)
    assert sorted(map(sorted, inside)) == [[0, 1]] * 2 + [[2, 3]] * 2 + [[4, 5]] * 2


def test_any_worker_of_a_node_may_be_its_head() -> None:
    cluster = Cluster(Setting(lenet(), array(2, chips=4), 8, 4, DEPLOYED))
    run = Run(cluster, 30)
    load_algorithm("prague", {"nodes": "yes"}).start(run)
    timeline, _ = run.run()
    pairs = {m for *_, m in averages(Watched(run, timeline, None)) if len(m) == 2}
    assert {w for pair in pairs for w in pair} == set(range(8))


def rate(ours: Watched) -> float:
    return sum(ours.run.done) / ours.timeline.makespan_s


def test_the_filter_lets_the_others_go_on() -> None:
    """One of 16 workers five times slower: the others lose a tenth, without the filter a third.

    All-reduce loses four fifths, and so do random groups, which all wait for each other.
    """
    fair = rate(prague(16, 3, "division", port=1e12))
    without, filtered, chance = (
        fair / rate(prague(16, 3, groups, one_slow(5.0), 60, {"filter": most}, 1e12))
        for groups, most in (("division", "-1"), ("division", "2"), ("random", "-1"))
    )
    assert filtered < 1.15 < 1.3 < without < 1.5
    assert chance > 4


def test_the_filter_is_one_sided() -> None:
    """Whoever is behind may still ask the others, and so does not stay behind alone."""
    ours = prague(9, 3, "division", one_slow(10.0), 60, {"filter": "2"}, 1e12)
    late = [
        members for start, _, members in averages(ours) if start > ours.timeline.makespan_ps / 2
    ]
    assert any(0 in members for members in late)
    assert ours.run.done[0] < 0.3 * max(ours.run.done)


def test_a_group_of_more_than_there_are_is_refused() -> None:
    with pytest.raises(TrainingError, match=r"option group=5: within 2…4, there are 4 workers"):
        prague(4, 5, "random")
    with pytest.raises(TrainingError, match=r"groups=pairs: one of random, buffer"):
        prague(4, 2, "pairs")


@pytest.mark.parametrize(("boards", "chips"), [(6, 1), (1, 6)])
def test_nodes_are_several_and_have_several_workers(boards: int, chips: int) -> None:
    cluster = Cluster(Setting(lenet(), array(boards, chips=chips), 6, 4, DEPLOYED))
    with pytest.raises(TrainingError, match="6 workers are not on several nodes of several"):
        load_algorithm("prague", {"nodes": "yes"}).start(Run(cluster, 4))


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": "yes", "group": "4"},
        {"nodes": "yes", "groups": "random"},
        {"groups": "static", "filter": "1"},
    ],
)
def test_options_that_nothing_would_read_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(TrainingError, match="option "):
        load_algorithm("prague", options).check(8)


def test_groups_average_by_the_algorithm_that_is_named() -> None:
    """Where a message takes long, a ring of six takes ten of them, "direct" two."""
    took = []
    for named in ("auto", "ring", "direct"):
        execution = replace(DEPLOYED, algorithm=named)
        where = array(6, latency=1e-3)
        run = Run(Cluster(Setting(lenet(), where, 6, 4, execution)), 4)
        load_algorithm("prague", {"group": "6"}).start(run)
        took.append(run.run()[0].makespan_ps)
    assert took[0] == took[1]
    assert took[1] - took[2] == pytest.approx(4 * 8e9, rel=0.01)
