import sys
from pathlib import Path

import pytest

from hardware import load_array
from planners import PLANNERS, PlanError, load_planner, planner_names
from workloads import load_network


def test_the_papers_planners_come_first() -> None:
    assert planner_names()[:4] == ["data_parallel", "owt", "hypar", "accpar"]


def test_an_unknown_planner_names_the_nearest() -> None:
    with pytest.raises(PlanError, match="did you mean accpar"):
        load_planner("acpar")
    with pytest.raises(PlanError, match="one of data_parallel, owt"):
        load_planner("zzz")


def test_another_packages_planner_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real installed distribution: metadata with an entry point, and its module."""
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[accelarray.planners]\ntheirs = theirs:plan\n")
    (tmp_path / "theirs.py").write_text("from planners.owt import owt as plan\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    assert planner_names() == [*PLANNERS, "theirs"]
    plan = load_planner("theirs")(load_network("lenet"), load_array("accpar-homogeneous"), 512)
    assert plan.root is not None
