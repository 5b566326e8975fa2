"""Methods by name: the built-in table, then other packages' entry points."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from simulator.drivers.errors import TrainingError
from simulator.drivers.method import Method
from simulator.drivers.methods.ad_psgd import AdPsgd
from simulator.drivers.methods.all_reduce import AllReduce, Hierarchical
from simulator.drivers.methods.async_parameter_server import (
    AsyncParameterServer,
    StaleSynchronous,
)
from simulator.drivers.methods.d_psgd import DPsgd
from simulator.drivers.methods.hop import Hop
from simulator.drivers.methods.local_sgd import LocalSgd
from simulator.drivers.methods.parameter_server import Backup, ParameterServer
from simulator.drivers.methods.prague import Prague

METHODS: dict[str, type[Method]] = {
    "all-reduce": AllReduce,
    "hierarchical": Hierarchical,
    "ps": ParameterServer,
    "async-ps": AsyncParameterServer,
    "ssp": StaleSynchronous,
    "backup": Backup,
    "d-psgd": DPsgd,
    "ad-psgd": AdPsgd,
    "hop": Hop,
    "prague": Prague,
    "local-sgd": LocalSgd,
}
"""The methods there are."""

ENTRY_POINTS = "accelarray.methods"
"""Entry-point group in which other packages announce methods."""


def method_names() -> list[str]:
    """Built-in methods, then installed ones."""
    return list(dict.fromkeys([*METHODS, *sorted(_installed())]))


def _installed() -> dict[str, str]:
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS)}


def load_method(name: str, options: Mapping[str, str] | None = None) -> Method:
    """The method called so, with options as text; raises TrainingError with the nearest name.

    ``module:class`` is imported.
    """
    return _class(name).of(options or {})


def _class(name: str) -> type[Method]:
    if name in METHODS:
        return METHODS[name]
    place = name if ":" in name else _installed().get(name)
    if place is None:
        known = method_names()
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(known)}"
        raise TrainingError(f"unknown method {name!r}; {hint}")
    module, _, path = place.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except Exception as error:  # whatever goes wrong in a stranger's module
        raise TrainingError(
            f"method {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, Method)):
        raise TrainingError(
            f"method {name!r}: {place} is no subclass of {Method.__module__}.Method"
        )
    return found
