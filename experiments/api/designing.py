"""``accelarray.design``: which units a core should have for these networks, area and power."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from time import perf_counter
from typing import TYPE_CHECKING, Any, Unpack, cast

from rich.table import Table

from experiments.api.argument_types import (
    ArrayLike,
    Changes,
    DesignOptions,
    ModelOptions,
    Networks,
    PlannerLike,
    Progress,
    StoreLike,
    explicit,
)
from experiments.api.inputs import (
    array_of,
    each_run_by,
    execution_of,
    networks_of,
    planner_of,
)
from experiments.api.requests import opened, transforms_of
from experiments.design.judge import AIMS, Limits
from experiments.design.runs import fields_of, limits_of
from experiments.design.shown import rows, tables, to_dict
from experiments.design.space import load_space
from experiments.design.spec import specs_of
from experiments.design.study import (
    MOST_DESIGNS,
    SEARCHES,
    Asked,
    Found,
    run_search,
    study,
)
from experiments.notices import tell
from experiments.output import UsageError, deliver, hearing
from experiments.pictures.plots import pareto
from experiments.results.result import Result
from experiments.studies.case import Case
from experiments.studies.comparison import refuse_twins
from experiments.studies.running.estimate import check_memory, forewarn
from experiments.studies.unread import changed
from hardware import Array
from hardware.units import ELEMENT_BYTES
from simulator import Execution, memory_of, overflow, usual

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DesignResult(Result):
    """The best design of a core for networks, the base design and the other candidates."""

    data: dict[str, Any]
    studies: tuple[tuple[Asked, Found], ...]
    """One for all networks, or with ``each`` one for each."""

    @property
    def _each(self) -> list[dict[str, Any]]:
        """A study's data each; of one alone ``designs`` is the size of its space."""
        return self.data["designs"] if len(self.studies) > 1 else [self.data]

    def title(self) -> str:
        """Networks, array and aim, with what the winner gains."""
        return "; ".join(
            f"{_names(asked)} on {asked.cases[0].array.name}: {asked.aim} x "
            f"{found.winner.value:.3f}"
            for asked, found in self.studies
        )

    def _one(self, what: str) -> tuple[Asked, Found]:
        """The only study; raises UsageError where there are several."""
        if len(self.studies) > 1:
            raise UsageError(f"{what} is of one design; each network has its own here")
        return self.studies[0]

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray design --format json`` prints."""
        return self.data

    def rows(self) -> list[dict[str, Any]]:
        """A row for each network and candidate, the base first."""
        return [row for one in self._each for row in rows(one)]

    def tables(self) -> list[Table | str]:
        """The base and the candidates, then how they were found."""
        return [part for one in self._each for part in tables(one)]

    def plot(self) -> Figure:
        """Throughput against area of every design that was evaluated."""
        asked, found = self._one("the picture")
        points = [(score.area_mm2, score.value) for score in found.judge.scores.values()]
        winner = fields_of(found.winner, asked.cases)
        title = f"{_names(asked)}: {len(points):,} designs by estimate"
        base = (found.base.area_mm2, 1.0)
        place = winner["area_mm2"], winner["value"]
        return pareto(points, base, place, asked.aim, title)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture (.png, .svg, .pdf), or the winner's spec (.toml)."""
        target = os.fspath(path)
        if not target.endswith(".toml"):
            Result.save(self, target)
            return
        asked, found = self._one(target)
        names = [case.network.name for case in asked.cases]
        array = asked.cases[0].array
        specs = specs_of(target, array, asked.space, found.winner, names, found.places)
        for file, text in specs.items():
            deliver(text, file)


def _names(asked: Asked) -> str:
    return ", ".join(case.network.name for case in asked.cases)


@explicit(
    networks="one network or several; one design for all of them",
    array="whose cores are designed (default wham-1)",
    batch="samples of a step (default 64)",
)
def design(
    networks: Networks,
    array: ArrayLike = "wham-1",
    batch: int = 64,
    *,
    planner: PlannerLike = "data_parallel",
    area: float | str | None = None,
    power: float | str | None = None,
    objective: str = "throughput",
    space: str = "wham",
    top: int | str = 3,
    each: bool = False,
    search: str = "wham",
    budget: int | str | None = None,
    seed: int | str = 0,
    baselines: bool = False,
    set: Changes = (),  # noqa: A002
    store: StoreLike | None = None,
    max_memory: str | float | None = None,
    progress: Progress | None = None,
    **options: Unpack[DesignOptions],
) -> DesignResult:
    """Search for the units of a core, then run the best designs on the engine.

    Raises NetworkError, PlanError, SpecError or UsageError.
    """
    place, chosen, size = array_of(array, set), planner_of(planner), int(batch)
    execution = _execution(options, place)
    if size < 1:
        raise UsageError(f"--batch {size}: at least one sample")
    found = each_run_by(place, networks_of(networks), transforms_of(options))
    refuse_twins(found)
    cases = [Case(one, chosen, place, size, execution=execution) for one in found]
    check_memory(cases, max_memory)
    told = forewarn(cases)
    aim = next((one for one in AIMS if one == objective), None)
    if aim is None or search not in SEARCHES:
        raise UsageError(f"objective: one of {', '.join(AIMS)}; search: {', '.join(SEARCHES)}")
    groups = [[case] for case in cases] if each else [cases]
    studies, data = [], []
    with opened(store) as open_store:
        for group in groups:
            asked = Asked(
                tuple(group),
                load_space(space),
                _limits(group, area, power),
                aim,
                search,
                None if budget is None else _whole(budget, "--budget"),
                _seed(seed, search),
                _whole(top, "--top"),
            )
            one = study(asked, open_store, progress)
            studies.append((asked, one))
            data.append(to_dict(asked, one, _baselines(asked, one, progress) if baselines else []))
    output: dict[str, Any] = data[0] if len(data) == 1 else {"designs": data}
    told += tuple(_overflows(studies))
    output["warnings"] = [*told, *(note for case in cases for note in case.network.notes)]
    return DesignResult(output, tuple(studies))


def _execution(options: DesignOptions, array: Array) -> Execution:
    """The deployed model with options; what of the spec it does not read is told."""
    if usual(array).model != "deployed":
        tell(f"design runs designs under the deployed model, not {usual(array).model}.")
    found = execution_of("deployed", cast("ModelOptions", options), array)
    for said in changed(array, found):
        tell(said)
    width = array.group.arithmetic.element_bytes
    if width != ELEMENT_BYTES:
        tell(f"area and power are those of 16-bit arithmetic, although elements have {width:g} B")
    return found


def _overflows(studies: Sequence[tuple[Asked, Found]]) -> list[str]:
    """Which networks do not fit in memory; a design changes nothing about that."""
    found = []
    for asked, result in studies:
        for case, plan in zip(asked.cases, result.plans, strict=True):
            memory = memory_of(case.network, plan, case.array, case.execution)
            fault = overflow(case.network.name, case.planner_name, case.array.name, memory)
            found += [fault] if fault else []
    for fault in found:
        tell(fault)
    return found


def _limits(cases: Sequence[Case], area: float | str | None, power: float | str | None) -> Limits:
    """What a chip may have at most: as asked, or what the base design has."""
    base = limits_of(cases[0].array)
    return base._replace(
        area_mm2=_positive(area, "--area", "mm2") or base.area_mm2,
        power_w=_positive(power, "--power", "W") or base.power_w,
    )


def _positive(given: float | str | None, option: str, unit: str) -> float | None:
    """A number above zero, with or without its unit; raises UsageError."""
    if given is None:
        return None
    try:
        value = float(str(given).strip().removesuffix(unit))
    except ValueError:
        value = 0.0
    if not isfinite(value) or value <= 0:
        raise UsageError(f"{option} {given}: must be a number above zero, in {unit}")
    return value


def _seed(seed: int | str, search: str) -> int:
    number = _whole(seed, "--seed", least=0)
    if number and search != "random":
        tell(f"--seed {number} has no effect: only --search random draws designs.")
    return number


def _whole(given: int | str, option: str, least: int = 1) -> int:
    text = str(given)
    if text.isascii() and text.isdigit() and len(text) < 9 and int(text) >= least:
        return int(text)
    most = " to 99,999,999" if len(text) > 8 else " on"
    raise UsageError(f"{option} {text}: must be a whole number from {least}{most}")


def _baselines(asked: Asked, found: Found, hears: Progress | None) -> list[dict[str, Any]]:
    """The search alone, random search with as many evaluations, and exhaustive search.

    That has as many, or all of a small space. All are for all cores together, and none reads a
    store, so that their seconds can be compared.
    """
    ours, rows = found.judge, []
    small = len(asked.space) <= MOST_DESIGNS
    for search in dict.fromkeys((asked.search, "random", "exhaustive")):
        budget = None if small and search == "exhaustive" else ours.evaluations
        with hearing(hears, budget) as progress:
            judge = ours.fresh(progress)
            started = perf_counter()
            run_search(judge, search, budget, asked.seed)
        best = judge.top(1)[0]
        rows.append(
            {
                "search": search,
                "evaluations": judge.evaluations,
                "whole_space": budget is None,
                "search_s": perf_counter() - started,
                "estimated_value": best.value,
                "design": str(best.design),
            }
        )
    return rows
