"""``accelarray.compare``, ``scale``, ``speedup``, ``sweep`` and ``report``: many steps."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack, cast

from rich.table import Table

from experiments.api.argument_types import (
    ArrayLike,
    Changes,
    ExecutionLike,
    NetworkLike,
    Networks,
    Planners,
    ReportOptions,
    StudyOptions,
    Vary,
    explicit,
)
from experiments.api.inputs import network_of
from experiments.api.requests import changed, running, study_of, transforms_of
from experiments.output import check_page, deliver_page
from experiments.report.study import Study, drawn_case, steps
from experiments.report.study import report as page_of
from experiments.results.formats import flat
from experiments.results.result import Result
from experiments.results.speedups import ComparisonResult, ScalingResult, compared, scaled, whole
from experiments.results.sweeps import SweepResult, axes_of, grid_of, planners_for, swept
from experiments.studies.options import first_array
from experiments.studies.running.estimate import check_memory
from experiments.studies.step_numbers import check_metrics
from hardware import load_array
from planners import planner_name
from simulator.search.shares import FAIRER
from workloads import Network

ARRAYS = ("accpar-mixed", "accpar-homogeneous")
MAPPED, DRAWN, PLANNER = "resnet18", "vgg11", "accpar"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ReportResult(Result):
    """One self-contained page (HTML): speedups, plans, a timeline, sources."""

    study: Study
    html: str

    def title(self) -> str:
        """What is compared."""
        study = self.study
        names = (", ".join(one.name for one in of) for of in (study.networks, study.arrays))
        return study.title or f"{next(names)} on {next(names)}"

    def to_dict(self) -> dict[str, Any]:
        """What the page is about, and the page."""
        study = self.study
        return {
            "title": self.title(),
            "arrays": [array.name for array in study.arrays],
            "networks": [network.name for network in study.networks],
            "planners": [planner_name(planner) for planner in study.planners],
            "batch": study.batch,
            "html": self.html,
        }

    def rows(self) -> list[dict[str, Any]]:
        """One line: what of ``to_dict`` is a single value."""
        return [flat(self.to_dict())]

    def tables(self) -> list[Table | str]:
        """What the page is about."""
        return [f"{self.title()}: a page of {len(self.html) / 1e6:.1f} MB; save(path) writes it"]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page (.html)."""
        target = os.fspath(path)
        check_page(target)
        deliver_page(self.html, target)


@explicit(
    array="a name, a .toml file, or an Array; default: AccPar's two, or the changed mixed one",
    command="that the page says it was made by",
)
def report(
    networks: Networks = "all",
    planners: Planners = "all",
    array: ArrayLike | None = None,
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    timeline: NetworkLike | None = None,
    title: str | None = None,
    command: str = "",
    set: Changes = (),  # noqa: A002
    **options: Unpack[ReportOptions],
) -> ReportResult:
    """Make one page of speedups, plans, a step's timeline and sources, to be sent to somebody.

    Raises NetworkError, PlanError, SpecError or UsageError.
    """
    given, changes = cast("StudyOptions", options), changed(set, options)
    asked = study_of(networks, planners, array or ARRAYS[0], batch, execution, set, given)
    on = asked.conditions.array
    arrays = [on] if array or changes else [load_array(name) for name in ARRAYS]
    for one in arrays:
        check_metrics(asked.metrics, one)
    wanted = None if timeline is None else network_of(timeline, transforms_of(options), on)
    about = Study(
        arrays=tuple(arrays),
        networks=asked.networks,
        planners=asked.planners,
        mapped=wanted or _among(asked.networks, MAPPED),
        drawn=wanted or _among(asked.networks, DRAWN),
        drawn_planner=PLANNER if PLANNER in asked.planners else asked.planners[-1],
        batch=asked.conditions.batch,
        execution=asked.conditions.options["execution"],
        metrics=asked.metrics,
        command=command,
        title=title or "",
    )
    check_memory([drawn_case(about)], options.get("max_memory"))
    with running(options, steps(about)) as (runner, progress, _):
        return ReportResult(about, page_of(about, progress, runner))


def _among(networks: Sequence[Network], name: str) -> Network:
    """The network of that name, or the first."""
    return next((network for network in networks if network.name == name), networks[0])


@explicit()
def compare(
    networks: Networks = "all",
    planners: Planners = "all",
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    set: Changes = (),  # noqa: A002
    **options: Unpack[StudyOptions],
) -> ComparisonResult:
    """Speedups of planners over data parallelism, network by network.

    "all" are AccPar's nine networks, and the four planners of its paper.
    """
    return whole(compared(study_of(networks, planners, array, batch, execution, set, options)))


@explicit(levels='of the hierarchy: arrays of 2^level accelerators, "2-8" or numbers')
def scale(
    networks: Networks = "all",
    planners: Planners = "all",
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    levels: str | Iterable[int] = "2-8",
    set: Changes = (),  # noqa: A002
    **options: Unpack[StudyOptions],
) -> ScalingResult:
    """``compare`` on arrays of 2^levels accelerators in the proportions of ``array``."""
    study = study_of(networks, planners, array, batch, execution, set, options)
    return whole(scaled(study, levels))


@explicit(levels='of the hierarchy: arrays of 2^level accelerators, "2-8"; default: one array')
def speedup(
    networks: Networks = "all",
    planners: Planners = "all",
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    levels: str | Iterable[int] | None = None,
    baselines: bool = False,
    folded: bool = True,
    set: Changes = (),  # noqa: A002
    **options: Unpack[StudyOptions],
) -> ComparisonResult | ScalingResult:
    """Speedups of planners over data parallelism: ``compare``, or with ``levels`` ``scale``."""
    first = FAIRER if baselines else ()
    asked = (networks, planners, array, batch, execution, set, options)
    study = study_of(*asked, folded=folded, first=first)
    return whole(compared(study)) if levels is None else whole(scaled(study, levels))


@explicit(
    vary='values by key, {"batch": [64, 128], "network.bandwidth": "1 Gbit/s:1 Tbit/s:log:16"}; '
    "keys of the array's spec, array, batch, execution, and the options below but attention, "
    "transform, communication, strict_memory, metrics, price and those of the run"
)
def sweep(
    vary: Vary,
    networks: Networks = "all",
    planners: Planners = "all",
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    estimate: bool = False,
    set: Changes = (),  # noqa: A002
    **options: Unpack[StudyOptions],
) -> SweepResult:
    """Every combination of varied values, under every planner, for every network.

    A range is FIRST:LAST:log:COUNT or FIRST:LAST:lin:COUNT; texts as "batch=64,128" work too.
    """
    axes = axes_of(vary)
    planners = planners_for(planners, axes)
    on = first_array(axes) or array
    study = study_of(networks, planners, on, batch, execution, set, options)
    return swept(study, grid_of(study, axes), estimate=estimate)
