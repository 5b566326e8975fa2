"""Call a function with many cases: here, one after another, or on this machine's cores."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from experiments.ending import end_with, undisturbed
from experiments.output import UsageError
from experiments.studies.case import Case

Name = TypeVar("Name", bound=Hashable)
Result = TypeVar("Result")


class RunError(UsageError):
    """Cases could not be run to their end; what was finished is stored."""


class Spread(Protocol):
    """Calls a function with every case, somewhere; gives results by name as they finish."""

    def __call__(
        self, function: Callable[[Case], Any], cases: Mapping[Any, Case], /
    ) -> Iterator[tuple[Any, Any]]:
        """Raises RunError when workers are lost."""


def call(function: Callable[[Case], Result], name: Name, case: Case) -> tuple[Name, Result]:
    """One case's result, with its name."""
    return name, function(case)


def here(function: Callable[[Case], Any], cases: Mapping[Any, Case]) -> Iterator[tuple[Any, Any]]:
    """One after another."""
    return (call(function, name, case) for name, case in cases.items())


def on_cores(
    jobs: int, function: Callable[[Case], Any], cases: Mapping[Any, Case]
) -> Iterator[tuple[Any, Any]]:
    """Processes on this machine (joblib); results come in the order in which they finish."""
    if len(cases) < 2:
        yield from here(function, cases)
        return
    from multiprocessing import resource_tracker

    from joblib import Parallel, delayed
    from joblib.externals.loky import process_executor
    from joblib.externals.loky.backend import resource_tracker as lokys_tracker

    parallel = Parallel(
        n_jobs=jobs,
        return_as="generator_unordered",
        initializer=end_with,
        initargs=(os.getpid(),),
    )
    for tracker in (resource_tracker, lokys_tracker):
        tracker.ensure_running()  # else joblib starts them, and then lets signals in
    results: Generator[Any] | None = None
    try:
        with undisturbed():
            results = parallel(delayed(call)(function, name, case) for name, case in cases.items())
        yield from results
    except process_executor.TerminatedWorkerError:
        raise RunError(
            "a worker process was killed (out of memory?); finished cases are kept in --store. "
            "Run the same command again, perhaps with fewer --jobs"
        ) from None
    finally:
        if results is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it cancels what is still to come
                results.close()
