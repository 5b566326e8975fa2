import csv
import io
import json
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.output import UsageError
from experiments.results.speedups import parse_levels
from experiments.studies.comparison import compare, scaled, sweep_levels
from hardware import load_array
from workloads import load_network

MIXED = load_array("accpar-mixed")
LENET = load_network("lenet")


def test_sizes_keep_the_proportions() -> None:
    assert [count for _, count in scaled(MIXED, 3).group.kinds] == [4, 4]
    assert scaled(MIXED, 8).group == MIXED.group
    assert scaled(MIXED, 16).group.size == 65_536
    uneven = load_array("accpar-mixed", ["devices.0.count=96", "devices.1.count=32"])
    assert [count for _, count in scaled(uneven, 2).group.kinds] == [3, 1]
    with pytest.raises(UsageError, match="2 accelerators cannot have the proportions"):
        scaled(uneven, 1)
    with pytest.raises(UsageError, match=r"within 1\.\.\.16"):
        scaled(MIXED, 17)


def test_a_sweep_is_the_comparison_at_each_size() -> None:
    (two, eight), _ = sweep_levels(MIXED, [2, 8], [LENET], ["owt", "accpar"], 512)
    assert (two.levels, two.accelerators, eight.accelerators) == (2, 4, 256)
    assert eight.result.rows == compare(MIXED, [LENET], ["owt", "accpar"]).rows


def test_an_interrupt_keeps_finished_sizes() -> None:
    seen: list[str] = []

    def interrupt(label: str) -> None:
        seen.append(label)
        if len(seen) == 3:
            raise KeyboardInterrupt

    done, complete = sweep_levels(MIXED, [2, 3, 4], [LENET], ["owt", "hypar"], 512, interrupt)
    assert ([level.levels for level in done], complete) == ([2], False)


def test_lists_and_ranges() -> None:
    assert parse_levels("4,2,8-10, 9") == [2, 4, 8, 9, 10]
    for text in ("", "x", "3-", "-3", "1.5", "5-4", "99999"):
        with pytest.raises(UsageError):
            parse_levels(text)


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    args = ["speedup", "--levels", "1-3", "--networks", "lenet", "--planners", "owt,accpar"]
    plot = tmp_path / "levels.svg"
    assert main([*args, "--format", "json", "--plot", str(plot)]) == 0
    out = json.loads(capsys.readouterr().out)
    assert [level["accelerators"] for level in out["levels"]] == [2, 4, 8]
    assert "geometric mean" not in plot.read_text()
    assert main([*args, "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["levels"] for row in rows] == ["1", "1", "2", "2", "3", "3"]
    assert main(args) == 0
    table = capsys.readouterr().out
    for level in out["levels"]:
        assert f"{level['geomean']['accpar']:.3f}" in table


def test_a_plan_that_loses_is_said_for_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["speedup", "--levels", "1,2", "--networks", "lenet", "--planners", "owt"]
    args += ["--array", "tpu-v3-pod", "--batch", "65536", "--execution", "deployed"]
    assert main([*args, "--format", "json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["execution"] == "deployed"
    assert all(level["geomean"]["owt"] < 1 for level in out["levels"])
    assert main(args) == 0
    table = capsys.readouterr().out
    assert "batch 65536, deployed" in " ".join(table.split())
    for levels in (1, 2):
        assert f"{levels} levels: owt is slower than data parallelism for lenet." in table


def test_fewer_chips_have_a_less_slow_slowest_one() -> None:
    """Chips that differ wait for each other: 16 boards for the slowest of 64 chips."""
    array = load_array("tpu-v3-pod", ["devices.0.roofline.variation=0.02"])
    ((device, boards),) = scaled(array, 4).group.kinds
    assert boards == 16
    assert device.roofline == array.group.kinds[0][0].roofline.waiting(64)
