"""Planners as functions, and outside planners, whose plans are what results are kept under."""

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest

from experiments.cli import main
from experiments.output import UsageError
from experiments.studies.case import Case, Planned, plan_of, step_of
from experiments.studies.comparison import compare, named
from experiments.studies.options import parse_vary
from experiments.studies.running.runner import Runner
from experiments.studies.running.store import Store
from experiments.studies.sweep import Grid, sweep
from hardware import Array, load_array
from planners import (
    TIME,
    Objective,
    PartitionType,
    Plan,
    PlanError,
    is_built_in,
    load_planner,
    planner_name,
)
from planners.built_in import accpar, data_parallel
from planners.hierarchy import plan_hierarchy
from simulator import DEPLOYED, PUBLISHED
from tests.experiments.installed import install
from workloads import Network, load_network

LENET = load_network("lenet")
SMALL = ("devices.0.count=2", "devices.1.count=2")
ARRAY = load_array("accpar-mixed", SMALL)


def typed(kind: PartitionType) -> Callable[..., Plan]:
    """A planner that knows one type alone; which one is in its closure."""

    def one_type(
        network: Network, array: Array, batch: int, objective: Objective = TIME, /
    ) -> Plan:
        return plan_hierarchy("one_type", network, array, batch, objective, lambda node: (kind,))

    return one_type


ONE, TWO = typed(PartitionType.I), typed(PartitionType.II)


def test_a_function_is_a_planner_wherever_a_name_is() -> None:
    own, named_one = (step_of(Case(LENET, p, ARRAY, 64)) for p in (accpar, "accpar"))
    assert own[0] == named_one[0]
    assert own[1].iteration_ps == named_one[1].iteration_ps
    result = compare(ARRAY, [LENET], ["owt", ONE], 64)
    assert result.planners == ["owt", "one_type"]
    (row,) = result.of("one_type")
    assert row.iteration_s == step_of(Case(LENET, ONE, ARRAY, 64))[1].iteration_s
    axis = parse_vary("batch=64,128")
    table = sweep(Grid((LENET,), (ONE, "owt"), "accpar-mixed", (axis,), SMALL))
    assert list(table["planner"]) == ["one_type", "owt"] * 2
    assert table["iteration_s"][0] == row.iteration_s


def test_a_function_sees_the_array_as_the_model_runs_it() -> None:
    seen: list[Array] = []

    def watching(
        network: Network, array: Array, batch: int, objective: Objective = TIME, /
    ) -> Plan:
        seen.append(array)
        return data_parallel(network, array, batch, objective)

    pod = load_array("tpu-v3-pod")
    case = Case(LENET, watching, pod, 1024, execution=DEPLOYED)
    for execution in (DEPLOYED, PUBLISHED):
        plan_of(replace(case, execution=execution))
    assert [len(step.levels() or []) for step in map(planned_by_halves, seen)] == [11, 8]
    assert seen[1] is pod


def planned_by_halves(array: Array) -> Plan:
    return data_parallel(LENET, array, 1024)


def test_names_of_planners() -> None:
    class Learned:
        def __call__(self, *args: Any) -> Plan:
            return accpar(*args)

    assert planner_name("mine") == "mine"
    assert planner_name(ONE) == "one_type"
    assert planner_name(functools.partial(ONE)) == "one_type"
    assert planner_name(Learned()) == "Learned"
    case = Case(LENET, ONE, ARRAY, 64)
    assert str(case) == f"lenet, one_type on {ARRAY.name}, batch 64, published"
    assert case.inputs["planner"] == case.settled().inputs["planner"] == "one_type"


def test_two_planners_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="several planners are called 'one_type'"):
        compare(ARRAY, [LENET], [ONE, TWO], 64)
    impostor = typed(PartitionType.II)
    impostor.__name__ = "data_parallel"
    with pytest.raises(UsageError, match="several planners are called 'data_parallel'"):
        compare(ARRAY, [LENET], [impostor], 64)  # the baseline has that name
    grid = Grid((LENET,), (ONE, TWO), "accpar-mixed", (parse_vary("batch=64"),), SMALL)
    with pytest.raises(UsageError, match="several planners"):
        sweep(grid)
    assert list(named(["accpar", accpar, data_parallel])) == ["accpar", "data_parallel"]


def test_what_is_no_planner_is_refused() -> None:
    with pytest.raises(PlanError, match="planner 3: neither a name nor a function"):
        load_planner(3)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="planner 'nothing' gave NoneType; it must return a Plan"):
        plan_of(Case(LENET, nothing, ARRAY, 64))  # type: ignore[arg-type]


def nothing(*_: object) -> None:
    """Not a planner."""


def test_which_planners_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_built_in("accpar")
    assert is_built_in(accpar)
    assert is_built_in("model_parallel")
    assert not is_built_in(ONE)
    monkeypatch.setitem(load_planner.__globals__["PLANNERS"], "accpar", ONE)
    assert not is_built_in("accpar")
    assert is_built_in(accpar)


def test_one_of_ours_by_name_or_as_a_function_is_one_case() -> None:
    assert Case(LENET, accpar, ARRAY, 64).key == Case(LENET, "accpar", ARRAY, 64).key


def test_an_outside_planners_plan_is_its_key() -> None:
    """Whatever a plan depends on, a closure, a default or a file: another plan, another key."""
    flexible = {"kind": PartitionType.I}

    def reading(network: Network, array: Array, batch: int, objective: Objective = TIME, /) -> Plan:
        return typed(flexible["kind"])(network, array, batch, objective)

    case = Case(LENET, reading, ARRAY, 64)
    before = case.key
    assert case.key == before
    flexible["kind"] = PartitionType.II
    assert case.key != before
    flexible["kind"] = PartitionType.I
    assert case.key == before
    assert case.key != Case(LENET, "data_parallel", ARRAY, 64).key
    assert case.key != replace(case, batch=65).key


def test_a_settled_case_has_its_plan_at_hand() -> None:
    case = Case(LENET, ONE, ARRAY, 64)
    settled = case.settled()
    assert isinstance(settled.planner, Planned)
    assert settled.planner.plan == plan_of(case) == plan_of(settled)
    assert settled.key == case.key
    assert settled.settled() is settled
    ours = Case(LENET, "owt", ARRAY, 64)
    assert ours.settled() is ours


def stored(folder: Path, grid: Grid) -> tuple[pandas.DataFrame, int]:
    """The sweep's table, and how many results its store has afterwards."""
    with Store(folder / "s.db") as store:
        return sweep(grid, Runner(store)), len(store)


def test_another_closure_is_not_served_the_first_ones_results(tmp_path: Path) -> None:
    grid = Grid((LENET,), (ONE,), "accpar-mixed", (parse_vary("batch=64"),), SMALL)
    first, kept = stored(tmp_path, grid)
    again, still = stored(tmp_path, grid)
    other, more = stored(tmp_path, replace(grid, planners=(TWO,)))
    pandas.testing.assert_frame_equal(first, again)
    assert (kept, still, more) == (2, 2, 3)
    assert other["planner"][0] == first["planner"][0] == "one_type"
    assert other["key"][0] != first["key"][0]
    assert other["iteration_s"][0] == step_of(Case(LENET, TWO, ARRAY, 64))[1].iteration_s
    assert other["iteration_s"][0] != first["iteration_s"][0]


def test_another_default_is_not_served_the_first_ones_results(tmp_path: Path) -> None:
    def make(kind: PartitionType) -> Callable[..., Plan]:
        def chosen(
            network: Network,
            array: Array,
            batch: int,
            objective: Objective = TIME,
            /,
            which: PartitionType = kind,
        ) -> Plan:
            return typed(which)(network, array, batch, objective)

        return chosen

    grid = Grid((LENET,), (), "accpar-mixed", (parse_vary("batch=64"),), SMALL)
    seconds = []
    for kind in (PartitionType.I, PartitionType.II):
        table, _ = stored(tmp_path, replace(grid, planners=(make(kind),)))
        seconds.append(table["iteration_s"][0])
    assert seconds[0] != seconds[1]


EDITED = """
from planners import PartitionType, TIME
from planners.hierarchy import plan_hierarchy

def plan(network, array, batch, objective=TIME, /):
    kinds = (PartitionType.{kind},)
    return plan_hierarchy("outsider", network, array, batch, objective, lambda node: kinds)
"""
HELPED = """
from outsider_helper import KINDS
from planners import TIME
from planners.hierarchy import plan_hierarchy

def plan(network, array, batch, objective=TIME, /):
    return plan_hierarchy("outsider", network, array, batch, objective, lambda node: KINDS)
"""


@pytest.mark.parametrize("helper", [False, True])
def test_an_edited_planner_is_not_served_its_old_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helper: bool
) -> None:
    """Same name, same version: the planner's own file changes, or only one that it imports."""

    def edit(kind: str) -> None:
        if helper:
            monkeypatch.delitem(sys.modules, "outsider_helper", raising=False)
            text = f"from planners import PartitionType\nKINDS = (PartitionType.{kind},)\n"
            (tmp_path / "outsider_helper.py").write_text(text)
            install(tmp_path, monkeypatch, HELPED)
        else:
            install(tmp_path, monkeypatch, EDITED.format(kind=kind))

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    grid = Grid((LENET,), ("outsider",), "accpar-mixed", (parse_vary("batch=64"),), SMALL)
    edit("I")
    first, kept = stored(tmp_path, grid)
    again, still = stored(tmp_path, grid)
    pandas.testing.assert_frame_equal(first, again)
    edit("II")
    second, more = stored(tmp_path, grid)
    assert (kept, still, more) == (2, 2, 3)
    assert first["iteration_s"][0] == step_of(Case(LENET, ONE, ARRAY, 64))[1].iteration_s
    assert second["iteration_s"][0] == step_of(Case(LENET, TWO, ARRAY, 64))[1].iteration_s


def test_the_command_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As people do it: run, edit the file, run again; each time a new process."""
    args = ["speedup", "--networks", "lenet", "--planners", "outsider", "--batch", "64"]
    args += [word for change in SMALL for word in ("--set", change)]
    args += ["--store", str(tmp_path / "s.db"), "--format", "json"]
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    found = []
    for kind in ("I", "II", "I"):
        install(tmp_path, monkeypatch, EDITED.format(kind=kind))
        run = [sys.executable, "-m", "experiments.cli", *args]
        ran = subprocess.run(run, check=True, capture_output=True, text=True)
        found.append(json.loads(ran.stdout)["rows"][0]["iteration_s"])
    assert found[0] == found[2] != found[1]
    assert main(["results", "list", "--store", str(tmp_path / "s.db")]) == 0
    assert "3 results" in capsys.readouterr().out


def test_processes_plan_for_functions_too(tmp_path: Path) -> None:
    grid = Grid((LENET,), (ONE,), "accpar-mixed", (parse_vary("batch=64,96,128"),), SMALL)
    with Store(tmp_path / "s.db") as store:
        together = sweep(grid, Runner(store, jobs=2))
        assert len(store) == 6
    pandas.testing.assert_frame_equal(together, sweep(grid))
