"""Planners of others: imported by name, and refused with a clear word where they are none."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hardware import Array, load_array
from planners import Objective, PartitionType, Plan, PlanError, load_planner
from planners.hierarchy import plan_hierarchy
from planners.owt import owt
from planners.strangers import callable_as_planner, imported
from workloads import Network, load_network

LENET, ARRAY = load_network("lenet"), load_array("ring-8")
MODULE = """
from planners.owt import owt as plan
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
        imported(repr(place), place)


@pytest.mark.parametrize("wrong", [lambda: None, lambda a, b: None, lambda a, b, c, d, e: None])
def test_a_function_of_other_arguments_is_refused(wrong: Callable[..., Any]) -> None:
    with pytest.raises(PlanError, match=r"called with \(network, array, batch, objective\)"):
        callable_as_planner(wrong, "wrong")


def test_any_way_to_take_four_arguments_will_do() -> None:
    assert callable_as_planner(print) is print
    for planner in (lambda *args: None, lambda a, b, c, d=1, e=2: None, owt):
        assert load_planner(planner) is planner  # type: ignore[arg-type]


@pytest.mark.parametrize("types", [("III",), (), ("banana",), None, 3, (PartitionType.I, "II")])
def test_only_types_can_be_allowed(types: Any) -> None:
    def mine(network: Network, array: Array, batch: int, objective: Objective, /) -> Plan:
        return plan_hierarchy("mine", network, array, batch, objective, lambda node: types)

    with pytest.raises(PlanError, match=r"planner 'mine' allows layer 'conv1' .*; it must give"):
        mine(LENET, ARRAY, 8, Objective.named("time", "printed"))
