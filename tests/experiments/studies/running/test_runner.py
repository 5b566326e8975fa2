"""The runner: each case once, in order, kept as it finishes, wherever it runs."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.running import cores
from experiments.studies.running import runner as module
from experiments.studies.running.cores import RunError, Spread, here, on_cores
from experiments.studies.running.estimate import Estimate
from experiments.studies.running.outputs import Outputs, check_kept, run_case
from experiments.studies.running.runner import Runner
from experiments.studies.running.store import Store, StoreError
from hardware import load_array
from planners.built_in import owt
from workloads import load_network

LENET = load_network("lenet")
ARRAY = load_array("accpar-mixed", ["devices.0.count=2", "devices.1.count=2"])


FLAGS = {"exact": True, "layout": None, "uneven": False}
NUMBERS = ("computing", "communicating", "waiting", "traffic_bytes")
UNKNOWN = ("plan_gap", "bucket_bytes", "slow_share", "energy_j")
LISTS: Outputs = {"memory": [], "computing_by_kind": [0.0]}
REST: Outputs = {**FLAGS, **dict.fromkeys(NUMBERS, 0.0), **dict.fromkeys(UNKNOWN), **LISTS}
"""What outputs have besides seconds."""


def cases(*batches: int) -> dict[int, Case]:
    return {batch: Case(LENET, "owt", ARRAY, batch) for batch in batches}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The batches of the cases that are run, without running them."""
    found: list[int] = []

    def pretend(case: Case) -> Outputs:
        found.append(case.batch)
        return {"iteration_s": float(case.batch), **REST}

    monkeypatch.setattr(module, "run_case", pretend)
    return found


def test_cases_finish_in_order_under_their_names_and_keys(ran: list[int]) -> None:
    finished = list(Runner().run(cases(3, 1, 2)))
    assert ran == [3, 1, 2]
    assert [(f.name, f.outputs["iteration_s"]) for f in finished] == [(3, 3.0), (1, 1.0), (2, 2.0)]
    assert [f.key for f in finished] == [cases(b)[b].key for b in (3, 1, 2)]


def test_nothing_to_run_is_no_error(ran: list[int]) -> None:
    assert list(Runner().run({})) == []
    assert list(Runner(jobs=2).run({})) == []
    assert ran == []


def test_one_case_under_two_names_is_run_once(ran: list[int]) -> None:
    twice = {"a": cases(7)[7], "b": replace(cases(7)[7]), "c": cases(8)[8]}
    assert [(f.name, f.outputs["iteration_s"]) for f in Runner().run(twice)] == [
        ("a", 7.0),
        ("b", 7.0),
        ("c", 8.0),
    ]
    assert ran == [7, 8]


def test_what_a_case_calls_for_follows_it(ran: list[int]) -> None:
    def then(name: int, outputs: Outputs) -> Mapping[int, Case]:
        assert outputs["iteration_s"] == float(name)
        return cases(name + 1, name + 2) if name % 10 == 0 else {}

    assert [f.name for f in Runner().run(cases(10, 20), then)] == [10, 11, 12, 20, 21, 22]
    assert ran == [10, 11, 12, 20, 21, 22]


def test_processes_run_what_cases_call_for_too() -> None:
    def then(name: int, outputs: Outputs) -> Mapping[int, Case]:
        return cases(name + 1) if outputs["exact"] and name % 10 == 0 else {}

    together = {f.name: f.outputs for f in Runner(jobs=2).run(cases(10, 20, 30), then)}
    assert together == {f.name: f.outputs for f in Runner().run(cases(10, 11, 20, 21, 30, 31))}


def test_a_store_is_asked_first_and_told_at_once(tmp_path: Path, ran: list[int]) -> None:
    with Store(tmp_path / "s.db") as store:
        runner = Runner(store)
        for count, finished in enumerate(runner.run(cases(1, 2)), 1):
            assert len(store) == count
            assert store.get([finished.key], check_kept) == {finished.key: finished.outputs}
        again = [(f.name, f.outputs) for f in runner.run(cases(1, 2, 3))]
    assert ran == [1, 2, 3]
    assert again == [(b, {"iteration_s": float(b), **REST}) for b in (1, 2, 3)]


def test_why_a_combination_does_not_fit_is_kept_for_who_asks_for_combinations(
    tmp_path: Path, ran: list[int]
) -> None:
    def too_large(case: Case) -> Outputs:
        ran.append(-case.batch)
        return {"iteration_s": None, "reason": "full", "out_of_memory": True, "memory": []}

    with Store(tmp_path / "s.db") as store:
        for _ in range(2):
            (fit,) = Runner(store).run(cases(4), work=too_large)
            assert fit.outputs["reason"] == "full"
        (step,) = Runner(store).run(cases(4))
    assert ran == [-4, 4]
    assert step.outputs["iteration_s"] == 4.0


@pytest.mark.parametrize("key", ["iteration_s", "memory", "computing"])
@pytest.mark.parametrize("value", ["null", '"1"', "{}", "-1"])
def test_damaged_outputs_are_told_with_their_key(
    key: str, value: str, tmp_path: Path, ran: list[int]
) -> None:
    with Store(tmp_path / "s.db") as store:
        list(Runner(store).run(cases(1)))
        change = "UPDATE results SET outputs = json_set(outputs, ?, json(?))"
        store._db.execute(change, (f"$.{key}", value))
        with pytest.raises(StoreError, match=rf"a damaged row: outputs of \w+: {key}"):
            list(Runner(store).run(cases(1)))
    assert ran == [1]


def test_an_interrupt_leaves_what_was_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(case: Case) -> Outputs:
        if case.batch == 3:
            raise KeyboardInterrupt
        return {"iteration_s": 1.0}

    monkeypatch.setattr(module, "run_case", interrupted)
    names: list[int] = []
    with Store(tmp_path / "s.db") as store:
        run = Runner(store).run(cases(1, 2, 3, 4))
        with pytest.raises(KeyboardInterrupt):
            names.extend(finished.name for finished in run)
        assert len(store) == 2


@pytest.mark.usefixtures("ran")
def test_a_store_that_fails_stops_the_run(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.db")
    run = Runner(store).run(cases(1, 2, 3))
    assert next(run).name == 1
    store.close()
    with pytest.raises(StoreError, match=r"closed database\. Results stored before are intact"):
        next(run)
    with Store(tmp_path / "s.db") as opened:
        assert len(opened) == 1


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, ran: list[int]) -> list[list[int]]:
    """The batches that processes are given, time after time, on a machine of eight cores."""
    del ran
    found: list[list[int]] = []

    def on_cores(jobs: int) -> AbstractContextManager[Spread]:
        def spy(function: Any, asked: Mapping[Any, Case]) -> Iterator[tuple[Any, Any]]:
            if asked:
                found.append([case.batch for case in asked.values()])
                assert jobs == 8
            return here(function, asked)

        return nullcontext(spy)

    monkeypatch.setattr(module, "on_cores", on_cores)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    return found


@pytest.mark.parametrize(("most", "by_processes"), [(2, 0), (4, 4)])
def test_workers_are_started_where_they_bring_more_than_they_cost(
    most: int, by_processes: int, given: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two cases of 0.15 s each, eight would save 7/8 of 0.3 s; of four, more."""
    monkeypatch.setattr(module, "together", lambda of: Estimate(0.15 * len([*of]), 0.0))
    names = [f.name for f in Runner(jobs=None).run(cases(*range(1, most + 1)))]
    assert names == list(range(1, most + 1))
    assert sum(map(len, given)) == by_processes
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    given.clear()
    assert len(list(Runner(jobs=None).run(cases(*range(1, most + 1))))) == most
    assert given == []


@pytest.mark.usefixtures("ran")
def test_a_long_run_is_announced_but_for_what_is_stored(tmp_path: Path) -> None:
    large = Case(load_network("gpt2:seq=8"), "owt", load_array("accpar-mixed"), 1, folded=False)
    asked = {batch: replace(large, batch=batch) for batch in range(1, 21)}
    told: list[str] = []
    list(Runner(tell=told.append).run(cases(1, 2)))
    assert told == []
    with Store(tmp_path / "s.db") as store:
        list(Runner(store, tell=told.append).run(asked))
        assert told[0].startswith("20 steps will take about")
        list(Runner(store, tell=told.append).run(asked))
        assert len(told) == 1
        list(Runner(tell=told.append).run(asked))
        assert told[1].endswith("--store FILE keeps what is finished")


@pytest.mark.parametrize(("jobs", "by_processes"), [(1, []), (8, [[1, 2, 3]])])
def test_a_number_of_processes_is_what_it_says(
    jobs: int, by_processes: list[list[int]], given: list[list[int]]
) -> None:
    assert len(list(Runner(jobs=jobs).run(cases(1, 2, 3)))) == 3
    assert given == by_processes


def test_the_published_comparison_starts_no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its 45 cases take less than they would cost."""
    monkeypatch.setattr(module, "on_cores", lambda _: pytest.fail("workers were started"))
    assert len(list(Runner(jobs=None).run(cases(*range(1, 46))))) == 45


def dying(case: Case) -> Outputs:
    if case.batch == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return run_case(case)


def failing(case: Case) -> Outputs:
    if case.batch == 2:
        raise UsageError("batch 2: not today")
    return run_case(case)


@pytest.fixture(params=["fork", "spawn"])
def start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which processes start."""
    monkeypatch.setattr(cores, "START", request.param)


@pytest.mark.usefixtures("start")
def test_what_is_raised_there_is_raised_here() -> None:
    with (
        pytest.raises(UsageError, match="batch 2: not today") as caught,
        on_cores(2) as spread,
    ):
        list(spread(failing, cases(1, 2, 3)))
    assert "in failing" in str(caught.value.__cause__)
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("start")
def test_processes_end_where_nobody_asks_further() -> None:
    with on_cores(3) as spread:
        results = cast("Generator[Any]", spread(run_case, cases(1, 2, 3, 4)))
        next(results)
        assert len(multiprocessing.active_children()) == 3
        results.close()
        assert not multiprocessing.active_children()


@pytest.mark.usefixtures("start")
def test_processes_stay_for_what_is_asked_later() -> None:
    """Those of the first cases; others are started for more at once than these are for."""

    def ran_by(*batches: int) -> set[int]:
        return {process for _, process in spread(process_of, cases(*batches))}

    with on_cores(3) as spread:
        ran_by(1, 2)
        first = {process.pid for process in multiprocessing.active_children()}
        assert len(first) == 2
        assert ran_by(3, 4) <= first
        ran_by(5, 6, 7)
        assert len(multiprocessing.active_children()) == 3
        assert dict(spread(run_case, cases(8, 9))) == dict(here(run_case, cases(8, 9)))
    assert not multiprocessing.active_children()


def process_of(case: Case) -> int:
    del case
    return os.getpid()


def test_what_cannot_be_sent_is_run_here() -> None:
    asked = {1: Case(LENET, lambda *of, **_: owt(*of), ARRAY, 64), 2: cases(2)[2]}
    with on_cores(2) as spread:
        assert dict(spread(planned_by, asked)) == {1: "<lambda>", 2: "owt"}
        assert not multiprocessing.active_children()


def planned_by(case: Case) -> str:
    return case.planner_name


@pytest.mark.usefixtures("start")
def test_a_killed_process_costs_its_own_case_alone() -> None:
    found: list[int] = []

    def note(results: Iterator[tuple[Any, Any]]) -> None:
        found.extend(name for name, _ in results)

    said = r"^lenet, owt, accpar-mixed.*, batch 2: a worker process was killed, and again"
    with pytest.raises(RunError, match=said), on_cores(2) as spread:
        note(spread(dying, cases(1, 2, 3, 4, 5, 6)))
    assert sorted(found) == [1, 3, 4, 5, 6]
    assert not multiprocessing.active_children()


def dying_once(case: Case) -> Outputs:
    """As for want of memory, which there is once nobody else is at work."""
    file = Path(os.environ["DIED"])
    if case.batch == 2 and not file.exists():
        file.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return run_case(case)


@pytest.mark.usefixtures("start")
def test_a_case_whose_process_was_killed_is_run_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIED", str(tmp_path / "died"))
    with on_cores(2) as spread:
        found = dict(spread(dying_once, cases(1, 2, 3)))
    assert found == dict(here(run_case, cases(1, 2, 3)))
    assert (tmp_path / "died").exists()


@pytest.mark.usefixtures("start")
def test_processes_give_what_one_gives() -> None:
    asked = cases(1, 2, 3)
    with on_cores(2) as spread:
        assert dict(spread(run_case, asked)) == dict(here(run_case, asked))


COMMANDS = {
    "speedup": ("speedup", "--networks", "lenet,alexnet,vgg11,resnet18,resnet34"),
    "levels": ("speedup", "--levels", "1-5", "--networks", "lenet,resnet34"),
    "report": ("report", "--networks", "lenet,resnet18,resnet34", "--output", "r.html"),
    "sweep": ("sweep", "--vary", "batch=64,128,192", "--networks", "resnet18,resnet34"),
}


@pytest.mark.parametrize(
    ("command", "jobs"),
    [
        (COMMANDS["sweep"], "1"),
        (COMMANDS["report"], "1"),
        (COMMANDS["levels"], "2"),
        (COMMANDS["sweep"], "2"),
    ],
)
def test_control_c_keeps_what_was_finished(
    command: tuple[str, ...], jobs: str, tmp_path: Path
) -> None:
    """All processes of the terminal hear it, workers too; nobody prints a traceback."""
    args = [*command, "--store", str(tmp_path / "s.db"), "--jobs", jobs]
    args += ["--array", "accpar-mixed"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])}
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", *args],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
        start_new_session=True,
    )
    kept = stored(tmp_path / "s.db", process, 2)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("it was finished before it could be interrupted")
    assert process.returncode == 130
    assert "accelarray: interrupted" in errors
    assert "Traceback" not in errors
    with Store(tmp_path / "s.db", create=False) as store:
        assert len(store) >= kept
    assert not (tmp_path / "r.html").exists()


def stored(file: Path, process: "subprocess.Popen[str]", at_least: int) -> int:
    """Wait for so many results; how many there are."""
    for _ in range(2000):
        if file.exists():
            with Store(file) as store:
                if len(store) >= at_least:
                    return len(store)
        assert process.poll() is None
        time.sleep(0.01)
    pytest.fail("no results came")
