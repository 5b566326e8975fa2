"""Slowdowns: what is drawn, that it is the same for every method, and bad input."""

from pathlib import Path

import numpy as np
import pytest

from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.stragglers import Slowdowns, parse_slowdowns
from tests.simulator.asynchronous.clusters import watched


def drawn(text: str, workers: int = 20, iterations: int = 500, seed: int = 0) -> list[list[float]]:
    slow = parse_slowdowns([text], workers, iterations, seed)
    paces = [slow.pace(w) for w in range(workers)]
    return [[pace(k) for k in range(iterations)] if pace else [1.0] for pace in paces]


def test_none() -> None:
    assert parse_slowdowns([], 4, 10).pace(0) is None
    assert parse_slowdowns(["none"], 4, 10).pace(0) is None


def test_one_worker() -> None:
    assert drawn("worker:2:5", 4, 3) == [[1.0] * 3, [1.0] * 3, [5.0] * 3, [1.0] * 3]


def test_random_has_its_probability_and_times() -> None:
    values = np.array(drawn("random:0.1:6"))
    assert set(np.unique(values)) == {1.0, 6.0}
    # 10,000 draws: five standard deviations are 0.015
    assert (values == 6).mean() == pytest.approx(0.1, abs=0.015)


def test_lognormal_has_its_sigma_and_median_one() -> None:
    logs = np.log(drawn("lognormal:0.3"))
    assert logs.std() == pytest.approx(0.3, rel=0.05)
    assert logs.mean() == pytest.approx(0, abs=0.015)


def test_normal_has_its_sigma_and_mean_one() -> None:
    values = np.array(drawn("normal:0.02"))
    assert values.std() == pytest.approx(0.02, rel=0.05)
    assert values.mean() == pytest.approx(1, abs=0.001)
    assert np.array(drawn("normal:10")).min() > 0


def test_exponential_adds_its_mean() -> None:
    values = np.array(drawn("exponential:0.5"))
    assert values.min() >= 1
    assert values.mean() == pytest.approx(1.5, rel=0.03)


def test_draws_depend_on_seed_worker_and_iteration_alone() -> None:
    """Asked in another order, by fewer workers, for more iterations: the same factors."""
    first = drawn("lognormal:0.5", 6, 40, seed=3)
    slow = parse_slowdowns(["lognormal:0.5"], 3, 400, 3)
    pace = slow.pace(2)
    assert pace is not None
    assert [pace(k) for k in reversed(range(40))][::-1] == first[2]
    assert drawn("lognormal:0.5", 6, 40, seed=4) != first
    assert first[0] != first[1]


def test_several_multiply() -> None:
    pace = parse_slowdowns(["worker:0:5", "worker:1:7", "worker:0:2"], 2, 9).pace(0)
    assert pace is not None
    assert [pace(0), pace(8)] == [10, 10]


def test_several_draw_apart() -> None:
    slow = parse_slowdowns(["worker:0:5", "worker:0:2", "lognormal:0.5", "lognormal:0.5"], 2, 9)
    pace, one = slow.pace(0), parse_slowdowns(["lognormal:0.5"], 2, 9).pace(0)
    assert pace is not None
    assert one is not None
    assert pace(0) != pytest.approx(10 * one(0) ** 2)


@pytest.mark.parametrize("more", ["worker:0:1", "die:0:1000", "join:1:0", "none"])
def test_what_draws_nothing_changes_no_draws(more: str) -> None:
    """Before or behind a random form: whoever adds a slow worker compares the same draws."""
    alone = parse_slowdowns(["random:0.5:6"], 2, 40).pace(1)
    assert alone is not None
    for texts in (["random:0.5:6", more], [more, "random:0.5:6"]):
        pace = parse_slowdowns(texts, 2, 40).pace(1)
        assert pace is not None
        assert [pace(k) for k in range(40)] == [alone(k) for k in range(40)]


def test_a_trace_begins_anew_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("# worker 0, worker 1\n1, 2\n3 4\n")
    pace = parse_slowdowns([str(path)], 2, 2).pace(1)
    assert pace is not None
    assert [pace(k) for k in range(4)] == [2, 4, 2, 4]


def test_steps_take_so_many_times_as_long() -> None:
    slow = parse_slowdowns(["random:0.5:3"], 1, 12, 7)
    ours = watched("all-reduce", 1, 12, slow=slow)
    step, pace = (
        ours.run.cluster.steps[0].duration_ps,
        parse_slowdowns(["random:0.5:3"], 1, 12, 7).pace(0),
    )
    assert pace is not None
    assert ours.timeline.makespan_ps == sum(round(step * pace(k)) for k in range(12))


def test_a_worker_that_joins_late_holds_the_others_up() -> None:
    late = watched("all-reduce", 3, 4, slow=Slowdowns(joins_s={1: 0.25}))
    soon = watched("all-reduce", 3, 4)
    assert late.timeline.makespan_ps == soon.timeline.makespan_ps + 250_000_000_000
    free = watched("async-ps", 3, 4, slow=Slowdowns(joins_s={1: 0.25}), spare=1)
    assert free.run.done[1] == 0
    assert free.timeline.makespan_s < 0.25


def test_a_dead_worker_is_named_by_those_who_wait() -> None:
    ours = watched("all-reduce", 3, 100, slow=Slowdowns(dies_s={1: 1e-3}))
    assert ours.hang is not None
    assert ours.hang.all_stopped
    assert {w: whom for w, (_, whom) in ours.hang.waits.items()} == {0: (1,), 2: (1,)}
    said = str(ours.hang)
    assert "worker 0 waits for the others (worker 1)" in said
    assert said.endswith("; worker 1 had died")


@pytest.mark.parametrize(
    ("method", "options"),
    [("async-ps", {}), ("backup", {"backup": "1"}), ("backup", {"backup": "2", "shards": "2"})],
)
def test_who_goes_on_without_a_dead_worker(method: str, options: dict[str, str]) -> None:
    dies = Slowdowns(dies_s={1: 1e-3})
    ours = watched(method, 6, 60, slow=dies, options=options, spare=2)
    assert ours.hang is None
    assert sum(ours.run.done) >= 360


@pytest.mark.parametrize("method", ["ps", "ssp", "d-psgd", "hop", "local-sgd", "hierarchical"])
def test_who_stops_with_a_dead_worker(method: str) -> None:
    options = {"algorithm": "ring"} if method == "hierarchical" else {}
    ours = watched(method, 6, 60, slow=Slowdowns(dies_s={1: 1e-3}), options=options, spare=1)
    assert ours.hang is not None
    assert ours.hang.all_stopped
    assert set(ours.hang.waits) == {0, 2, 3, 4, 5}
    assert any(1 in whom for _, whom in ours.hang.waits.values())


def test_a_group_with_a_dead_worker_stands_still_while_the_others_go_on() -> None:
    dies = Slowdowns(dies_s={1: 1e-3})
    ours = watched("prague", 9, 60, slow=dies)
    assert ours.hang is not None
    assert not ours.hang.all_stopped
    assert len(ours.hang.waits) == 2
    assert all(1 in whom for _, whom in ours.hang.waits.values())
    assert sum(ours.run.done) >= 540
    assert str(ours.hang).startswith("some stand still at")


@pytest.mark.parametrize("method", ["ad-psgd", "prague"])
def test_a_run_until_everybody_has_finished_ends_without_who_waits_for_the_dead(
    method: str,
) -> None:
    """Workers that wait for nobody went on for ever."""
    ours = watched(method, 9, 5, slow=Slowdowns(dies_s={1: 1e-3}), everybody=True)
    assert ours.hang is not None
    assert not ours.hang.all_stopped
    assert {w for w, done in enumerate(ours.run.done) if done < 5} == {1, *ours.hang.waits}


def test_who_dies_in_a_step_has_no_gradient_to_give() -> None:
    ours = watched("all-reduce", 3, 4, slow=Slowdowns(dies_s={1: 1e-6}))
    assert ours.run.done == [0, 0, 0]
    assert all(what[1] != "update together" for what in ours.run.history)


def test_a_slow_link_slows_what_crosses_it() -> None:
    from simulator import DEPLOYED
    from simulator.asynchronous.cluster import Cluster, Setting
    from simulator.asynchronous.registry import load_algorithm
    from simulator.asynchronous.run import Run
    from tests.simulator.asynchronous.clusters import PORT, array, lenet

    setting = Setting(lenet(), array(4, latency=0.0), 4, 4, DEPLOYED)
    times = []
    for links in ((), (("board1 up", 10.0),)):
        cluster = Cluster(setting, links=links)
        run = Run(cluster, 1)
        load_algorithm("all-reduce", {"algorithm": "ring"}).start(run)
        times.append(run.run()[0].iteration_ps - cluster.steps[0].duration_ps)
    ring_ps = 6 / 4 * 4 * lenet().parameters / PORT * 1e12
    assert times[0] == pytest.approx(ring_ps, abs=1)
    assert times[1] == pytest.approx(10 * ring_ps, abs=1)
    with pytest.raises(TrainingError, match="link:nothing: no such link; they are"):
        Cluster(setting, links=(("nothing", 2.0),))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("random:1.5:3", "'1.5': a probability is within 0…1"),
        ("random:-0.1:3", "'-0.1': a probability is within 0…1"),
        ("random:nan:3", "'nan': a probability"),
        ("worker:4:5", "workers are 0 to 3, not '4'"),
        ("worker:-1:5", "workers are 0 to 3, not '-1'"),
        ("worker:0:0", "'0': how many times as slow"),
        ("lognormal:-1", "a sigma is within 0…10"),
        ("exponential:x", "a mean is within"),
        ("die:9:1", "workers are 0 to 3"),
        ("join:0:-1", "a time is 0 s or later"),
        ("sometimes", "expected none, worker:W:TIMES"),
        ("worker:1", "expected none"),
    ],
)
def test_bad_slowdowns(text: str, said: str) -> None:
    with pytest.raises(TrainingError) as error:
        parse_slowdowns([text], 4, 10)
    assert said in str(error.value)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 2\n", "1 lines for 2 iterations; is it cut off?"),
        ("1 2\n3\n", "line 2: 1 factors for 2 workers; is it cut off?"),
        ("1 2\n3 x\n", "line 2': 'x': a factor is within"),
        ("1 2\n3 0\n", "'0': a factor is within"),
        ("", "0 lines for 2 iterations"),
    ],
)
def test_truncated_traces(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(TrainingError) as error:
        parse_slowdowns([str(path)], 2, 2)
    assert said in str(error.value)
    assert str(path) in str(error.value)
