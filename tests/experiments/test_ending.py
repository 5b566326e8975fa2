"""How commands and their workers end, on a real sweep in a process group of its own."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from experiments import cli
from experiments.ending import stoppable, undisturbed
from experiments.studies.running.store import Store

PROC = Path("/proc")
SWEEP = (
    *("sweep", "--vary", "network.bandwidth=1 Gbit/s:1 Tbit/s:log:150"),
    *("--networks", "resnet34", "--planners", "owt,accpar", "--jobs", "2"),
)


def start(folder: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", *SWEEP, "--store", str(folder / "s.db")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def members(group: int) -> list[str]:
    """The commands of a process group's processes, but those that have ended."""
    found = []
    for folder in PROC.iterdir():
        if not folder.name.isdigit():
            continue
        try:
            state, _, of = folder.joinpath("stat").read_text().rpartition(")")[2].split()[:3]
            command = folder.joinpath("cmdline").read_text()
        except OSError:
            continue
        if int(of) == group and state != "Z":
            found.append(command.replace("\0", " "))
    return found


def workers_start(process: "subprocess.Popen[str]", folder: Path) -> bool:  # noqa: ARG001
    return len(members(process.pid)) > 2


def results_come(process: "subprocess.Popen[str]", folder: Path) -> bool:  # noqa: ARG001
    if not (folder / "s.db").exists():
        return False
    with Store(folder / "s.db") as store:
        return len(store) >= 2


def to_parent(process: "subprocess.Popen[str]", number: int) -> None:
    process.send_signal(number)


def to_group(process: "subprocess.Popen[str]", number: int) -> None:
    os.killpg(process.pid, number)


@pytest.mark.skipif(not PROC.is_dir(), reason="looks into /proc")
@pytest.mark.parametrize(
    ("when", "send", "number", "code"),
    [
        (workers_start, to_group, signal.SIGINT, 130),
        (workers_start, to_parent, signal.SIGTERM, 143),
        (results_come, to_parent, signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_workers_end_with_their_parent_and_say_nothing(
    when: Callable[["subprocess.Popen[str]", Path], bool],
    send: Callable[["subprocess.Popen[str]", int], None],
    number: int,
    code: int,
    tmp_path: Path,
) -> None:
    process = start(tmp_path)
    try:
        deadline = time.monotonic() + 60
        while not when(process, tmp_path):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        if when is workers_start:
            time.sleep(0.1)  # now they import
        assert workers_start(process, tmp_path)
        send(process, number)
        _, errors = process.communicate(timeout=20)
        ended = time.monotonic()
        while members(process.pid) and time.monotonic() < ended + 5:
            time.sleep(0.02)
        assert members(process.pid) == []
    finally:
        if members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == code
    assert "Traceback" not in errors
    if number != signal.SIGKILL:
        said = [line for line in errors.splitlines() if "warning: 450 steps will take" not in line]
        kept = f"what is finished is in {tmp_path / 's.db'}, and the same command goes on"
        assert said == [f"accelarray: interrupted; {kept}"]


INTERRUPTED = """
import sys
import accelarray
import experiments.cli

def main():
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        print("said")
        return 143

experiments.cli.main = main
sys.exit(accelarray._main())
"""


def test_the_exit_code_is_ours_where_an_interruption_met_the_exec_of_a_text(tmp_path: Path) -> None:
    """Python would end a module by SIGINT, as dataclasses are made by ``exec``."""
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    words = [sys.executable, "-m", "interrupted"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, "said\n", "")


def test_sigterm_is_an_interruption_and_afterwards_what_it_was() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stoppable() as came:
        assert not came
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert came == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_that_became_another_error(
    number: int, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's compiler says SyntaxError where a signal meets its import of unicodedata."""

    def parse(argv: object) -> NoReturn:  # noqa: ARG001
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            raise SyntaxError("can't load unicodedata module") from None
        raise AssertionError("no signal came")

    monkeypatch.setattr(cli, "parse", parse)
    assert cli.main(["list", "arrays"]) == code
    assert capsys.readouterr().err == "accelarray: interrupted\n"


def test_signals_are_left_alone_outside_the_main_thread() -> None:
    seen: list[bool] = []

    def run() -> None:
        before = signal.getsignal(signal.SIGTERM)
        with stoppable():
            seen.append(signal.getsignal(signal.SIGTERM) is before)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [True]


def test_signals_wait_and_come_in_the_end() -> None:
    reached = []

    def interrupted() -> None:
        with undisturbed():
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == ["the end"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
