"""Learning follows the events: replayed here by code of its own, and equal to serial runs."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator.asynchronous.learning.models import Learned, Models, learn
from simulator.asynchronous.learning.problems import PROBLEMS, Problem, load_problem
from simulator.asynchronous.stragglers import parse_slowdowns
from simulator.engine.picoseconds import PICOSECONDS
from tests.simulator.asynchronous.clusters import Watched, watched

Floats = NDArray[np.float64]
RANDOM = parse_slowdowns(["lognormal:0.7"], 8, 60)


def learned(ours: Watched, problem: Problem, target: float | None = None) -> Learned:
    return learn(problem, ours.run.n, ours.servers, ours.run.history, target)


def models(ours: Watched, problem: Problem) -> Models:
    """Everybody's models at the end."""
    found = Models(problem, ours.run.n, ours.servers, ours.run.history)
    for _, word, *about in ours.run.history:
        found.do(word, about)
    return found


def serial(problem: Problem, workers: int, iterations: int) -> Floats:
    """One machine; a batch is all workers' batches, accumulated one after the other."""
    model = problem.start()
    for k in range(iterations):
        total = problem.gradient(model, 0, k)
        for w in range(1, workers):
            total = total + problem.gradient(model, w, k)
        model = model - problem.rate * (total / workers)
    return model


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_all_reduce_is_the_serial_large_batch_run_bit_for_bit(name: str, n: int) -> None:
    problem = load_problem(name, 3)
    ours = models(watched("all-reduce", n, 20, slow=RANDOM), problem)
    wanted = serial(problem, n, 20)
    assert all((mine == wanted).all() for mine in ours.of)


@pytest.mark.parametrize("method", ["ps", "async-ps", "ssp", "backup"])
@pytest.mark.parametrize("shards", ["1", "3"])
def test_a_parameter_server_with_one_worker_is_serial(method: str, shards: str) -> None:
    problem = load_problem("logistic", 5)
    options = {"shards": shards} | ({"backup": "0"} if method == "backup" else {})
    ours = models(watched(method, 1, 20, spare=3, options=options), problem)
    assert (ours.server == serial(problem, 1, 20)).all()


def test_synchronous_parameter_servers_are_the_serial_large_batch_run() -> None:
    problem = load_problem("two-layer", 5)
    ours = models(watched("ps", 6, 20, spare=2, options={"shards": "2"}, slow=RANDOM), problem)
    assert (ours.server == serial(problem, 6, 20)).all()


@pytest.mark.parametrize("n", [2, 5, 8])
def test_d_psgd_on_a_complete_graph_is_all_reduce(n: int) -> None:
    problem = load_problem("two-layer", 1)
    ours = models(watched("d-psgd", n, 30, graph="complete", slow=RANDOM), problem)
    wanted = serial(problem, n, 30)
    for mine, done in zip(ours.of, [30] * n, strict=True):
        assert done == 30
        np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-12)


def test_local_sgd_with_a_step_each_is_all_reduce() -> None:
    problem = load_problem("quadratic", 1)
    ours = models(watched("local-sgd", 5, 30, options={"steps": "1"}), problem)
    np.testing.assert_allclose(ours.of[3], serial(problem, 5, 30), rtol=1e-12)


def records(ours: Watched, layer: str) -> list[tuple[int, int, int, int]]:
    """Start, end, turn and worker of a timeline's records of one sort of exchange."""
    timeline = ours.timeline
    who = dict(zip(timeline.participants.row, timeline.participants.worker, strict=True))
    found = []
    for row, number in enumerate(timeline.columns.operation):
        if timeline.operations[number].layer == layer:
            start, end, micro_batch = (
                column[row]
                for column in (
                    timeline.columns.start,
                    timeline.columns.end,
                    timeline.columns.micro_batch,
                )
            )
            found.append((start, end, micro_batch, who[row]))
    return found


@pytest.mark.parametrize("method", ["async-ps", "ssp"])
def test_each_stale_gradient_is_of_the_version_that_the_events_say(method: str) -> None:
    """From the timeline's records alone, without the run's history.

    A worker computes its k-th gradient on the weights of its last pull, which
    left the server at the start of that pull, behind as many updates as had been
    applied by then. An update is a server's record, in the order of pushes.
    """
    n = 6
    problem = load_problem("logistic", 7)
    ours = watched(method, n, 40, slow=RANDOM, spare=1, port=2e8)
    pushes = sorted(records(ours, "push"), key=lambda one: one[1])
    pulls = sorted(records(ours, "pull"), key=lambda one: one[0])
    versions = [problem.start()]
    has = dict.fromkeys(range(n), 0)  # the version that each worker computes on
    pulled = {(micro_batch, w): start for start, _, micro_batch, w in pulls}
    stale: dict[int, int] = {}
    columns = ours.timeline.columns
    is_update = [op.layer == "server update" for op in ours.timeline.operations]
    updates = sorted(
        end for end, number in zip(columns.end, columns.operation, strict=True) if is_update[number]
    )
    for push, applied_ps in zip(pushes, updates, strict=False):
        _, end, k, w = push
        assert end <= applied_ps
        age = len(versions) - 1 - has[w]
        stale[age] = stale.get(age, 0) + 1
        gradient = problem.gradient(versions[has[w]], w, k)
        versions.append(versions[-1] - problem.rate * gradient)
        if (k, w) in pulled:
            assert pulled[k, w] == applied_ps
        has[w] = len(versions) - 1
    assert (models(ours, problem).server == versions[-1]).all()
    assert stale == dict(ours.run.staleness)
    assert max(stale) >= n - 1  # about n - 1, when all are alike


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("hop", {}),
        ("hop", {"tokens": "3", "staleness": "2", "skip": "4"}),
        ("hop", {"tokens": "3", "backup": "1"}),
        ("d-psgd", {}),
        ("ad-psgd", {}),
        ("ad-psgd", {"overlap": "yes"}),
        ("prague", {}),
        ("backup", {"backup": "2"}),
        ("backup", {"backup": "2", "shards": "3"}),
        ("ps", {"shards": "2"}),
        ("async-ps", {"shards": "3"}),
        ("local-sgd", {}),
    ],
    ids=str,
)
def test_replayed_by_code_of_its_own(method: str, options: dict[str, str]) -> None:
    """All models written down at every moment; each event only points to earlier ones."""
    problem = load_problem("quadratic", 11)
    ours = watched(method, 8, 25, slow=RANDOM, options=options, spare=1, port=3e8)
    wanted = replayed(problem, ours)
    found = models(ours, problem)
    assert (found.server == wanted[8]).all()
    for w in range(8):
        np.testing.assert_allclose(found.of[w], wanted[w], rtol=1e-11, atol=1e-13)


def replayed(problem: Problem, ours: Watched) -> list[Floats]:
    """Slowly: lists of every model's values so far, the server's last."""
    n, rate = ours.run.n, problem.rate
    values = [[problem.start()] for _ in range(n + 1)]
    gradients: list[Floats] = [problem.start()] * n
    sent: dict[tuple[int, int], Floats] = {}
    shards = np.array_split(np.arange(problem.size), max(ours.servers, 1))
    for _, word, *about in ours.run.history:
        if word == "gradient":
            gradients[about[0]] = problem.gradient(values[about[0]][-1], *about)
        elif word == "send":
            sent[about[0], about[1]] = values[about[0]][-1]
        elif word == "update":
            values[about[0]].append(values[about[0]][-1] - rate * gradients[about[0]])
        elif word == "update at server":
            workers, shard = about
            step = sum((gradients[w] for w in workers[1:]), gradients[workers[0]]) / len(workers)
            values[n].append(_with(values[n][-1], shards[shard], values[n][-1] - rate * step))
        elif word == "pull":
            w, shard = about
            values[w].append(_with(values[w][-1], shards[shard], values[n][-1]))
        elif word == "average":
            middle = np.mean([values[w][-1] for w in about[0]], axis=0)
            for w in about[0]:
                values[w].append(middle)
        elif word == "mix":
            w, _, parts = about
            terms = [x * (values[v][-1] if k is None else sent[v, k]) for v, k, x in parts]
            values[w].append(np.sum(terms, axis=0))
        else:
            assert word == "drop"
    return [each[-1] for each in values]


def _with(model: Floats, places: NDArray[np.int64], other: Floats) -> Floats:
    """A model with some numbers of another one."""
    return np.where(np.isin(np.arange(len(model)), places), other, model)


def test_what_was_sent_is_forgotten_when_nobody_needs_it_any_more() -> None:
    ours = watched("hop", 8, 25, slow=RANDOM)
    assert len(models(ours, load_problem("quadratic"))._sent) <= 3 * 8


@pytest.mark.parametrize("method", ["all-reduce", "ad-psgd", "prague", "hop", "ssp"])
def test_the_loss_falls_and_time_goes_on(method: str) -> None:
    for name in PROBLEMS:
        ran = watched(method, 8, 60, slow=RANDOM, spare=1)
        ours = learned(ran, load_problem(name))
        assert all(a[0] <= b[0] for a, b in pairwise(ours.curve))
        assert ours.curve[0][0] == 0
        assert ours.curve[-1][1] < 0.8 * ours.curve[0][1]
        half = (ours.curve[0][1] + ours.curve[-1][1]) / 2
        at_s = learned(ran, load_problem(name), half).reached_s
        assert at_s is not None
        assert 0 < at_s < ours.curve[-1][0]
        assert learned(ran, load_problem(name), -1.0).reached_s is None
        assert ours.reached_s is None


@pytest.mark.parametrize("method", ["all-reduce", "ad-psgd", "async-ps"])
def test_a_loss_is_reached_when_it_is_however_long_the_run_goes_on(method: str) -> None:
    """The longer run's history begins with the shorter one's: a curve of 200 points does not."""
    problem, ran = load_problem("logistic"), watched(method, 8, 300, slow=RANDOM, spare=1)
    history = ran.run.history
    first = Models(problem, 8, ran.servers, history)
    target, expected = 0.4, None
    for at_ps, word, *about in history:
        first.do(word, about)
        if expected is None and problem.loss(first.mean()) <= target:
            expected = at_ps / PICOSECONDS
    assert expected is not None
    for many in (len(history), 2 * len(history) // 3):
        assert learn(problem, 8, ran.servers, history[:many], target).reached_s == expected
    ends = learned(ran, problem)
    assert ends.curve[-1] == (history[-1][0] / PICOSECONDS, problem.loss(first.mean()))


def test_the_order_of_events_matters() -> None:
    """The same gradients in another order of events give another model."""
    problem = load_problem("quadratic")
    found = [
        models(watched("async-ps", 4, 20, slow=slow, spare=1), problem).server
        for slow in (None, RANDOM)
    ]
    assert (found[0] != found[1]).any()
