"""Methods by name: the built-in table, then other packages' entry points."""

from __future__ import annotations

from collections.abc import Mapping

from hardware.reader import hint
from planners.plugins import installed, load_plugin, place_of
from simulator.asynchronous.algorithm import Algorithm
from simulator.asynchronous.algorithms.ad_psgd import AdPsgd
from simulator.asynchronous.algorithms.all_reduce import AllReduce, Hierarchical, LocalSgd
from simulator.asynchronous.algorithms.d_psgd import DPsgd
from simulator.asynchronous.algorithms.hop import Hop
from simulator.asynchronous.algorithms.parameter_server import (
    AsyncParameterServer,
    Backup,
    ParameterServer,
    StaleSynchronous,
)
from simulator.asynchronous.algorithms.prague import Prague
from simulator.asynchronous.errors import TrainingError

ALGORITHMS: dict[str, type[Algorithm]] = {
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


def algorithm_names() -> list[str]:
    """Built-in methods, then installed ones."""
    return list(dict.fromkeys([*ALGORITHMS, *sorted(installed(ENTRY_POINTS))]))


def load_algorithm(name: str, options: Mapping[str, str] | None = None) -> Algorithm:
    """The method called so, with options as text; raises TrainingError with the nearest name.

    ``module:class`` or ``file.py:class`` is imported, from the current folder too.
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name].of(options or {})
    place = place_of(name, ENTRY_POINTS)
    if place is None:
        several = "several: --compare; " if "," in name else ""
        raise TrainingError(f"unknown method {name!r}; {several}{hint(name, algorithm_names())}")
    found = load_plugin(f"method {name!r}", place, TrainingError, named=place is name)
    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise TrainingError(
            f"method {name!r}: {place} is no subclass of {Algorithm.__module__}.Algorithm"
        )
    return found.of(options or {})
