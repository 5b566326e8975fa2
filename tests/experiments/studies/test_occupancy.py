"""What commands say of memory that overflows and of cores that idle."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import main
from experiments.studies.occupancy import FREES, in_words
from experiments.studies.options import parse_vary
from experiments.studies.sweep import Grid, sweep
from simulator import DEPLOYED
from simulator.engine.operations import CLASSES
from workloads import load_network

SMALL = ["--array", "tpu-v2-8", "--set", "devices.0.hbm.capacity=1 GiB", "--execution", "deployed"]
FULL = ["--batch", "512", *SMALL]
"""resnet18 with 64 samples on each core of half a GiB."""
FAULT = "under data_parallel does not fit in the memory of tpu-v2-8, devices.0.hbm.capacity=1 GiB"
COMMANDS = {
    "simulate": ["simulate", "resnet18", "--planner", "data_parallel", *FULL],
    "speedup": ["speedup", "--networks", "resnet18", "--planners", "data_parallel", *FULL],
    "sweep": [
        *["sweep", "--vary", "batch=8,512", "--networks", "resnet18"],
        *["--planners", "data_parallel", "--jobs", "1", *SMALL],
    ],
    "timeline": [
        *["timeline", "resnet18", "--planner", "data_parallel", "--output", "out.csv", *FULL]
    ],
    "compare": ["compare", "resnet18", "--planners", "data_parallel,accpar", *FULL],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_warning_or_an_error(
    command: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(COMMANDS[command]) == 0
    said = capsys.readouterr().err
    assert said.startswith("accelarray: warning: ")
    assert FAULT in said
    assert "take a smaller batch" in said
    assert "--strict-memory" in said
    (tmp_path / "out.csv").unlink(missing_ok=True)
    assert main([*COMMANDS[command], "--strict-memory"]) == 2
    refused = capsys.readouterr()
    assert refused.out == ""
    assert refused.err.startswith("accelarray: error: resnet18 " + FAULT)
    assert not (tmp_path / "out.csv").exists()


def test_what_fits_is_not_spoken_of(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["speedup", "--networks", "lenet", "--planners", "owt", *SMALL, "--strict-memory"]
    assert main(args) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "memory" not in captured.out


def test_strictness_needs_a_model_with_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "lenet", "--planner", "owt", "--strict-memory"]) == 2
    assert (
        "strict-memory has no meaning under the published execution model"
        in capsys.readouterr().err
    )


def test_simulate_in_json_and_as_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    assert main([*COMMANDS["simulate"], "--format", "json"]) == 0
    out = json.loads(capsys.readouterr().out)
    (memory,) = out["memory"]
    assert (out["fits"], memory["fits"], memory["device"]) == (False, False, "tpu-v2")
    assert out["peak_memory_bytes"] == memory["peak_bytes"] > memory["capacity_bytes"] == 2**29
    fault, *advice = out["warnings"]
    assert FAULT in fault
    assert all(" frees " in said for said in advice[:-1])
    assert "accelarray fit tries several together" in advice[-1]
    assert (memory["cores"], memory["cores_over"], out["idle_cores"]) == (8, 8, 0)
    assert list(memory["by_class"]) == list(CLASSES)
    assert sum(memory["by_class"].values()) == pytest.approx(memory["peak_bytes"])
    assert main(COMMANDS["simulate"]) == 0
    table = capsys.readouterr().out
    assert f", at {memory['operator']}: 8 of 8 cores do not fit" in table
    assert "│ of it" in table
    name = max(memory["by_class"], key=memory["by_class"].__getitem__)
    assert f"most of it {name}: {FREES[name]}" in table
    assert main(["simulate", "lenet", "--planner", "owt", "--format", "json"]) == 0
    published = json.loads(capsys.readouterr().out)
    assert (published["fits"], published["peak_memory_bytes"], published["memory"]) == (
        None,
        None,
        [],
    )


def test_every_class_has_something_that_makes_it_less() -> None:
    assert FREES.keys() == set(CLASSES)
    assert in_words({"weights": 2.0**20, "buffers": 0.0}) == "weights 1.00 MiB"


def test_stages_show_what_the_fullest_is_made_of(capsys: pytest.CaptureFixture[str]) -> None:
    step = ["simulate", "gpt3-125m:layers=2:seq=128", "--array", "tpu-v3-8", "--batch", "8"]
    assert main([*step, "--parallel", "pp=2,tp=4", "--micro-batch", "1"]) == 0
    out = capsys.readouterr().out
    assert out.count("│ of it") == 1
    assert out.count("│ memory, stage") == 2
    assert "│ to free" not in out


def test_speedup_marks_what_idles_and_what_overflows(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["speedup", "--networks", "lenet,alexnet", "--planners", "data_parallel"]
    array = ["--array", "tpu-v2-8", "--execution", "deployed", "--batch", "6"]
    tight = ["--set", "devices.0.hbm.capacity=1 GiB"]
    assert main([*args, *array, *tight]) == 0
    out = capsys.readouterr().out
    assert "data_parallel leaves 2 of 8 cores idle for lenet, alexnet." in out
    assert "data_parallel does not fit in memory for alexnet: this array cannot run it." in out
    assert main([*args, *array, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["idle_cores"], row["cores_over_memory"]) for row in rows] == [(2, 0), (2, 0)]
    assert 14 * 61e6 < rows[1]["peak_memory_bytes"] < 2**30


def test_explain_says_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["explain", "resnet18", "--planner", "data_parallel", *FULL]
    assert main(args) == 0
    assert FAULT in capsys.readouterr().out
    assert main([*args, "--strict-memory"]) == 2
    assert FAULT in capsys.readouterr().err


def test_levels_warn_of_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMMANDS["speedup"], "--levels", "1,2", "--batch", "2048"]) == 0
    assert capsys.readouterr().err.count(FAULT) == 2


def test_columns_of_results() -> None:
    grid = Grid(
        (load_network("lenet"),),
        ("data_parallel",),
        "tpu-v2-8",
        (parse_vary("batch=4,64"), parse_vary("devices.0.hbm.capacity=1 MiB,1 GiB")),
        executed_by=lambda *_: DEPLOYED,
    )
    table = sweep(grid)
    assert list(table["idle_cores"]) == [4, 4, 0, 0]
    assert list(table["cores_over_memory"]) == [4, 0, 8, 0]
    assert str(table["overflow"][0]).startswith("lenet under data_parallel does not fit")
    assert list(table["overflow"].isna()) == [False, True, False, True]
    published = sweep(Grid(grid.networks, ("owt",), "accpar-mixed", (parse_vary("batch=64"),)))
    assert not {"idle_cores", "cores_over_memory"} & set(published)


def test_strictness_is_part_of_a_cases_identity_only_where_asked_for() -> None:
    grid = Grid((load_network("lenet"),), ("owt",), "tpu-v2-8", (parse_vary("batch=4"),))
    strict = replace(DEPLOYED, strict_memory=True)
    grids = (
        replace(grid, executed_by=lambda *_: DEPLOYED),
        replace(grid, executed_by=lambda *_: strict),
    )
    (base, asked), (also_base, strictly) = (one.cases(one.points()[0]) for one in grids)
    assert asked.key != strictly.key
    assert base.key == also_base.key  # nobody asked for data parallelism


GPUS = ("simulate", "gpt2", "--array", "dgx-a100", "--stack", "ngc-2020", "--batch", "64")


@pytest.mark.parametrize("staged", [(), ("--micro-batch", "1", "--set", "devices.0.count=2")])
def test_a_reserve_is_no_room_for_the_step(
    staged: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    axes = ("--parallel", "pp=2" if staged else "tp=1")

    def simulated(*options: str) -> dict[str, Any]:
        assert main([*GPUS, *axes, *staged, "--format", "json", *options]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    usual = simulated()
    assert usual["fits"]
    for one in usual["memory"]:
        assert one["reserve_bytes"] == pytest.approx(0.06 * one["capacity_bytes"])
    held = max(one["peak_bytes"] / one["capacity_bytes"] for one in usual["memory"])
    assert simulated("--memory-reserve", f"{0.999 - held}")["fits"]
    fuller = simulated("--memory-reserve", f"{1.001 - held}")
    assert not fuller["fits"]
    assert "are reserved (--memory-reserve)" in fuller["warnings"][0]
    assert fuller["peak_memory_bytes"] == usual["peak_memory_bytes"]
    assert simulated("--memory-reserve", "0")["memory"][0]["reserve_bytes"] == 0


def test_the_table_has_the_reserve_as_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GPUS, "--parallel", "tp=1"]) == 0
    assert "4.80 GiB that the step may not use" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["1", "-0.1", "100%", "x", "nan"])
def test_a_reserve_is_a_share(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GPUS, "--parallel", "tp=1", f"--memory-reserve={text}"]) == 2
    assert f"memory-reserve={text}: a share of memory" in capsys.readouterr().err
