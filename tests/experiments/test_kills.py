"""Commands that keep what is finished: stopped at any moment, they go on to the same result."""

import json
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.studies.running.store import Store
from tests.experiments.measured.some_rows import SMALL, table
from tests.experiments.test_ending import PROC, members

WITHIN_S = 2.0
"""After SIGINT and SIGTERM a command has ended; on a machine that has nothing else to do."""
PATIENCE = 5
"""How many times as long a busy machine may take."""
ROWS = table(*(SMALL | {"id": f"small/{i}", "seq": 256 + 16 * i, "gbs": 16} for i in range(6)))
STORED = "--store", "kept.db"
STUDY = "--networks", "lenet,alexnet", "--planners", "owt", "--array", "tpu-v3-8"
GRID = "--array", "tpu-v3-8", "--vary", "seed=1,2,3,4,5,6", "--vary", "method=ad-psgd,prague"
COMMANDS = {
    "fit": ["fit", "gpt2:layers=2:seq=16", "--array", "tpu-v3-8", "--batch", "8", *STORED],
    "calibrate": ["calibrate", "rows.csv", *STORED],
    "report": ["report", *STUDY, "--execution", "published", *STORED],
    "reproduce": ["reproduce", "hypar", "--figures", "5", *STORED],
    "train": ["train", "lenet", "--workers", "4", "--iterations", "30", *GRID, *STORED],
    "compare": [
        *("train", "lenet", "--workers", "4", "--iterations", "60", "--array", "tpu-v3-8"),
        *("--compare", "ad-psgd,prague,hop,ssp", "--slowdown", "lognormal:0.7", *STORED),
    ],
    "validate": ["validate", "--rows", "rows.csv", "--calibration", "rows.csv", *STORED],
    "design": ["design", "lenet", "--space", "small", "--budget", "200", *STORED],
}
"""Each writes result.json, or result.html."""


def output(name: str) -> str:
    return "result.html" if name == "report" else "result.json"


def start(name: str, folder: Path) -> "subprocess.Popen[str]":
    words = [*COMMANDS[name], *(() if name == "calibrate" else ("--output", output(name)))]
    words += ["--format", "json"] if name == "calibrate" else []
    with (folder / "out.txt").open("w") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "accelarray", *words],
            cwd=folder,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def result(name: str, folder: Path) -> object:
    """What came of a command that ended well, without when and how long."""
    if name == "report":
        lines = re.sub(
            r"\d{4}-\d\d-\d\dT[\d:+]+", "", (folder / output(name)).read_text()
        ).splitlines()
        return [line for line in lines if 'aria-label="Versions"' not in line]
    found = json.loads((folder / ("out.txt" if name == "calibrate" else output(name))).read_text())
    if name == "design":
        del found["search_s"]
    return found


def listens(process: "subprocess.Popen[str]") -> bool:
    """Whether it hears SIGTERM by now, or has ended."""
    try:
        status = (PROC / str(process.pid) / "status").read_text()
    except OSError:
        return True
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return process.poll() is not None or bool(caught >> (signal.SIGTERM - 1) & 1)


def stopped(name: str, folder: Path, after_s: float, number: int) -> None:
    """Run a command and stop it after a while; see that it leaves nothing behind."""
    process = start(name, folder)
    try:
        while not listens(process):
            time.sleep(0.01)
        time.sleep(after_s)
        process.send_signal(number)
        sent = time.monotonic()
        _, errors = process.communicate(timeout=60)
        took_s = time.monotonic() - sent
        while members(process.pid) and time.monotonic() < sent + 10:
            time.sleep(0.02)
        assert members(process.pid) == []
    finally:
        if process.poll() is None:
            process.kill()
    codes = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -signal.SIGKILL}
    if process.returncode == -number != -signal.SIGKILL:  # it was leaving: its result is there
        assert result(name, folder)
        return
    assert process.returncode in (codes[signal.Signals(number)], 0), (number, process.returncode)
    assert took_s < WITHIN_S * PATIENCE
    assert "Traceback" not in errors
    if process.returncode in (130, 143):
        assert errors.count("accelarray: interrupted") == 1
        assert errors.splitlines()[-1].startswith("accelarray: interrupted")
        names = {path.name for path in folder.iterdir()}
        assert names <= {
            "rows.csv",
            "out.txt",
            output(name),
            "kept.db",
            "kept.db-wal",
            "kept.db-shm",
        }


def kills(name: str, folder: Path, count: int, seed: int) -> None:
    """Stop it so often, then let it go on: the result is that of a run that nobody disturbed."""
    rng = random.Random(f"{seed} {name}")  # noqa: S311
    alone, again = folder / "alone", folder / "again"
    for place in (alone, again):
        place.mkdir()
        (place / "rows.csv").write_text(ROWS)
    began = time.monotonic()
    process = start(name, alone)
    assert process.communicate()[1].count("error") == process.returncode == 0
    took_s = time.monotonic() - began
    with Store(alone / "kept.db", read_only=True) as store:
        kept = len(store)
    assert kept > 1
    for _ in range(count):
        number = rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
        stopped(name, again, took_s * rng.random(), number)
        if (again / output(name)).exists():
            assert result(name, again) == result(name, alone)
    process = start(name, again)
    process.communicate()
    assert process.returncode == 0
    assert result(name, again) == result(name, alone)
    with Store(again / "kept.db", read_only=True) as store:
        assert len(store) == kept


pytestmark = pytest.mark.skipif(not PROC.is_dir(), reason="looks into /proc")


@pytest.mark.parametrize("name", ["reproduce", "compare"])
def test_a_command_that_is_stopped_goes_on(name: str, tmp_path: Path) -> None:
    kills(name, tmp_path, 2, 36)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_two_hundred_kills(name: str, tmp_path: Path) -> None:
    kills(name, tmp_path, 200 // len(COMMANDS) + 1, 1)
