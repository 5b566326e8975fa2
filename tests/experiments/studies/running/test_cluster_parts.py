"""What is said when a cluster fails, without one: the same code with a pretended client."""

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

import pytest
from distributed.scheduler import KilledWorker

import accelarray
from experiments.studies.case import Case
from experiments.studies.running import cluster, runner
from experiments.studies.running.cluster import (
    _check_imports,
    _gather,
    _result,
    on_cluster,
    within,
)
from experiments.studies.running.cores import RunError
from experiments.studies.running.runner import Runner
from hardware import load_array
from simulator import MODEL_VERSION
from workloads import load_network

CASE = Case(load_network("lenet"), "owt", load_array("accpar-homogeneous"), 8)
ADDRESS = "tcp://10.0.0.1:8786"


class Future:
    """A call on a worker, in a state of our choice."""

    def __init__(self, status: str, answer: Any = None) -> None:
        self.status = status
        self.answer = answer

    def result(self, timeout: float) -> Any:
        assert timeout == cluster.FETCH_S
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def exception(self, timeout: float) -> Any:
        assert timeout == cluster.FETCH_S
        return self.answer


class Client:
    """A scheduler's client whose workers call at once."""

    def __init__(self, workers: int = 1, versions: dict[str, Any] | None = None) -> None:
        self.workers = [f"w{i}" for i in range(workers)]
        self.versions = versions or {}
        self.closed = False
        self.calls: list[tuple[Any, ...]] = []

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1  # all of them
        return {"workers": self.workers}

    def run_on_scheduler(self, function: Any) -> Any:
        return function()

    def run(self, function: Any, on_error: str) -> dict[str, Any]:
        assert on_error == "return"
        return {worker: self.versions.get(worker, function()) for worker in self.workers}

    def submit(self, function: Any, *args: Any, pure: bool) -> Future:
        assert not pure  # the same call of two sweeps is two calls
        self.calls.append(args)
        return Future("finished", function(*args))

    @contextmanager
    def as_current(self) -> Iterator[None]:
        yield

    def close(self, timeout: float) -> None:
        self.closed = timeout < 10


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client(2)
    monkeypatch.setattr(cluster, "_connect", lambda address: made)
    monkeypatch.setattr("distributed.wait", lambda futures, **_: (set(futures), set()))
    return made


def test_workers_call_and_the_client_is_closed(client: Client) -> None:
    with on_cluster(ADDRESS) as spread:
        found = dict(spread(lambda case: case.batch * 2, {"a": CASE, "b": CASE}))
        assert found == {"a": 16, "b": 16}
        assert dict(spread(lambda case: 0, {})) == {}
    assert client.closed
    assert len(client.calls) == 2


def test_a_runner_connects_once_for_all_it_does(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def connect(address: str) -> Client:
        opened.append(address)
        return client

    monkeypatch.setattr(cluster, "_connect", connect)
    monkeypatch.setattr(runner, "run_case", lambda case: {"iteration_s": float(case.batch)})
    cases = {batch: Case(CASE.network, "owt", CASE.array, batch) for batch in (8, 16)}

    def then(name: int, _: dict[str, Any]) -> dict[int, Case]:
        return {9: cases[16]} if name == 8 else {}

    found = [(f.name, f.outputs["iteration_s"]) for f in Runner(None, 1, ADDRESS).run(cases, then)]
    assert sorted(found) == [(8, 8.0), (9, 16.0), (16, 16.0)]
    assert opened == [ADDRESS]
    assert client.closed


@pytest.mark.parametrize("fault", [OSError("gone"), CancelledError()])
def test_a_scheduler_that_goes_is_said(fault: Exception, client: Client) -> None:
    words = r"the scheduler is gone \((OSError|CancelledError)\)"
    with pytest.raises(RunError, match=words), on_cluster(ADDRESS):
        raise fault
    assert client.closed


def test_other_faults_are_not_called_the_schedulers(client: Client) -> None:
    with pytest.raises(ZeroDivisionError), on_cluster(ADDRESS):
        raise ZeroDivisionError
    assert client.closed


def test_a_scheduler_without_workers() -> None:
    with pytest.raises(RunError, match=f"--cluster {ADDRESS}: the scheduler has no workers"):
        _check_imports(Client(0), ADDRESS)


def test_another_accelarray_is_refused() -> None:
    assert f", model {MODEL_VERSION}, sources " in accelarray._probe()
    _check_imports(Client(3), ADDRESS)
    other = Client(3, {"w1": "1"})
    with pytest.raises(
        RunError, match=r"w1 has 1, not accelarray .*; install the same version there"
    ):
        _check_imports(other, ADDRESS)
    broken = Client(3, {"w2": ImportError("no simulator")})
    with pytest.raises(RunError, match=r"w2 \(ImportError\('no simulator'\)\) has not accelarray"):
        _check_imports(broken, ADDRESS)


def test_a_scheduler_that_cannot_import_it() -> None:
    class Bare(Client):
        def run_on_scheduler(self, _: Any) -> Any:
            raise ModuleNotFoundError("experiments")

    with pytest.raises(RunError, match="the scheduler cannot import accelarray"):
        _check_imports(Bare(), ADDRESS)


def test_what_becomes_of_a_call() -> None:
    assert _result(Future("finished", 1), ADDRESS) == 1
    with pytest.raises(TimeoutError):  # asked again
        _result(Future("finished", TimeoutError()), ADDRESS)
    with pytest.raises(RunError, match=r"a case failed on its worker \(ValueError\('x'\)\)"):
        _result(Future("error", ValueError("x")), ADDRESS)
    with pytest.raises(RunError, match=r"failed on its worker \('cancelled'\)"):
        _result(Future("cancelled"), ADDRESS)


def test_calls_that_are_lost_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quick = Future("lost"), Future("finished", 1)
    rounds: list[int] = []

    def wait(futures: set[Any], **_: Any) -> tuple[set[Any], set[Any]]:
        rounds.append(len(futures))
        if len(rounds) == 2:
            slow.status, slow.answer = "finished", 2
        return set(futures), set()

    monkeypatch.setattr("distributed.wait", wait)
    assert list(_gather(Client(), {slow, quick}, ADDRESS, [])) == [(quick, 1), (slow, 2)]
    assert rounds == [2, 1]


def test_a_case_that_kills_its_workers_stops_no_other(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Case(CASE.network, "owt", CASE.array, 16)

    def submit(*args: Any, pure: bool) -> Future:
        assert not pure
        killed: Any = KilledWorker
        return Future("error", killed("key", None, 1)) if CASE in args else Future("finished", 1)

    monkeypatch.setattr(client, "submit", submit)
    found: list[tuple[str, int]] = []
    words = f"--cluster {ADDRESS}: lenet, owt, accpar-homogeneous, batch 8: its workers were"
    with pytest.raises(RunError, match=words), on_cluster(ADDRESS) as spread:
        found.extend(spread(lambda case: 0, {"deadly": CASE, "other": other}))
    assert found == [("other", 1)]


def test_it_gives_up_when_all_workers_stay_away(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def nothing(*_: Any, **__: Any) -> tuple[set[Any], set[Any]]:
        now[0] += 15.0
        if now[0] == 30.0:
            empty.workers = ["back"]  # one comes back for a while: the clock begins anew
        if now[0] == 45.0:
            empty.workers = []
        raise TimeoutError

    empty = Client(0)
    monkeypatch.setattr("distributed.wait", nothing)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with pytest.raises(RunError, match="all workers are gone; finished cases are kept in --store"):
        list(_gather(empty, {Future("pending")}, ADDRESS, []))
    assert now[0] == 75.0


@pytest.mark.parametrize("address", ["", "localhost", "http://h:1", "tcp://h", "tcp://h:123456"])
def test_addresses(address: str) -> None:
    with pytest.raises(RunError, match="expected a scheduler's address, as tcp://host:8786"):
        cluster._connect(address)


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(RunError, match=r"pip install '\.\[cluster\]'"):
        cluster._connect(ADDRESS)


def test_dasks_own_log_is_quiet() -> None:
    log = logging.getLogger("distributed.test_quiet")
    cluster._quiet()
    assert not log.isEnabledFor(logging.CRITICAL)


@pytest.mark.parametrize(
    ("scheme", "words"),
    [
        ("tls", r"tls:// is not set up here \(there are no certificates\); name them in dask's"),
        ("wss", r"wss:// is not set up here \(there are no certificates\).*or use ws://"),
        ("ucx", r"ucx:// is not set up here \(.*\); install distributed-ucxx, or use tcp://"),
    ],
)
def test_transports_that_are_not_set_up(scheme: str, words: str) -> None:
    with pytest.raises(RunError, match=f"^--cluster {scheme}://10.0.0.1:8786: {words}"):
        cluster._connect(f"{scheme}://10.0.0.1:8786")


def test_what_takes_too_long_is_left() -> None:
    assert within(5, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 / 0)
    waiting = threading.Event()
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        within(0.1, waiting.wait)
    assert time.monotonic() - begun < 3
    waiting.set()


def test_a_scheduler_that_stops_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = threading.Event()
    monkeypatch.setattr(cluster, "CHECK_S", 0.1)
    monkeypatch.setattr(cluster, "_check_imports", lambda *_: waiting.wait())
    with pytest.raises(RunError, match=r"a worker does not answer within 0\.1 s"):
        cluster._checked(Client(), ADDRESS)
    waiting.set()
