"""Cores with several units in pictures, traces, explanations and reports."""

import json
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.pictures.lanes import Slice, tracks
from planners.order import Kind, Phase
from simulator import Operation
from tests.trace_checker import check

STEP = ("lenet", "--array", "wham-1", "--batch", "16")
ONE = ("--planner", "data_parallel")


def slices(*spans: tuple[int, int]) -> list[Slice]:
    operation = Operation(Kind.COMPUTE, Phase.FORWARD, "x")
    return [Slice(start, end, operation) for start, end in spans]


def test_rows_are_as_they_were_unless_something_overlaps() -> None:
    alone = slices((0, 2), (2, 2), (2, 5))
    assert tracks(alone) == [alone]
    both = slices((0, 2), (1, 3), (2, 5))
    assert tracks(both) == [[both[0], both[2]], [both[1]]]


def test_a_trace_has_a_thread_for_each_unit(tmp_path: Path) -> None:
    path = str(tmp_path / "step.json")
    assert main(["timeline", *STEP, *ONE, "--output", path]) == 0
    events = json.loads(Path(path).read_text())["traceEvents"]
    check(Path(path))
    threads = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"matrix, 1 x", "vector, 1 x"} <= threads
    done = [e for e in events if e["ph"] == "X" and e["args"]["kind"] == "compute"]
    assert len({e["tid"] for e in done}) == 2


def test_a_timeline_has_a_lane_for_each_unit(tmp_path: Path) -> None:
    path = tmp_path / "step.svg"
    assert main(["timeline", *STEP, *ONE, "--output", str(path)]) == 0
    drawn = path.read_text()
    assert "matrix of 1 core" in drawn
    assert "vector of 1 core" in drawn


def test_an_explanation_names_units_and_its_path_is_the_step(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["explain", *STEP, *ONE, "--format", "json", "--plot", str(tmp_path / "why.svg")]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    path = found["critical_path"]
    assert sum(path["bounds_s"].values()) == pytest.approx(found["iteration_s"])
    units = {unit["unit"]: unit for unit in found["units"]}
    assert {"matrix", "vector", "hbm"} == units.keys()
    assert all(0 < unit["busy"] <= 1 for unit in units.values())
    assert 0 < units["matrix"]["of_peak"] <= 1
    assert units["vector"]["of_peak"] is None


def test_a_report_has_them(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ["--networks", "lenet", "--planners", "data_parallel,owt", "--timeline", "lenet"]
    assert main(["report", *words, *STEP[1:], "--output", str(page)]) == 0
    assert '"matrix of ' in page.read_text()
