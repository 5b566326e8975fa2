"""``accelarray speedup``: its tables and files, what it keeps, and what it says when it cannot."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import main
from experiments.results.formats import csv_of, rows_of
from experiments.results.speedups import ComparisonResult, ScalingResult
from experiments.studies.case import Case
from experiments.studies.comparison import Level
from experiments.studies.published_values import Published
from experiments.studies.running import runner
from experiments.studies.running.outputs import Outputs, run_case
from experiments.studies.running.store import Store
from experiments.studies.speedups import Comparison, Row

SMALL = ("--set", "devices.0.count=2", "--set", "devices.1.count=2")
ROWS = (
    Row("net", "data_parallel", 2.0, 1.0, energy_j=8.0, energy_efficiency=1.0, traffic_bytes=4e9),
    Row("net", "mine", 1.0, 2.0, energy_j=2.0, energy_efficiency=4.0, traffic_bytes=1e9),
    Row("b", "data_parallel", 8.0, 1.0, energy_j=8.0, energy_efficiency=1.0, traffic_bytes=1e9),
    Row("b", "mine", 1.0, 8.0, energy_j=8.0, energy_efficiency=1.0, traffic_bytes=4e9),
)
RESULT = Comparison("array", 64, ROWS, {})
ALL = ("time", "energy", "traffic")


def to_table(result: Comparison) -> str:
    return ComparisonResult(result, {}).summary()


def levels_to_table(array: str, batch: int, sweep: list[Level]) -> str:
    return ScalingResult(array, batch, sweep).summary()


def cells(table: str) -> list[list[str]]:
    """The rows of a drawn table, without its lines."""
    return [
        [cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")]
        for line in table.splitlines()
        if line.startswith(("│", "┃"))
    ]


def test_the_table_of_speedups() -> None:
    assert cells(to_table(RESULT)) == [
        ["network", "data_parallel [s]", "mine"],
        ["net", "2.000000", "2.000"],
        ["b", "8.000000", "8.000"],
        ["geometric mean", "", "4.000"],
    ]


def test_many_planners_stand_in_several_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole in 80 columns: each with the networks, in the planners' order."""
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"planner_number_{i}" for i in range(7)]
    rows = tuple(Row("net", name, 1.0, 1.0 + i) for i, name in enumerate(["data_parallel", *names]))
    drawn = to_table(Comparison("array", 64, rows, {}))
    assert max(map(len, drawn.splitlines())) <= 80
    table = cells(drawn)
    heads = [head for line in table if line[0] == "network" for head in line[1:]]
    assert heads == ["data_parallel [s]", *names]
    numbers = [cell for line in table if line[0] == "net" for cell in line[1:]]
    assert numbers == ["1.000000", *(f"{2 + i:.3f}" for i in range(7))]


def test_the_papers_averages_stand_under_ours() -> None:
    paper = {"mine": Published(3.2, "printed")}
    table = cells(to_table(replace(RESULT, published=paper)))
    assert table[-2:] == [["the paper's", "", "3.20"], ["difference", "", "+25.0%"]]


def test_the_fast_devices_alone_have_columns_where_every_row_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    alone = tuple(
        replace(row, slow_share=0.25, fast_alone_speedup=3.0) if row.planner == "mine" else row
        for row in ROWS
    )
    table = cells(to_table(replace(RESULT, rows=alone)))
    head = ["network", "data_parallel [s]", "mine", "mine: slow share", "mine: fast alone"]
    assert table[0] == head
    assert table[1] == ["net", "2.000000", "2.000", "25.00%", "3.000"]
    assert table[-1] == ["geometric mean", "", "4.000", "", "3.000"]
    one = (*alone[:3], replace(alone[3], fast_alone_speedup=None))
    assert len(cells(to_table(replace(RESULT, rows=one)))[0]) == 3


def test_tables_of_the_other_metrics() -> None:
    text = to_table(replace(RESULT, metrics=("energy", "traffic")))
    assert "Speedup" not in text
    energy, traffic = cells(text)[:4], cells(text)[4:]
    assert energy == [
        ["network", "data_parallel [J]", "mine"],
        ["net", "8", "4.000"],
        ["b", "8", "1.000"],
        ["geometric mean", "", "2.000"],
    ]
    assert traffic == [
        ["network", "data_parallel [GB]", "mine [GB]"],
        ["net", "4", "1"],
        ["b", "1", "4"],
        ["geometric mean", "2", "2"],
    ]


@pytest.mark.parametrize("joules", [None, 0.0])
def test_what_has_no_energy_is_a_dash_and_null(joules: float | None) -> None:
    rows = tuple(replace(row, energy_j=joules, energy_efficiency=None) for row in ROWS)
    result = replace(RESULT, rows=rows, metrics=ALL)
    text = to_table(result)
    assert "nan" not in text
    assert cells(text)[5][1:] == ["0" if joules == 0 else "-", "-"]
    data = ComparisonResult(result, {}).to_dict()
    assert data["geomean_energy"] == {"data_parallel": None, "mine": None}
    assert {row["energy_efficiency"] for row in data["rows"]} == {None}
    assert data["geomean_traffic"]["mine"] == pytest.approx(2e9)
    assert "No energy efficiency of data_parallel, mine for net, b" in data["notes"][-1]
    level = Level(1, 2, result)
    assert "nan" not in levels_to_table("array", 64, [level])
    (shown,) = ScalingResult("array", 64, [level]).to_dict()["levels"]
    assert shown["geomean_energy"]["mine"] is None


def test_energy_of_a_step_without_joules_is_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a model counts, the commands live with nothing."""

    def without(case: Case) -> Outputs:
        return run_case(case) | {"energy_j": 0.0}

    monkeypatch.setattr(runner, "run_case", without)
    args = ["speedup", "--networks", "hypar-lenet-c", "--array", "hypar-16", "--batch", "256"]
    args += ["--metrics", "energy"]
    assert main([*args, "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {row["energy_efficiency"] for row in data["rows"]} == {None}
    assert {row["energy_j"] for row in data["rows"]} == {0.0}
    for more in (
        [],
        ["--format", "csv"],
        ["--levels", "1,2"],
        ["--levels", "1", "--format", "json"],
    ):
        assert main([*args, *more]) == 0
        assert "nan" not in capsys.readouterr().out


def test_bytes_that_nobody_moves_have_a_mean(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["speedup", "--networks", "lenet", "--array", "accpar-homogeneous"]
    args += ["--set", "devices.0.count=1", "--metrics", "traffic", "--format", "json"]
    assert main(args) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data["geomean_traffic"].values()) == {0.0}


def test_csv_has_a_line_a_row() -> None:
    rows = rows_of(replace(RESULT, metrics=("time", "traffic")).to_frame())
    lines = list(csv.reader(io.StringIO(csv_of(rows))))
    assert lines[0][:4] == ["network", "planner", "iteration_s", "speedup"]
    assert lines[0][-1] == "traffic_bytes"
    assert lines[1] == ["net", "data_parallel", "2.0", "1.0", "", "", "4000000000.0"]
    assert len(lines) == 5


def test_sizes_as_csv_table_and_json() -> None:
    sweep = [Level(n, 2**n, replace(RESULT, array=f"a{n}")) for n in (3, 11)]
    table = cells(levels_to_table("array", 64, sweep))
    assert table == [
        ["levels", "accelerators", "data_parallel", "mine"],
        ["3", "8", "1.000", "4.000"],
        ["11", "2,048", "1.000", "4.000"],
    ]
    title = " ".join(levels_to_table("array", 64, sweep).split())
    assert "array, geometric mean of 2 networks, batch 64" in title
    rows = list(
        csv.DictReader(io.StringIO(csv_of(rows_of(ScalingResult("array", 64, sweep).to_frame()))))
    )
    assert [(row["levels"], row["accelerators"]) for row in rows[::4]] == [
        ("3", "8"),
        ("11", "2048"),
    ]
    data = ScalingResult("array", 64, sweep).to_dict()
    assert [level["levels"] for level in data["levels"]] == [3, 11]
    assert data["levels"][0]["rows"] == [row.values() for row in ROWS]


def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cases that are run from now on."""
    found: list[str] = []

    def counting(case: Case) -> Outputs:
        found.append(f"{case.network.name} {case.planner} {case.array.name}")
        return run_case(case)

    monkeypatch.setattr(runner, "run_case", counting)
    return found


COMMANDS: dict[str, tuple[str, ...]] = {
    "one array": ("speedup", *SMALL, "--networks", "lenet,alexnet"),
    "deployed": (
        *("speedup", "--array", "tpu-v3-8", "--execution", "deployed", "--batch", "64"),
        *("--networks", "lenet", "--metrics", "time,traffic"),
    ),
    "levels": ("speedup", "--levels", "1-3", "--networks", "lenet", "--planners", "owt,accpar"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("shape", ["table", "json", "csv"])
def test_from_a_store_it_says_the_same_without_running_anything(
    command: tuple[str, ...],
    shape: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = []
    counted = ran(monkeypatch)
    for more in ((), ("--store", str(tmp_path / "s.db")), ("--store", str(tmp_path / "s.db"))):
        before = len(counted)
        assert main([*command, "--format", shape, *more]) == 0
        shown.append(capsys.readouterr())
        new = len(counted) - before
    assert new == 0
    assert shown[0] == shown[1] == shown[2]


def test_processes_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for jobs in ("1", "2"):
        assert main([*COMMANDS["one array"], "--jobs", jobs]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_one_store_serves_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A comparison, the size of it that is the array's own, a sweep and a report."""
    store = ["--store", str(tmp_path / "s.db"), "--networks", "lenet"]
    counted = ran(monkeypatch)
    assert main(["speedup", *SMALL, *store]) == 0
    assert len(counted) == 5  # AccPar on the faster half alone among them
    assert main(["speedup", "--levels", "2", *store]) == 0
    assert main(["sweep", "--vary", "batch=512", *SMALL, *store]) == 0
    page = tmp_path / "page.html"
    assert main(["report", *SMALL, *store, "--output", str(page)]) == 0
    assert len(counted) == 5
    assert "Results in the store" in page.read_text()
    with Store(tmp_path / "s.db") as kept:
        assert len(kept) == 5
    capsys.readouterr()


def test_unfolded_runs_are_cases_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who asks for every core to be simulated is not shown what was found by classes."""
    counted = ran(monkeypatch)
    args = [*COMMANDS["one array"], "--store", str(tmp_path / "s.db"), "--format", "json"]
    assert main(args) == 0
    folded = json.loads(capsys.readouterr().out)
    some = len(counted)
    assert main([*args, "--unfolded"]) == 0
    every = json.loads(capsys.readouterr().out)
    assert len(counted) == 2 * some
    key = "speedup"
    assert [row[key] for row in every["rows"]] == [row[key] for row in folded["rows"]]


def test_an_interrupt_with_a_store_says_where_the_rest_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(case: Case) -> Outputs:
        if case.network.name == "vgg11" and case.planner == "hypar":
            raise KeyboardInterrupt
        return run_case(case)

    monkeypatch.setattr(runner, "run_case", interrupted)
    file, plot = tmp_path / "s.db", tmp_path / "p.png"
    args = ["speedup", *SMALL, "--networks", "lenet,vgg11", "--store", str(file)]
    assert main([*args, "--plot", str(plot)]) == 130
    captured = capsys.readouterr()
    assert captured.err == (
        f"accelarray: interrupted after 1 of 2 networks; {plot} is as it was; "
        f"finished cases are in {file}\n"
    )
    assert "lenet" in captured.out
    assert "vgg11" not in captured.out
    assert not plot.exists()
    with Store(file) as store:
        assert len(store) == 5 + 2
    monkeypatch.undo()
    counted = ran(monkeypatch)
    assert main(args) == 0
    assert len(counted) == 3  # HyPar, AccPar and AccPar alone


@pytest.mark.parametrize("more", [["--levels", "2"], []])
def test_what_does_not_fit_is_warned_of_from_a_store_too(
    more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["speedup", "--networks", "resnet18", "--planners", "owt", "--array", "tpu-v3-8"]
    args += ["--execution", "deployed", "--set", "devices.0.hbm.capacity=64 MiB", *more]
    warnings: list[Any] = []
    for _ in range(2):
        assert main([*args, "--store", str(tmp_path / "s.db")]) == 0
        warnings.append(capsys.readouterr().err.splitlines())
    assert warnings[0] == warnings[1]
    assert [line.partition(" does not fit")[0] for line in warnings[0]] == [
        f"accelarray: warning: resnet18 under {planner}" for planner in ("data_parallel", "owt")
    ]


def test_a_name_twice_is_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["speedup", *SMALL, "--networks", "lenet,lenet"]) == 0
    assert capsys.readouterr().err == ""
