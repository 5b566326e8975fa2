"""``accelarray results``: what a store holds, as a list, a file, or less of it."""

import csv
import json
import sqlite3
from pathlib import Path
from typing import Any

import pandas
import pytest

from experiments.cli import main
from experiments.studies.running.store import Store

INPUTS: dict[str, Any] = {
    "network": "lenet",
    "planner": "owt",
    "array": "ring-8",
    "batch": 8,
    "objective": "time",
    "execution": "published",
}
OUTPUTS: dict[str, Any] = {"iteration_s": 0.5, "energy_j": None, "traffic_bytes": 1e9, "memory": []}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with Store(path) as opened:
        for batch in (8, 16):
            opened.put(f"k{batch}", INPUTS | {"batch": batch}, OUTPUTS)
        varied = {"network": "vgg11", "network.bandwidth": "1 Gbit/s"}
        opened.put("k", INPUTS | varied, OUTPUTS | {"iteration_s": 0.25})
    return path


def out(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["results", *args]) == 0
    return capsys.readouterr().out


def test_a_list_of_all(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = out(capsys, "list", "--store", str(store))
    assert f"{store}: 3 results" in text
    assert text.count("lenet") == 2
    assert "iteration_s" in text
    assert "energy_j" not in text
    text = out(capsys, "list", "--store", str(store), "--metrics", "traffic,energy")
    assert text.index("traffic_bytes") < text.index("energy_j")
    assert "1e+09" in text
    assert "None" not in text
    assert "iteration_s" not in text


def test_a_list_shows_what_was_varied(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eighty columns hold what differs between results: keys of specs, and the batch."""
    monkeypatch.delenv("COLUMNS", raising=False)
    inputs = INPUTS | {"network": "mobilenet-v2"}
    with Store(store) as opened:
        for latency in ("1 us", "2 us"):
            opened.put(latency, inputs | {"network.latency": latency}, OUTPUTS)
    lines = out(capsys, "list", "--store", str(store)).splitlines()
    head = " ".join("".join(lines[2:6]).replace("┃", " ").split())
    assert max(map(len, lines[1:-1])) <= 80
    for key in ("network.bandwidth", "network.latency", "batch"):
        assert key in head
    table = "\n".join(lines)
    for value in ("1 Gbit/s", "1 us", "2 us", " 16 "):
        assert value in table
    assert "Not shown here: finished, objective, planner, array, execution" in "\n".join(lines[-2:])
    (_, *rows) = json.loads(out(capsys, "list", "--store", str(store), "--format", "json"))
    assert [row["network.latency"] for row in rows] == [None, None, "1 us", "2 us"]


def test_a_list_shows_what_all_have_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of one changed array are not those of the catalog's."""
    file = tmp_path / "changed.sqlite"
    with Store(file) as opened:
        for batch in (16, 32):
            opened.put(str(batch), INPUTS | {"batch": batch, "devices.0.count": "64"}, OUTPUTS)
    assert "devices.0.count" in out(capsys, "list", "--store", str(file))
    (_, *rows) = json.loads(out(capsys, "list", "--store", str(file), "--format", "json"))
    assert {row["devices.0.count"] for row in rows} <= {"64"}


def test_an_empty_store_has_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.db"
    with Store(path):
        pass
    assert out(capsys, "list", "--store", str(path)) == f"{path}: 0 results\n"


def test_exports_are_flat_tables(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for ending in ("csv", "json", "parquet"):
        path = tmp_path / f"t.{ending}"
        assert out(capsys, "export", "--store", str(store), "--output", str(path)) == ""
    with (tmp_path / "t.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["key"] for row in rows] == ["k8", "k16", "k"]
    assert [row["network.bandwidth"] for row in rows] == ["", "", "1 Gbit/s"]
    assert rows[0]["energy_j"] == ""
    assert "memory" not in rows[0]
    data = json.loads((tmp_path / "t.json").read_text())
    assert data[2]["iteration_s"] == 0.25
    assert data[0]["energy_j"] is None
    frame = pandas.read_parquet(tmp_path / "t.parquet")
    assert list(frame["batch"]) == [8, 16, 8]


def test_pruning_by_inputs(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--where", "network=lenet", "--where", "batch=16"]
    assert out(capsys, "prune", "--store", str(store), *where) == "1 results deleted\n"
    bandwidth = ["--where", "network.bandwidth=1 Gbit/s"]
    assert out(capsys, "prune", "--store", str(store), *bandwidth) == "1 results deleted\n"
    with Store(store) as opened:
        assert [row["key"] for row in opened.rows()] == ["k8"]


def test_listing_and_exporting_by_inputs(
    store: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = "--store", str(store), "--where", "batch=8"
    assert "2 results" in out(capsys, "list", *words)
    out(capsys, "export", *words, "--output", str(tmp_path / "t.csv"))
    assert [*pandas.read_csv(tmp_path / "t.csv")["batch"]] == [8, 8]


@pytest.mark.parametrize("value", ["NaN", "-1", '"x"', "1e999", "true", "0"])
def test_a_damaged_row_is_no_result(
    value: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(store) as db:
        db.execute(
            "UPDATE results SET outputs = ? WHERE key = 'k8'", (f'{{"iteration_s": {value}}}',)
        )
    assert main(["results", "list", "--store", str(store)]) == 2
    assert "a damaged row: outputs of k8: iteration_s: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("list", "--store", "s.db", "--where", "x=y"), "--where x: no result has it"),
        (("list", "--store", "none.db"), "none.db: there is no such store"),
        (("export", "--store", "s.db"), "export needs --output FILE ending in .csv"),
        (("export", "--store", "s.db", "--output", "t.xls"), "this command has no xls"),
        (("export", "--store", "s.db", "--output", "no/t.csv"), "cannot be written"),
        (("prune", "--store", "s.db"), "prune needs at least one condition"),
        (("prune", "--store", "s.db", "--where", "lenet"), "expected KEY=VALUE, as network=lenet"),
        (("prune", "--store", "s.db", "--where", "=x"), "expected KEY=VALUE"),
        (("prune", "--store", "s.db", "--where", 'a"b=x'), "expected KEY=VALUE"),
        (("list", "--store", "s.db", "--metrics", "power"), "one or more of time, energy, traffic"),
    ],
)
def test_users_errors(
    args: tuple[str, ...],
    words: str,
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(store.parent)
    assert main(["results", *args]) == 2
    assert words in capsys.readouterr().err
    with Store(store) as opened:
        assert len(opened) == 3


def test_what_tells_results_apart_is_shown_last_of_all_to_go(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of other studies have many columns; a batch that differs stays beside the times."""
    monkeypatch.delenv("COLUMNS", raising=False)
    path = tmp_path / "mixed.db"
    with Store(path) as opened:
        for batch in (64, 128):
            opened.put(f"k{batch}", INPUTS | {"batch": batch}, OUTPUTS)
        many = {f"measure_{i}": i + 0.123456 for i in range(12)}
        opened.get_or_make(("train", 1), lambda: {"numbers": 1}, method="all-reduce", **many)
    text = out(capsys, "list", "--store", str(path))
    assert max(map(len, text.splitlines()[1:-1])) <= 80
    head = text.splitlines()[2]
    assert "batch" in head
    assert "iteration_s" in head
    assert "measure_3" not in head
