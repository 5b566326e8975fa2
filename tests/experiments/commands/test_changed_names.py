"""A changed array's name wherever it is shown; its results are kept as before."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import accelarray
from experiments.cli import main
from experiments.studies.case import Case
from hardware import load_array
from workloads import load_network

SET = ["--set", "devices.0.count=2", "--set", "devices.1.count=2"]
NAME = "accpar-mixed, devices.0.count=2, devices.1.count=2"
STEP = ["lenet", "--planner", "owt", *SET]
STUDY = ["--networks", "lenet", "--planners", "owt", *SET]
COMMANDS = {
    "simulate": ["simulate", *STEP],
    "explain": ["explain", *STEP],
    "plan": ["plan", *STEP],
    "compare": ["compare", "lenet", "--planners", "owt,accpar", *SET],
    "speedup": ["speedup", *STUDY],
    "collective": ["collective", "all-reduce", "--bytes", "1 MB", *SET],
    "show": ["show", "accpar-mixed", *SET],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_tables_and_json(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    assert main(COMMANDS[command]) == 0
    assert NAME in " ".join(capsys.readouterr().out.split())
    assert main([*COMMANDS[command], "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["name"] if command == "show" else found["array"]) == NAME


def test_a_sweep_names_what_is_not_varied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    assert main(["sweep", *STUDY, "--vary", "network.bandwidth=1 GB/s,2 GB/s"]) == 0
    assert NAME in capsys.readouterr().out
    vary = ["--vary", "devices.0.count=1,2"]
    assert main(["sweep", *STUDY[:4], *SET[2:], *vary, "--output", str(file)]) == 0
    rows = json.loads(file.read_text())
    assert {row["array"] for row in rows} == {"accpar-mixed, devices.1.count=2"}
    assert [row["devices.0.count"] for row in rows] == [1, 2]


def test_pictures_and_reports(tmp_path: Path) -> None:
    picture, page = tmp_path / "x.svg", tmp_path / "x.html"
    assert main(["timeline", *STEP, "--output", str(picture)]) == 0
    assert NAME in picture.read_text()
    assert main(["report", *STUDY, "--output", str(page)]) == 0
    text = page.read_text()
    assert f"<h3>{NAME}</h3>" in text
    assert "128 TPU-v2 and 128 TPU-v3" not in text  # the description of what it was


def test_stored_results_are_found_under_the_keys_that_they_had() -> None:
    array = load_array("accpar-mixed", SET[1::2])
    case = Case(load_network("lenet"), "owt", array, 512)
    assert case.inputs["array"] == "accpar-mixed"
    assert case.inputs["devices.0.count"] == "2"
    assert array.name not in case.inputs.values()
    assert case.key == replace(case, array=replace(array, name="accpar-mixed")).key


def test_steps_of_one_array_changed_can_be_compared() -> None:
    first = accelarray.simulate("lenet", "owt")
    second = accelarray.simulate("lenet", "owt", set={"network.bandwidth": "100 Gbit/s"})
    found = accelarray.difference(first, second)
    assert "accpar-mixed, batch 512" in found.title()
    assert found.difference.planners == ("owt", "network.bandwidth=100 Gbit/s")
