"""Sweeps: a grid of varied values times networks and planners, as one tidy table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

from experiments.output import UsageError, frame_of
from experiments.studies.case import Case
from experiments.studies.comparison import NONE_LEFT, in_its_memory, named, refuse_twins
from experiments.studies.options import (
    AXIS_OPTIONS,
    INPUTS,
    MODEL_OPTIONS,
    MOST_POINTS,
    OPTIONS,
    Axis,
    Value,
    array_of,
    with_options,
)
from experiments.studies.running.outputs import REFUSED, Outputs, overflow_of
from experiments.studies.running.runner import Finished, Runner
from experiments.studies.speedups import BASELINE
from experiments.studies.step_numbers import throughput
from experiments.studies.unread import changed as changed_unread
from experiments.studies.unread import warnings
from hardware import Array, SpecError
from planners import OBJECTIVES, Planner, load_planner
from planners.registry import reads_axes
from simulator import PUBLISHED, Execution, deployed, usual
from workloads import Network

if TYPE_CHECKING:
    import pandas


def modelled(array: Array, model: str | None) -> Execution:
    """An execution model without options, None the one that an array is for."""
    if model is None:
        return usual(array)
    return PUBLISHED if model == "published" else deployed(array)


@dataclass(frozen=True, slots=True)
class Grid:
    """What a sweep goes over; ``settings`` are fixed changes of the array's spec.

    An ``array`` that is no name or path has no spec of which values could be varied.
    ``executed_by`` is the execution on an array, under a model that is varied or (None) the one
    that was asked for. ``networks`` are as their makers have
    them; ``run_by`` says how an array's software runs each.
    """

    networks: tuple[Network, ...]
    planners: tuple[str | Planner, ...]
    array: str | Array
    axes: tuple[Axis, ...]
    settings: tuple[str, ...] = ()
    batch: int = 512
    objective: str = "time"
    communication: str = "printed"
    executed_by: Callable[[Array, str | None], Execution] = modelled
    run_by: Callable[[Array, Network], Network] = lambda array, network: network

    def points(self) -> list[tuple[Value, ...]]:
        """Every combination of values, the last axis fastest."""
        count = math.prod(len(axis.values) for axis in self.axes)
        if count * len(self.networks) * (len(self.planners) + 1) > MOST_POINTS:
            raise UsageError(f"a sweep of {count} points is too large; at most {MOST_POINTS} cases")
        return list(itertools.product(*(axis.values for axis in self.axes)))

    def cases(self, point: tuple[Value, ...]) -> list[Case]:
        """One point's cases, data parallelism among them as the baseline."""
        chosen = {axis.key: value.text for axis, value in zip(self.axes, point, strict=True)}
        changes = [f"{key}={text}" for key, text in chosen.items() if key not in OPTIONS]
        try:
            array = array_of(chosen.get("array", self.array), [*self.settings, *changes])
        except SpecError as error:
            raise SpecError(_blaming(str(error), chosen)) from None
        batch = chosen.get("batch", str(self.batch))
        if not (batch.isascii() and batch.isdigit() and len(batch) < 40):
            raise UsageError(
                f"--vary batch={batch}: must be a whole number, or a range as 64:256:log:3"
            )
        objective = chosen.get("objective", self.objective)
        if objective not in OBJECTIVES:
            raise UsageError(f"--vary objective={objective}: one of {', '.join(OBJECTIVES)}")
        options = {key: chosen[key] for key in MODEL_OPTIONS if key in chosen}
        model = self.executed_by(array, _model(chosen.get("execution")))
        try:
            execution = with_options(model, options)
        except UsageError as error:
            raise UsageError(f"--vary {error}") from None
        asked = named(self.planners)
        cases = (
            Case(network, planner, array, int(batch), objective, self.communication, execution)
            for network in (self.run_by(array, one) for one in self.networks)
            for planner in ({BASELINE: BASELINE} | asked).values()
        )
        return [in_its_memory(case, asked) for case in cases]


def _blaming(fault: str, chosen: Mapping[str, str]) -> str:
    """What is wrong with a spec, of the ``--vary`` that made it so."""
    for key, text in chosen.items():
        fault = fault.replace(f"--set {key}={text}:", f"--vary {key}={text}:")
    if "array" in chosen and fault.startswith("unknown array"):
        return f"--vary array={chosen['array']}: {fault}"
    return fault


def unread(
    grid: Grid, said: Callable[[Array, Execution], list[str]] = warnings
) -> dict[tuple[str, ...], list[str]]:
    """What of the specs is not read, in sentences, by the values of those axes that are names.

    Numbers change little about what is read (one board has no links): what the first and the last
    of them both leave unread.
    """
    ends: dict[tuple[str, ...], list[tuple[Value, ...]]] = {}
    for point in grid.points():
        kind = _names(grid, point)
        ends[kind] = [ends[kind][0], point] if kind in ends else [point]
    found: dict[tuple[str, ...], list[str]] = {}
    for kind, points in ends.items():
        cases = [grid.cases(point)[0] for point in points]
        first, *others = (said(case.array, case.execution) for case in cases)
        found[kind] = [one for one in first if all(one in other for other in others)]
    return found


def all_unread(grid: Grid) -> list[str]:
    """Those sentences, each once, and which planners read nothing of what is varied."""
    found = dict.fromkeys(one for said in unread(grid).values() for one in said)
    blind = [
        name for name, one in named(grid.planners).items() if not reads_axes(load_planner(one))
    ]
    keys = [axis.key for axis in grid.axes if axis.key in AXIS_OPTIONS]
    return [*found, *(f"{key} is not read by: {', '.join(blind)}" for key in keys if blind)]


def _names(grid: Grid, point: tuple[Value, ...]) -> tuple[str, ...]:
    return tuple(v.text for axis, v in zip(grid.axes, point, strict=True) if not axis.numeric)


def _model(text: str | None) -> str | None:
    """The name of a model that is varied; UsageError for another."""
    if text not in (None, "published", "deployed"):
        raise UsageError(f"--vary execution={text}: one of published, deployed")
    return text


class Place(NamedTuple):
    """Where in a sweep a case belongs: the number of its point, its network and its planner.

    The network is named as its maker has it: at another point it may have other attention.
    """

    point: int
    network: str
    planner: str


def sweep(
    grid: Grid,
    runner: Runner | None = None,
    progress: Callable[[str], None] = lambda done: None,
    work: Callable[[Case], Outputs] | None = None,
) -> pandas.DataFrame:
    """Run the grid; one row a case: inputs, varied values, seconds, speedup, shares.

    A varied quantity is a column of numbers named with its unit. ``speedup``
    is over data parallelism at the same point. ``runner`` says where cases run and
    whether they are kept. Raises UsageError for values that make no sense, before any run.
    """
    refuse_twins(grid.networks)
    points = grid.points()
    cases: dict[Place, Case] = {}
    for i, point in enumerate(points):
        at_point = grid.cases(point)
        each = len(at_point) // len(grid.networks)
        for k, case in enumerate(at_point):
            cases[Place(i, grid.networks[k // each].name, case.planner_name)] = case
    found: dict[Place, Finished[Place]] = {}
    for finished in (runner or Runner()).run(cases, work=work):
        found[finished.name] = finished
        progress(f"{finished.name.network} {finished.name.planner}")
    if all(REFUSED in one.outputs for one in found.values()):
        raise UsageError(NONE_LEFT)
    return _table(grid, points, cases, found)


UNTOLD = ("memory", "computing_by_kind", "out_of_memory", REFUSED)
"""Outputs that are no columns."""


def _table(
    grid: Grid,
    points: list[tuple[Value, ...]],
    cases: dict[Place, Case],
    found: dict[Place, Finished[Place]],
) -> pandas.DataFrame:
    changed = {axis.key for axis in grid.axes} - set(INPUTS)  # shown as numbers instead
    shown, said = named(grid.planners), unread(grid, changed_unread)
    names: dict[str, set[str]] = {}
    twins = _twins(grid, cases.values())
    for place, case in cases.items():
        names.setdefault(place.network, set()).add(case.network.name)
    rows = []
    for place, case in cases.items():
        if place.planner not in shown:
            continue
        varied = {
            axis.title: value.number if axis.numeric else value.label
            for axis, value in zip(grid.axes, points[place.point], strict=True)
            if axis.key not in INPUTS  # those are inputs of every case
        }
        own = found[place].outputs
        base = found[place._replace(planner=BASELINE)].outputs
        own_s, base_s = (math.nan if REFUSED in of else of["iteration_s"] for of in (own, base))
        inputs = {key: value for key, value in case.inputs.items() if key not in changed}
        called = case.array.base if twins is None else points[place.point][twins].label
        inputs["array"] = ", ".join([called, *_fixed(case.array, changed)])
        if len(names[place.network]) > 1:  # by what is varied
            inputs["network"] = place.network
        outputs = {key: value for key, value in own.items() if key not in UNTOLD}
        if own["memory"]:
            outputs["fits"] = not own.get("cores_over_memory")
            outputs["overflow"] = overflow_of(case, own)
        if any(said.values()):
            outputs["warnings"] = "\n".join(said[_names(grid, points[place.point])])
        fits = not base.get("cores_over_memory")  # else nobody could have the speedup
        speedup = base_s / (own_s or math.nan) if fits else math.nan
        rates = asdict(throughput(case, own_s))
        ends = {"speedup": speedup, "baseline_fits": fits, "key": found[place].key}
        rows.append(inputs | varied | outputs | rates | ends)
    return frame_of(rows)


def _fixed(array: Array, varied: Set[str]) -> list[str]:
    """An array's changes that hold in the whole sweep; what is varied has columns."""
    return [word for word in array.changes if word.partition("=")[0] not in varied]


def _twins(grid: Grid, cases: Iterable[Case]) -> int | None:
    """The number of the axis of arrays, where two files of these have one name; else None."""
    many = {axis.key: (i, len(axis.values)) for i, axis in enumerate(grid.axes)}
    number, count = many.get("array", (None, 0))
    return number if len({case.array.base for case in cases}) < count else None


@dataclass(frozen=True, slots=True)
class Crossover:
    """Where two planners take equally long: about at ``value``, in the axis' unit.

    It is between two simulated values, ``below`` and ``above``, which are one where it is exact.
    """

    network: str
    first: str
    second: str
    value: float
    speedup: float
    below: float
    above: float


def changes_of_place(grid: Grid, table: pandas.DataFrame) -> list[Crossover] | None:
    """The crossovers of a grid that goes along one numeric axis; None of any other."""
    (axis, *others) = grid.axes
    if others or not axis.numeric or len(axis.values) < 2:
        return None
    return crossovers(table, axis)


def crossovers(table: pandas.DataFrame, axis: Axis) -> list[Crossover]:
    """Where the order of two planners changes along one numeric axis.

    Where they are equal over a stretch, its beginning counts. Between two
    points both curves are taken as straight (in logarithms where the axis is
    logarithmic).
    """
    found: list[Crossover] = []
    scale, back = (math.log, math.exp) if axis.logarithmic else (float, float)
    for network, part in table.groupby("network", sort=False):
        curves = {
            str(planner): sorted(zip(rows[axis.title], rows["speedup"], strict=True))
            for planner, rows in part.groupby("planner", sort=False)
        }
        for (first, one), (second, other) in itertools.combinations(curves.items(), 2):
            pairs = [
                (x, math.log(y), math.log(z)) for (x, y), (_, z) in zip(one, other, strict=True)
            ]
            pairs = [pair for pair in pairs if not math.isnan(pair[1] - pair[2])]
            apart = [i for i, (_, a, b) in enumerate(pairs) if a != b]
            for i, j in itertools.pairwise(apart):
                (x0, a0, b0), (x1, a1, b1) = pairs[i], pairs[j]
                before, after = a0 - b0, a1 - b1
                if before * after > 0:
                    continue
                if j > i + 1:  # equal in between: there
                    x1, a1, after = pairs[i + 1][0], pairs[i + 1][1], 0.0
                t = before / (before - after)
                value = back(scale(x0) + t * (scale(x1) - scale(x0)))
                height = math.exp(a0 + t * (a1 - a0))
                below = x0 if after else x1
                found.append(Crossover(str(network), first, second, value, height, below, x1))
    return found
