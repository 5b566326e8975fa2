"""The scripts of the published tables and figures, on little."""

import csv
from pathlib import Path

import pytest

from experiments.scripts import accpar_hierarchy, accpar_speedups, accpar_types, bandwidth_study
from hardware import load_array
from planners import load_planner
from workloads import load_network


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_speedups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accpar_speedups.main(str(tmp_path), "lenet", "alexnet")
    for name in ("accpar-mixed", "accpar-homogeneous"):
        assert len(rows(tmp_path / f"speedup-{name}.csv")) == 8
        assert (tmp_path / f"speedup-{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "accpar-mixed accpar" in capsys.readouterr().out


def test_hierarchy(tmp_path: Path) -> None:
    accpar_hierarchy.main(str(tmp_path), "lenet", "4")
    assert [row["levels"] for row in rows(tmp_path / "levels-lenet.csv")] == ["2", "3", "4"]
    assert (tmp_path / "levels-lenet.png").exists()


def test_types(tmp_path: Path) -> None:
    accpar_types.main(str(tmp_path), "alexnet")
    table = rows(tmp_path / "types-alexnet.csv")
    array = load_array("accpar-homogeneous")
    levels = load_planner("accpar")(load_network("alexnet"), array, 512).levels() or []
    assert [row["level 6"] for row in table] == [str(kind) for kind in levels[6].types]


def test_bandwidth(tmp_path: Path) -> None:
    bandwidth_study.main(str(tmp_path), "4", "lenet")
    table = rows(tmp_path / "bandwidth.csv")
    assert [row["planner"] for row in table[:4]] == ["data_parallel", "owt", "hypar", "accpar"]
    assert {float(row["network.bandwidth [bit/s]"]) for row in table} == {1e9, 1e10, 1e11, 1e12}
    assert (tmp_path / "bandwidth.png").exists()
    assert len(rows(tmp_path / "bandwidth-deployed.csv")) == len(table)
    assert (tmp_path / "bandwidth-deployed.png").exists()
