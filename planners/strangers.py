"""Planners that are not ours: imported from their place, and whether they can be called."""

from __future__ import annotations

import os
import sys
from typing import Any

from planners.errors import PlanError

ARGUMENTS = ("network", "array", "batch", "objective")
"""What a planner is called with, in this order."""


def imported(name: str, place: str) -> Any:
    """The planner at ``module:attribute``, looked for in the current folder too.

    Raises PlanError, with ``name``, whatever goes wrong in the stranger's module.
    """
    from importlib import import_module

    module, _, path = place.partition(":")
    here = os.getcwd()
    added = here not in sys.path and "" not in sys.path
    if added:
        sys.path.append(here)
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {error}"
        raise PlanError(f"planner {name} cannot be loaded: {why}") from error
    finally:
        if added:
            sys.path.remove(here)
    return callable_as_planner(found, name)


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
