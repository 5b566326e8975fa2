"""``accelarray.compare``, ``scale``, ``speedup`` and ``sweep``: many steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from experiments.face.asked import study_of
from experiments.face.forms import explicit
from experiments.results.speedups import ComparisonResult, ScalingResult, compared, scaled, whole
from experiments.results.sweeps import SweepResult, grid_of, swept
from simulator.search.shares import FAIRER

if TYPE_CHECKING:
    from experiments.face.forms import (
        ArrayLike,
        Changes,
        ExecutionLike,
        Networks,
        Planners,
        StudyOptions,
        Vary,
    )


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

    "all" are AccPar's nine networks, and all planners but ``model_parallel``.
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


@explicit(
    levels='of the hierarchy: arrays of 2^level accelerators, "2-8" or numbers; default: one array',
    baselines="with best_share and best_subset, data parallelism as it is run; twice the work",
)
def speedup(
    networks: Networks = "all",
    planners: Planners = "all",
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    levels: str | Iterable[int] | None = None,
    baselines: bool = False,
    set: Changes = (),  # noqa: A002
    **options: Unpack[StudyOptions],
) -> ComparisonResult | ScalingResult:
    """Speedups of planners over data parallelism: ``compare``, or with ``levels`` ``scale``."""
    first = FAIRER if baselines else ()
    study = study_of(networks, planners, array, batch, execution, set, options, first=first)
    return whole(compared(study)) if levels is None else whole(scaled(study, levels))


@explicit(
    vary='values by key, {"batch": [64, 128], "network.bandwidth": "1 Gbit/s:1 Tbit/s:log:16"}; '
    "keys of the array's spec, array, batch, execution, and the options below",
)
def sweep(
    vary: Vary,
    networks: Networks = "all",
    planners: Planners = "all",
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    set: Changes = (),  # noqa: A002
    **options: Unpack[StudyOptions],
) -> SweepResult:
    """Every combination of varied values, under every planner, for every network.

    A range is FIRST:LAST:log:COUNT or FIRST:LAST:lin:COUNT; texts as "batch=64,128" work too.
    """
    study = study_of(networks, planners, array, batch, execution, set, options)
    return swept(study, grid_of(study, vary))
