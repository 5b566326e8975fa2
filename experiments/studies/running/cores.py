"""Call a function with many cases: here, one after another, or on this machine's cores."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from experiments.ending import end_with, undisturbed
from experiments.output import UsageError
from experiments.studies.case import Case

Result = TypeVar("Result")
START = "fork" if sys.platform == "linux" else "spawn"
"""How processes are started here. Forks have NumPy and the model from the start: two are at work
after 20 ms, where new ones take half a second; elsewhere than on Linux they are not safe."""


class RunError(UsageError):
    """Cases could not be run to their end; what was finished is stored."""


Spread = Callable[[Callable[[Case], Any], Mapping[Any, Case]], Iterator[tuple[Any, Any]]]
"""Calls a function with every case, somewhere; gives results by name as they finish.

Raises RunError when workers are lost.
"""


def here(function: Callable[[Case], Any], cases: Mapping[Any, Case]) -> Iterator[tuple[Any, Any]]:
    """One after another."""
    return ((name, function(case)) for name, case in cases.items())


@contextmanager
def on_cores(jobs: int) -> Iterator[Spread]:
    """Calls in so many processes on this machine, which keep what they worked out till the end.

    They start when there are cases for two. Results come in the order in which they finish; what
    is raised there is raised here. A case whose process is killed is run once more, alone; where
    it is killed again, all others are finished before RunError says which it was.
    Cases that cannot be sent (a planner may be a function in a function) are run here.
    """
    team = _Team(jobs)
    try:
        yield team.spread
    finally:
        team.end()


class _Team:
    """A pool of processes that is given cases, again and again."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None
        self._size = 0
        self._processes = set[BaseProcess]()

    def end(self) -> None:
        """End the processes, whatever they do."""
        if self._pool is not None:
            with undisturbed():
                for process in self._processes:
                    process.terminate()
                self._pool.shutdown(cancel_futures=True)
            self._pool, self._size = None, 0
            self._processes.clear()

    def spread(
        self, function: Callable[[Case], Any], cases: Mapping[Any, Case]
    ) -> Generator[tuple[Any, Any]]:
        """See ``Spread``; one case is no work for others."""
        if len(cases) < 2 or not _is_sendable(function, cases):
            yield from here(function, cases)
            return
        left, lost = dict(cases), list[Case]()
        try:
            while left:
                try:
                    yield from self._results(function, left, list(left))
                except BrokenProcessPool:
                    self.end()
                    # those that processes had, or would have had next, each alone
                    for name in list(left)[: 2 * self._jobs + 1]:
                        try:
                            yield from self._results(function, left, [name])
                        except BrokenProcessPool:
                            self.end()
                            lost.append(left.pop(name))
        except BaseException:  # nobody will hear what is under way
            self.end()
            raise
        if lost:
            raise RunError(killed(lost, "a worker process was killed, and again with it alone"))

    def _results(
        self, function: Callable[[Case], Any], left: dict[Any, Case], names: list[Any]
    ) -> Generator[tuple[Any, Any]]:
        """Results as they come, which are taken from what is ``left``."""
        futures = {self._submit(function, left[name], len(names)): name for name in names}
        broken: BaseException | None = None
        for future in as_completed(futures):
            if isinstance(future.exception(), BrokenProcessPool):
                broken = future.exception()
                continue
            result = future.result()
            del left[futures[future]]
            yield futures[future], result
        if broken is not None:
            raise broken

    def _submit(self, function: Callable[[Case], Any], case: Case, count: int) -> Future[Any]:
        """Give the pool one of ``count`` cases, and remember the processes that it starts."""
        jobs = min(self._jobs, count)
        if self._size < jobs:
            self.end()
        with undisturbed():
            before = set(multiprocessing.active_children())
            if self._pool is None:
                context: Any = multiprocessing.get_context(START)
                self._size = jobs
                # by way of accelarray, which finds its packages: a user's may be called so too
                begins = import_module("accelarray")._begin
                self._pool = ProcessPoolExecutor(jobs, context, begins, (os.getpid(),))
            future = self._pool.submit(function, case)
            self._processes |= {*multiprocessing.active_children()} - before
        return future


def _is_sendable(function: Callable[[Case], Any], cases: Mapping[Any, Case]) -> bool:
    try:
        pickle.dumps((function, list(cases.values())))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


def killed(cases: Sequence[Case], how: str) -> str:
    """What to say of cases whose processes were killed."""
    case = cases[0]
    more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
    return (
        f"{case.network.name}, {case.planner_name}, {case.array.name}, batch {case.batch}{more}: "
        f"{how} (out of memory?); all other cases are finished and kept in --store"
    )


def begin(parent: int) -> None:
    """In a worker: what the parent had is not looked through for garbage, nor copied for that."""
    end_with(parent)
    gc.freeze()
