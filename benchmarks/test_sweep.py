"""Sweeps: what two processes gain, and what a case costs beside its own time."""

import os
import time
from pathlib import Path

import pytest

from experiments.studies.case import Case
from experiments.studies.running import runner
from experiments.studies.running.outputs import run_case
from experiments.studies.running.runner import Runner
from experiments.studies.running.store import Store
from hardware import load_array
from workloads import load_network

CASES = 200
LEAST_GAIN = 1.7
MOST_OVERHEAD_S = 0.005


def cases(count: int, offset: int = 0) -> dict[int, Case]:
    """Different cases of about 50 ms, by their batch."""
    network = load_network("resnet34")
    return {
        batch: Case(network, "accpar", load_array("accpar-mixed"), batch)
        for batch in range(64 + offset, 64 + offset + count)
    }


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
def test_two_processes_against_one(tmp_path: Path) -> None:
    list(Runner(jobs=2).run(cases(8, offset=1000)))  # start the workers
    todo = cases(CASES)
    with Store(tmp_path / "one.db") as store:
        started = time.perf_counter()
        alone = sorted(Runner(store).run(todo))
        one = time.perf_counter() - started
    with Store(tmp_path / "two.db") as store:
        started = time.perf_counter()
        together = sorted(Runner(store, jobs=2).run(todo))
        two = time.perf_counter() - started
    print(
        f"\n{CASES} cases of {one / CASES * 1e3:.0f} ms: two processes {one / two:.2f} times faster"
    )
    assert together == alone
    assert one / two >= LEAST_GAIN


def test_overhead_of_a_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Identity, store and bookkeeping alone: planning and simulating are left out."""
    todo = cases(CASES)
    outputs = run_case(next(iter(todo.values())))
    monkeypatch.setattr(runner, "run_case", lambda case: outputs)
    with Store(tmp_path / "s.db") as store:
        started = time.perf_counter()
        list(Runner(store).run(todo))
        overhead = (time.perf_counter() - started) / len(todo)
    print(f"\noverhead {overhead * 1e3:.2f} ms a case")
    assert overhead < MOST_OVERHEAD_S
