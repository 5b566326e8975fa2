"""Every command that prints a table prints it in four forms; a file's ending says which."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

import accelarray as aa
from experiments.cli import main
from experiments.results.formats import csv_of, flat, markdown_of
from experiments.studies.running.store import Store
from tests.experiments.measured import some_rows

STEP = ["lenet", "--planner", "owt", "--array", "tpu-v3-8"]
COMMANDS = {
    "list": ["list", "arrays"],
    "show a network": ["show", "lenet"],
    "show an array": ["show", "tpu-v3-8"],
    "show a planner": ["show", "owt"],
    "speedup": ["speedup", "--networks", "lenet", "--planners", "owt"],
    "levels": ["speedup", "--networks", "lenet", "--planners", "owt", "--levels", "2"],
    "simulate": ["simulate", *STEP],
    "explain": ["explain", *STEP],
    "plan": ["plan", *STEP],
    "compare": ["compare", "lenet", "--planners", "owt,accpar"],
    "sweep": ["sweep", "--networks", "lenet", "--planners", "owt", "--vary", "batch=8,16"],
    "results": ["results", "list", "--store", "s.db"],
    "collective": ["collective", "all-reduce", "--bytes", "1 MB", "--array", "tpu-v3-8"],
    "reproduce": ["reproduce", "hypar", "--figures", "5"],
    "validate": ["validate", "--rows", "rows.csv", "--calibration", "rows.csv"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_the_ending_says_which_form(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store("s.db") as store:
        store.put("k", {"network": "lenet", "batch": 8}, {"iteration_s": 0.5})
    Path("rows.csv").write_text(some_rows.table(some_rows.SMALL))
    for ending in ("json", "csv", "md", "txt"):
        assert main([*command, "--output", f"x.{ending}"]) == 0
    capsys.readouterr()
    json.loads(Path("x.json").read_text())
    rows = list(csv.reader(Path("x.csv").read_text().splitlines(keepends=True)))
    assert len(rows) > 1
    assert len({len(row) for row in rows}) == 1
    bars = [line for line in Path("x.md").read_text().splitlines() if line.startswith("|")]
    assert set(bars[1]) <= set("|-: ")
    assert any(line[0] in "┏┌" for line in Path("x.txt").read_text().splitlines() if line)


def test_a_form_without_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "x.CSV"
    assert main([*COMMANDS["sweep"], "--output", str(target)]) == 0
    capsys.readouterr()
    assert main([*COMMANDS["sweep"], "--format", "csv"]) == 0
    assert capsys.readouterr().out == target.read_text()


def test_a_wish_for_two_forms_at_once_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for args, words in (
        (["--format", "json", "--output", "x.csv"], "two formats; leave --format out"),
        (["--output", "x.parquet"], "this command has no parquet; it writes text (.txt), .json"),
        (["--output", "x.png"], "this command has no png; it writes text (.txt), .json, .csv, .md"),
    ):
        assert main(["list", "arrays", *args]) == 2
        assert words in capsys.readouterr().err
    assert main([*COMMANDS["sweep"], "--format", "parquet"]) == 2
    assert "--format parquet needs --output FILE" in capsys.readouterr().err
    assert main([*COMMANDS["sweep"], "--output", "x.svg"]) == 2
    assert ".csv, .md, .parquet, and --plot draws" in capsys.readouterr().err
    assert main(["show", "tpu-v3", "--output", "x.ONNX"]) == 2
    assert "'tpu-v3' is not a network" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_csv_has_every_key_of_every_row() -> None:
    text = csv_of([{"a": 1, "b": None}, {"b": 'x,"y"\n', "c": 0.1}])
    assert text.startswith("a,b,c\n1,,\n")
    (_, second) = csv.DictReader(io.StringIO(text, newline=""))
    assert second == {"a": "", "b": 'x,"y"\n', "c": "0.1"}
    assert flat({"a": 1, "b": [1], "c": {}, "d": None}) == {"a": 1, "d": None}


def test_markdown_has_all_columns_and_no_box(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "resnet18", "--format", "md"]) == 0
    out = capsys.readouterr().out
    assert "| layer | kind | inputs | input | output | kernel |" in out
    assert "Not shown" not in out


@given(st.lists(st.text("ab|`*<[]\\\n ", min_size=1), min_size=1))
def test_names_do_not_format_a_page(names: list[str]) -> None:
    """Read back bar by bar, what is escaped is what was given."""
    table = Table("name", "other", title="t")
    for name in names:
        table.add_row(name, "1")
    _, _, *lines = markdown_of(table).strip().split("\n\n")[1].split("\n")
    assert len(lines) == len(names)
    for line, name in zip(lines, names, strict=True):
        text = line.removeprefix("| ").removesuffix(" | 1 |")
        read, i = "", 0
        while i < len(text):
            i += text[i] == "\\"
            assert i == 0 or text[i - 1] == "\\" or text[i] not in "|`*<["
            read, i = read + text[i], i + 1
        assert read == " ".join(name.split())


def test_a_csv_has_what_a_run_costs_and_loses() -> None:
    """What JSON has in objects: under the object's name, and its own."""
    step = aa.simulate(
        "gpt2:layers=2:seq=64", array="h100-cluster", set={"nodes": 1}, parallel="dp=8", batch=8,
        mtbf="1000h", storage_bandwidth="1 GB/s", tokens=1e9, price=2,
    )  # fmt: skip
    found = step.to_dict()
    (row,) = step.rows()
    assert row["cost.usd_per_step"] == found["cost"]["usd_per_step"]
    assert row["run.days"] == found["run"]["days"]
    assert row["goodput.useful_share"] == found["goodput"]["useful_share"]
