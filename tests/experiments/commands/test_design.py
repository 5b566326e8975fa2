"""The command: JSON, the winner as a device, its store through a kill, mistakes in one line."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.studies.running.store import Store
from hardware import load_device

SMALL = """
kind = "space"
clock = "700 MHz"
[matrix]
count = [1, 2, 4]
width = [32, 128]
depth = [32, 128]
[vector]
count = [1, 4]
width = [128]
[buffer]
size = ["8 MiB", "32 MiB"]
"""


@pytest.fixture
def space(tmp_path: Path) -> str:
    path = tmp_path / "space.toml"
    path.write_text(SMALL)
    return str(path)


def data_of(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main([*words, "--format", "json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_the_result_as_json(space: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = data_of(capsys, "design", "alexnet", "--space", space, "--baselines", "--top", "2")
    assert found["networks"] == ["alexnet"]
    assert (found["designs"], found["space"]) == (48, "space")
    winner, base = found["winner"], found["base"]
    assert isinstance(winner, dict)
    assert isinstance(base, dict)
    own, other = (d["networks"]["alexnet"] for d in (winner, base))
    assert winner["value"] == pytest.approx(other["iteration_s"] / own["iteration_s"])
    assert own["samples_per_s"] == pytest.approx(64 / own["iteration_s"])
    assert winner["area_mm2"] <= found["area_mm2"]
    assert winner["power_w"] <= found["power_w"]
    candidates, rows = found["candidates"], found["baselines"]
    assert isinstance(candidates, list)
    assert len(candidates) == 2
    assert isinstance(rows, list)
    assert [row["search"] for row in rows] == ["wham", "random", "exhaustive"]
    assert rows[0]["estimated_value"] == found["best_estimate"]
    assert rows[2]["estimated_value"] >= max(row["estimated_value"] for row in rows)


def test_the_winner_is_a_device_that_commands_accept(
    space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its step is the search's, to the picosecond."""
    device = str(tmp_path / "winner.toml")
    plot = str(tmp_path / "pareto.svg")
    words = ["design", "resnet18", "--space", space, "--set", "devices.0.hbm.bandwidth=600 GB/s"]
    found = data_of(capsys, *words, "--device", device, "--plot", plot)
    assert (tmp_path / "pareto.svg").read_text().startswith("<?xml")
    units = load_device(device)[0].units
    assert units is not None
    winner = found["winner"]
    assert isinstance(winner, dict)
    (design,) = winner["designs"]
    assert units.matrix[0].width == design["matrix_width"]
    assert units.buffer_bytes == design["buffer_bytes"]
    words = ["simulate", "resnet18", "--planner", "data_parallel", "--array", "wham-1"]
    step = data_of(capsys, *words, "--batch", "64", "--set", f"devices.0.device={device}")
    assert step["iteration_s"] == winner["networks"]["resnet18"]["iteration_s"]


def test_several_networks_together_or_each(space: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["design", "lenet", "alexnet", "--space", space]
    together = data_of(capsys, *words)["winner"]
    assert isinstance(together, dict)
    assert list(together["networks"]) == ["lenet", "alexnet"]
    gains = [n["iteration_s"] for n in together["networks"].values()]
    assert len(gains) == 2
    each = data_of(capsys, *words, "--each")["designs"]
    assert isinstance(each, list)
    assert [one["networks"] for one in each] == [["lenet"], ["alexnet"]]


def test_stages_are_run_on_the_engine(space: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The winner of two stages is the fastest of all candidates end to end, as simulate has it.

    All pairs of the best two of each stage are among them.
    """
    words = ["--array", "wham-1", "--set", "devices.0.count=2", "--batch", "64"]
    words += ["--stages", "2", "--micro-batches", "4", "--planner", "data_parallel"]
    found = data_of(capsys, "design", "vgg11", "--space", space, "--top", "2", *words)
    candidates = found["candidates"]
    assert isinstance(candidates, list)
    values = [c["value"] for c in candidates]
    assert values == sorted(values, reverse=True)
    base = found["base"]
    assert isinstance(base, dict)
    step = data_of(capsys, "simulate", "vgg11", *words)
    assert base["networks"]["vgg11"]["iteration_s"] == step["iteration_s"]
    pairs = [c["designs"] for c in candidates if len(c["designs"]) == 2]
    assert len(pairs) >= 2
    assert all(one != other for one, other in pairs)


def test_kept_evaluations_are_not_made_again(
    space: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(tmp_path / "kept.db")
    words = ["design", "lenet", "--space", space, "--store", store]
    first = data_of(capsys, *words)
    with Store(store) as kept:
        rows = kept.rows()
    assert len(rows) == first["evaluations"]
    again = data_of(capsys, *words)
    assert again["winner"] == first["winner"]
    with Store(store) as kept:
        assert [row["key"] for row in kept.rows()] == [row["key"] for row in rows]
    data_of(capsys, *words, "--batch", "32")
    with Store(store) as kept:
        assert len(kept) > len(rows)


def test_a_kill_in_the_middle_loses_nothing_that_was_written(tmp_path: Path) -> None:
    store = tmp_path / "kept.db"
    words = ["design", "lenet", "--space", "small", "--search", "exhaustive"]
    command = [sys.executable, "-m", "experiments.cli", *words, "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=dict(os.environ)) as process:
        while process.poll() is None:
            if store.exists():
                with Store(store) as kept:
                    if len(kept) >= 100:
                        break
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    with Store(store) as kept:
        before = {row["key"]: row["seconds"] for row in kept.rows()}
    assert 100 <= len(before) < 5865
    done = subprocess.run(command, capture_output=True, check=True, env=dict(os.environ))
    assert b"5,865 evaluations" in done.stdout
    with Store(store) as kept:
        after = {row["key"]: row["seconds"] for row in kept.rows()}
    assert len(after) == 5865
    assert before.items() <= after.items()
