import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hardware import Array, load_array
from planners import (
    BASELINES,
    JUDGED,
    PLANNERS,
    Objective,
    PartitionType,
    Plan,
    PlanError,
    load_planner,
    planner_names,
    registry,
)
from planners.built_in import owt
from planners.hierarchy import plan_hierarchy
from planners.pipeline.staging import Staging, places_of, planned_in_stages
from planners.registry import asked, callable_as_planner
from workloads import Network, load_network


def test_the_papers_planners_come_first() -> None:
    assert planner_names()[:4] == ["data_parallel", "owt", "hypar", "accpar"]


def test_an_unknown_planner_names_the_nearest() -> None:
    with pytest.raises(PlanError, match="did you mean accpar"):
        load_planner("acpar")
    with pytest.raises(PlanError, match="one of data_parallel, owt"):
        load_planner("zzz")


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
    text = "from planners.built_in import owt as plan\n"
    install(tmp_path, monkeypatch, zebra=text, alpaca=text)
    assert planner_names() == [*PLANNERS, "alpaca", "zebra"]
    with pytest.raises(PlanError, match=r"'zebr'; did you mean zebra\?"):
        load_planner("zebr")
    assert load_planner("zebra")(LENET, ARRAY, 512).root is not None


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


LENET, ARRAY = load_network("lenet"), load_array("ring-8")
MODULE = """
from planners.built_in import owt as plan
number = 3
class Planners:
    nested = staticmethod(plan)
def short(network): ...
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module in the current folder, which is not on the path."""
    (tmp_path / "own_planner.py").write_text(MODULE)
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit('bye')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
    for name in ("own_planner", "leaving"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("place", ["own_planner:plan", "own_planner:Planners.nested"])
def test_a_planner_is_imported_from_the_current_folder(place: str) -> None:
    path = list(sys.path)
    assert load_planner(place) is owt
    assert sys.path == path


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("own_planner:number", "planner 'own_planner:number': neither a name nor a function"),
        ("own_planner:no", "cannot be loaded: AttributeError: module 'own_planner' has no"),
        ("own_planner:", "cannot be loaded: AttributeError"),
        (":plan", "cannot be loaded: ValueError: Empty module name"),
        ("no_such_module:plan", "cannot be loaded: ModuleNotFoundError: No module named 'no_such"),
        ("leaving:plan", "planner 'leaving:plan' cannot be loaded: SystemExit: bye"),
        ("own_planner:short", r"'own_planner:short' takes \(network\), and is called with"),
    ],
)
def test_what_is_no_planner_is_named(place: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        load_planner(place)


@pytest.mark.parametrize("wrong", [lambda: None, lambda a, b: None, lambda a, b, c, d, e: None])
def test_a_function_of_other_arguments_is_refused(wrong: Callable[..., Any]) -> None:
    with pytest.raises(PlanError, match=r"called with \(network, array, batch, objective\)"):
        callable_as_planner(wrong, "wrong")


def test_any_way_to_take_four_arguments_will_do() -> None:
    assert callable_as_planner(print) is print
    for planner in (lambda *args: None, lambda a, b, c, d=1, e=2: None, owt):
        assert load_planner(planner) is planner  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [None, {}, (layer for layer in "ab")])
def test_a_planner_gives_a_plan(answer: Any) -> None:
    def mine(*_: object) -> Any:
        return answer

    words = f"planner 'mine' gave {type(answer).__name__}; it must return a Plan"
    with pytest.raises(PlanError, match=words):
        asked(mine, LENET, ARRAY, 8)
    with pytest.raises(PlanError, match=words):
        planned_in_stages(mine, LENET, ARRAY, 8, Staging(2), (0, 2), places_of(ARRAY, 2))


def test_a_planner_that_leaves_the_program_has_failed() -> None:
    def leaving(*_: object) -> Any:
        sys.exit(0)

    with pytest.raises(PlanError, match=r"'leaving' failed: SystemExit: 0 \(.*: sys.exit\(0\)\)"):
        asked(leaving, LENET, ARRAY, 8)


@pytest.mark.parametrize("types", [("III",), (), ("banana",), None, 3, (PartitionType.I, "II")])
def test_only_types_can_be_allowed(types: Any) -> None:
    def mine(network: Network, array: Array, batch: int, objective: Objective, /) -> Plan:
        return plan_hierarchy("mine", network, array, batch, objective, lambda node: types)

    with pytest.raises(PlanError, match=r"planner 'mine' allows layer 'conv1' .*; it must give"):
        mine(LENET, ARRAY, 8, Objective.named("time", "printed"))
