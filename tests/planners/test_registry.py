import sys
from pathlib import Path

import pytest

from hardware import load_array
from planners import (
    BASELINES,
    JUDGED,
    PLANNERS,
    PlanError,
    load_planner,
    planner_names,
    registry,
)
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


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **modules: str) -> None:
    """Distributions of one module each that announce its ``plan`` as a planner of its name."""
    for name, text in modules.items():
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{registry.ENTRY_POINTS}]\n{name} = {name}:plan\n")
        (folder / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(folder)


def test_other_packages_planners_come_behind_in_alphabetical_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from planners.owt import owt as plan\n"
    install(tmp_path, monkeypatch, zebra=text, alpaca=text)
    assert planner_names() == [*PLANNERS, "alpaca", "zebra"]
    with pytest.raises(PlanError, match=r"'zebr'; did you mean zebra\?"):
        load_planner("zebr")


def test_a_built_in_name_cannot_be_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {name: load_planner(name) for name in (*PLANNERS, *BASELINES, *JUDGED)}
    install(tmp_path, monkeypatch, **dict.fromkeys(ours, "raise RuntimeError('never loaded')\n"))
    assert {name: load_planner(name) for name in ours} == ours
    assert planner_names() == list(PLANNERS)


@pytest.mark.parametrize("name", JUDGED)
def test_what_is_said_of_a_planner_that_is_not_loaded_is_its_documentation(name: str) -> None:
    documentation = load_planner(name).__doc__ or ""
    assert documentation.splitlines()[0] == JUDGED[name].about


def test_a_planner_is_loaded_only_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, broken="raise RuntimeError('broken on import')\n")
    assert "broken" in planner_names()
    words = r"'broken' of package broken 1\.0 cannot be loaded: RuntimeError: broken on import"
    with pytest.raises(PlanError, match=words):
        load_planner("broken")


def test_baselines_can_be_named_and_are_not_compared() -> None:
    assert load_planner("model_parallel") is BASELINES["model_parallel"]
    assert not BASELINES.keys() & set(planner_names())
    with pytest.raises(PlanError, match="did you mean model_parallel"):
        load_planner("model_paralel")
    with pytest.raises(PlanError, match="one of data_parallel, owt, hypar, accpar, model_parallel"):
        load_planner("")
