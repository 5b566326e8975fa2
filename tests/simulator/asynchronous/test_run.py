"""A run's own doings: waiting, bells, progress, gaps, and who is named when it stops."""

import pytest

from simulator.asynchronous.algorithm import Algorithm, within
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.graphs import Graph, load_graph
from simulator.asynchronous.run import Process, Run
from simulator.asynchronous.stragglers import Slowdowns
from simulator.asynchronous.waiting import Blocked, Hang, hang_of, when
from tests.simulator.asynchronous.clusters import Factors, cluster, watched


def run(workers: int = 3, iterations: int = 2, graph: Graph | None = None) -> Run:
    return Run(cluster(workers), iterations, graph=graph)


def test_a_bell_wakes_one_who_waits_and_the_wait_is_written_down() -> None:
    ours, open_ = run(2, 1), [False]

    def waits() -> Process:
        yield from ours.until(0, lambda: open_[0], "the door", lambda: [1])
        ours.finish(0)

    def opens() -> Process:
        yield ours.env.timeout(5)
        ours.ring(0)  # nothing has changed: it goes on waiting
        yield ours.env.timeout(5)
        open_[0] = True
        ours.ring(0)
        ours.ring(0)  # nobody waits any more
        ours.finish(1)

    ours.work(0, waits())
    ours.work(1, opens())
    ours.run()
    assert ours.waits[0] == {"the door": 10}
    assert list(ours.ends[0]) == [10]


def test_what_holds_already_is_not_waited_for() -> None:
    ours = run(1, 1)

    def worker() -> Process:
        yield from ours.until(0, lambda: True, "nothing", list)
        past = ours.env.timeout(3)
        yield past
        yield from ours.wait(0, past, "what is over")
        ours.finish(0)

    ours.work(0, worker())
    ours.run()
    assert not ours.waits[0]
    assert ours.done == [1]


def test_waiting_for_an_exchange_is_first_for_the_others_then_for_its_bytes() -> None:
    ours = run(2, 1)
    swap = ours.cluster.swap(0, 1)
    took = sum(job.alone_ps(ours.cluster.bandwidth) for job in swap.jobs)

    def worker(w: int, after_ps: int) -> Process:
        yield ours.env.timeout(after_ps)
        meeting = ours.together(w, swap, 2, 0)
        yield from ours.exchanged(w, meeting, (0, 1))
        ours.finish(w)

    ours.work(0, worker(0, 100))
    ours.work(1, worker(1, 700))
    ours.run()
    assert ours.waits[0] == {"the others": 600, "exchange": took}
    assert ours.waits[1] == {"the others": 0, "exchange": took}


def test_then_is_done_once_and_before_anybody_goes_on() -> None:
    ours, seen = run(3, 1), list[str]()
    operation = ours.cluster.all_reduce(range(3), 1e6, "sum")

    def worker(w: int) -> Process:
        meeting = ours.together(w, operation, 3, 0, then=lambda: seen.append("then"))
        yield from ours.exchanged(w, meeting, range(3))
        seen.append(str(w))
        ours.finish(w)

    for w in range(3):
        ours.work(w, worker(w))
    ours.run()
    assert seen == ["then", "0", "1", "2"]


def test_alone_is_as_often_as_it_is_asked_for() -> None:
    """The same message twice at once: two transfers that share the port."""
    ours = run(2, 1)
    send = ours.cluster.send(0, [1], 1e6, "model")

    def worker() -> Process:
        both = [ours.alone(0, send, 0), ours.alone(0, send, 0)]
        yield from both
        ours.finish(0)
        ours.finish(1)

    ours.work(0, worker())
    timeline, _ = ours.run()
    assert timeline.makespan_ps == pytest.approx((2e6 / 1e9 + 2e-6) * 1e12, abs=2)


def test_gaps_are_to_the_last_worker_and_skipped_iterations_count() -> None:
    ours = run(3, 9)
    for at_ps, worker in enumerate((0, 0, 1, 2), 1):
        ours.env.run(until=at_ps)
        ours.finish(worker)
    ours.env.run(until=5)
    ours.finish(2, 5)
    # entered: 1 (0 ahead of the last), 2, 1, and 1 when the last one comes: 1, 2, 1, 0
    assert dict(ours.gaps) == {1: 2, 2: 1, 0: 1}
    assert ours.slowest == 1
    assert ours.at == [2, 1, 6]
    assert ours.done == [2, 1, 2]
    ours.env.run(until=6)
    ours.finish(1)
    assert ours.gaps[5] == 1
    assert ours.slowest == 2


def test_who_moves_in_the_same_picosecond_is_not_ahead() -> None:
    """Behind a barrier all enter the next iteration together."""
    found = watched("all-reduce", 4, 10).run
    assert dict(found.gaps) == {0: 40}


def test_progress_is_told_every_hundredth() -> None:
    told: list[int] = []
    where = cluster(2)
    ours = Run(where, 300, progress=lambda: told.append(1))
    for _ in range(300):
        ours.finish(0)
        ours.finish(1)
    assert len(told) == 100


def test_history_is_kept_only_where_it_is_asked_for() -> None:
    ours = run()
    ours.note("average", (0, 1))
    assert ours.history == []
    assert watched("all-reduce", 2, 1).run.history[0] == (0, "gradient", 0, 0)


def test_everybody_ends_when_the_last_one_has_done_its_iterations() -> None:
    slow = Slowdowns((Factors(((1.0,), (4.0,))),))
    average = watched("async-ps", 2, 10, slow=slow, spare=1, port=1e12)
    everybody = watched("async-ps", 2, 10, slow=slow, spare=1, port=1e12, everybody=True)
    assert sum(average.run.done) == 20
    assert min(average.run.done) < 10
    assert average.run.everybody_ps is None
    assert min(everybody.run.done) == 10
    assert max(everybody.run.done) > 30


def test_when_is_before_those_who_wait_later() -> None:
    ours, seen = run(), list[str]()
    event = ours.env.timeout(1)
    when(event, lambda: seen.append("first"))
    event.callbacks.append(lambda _: seen.append("second"))
    ours.env.run()
    assert seen == ["first", "second"]


def test_who_is_named() -> None:
    blocked: dict[int, Blocked] = {}
    for worker, whom in ((0, (1,)), (1, (2,)), (3, (4,)), (4, ())):
        blocked[worker] = Blocked(blocked, worker, 0, "an average", whom)
    everybody = hang_of(10**12, blocked, [2], all_stopped=True)
    assert everybody is not None
    assert set(everybody.waits) == {0, 1, 3, 4}
    some = hang_of(10**12, blocked, [2], all_stopped=False)
    assert some is not None
    assert set(some.waits) == {0, 1}  # 1 waits for the dead, 0 for 1; 3 and 4 for each other's turn
    assert hang_of(10**12, blocked, [], all_stopped=False) is None
    assert str(some) == (
        "some stand still at 1 s: worker 0 waits for an average (worker 1); "
        "worker 1 waits for an average (worker 2); worker 2 had died"
    )


def test_of_very_many_who_wait_some_are_named() -> None:
    waits: dict[int, tuple[str, tuple[int, ...]]]
    waits = {w: ("tokens", (w + 1, w + 2)) for w in range(50)}
    said = str(Hang(0, waits, ()))
    assert said.count("waits for tokens") == 20
    assert said.endswith("; 30 more wait")
    assert "(workers 1, 2)" in said


def test_a_method_without_its_graph_is_told() -> None:
    with pytest.raises(TrainingError, match="needs a communication graph"):
        _ = run().graph
    assert run(graph=load_graph("ring", 3)).graph.name == "ring"


def test_bounds_of_options() -> None:
    within("group", 3, 2, 4)
    for value, said in (
        (1, "option group=1: within 2…4, or so"),
        (5, "option group=5: within 2…4"),
    ):
        with pytest.raises(TrainingError, match=said):
            within("group", value, 2, 4, "or so")
    with pytest.raises(TrainingError, match=r"option bound=-1: at least 0$"):
        within("bound", -1, 0)


class Idle(Algorithm):
    """Nobody does anything: the smallest method there is."""

    source = "here"

    def start(self, run: Run) -> None:
        for w in range(run.n):
            run.finish(w)
            run.finish(w)


def test_the_smallest_method() -> None:
    ours = run()
    method = Idle()
    method.check(3)
    assert method.servers == 0
    method.start(ours)
    with pytest.raises(TrainingError, match="starts no worker"):
        ours.run()
    with pytest.raises(TrainingError, match="option 'x': nobody does anything has none"):
        Idle.of({"x": "1"})


def test_a_method_that_never_finishes_an_iteration_is_refused() -> None:
    ours = run()

    def iterate(worker: int, iteration: int) -> Process:
        yield ours.step(worker, iteration)

    ours.each(iterate)
    with pytest.raises(TrainingError, match=r"worker \d does not finish iteration 0"):
        ours.run()
