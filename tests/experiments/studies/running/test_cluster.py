"""Sweeps on a real dask.distributed scheduler with worker processes on loopback."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import accelarray
from experiments.studies.case import Case
from experiments.studies.running.cluster import on_cluster
from experiments.studies.running.cores import RunError
from experiments.studies.running.outputs import run_case
from experiments.studies.running.store import Store
from hardware import load_array
from workloads import load_network

ARRAY, ROOT = load_array("tpu-v3-8"), Path(accelarray.HERE)
SWEEP = (
    *("sweep", "--vary", "network.bandwidth=1 Gbit/s:1 Tbit/s:log:20"),
    *("--networks", "resnet34", "--planners", "owt,accpar"),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def scheduler(environment: dict[str, str] | None = None) -> Iterator[str]:
    """A scheduler process; its address."""
    with scheduler_process(environment) as (address, _):
        yield address


@contextmanager
def scheduler_process(
    environment: dict[str, str] | None = None,
) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """A scheduler's address and its process, so that a test can end this very one."""
    port = free_port()
    args = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show"]
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", *args],
        env=os.environ | (environment or {}),
        cwd=tempfile.gettempdir(),  # not the checkout, which "-m" would put first
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port)
        yield f"tcp://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def wait_for_port(port: int) -> None:
    for _ in range(150):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the scheduler did not start")


@contextmanager
def workers(
    address: str, count: int, folder: Path, others: int = 0
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Worker processes without a nanny, beside others: one that is killed stays dead."""
    args = [address, "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    args += ["--host", "127.0.0.1", "--local-directory", str(folder)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_worker", *args],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(count)
    ]
    try:
        wait_for_workers(address, count + others)
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def wait_for_workers(address: str, count: int) -> None:
    script = (
        "import sys; from distributed import Client; "
        "Client(sys.argv[1], timeout=20).wait_for_workers(int(sys.argv[2]), timeout=30)"
    )
    subprocess.run(
        [sys.executable, "-c", script, address, str(count)], check=True, capture_output=True
    )


def start(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", *SWEEP, *args],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_results(store: Path, at_least: int) -> None:
    for _ in range(400):
        if store.exists():
            with Store(store) as opened:
                if len(opened) >= at_least:
                    return
        time.sleep(0.05)
    pytest.fail("no results came")


def finish(process: subprocess.Popen[str], seconds: float = 60) -> tuple[int, str]:
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    told = (line for line in errors.splitlines(keepends=True) if " done after " not in line)
    return process.returncode, "".join(told)  # a slow machine tells its progress


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("serial") / "t.csv"
    assert finish(start("--jobs", "1", "--output", str(path))) == (0, "")
    return path.read_text()


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(tmp_path: Path, table: str) -> None:
    output, store = tmp_path / "t.csv", tmp_path / "s.db"
    with scheduler() as address, workers(address, 2, tmp_path) as (first, _):
        run = start("--cluster", address, "--output", str(output), "--store", str(store))
        wait_for_results(store, 5)
        first.kill()
        code, errors = finish(run)
    assert (code, [line for line in errors.splitlines() if "accelarray" in line]) == (0, [])
    assert output.read_text() == table
    with Store(store) as opened:
        assert len(opened) == 60


@pytest.mark.slow
def test_all_workers_gone_is_an_error_and_keeps_what_was_finished(
    tmp_path: Path, table: str
) -> None:
    output, store = tmp_path / "t.csv", tmp_path / "s.db"
    with scheduler() as address, workers(address, 2, tmp_path) as both:
        run = start("--cluster", address, "--output", str(output), "--store", str(store))
        wait_for_results(store, 5)
        for worker in both:
            worker.kill()
        code, errors = finish(run)
    assert code == 2
    assert "all workers are gone; finished cases are kept" in errors
    assert "Traceback" not in errors
    with Store(store) as opened:
        kept = len(opened)
    assert 5 <= kept < 60
    assert finish(start("--jobs", "1", "--output", str(output), "--store", str(store)))[0] == 0
    assert output.read_text() == table


def test_a_scheduler_without_workers() -> None:
    with scheduler() as address:
        code, errors = finish(start("--cluster", address))
    assert code == 2
    assert "the scheduler has no workers" in errors


def test_a_scheduler_that_cannot_import_the_package(tmp_path: Path) -> None:
    (tmp_path / "accelarray.py").write_text("raise ImportError('there is no simulator here')")
    elsewhere = tmp_path / "work"
    elsewhere.mkdir()
    with scheduler({"PYTHONPATH": str(tmp_path)}) as address, workers(address, 1, elsewhere):
        code, errors = finish(start("--cluster", address))
    assert code == 2
    assert "the scheduler cannot import" in errors
    assert "Traceback" not in errors


def test_workers_beside_a_users_module_of_our_packages_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "simulator.py").write_text("raise ImportError('the user has a simulator')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with scheduler() as address, workers(address, 1, tmp_path), on_cluster(address) as spread:
        case = Case(load_network("lenet"), "owt", load_array("tpu-v3-8"), 8)
        ((name, outputs),) = spread(run_case, {"one": case})
    assert name == "one"
    assert outputs["iteration_s"] > 0


def test_workers_that_cannot_import_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "accelarray.py").write_text("raise ImportError('there is no simulator here')")
    elsewhere = tmp_path / "work"
    elsewhere.mkdir()
    with scheduler() as address:
        with monkeypatch.context() as patch:
            patch.setenv("PYTHONPATH", str(tmp_path))
            crew = workers(address, 1, elsewhere)
            crew.__enter__()
        try:
            code, errors = finish(start("--cluster", address))
        finally:
            crew.__exit__(None, None, None)
    assert code == 2
    assert "has not accelarray" in errors
    assert "there is no simulator here" in errors


def deadly(case: Case) -> int:
    """Its case of batch 8 ends any worker."""
    if case.batch == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return case.batch


def test_a_case_that_kills_its_worker_is_tried_once_more_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # workers find ``deadly``
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    cases = {batch: Case(load_network("lenet"), "owt", ARRAY, batch) for batch in (8, 9, 10, 11)}
    found: dict[int, int] = {}
    with scheduler() as address, workers(address, 3, tmp_path) as crew:
        words = "lenet, owt, tpu-v3-8, batch 8: its workers were killed, and again with it alone"
        with pytest.raises(RunError, match=words), on_cluster(address) as spread:
            found.update(spread(deadly, cases))
        assert sum(worker.poll() == -signal.SIGKILL for worker in crew) == 2
    assert found == {9: 9, 10: 10, 11: 11}


def test_workers_of_another_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is there at the beginning is told then, one that comes later with its first case."""
    other, cases = tmp_path / "other", {"a": Case(load_network("lenet"), "owt", ARRAY, 8)}
    for name in ("hardware", "workloads", "planners", "simulator", "experiments"):
        shutil.copytree(ROOT / name, other / name)
    shutil.copy(ROOT / "accelarray.py", other)
    (other / "hardware" / "changed.py").write_text("CHANGED = True\n")
    with (
        scheduler() as address,
        workers(address, 1, tmp_path) as (first,),
        on_cluster(address) as spread,
    ):
        monkeypatch.setenv("PYTHONPATH", str(other))
        with workers(address, 1, tmp_path, others=1):
            with pytest.raises(
                RunError, match=r"has accelarray .*, not accelarray .*; install the same"
            ):
                on_cluster(address).__enter__()
            first.kill()
            with pytest.raises(RunError, match=r"it has accelarray .*, not accelarray .*: install"):
                list(spread(run_case, cases))


def test_a_scheduler_that_dies(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    with scheduler_process() as (address, process), workers(address, 1, tmp_path):
        run = start("--cluster", address, "--store", str(store))
        wait_for_results(store, 5)
        process.kill()
        code, errors = finish(run)
    assert "Traceback" not in errors, errors
    assert code == 2
    with Store(store) as opened:
        assert len(opened) >= 5


@contextmanager
def silent_server() -> Iterator[tuple[str, socket.socket]]:
    """It accepts connections and says nothing."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}", server


IMPATIENT = """
import sys
from experiments.cli import main
from experiments.studies.running import cluster

cluster.CONNECT_S = 1.0
sys.exit(main(sys.argv[1:]))
"""


def test_a_server_that_says_nothing() -> None:
    with silent_server() as (address, _):
        run = subprocess.Popen(
            [sys.executable, "-c", IMPATIENT, *SWEEP, "--cluster", address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        code, errors = finish(run)
    assert code == 2
    said = "no scheduler answers there (it accepts connections, but said nothing for 1 s)"
    assert errors == f"accelarray: error: --cluster {address}: {said}\n"


def test_a_scheduler_that_freezes_in_the_middle(tmp_path: Path) -> None:
    store, script = tmp_path / "s.db", IMPATIENT.replace("CONNECT_S = 1", "SILENT_S = 2")
    with scheduler_process() as (address, process), workers(address, 1, tmp_path):
        run = subprocess.Popen(
            [sys.executable, "-c", script, *SWEEP, "--cluster", address, "--store", str(store)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for_results(store, 2)
        process.send_signal(signal.SIGSTOP)
        code, errors = finish(run)
        process.send_signal(signal.SIGCONT)
    assert code == 2
    said = "the scheduler has not answered for 2 s; finished cases are kept in --store"
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].startswith(f"accelarray: error: --cluster {address}: {said}")
    with Store(store) as opened:
        assert len(opened) >= 2


def test_control_c_while_a_server_says_nothing() -> None:
    with silent_server() as (address, server):
        run = start("--cluster", address)
        server.settimeout(60)
        connection, _ = server.accept()
        with connection:
            run.send_signal(signal.SIGINT)
            code, errors = finish(run, 10)
    assert (code, errors) == (130, "accelarray: interrupted\n")
