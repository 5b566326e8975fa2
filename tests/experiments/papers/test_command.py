"""``accelarray reproduce``: tables, JSON, pictures, and what it refuses."""

import json
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.papers.accpar import FIGURES

HYPAR = ["reproduce", "hypar"]


def out(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(args) == 0
    return capsys.readouterr().out


def test_json_has_every_figure_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(out(capsys, *HYPAR, "--figures", "5,6,11", "--format", "json"))
    assert list(data["figures"]) == list(data["notes"]) == ["5", "6", "11"]
    assert data["labels"]["6"] == "performance"
    (sfc, *_) = data["figures"]["5"]
    assert sfc["network"] == "SFC"
    assert sfc["levels"] == ["1111", "1111", "0111", "1111"]
    assert {row["network"] for row in data["figures"]["5"]} >= {"VGG-B", "VGG-D", "VGG-E"}
    for row in data["figures"]["6"]:
        assert row["difference"] == pytest.approx(row["ours"] / row["published"] - 1)
        assert {"network", "planner"} <= row.keys()
    assert [r["accelerators"] for r in data["figures"]["11"]][::2] == [1, 2, 4, 8, 16, 32, 64]


def test_tables_show_both_and_say_what_is_not_reproduced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    text = out(capsys, *HYPAR, "--figures", "6,12")
    assert "The all-model-parallel bars are not reproduced" in text
    assert "VGG-A" in text
    assert "4.967 │        4.97 │  -0.1%" in text
    assert "Largest differences" in text


@pytest.mark.parametrize("key", ["5", "8", "11"])
def test_pictures(key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new"
    out(capsys, *HYPAR, "--figures", key, "--plot", str(folder))
    (picture,) = folder.iterdir()
    assert picture.name == f"hypar-{key}.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_accpars_evaluation() -> None:
    homogeneous, hierarchy, types = (
        FIGURES[key]().made() for key in ("homogeneous", "hierarchy", "types")
    )
    means = {r["planner"]: r for r in homogeneous.rows if r["network"] == "Gmean"}
    assert {planner: row["published"] for planner, row in means.items()} == {
        "owt": 2.94,
        "hypar": 3.51,
        "accpar": 3.86,
    }
    assert all(abs(row["difference"]) < 0.02 for row in means.values())
    assert any("recalled" in note for note in homogeneous.messages)
    accpar = [row["ours"] for row in hierarchy.rows if row["planner"] == "accpar"]
    assert len(accpar) == 8
    assert accpar == sorted(accpar)  # the deeper, the more there is to gain
    (alexnet,) = types.rows
    assert [len(level) for level in alexnet["types"]] == [8] * 7
    assert alexnet["levels"][0] == "00000121"


def test_plans_of_a_figure_are_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    """In a spreadsheet the codes of a plan's levels stand in one cell."""
    lines = out(capsys, *HYPAR, "--figures", "5", "--format", "csv").splitlines()
    assert lines[0] == "figure,network,levels,published,same,printed_table"
    assert lines[1].startswith("5,SFC,1111 1111 0111 1111,1111 1111 0111 1111,True,")
    assert all(len(line.split(",")[2].split()) == 4 for line in lines[1:])
