"""Planners by name: the built-in table, then other packages' entry points; or as functions."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Protocol, cast

from hardware import Array, SpecError
from hardware.reader import hint
from planners.built_in import accpar, data_parallel, hypar, model_parallel, owt
from planners.cost.objective import Objective
from planners.errors import PlanError
from planners.plan import Plan
from planners.plugins import installed, load_plugin
from workloads import Network, NetworkError


class Planner(Protocol):
    """A pure function from a network, an array, a batch and an objective to a plan."""

    def __call__(
        self, network: Network, array: Array, batch: int, objective: Objective = ..., /
    ) -> Plan:
        """Plan; raises PlanError when that cannot be done."""


PLANNERS: dict[str, Planner] = {
    "data_parallel": data_parallel,
    "owt": owt,
    "hypar": hypar,
    "accpar": accpar,
}
"""The planners that comparisons take."""

BASELINES: dict[str, Planner] = {"model_parallel": model_parallel}
"""Built-in planners that comparisons take only where they are named."""


class Judged(NamedTuple):
    """Where a planner is, and the first line of its documentation: lists need not load it."""

    place: str
    about: str


JUDGED = {
    "axes": Judged(
        "planners.axes.planner:axes",
        "Named axes as --parallel says, as Megatron splits transformers; without any, samples.",
    ),
    "best_share": Judged(
        "simulator.search.shares:best_share",
        "Data parallelism on all devices, with the best single share for each kind of them.",
    ),
    "best_subset": Judged(
        "simulator.search.shares:best_subset",
        "Data parallelism on the best power of two of one kind of device, or on all of them.",
    ),
    "pipedream": Judged(
        "simulator.search.stages:pipedream",
        "The pipeline with the least time of a minibatch by the paper's formula; exact.",
    ),
    "search": Judged(
        "simulator.search.search:search",
        "The plan whose simulated step is shortest, of planners without stages and of its own.",
    ),
}
"""Built-in planners that are loaded when they are named, by name only too.

All but "axes" ask the simulator for the times of steps, or of layers, and so lie above this
package."""

ENTRY_POINTS = "accelarray.planners"
"""Entry-point group in which other packages announce planners."""


def planner_names() -> list[str]:
    """Built-in planners in the papers' order, then installed ones; comparisons take the former."""
    known = BASELINES.keys() | JUDGED.keys()
    others = sorted(installed(ENTRY_POINTS).keys() - known)
    return list(dict.fromkeys([*PLANNERS, *others]))


def load_planner(planner: str | Planner) -> Planner:
    """The planner called so, a function as it is; raises PlanError with the nearest name.

    ``module:function`` is imported, from the current folder too; ``path/file.py:function``
    is read from that file. What cannot be loaded, or takes other arguments than a planner
    is given, is named.
    """
    if not isinstance(planner, str):
        own: Planner = callable_as_planner(planner)
        return own
    built_in = PLANNERS | BASELINES
    if planner in built_in:
        return built_in[planner]
    name, place = repr(planner), planner
    if planner in JUDGED:  # as built in as the others; what is installed is long to look through
        place = JUDGED[planner].place
    elif (entry := installed(ENTRY_POINTS).get(planner)) is not None:
        package = f" of package {entry.dist.name} {entry.dist.version}" if entry.dist else ""
        name, place = f"{planner!r}{package}", entry.value
    if ":" in place:
        found = load_plugin(f"planner {name}", place, PlanError, named=place is planner)
        return cast("Planner", callable_as_planner(found, name))
    known = hint(planner, [*planner_names(), *BASELINES, *JUDGED])
    of_file = f"; of a file write {planner}:FUNCTION" if planner.endswith(".py") else ""
    raise PlanError(f"unknown planner {planner!r}; {known}{of_file}")


def asked(planner: Planner, *step: Any, **told: Any) -> Plan:
    """What a planner answers; PlanError where that is no plan, or it raises what is not ours.

    Of an error it has the planner's own line.
    """
    try:
        plan: object = planner(*step, **told)
    except (PlanError, SpecError, NetworkError):
        raise
    except (Exception, SystemExit) as error:
        if planner in (PLANNERS | BASELINES).values() or is_built_in(planner):
            raise
        raise PlanError(
            f"planner {planner_name(planner)!r} failed: {type(error).__name__}: {error} "
            f"({_own_line(planner, error)})"
        ) from error
    if not isinstance(plan, Plan):
        what = f"gave {type(plan).__name__}; it must return a Plan (planners.Plan)"
        raise PlanError(f"planner {planner_name(planner)!r} {what}")
    return plan


def _own_line(planner: Planner, error: BaseException) -> str:
    """The last line of the planner's own file on the way to an error, or the last of all."""
    from traceback import extract_tb

    file = getattr(getattr(planner, "__code__", None), "co_filename", None)
    lines = extract_tb(error.__traceback__)
    at = next((line for line in reversed(lines) if line.filename == file), lines[-1])
    return f"{at.filename}, line {at.lineno}: {at.line}"


def planner_name(planner: str | Planner) -> str:
    """What tables call a planner: its name, or its function's."""
    if isinstance(planner, str):
        return planner
    while isinstance(planner, functools.partial):
        planner = planner.func
    return str(getattr(planner, "__name__", type(planner).__name__))


def is_built_in(planner: str | Planner) -> bool:
    """Whether a planner is one of ours, whose plans change with our version alone."""
    found = load_planner(planner)
    return found in _OURS or any(load_planner(name) is found for name in JUDGED)


_OURS = (*PLANNERS.values(), *BASELINES.values())
"""As imported: what somebody puts into the tables later is not ours."""


ARGUMENTS = ("network", "array", "batch", "objective")
"""What a planner is called with, in this order."""


def callable_as_planner(planner: Any, name: str = "") -> Any:
    """The same planner; raises PlanError unless it takes what a planner is called with."""
    from inspect import signature

    name = name or repr(getattr(planner, "__name__", planner))
    if not callable(planner):
        raise PlanError(f"planner {name}: neither a name nor a function")
    try:
        takes = signature(planner)
    except (TypeError, ValueError):  # a function of C tells nothing
        return planner
    try:
        takes.bind(*ARGUMENTS)
    except TypeError as error:
        called = ", ".join(ARGUMENTS)
        raise PlanError(
            f"planner {name} takes {takes}, and is called with ({called}): {error}"
        ) from None
    return planner


def takes_execution(planner: Any) -> bool:
    """Whether a planner asks for the execution model that its plan will be simulated under.

    It says so by a parameter ``execution``.
    """
    from inspect import signature

    try:
        return "execution" in signature(planner).parameters
    except (TypeError, ValueError):  # a function of C tells nothing
        return False


def reads_axes(planner: Any) -> bool:
    """Whether a planner plans the named axes of a staging: it has a true ``reads_axes``."""
    return bool(getattr(planner, "reads_axes", False))


def plans_stages(planner: Any) -> bool:
    """Whether a planner chooses a pipeline's stages itself: it has a true ``plans_stages``."""
    return bool(getattr(planner, "plans_stages", False))
