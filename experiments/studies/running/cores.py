"""Call a function with many cases: here, one after another, or on this machine's cores."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar

from experiments.ending import end_with, undisturbed
from experiments.output import UsageError
from experiments.studies.case import Case
from workloads import Network

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


_NETWORKS: dict[str, Network] = {}
"""The last network of each name that this process had cases of."""
_MOST_NETWORKS = 64
START = "fork" if sys.platform == "linux" else "spawn"
"""How processes are started here."""


def call(function: Callable[[Case], Result], name: Name, case: Case) -> tuple[Name, Result]:
    """One case's result, with its name.

    Cases that are sent bring a network each, where one is as good as another. So the
    first of equal ones stands for all: what depends on a network alone is kept by which
    it is (``workloads.kept``).
    """
    network = _NETWORKS.get(case.network.name)
    if network is not case.network:
        if network == case.network:
            return name, function(replace(case, network=network))
        if len(_NETWORKS) == _MOST_NETWORKS:
            _NETWORKS.clear()
        _NETWORKS[case.network.name] = case.network
    return name, function(case)


def here(function: Callable[[Case], Any], cases: Mapping[Any, Case]) -> Iterator[tuple[Any, Any]]:
    """One after another."""
    return (call(function, name, case) for name, case in cases.items())


@contextmanager
def on_cores(jobs: int) -> Iterator[Spread]:
    """Calls in so many processes on this machine, which keep what they worked out till the end.

    They start when there are cases for two. Results come in the order in which they finish; what
    is raised there is raised here. A case whose process is killed is run once more, alone; where
    it is killed again, all others are finished before RunError says which it was.
    """
    team = _Team(jobs)
    try:
        yield team.spread
    finally:
        team.end()


class _Team:
    """A pool of processes that is given cases, again and again.

    On Linux they are forked, and so have NumPy and the model from the start: two are at work
    after 20 ms, where new ones take half a second to load all that. Elsewhere forks are not
    safe. Cases that cannot be sent (a planner may be a function in a function) are inherited
    by forks of their own, or run here.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None
        self._size = 0
        self._processes = set[BaseProcess]()

    def end(self) -> None:
        """End the processes, whatever they do."""
        pool, self._pool, self._size = self._pool, None, 0
        if pool is not None:
            with undisturbed():
                for process in self._processes:
                    process.terminate()
                pool.shutdown(cancel_futures=True)
            self._processes.clear()

    def spread(
        self, function: Callable[[Case], Any], cases: Mapping[Any, Case]
    ) -> Generator[tuple[Any, Any]]:
        """See ``Spread``; one case is no work for others."""
        sent = _is_sendable(function, cases)
        if len(cases) < 2 or not (sent or START == "fork"):
            yield from here(function, cases)
            return
        if not sent:
            self.end()
            _INHERITED.update((name, (function, case)) for name, case in cases.items())
        try:
            yield from self._finished(dict(cases), function if sent else None)
        except BaseException:  # nobody will hear what is under way
            self.end()
            raise
        finally:
            _INHERITED.clear()

    def _finished(
        self, left: dict[Any, Case], function: Callable[[Case], Any] | None
    ) -> Generator[tuple[Any, Any]]:
        """Results of all cases. Where a process is killed those under way are run alone."""
        alone, lost = deque[Any](), list[Case]()
        while left:
            wave = {name: left[name] for name in ([alone[0]] if alone else left)}
            under_way = set[Any]()
            try:
                for name, result in self._results(wave, function, under_way):
                    del left[name]
                    yield name, result
            except BrokenProcessPool:
                self.end()
                if not alone:
                    alone.extend(under_way)
                    continue
                lost.append(left.pop(alone[0]))
            if alone:
                alone.popleft()
        if lost:
            raise RunError(_killed(lost))

    def _results(
        self, cases: dict[Any, Case], function: Callable[[Case], Any] | None, under_way: set[Any]
    ) -> Generator[tuple[Any, Any]]:
        """Results as they come; ``under_way`` are the names of cases that processes have."""
        jobs = min(self._jobs, len(cases))
        if self._size < jobs:
            self.end()
        waiting, futures = iter(cases), set[Future[tuple[Any, Any]]]()
        while True:
            # one for each to work on, and one for the time until it hears more
            for name in islice(waiting, 2 * jobs - len(futures)):
                under_way.add(name)
                futures.add(self._submit(jobs, function, name, cases[name]))
            if not futures:
                return
            done, futures = wait(futures, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda future: future.exception() is not None):
                name, result = future.result()
                under_way.remove(name)
                yield name, result

    def _submit(
        self, jobs: int, function: Callable[[Case], Any] | None, name: Any, case: Case
    ) -> Future[tuple[Any, Any]]:
        """Give the pool a case, and remember the processes that it starts for it."""
        with undisturbed():
            before = set(multiprocessing.active_children())
            if self._pool is None:
                context: Any = multiprocessing.get_context(START)
                self._size = jobs
                self._pool = ProcessPoolExecutor(jobs, context, _begin, (os.getpid(),))
            if function is None:
                future = self._pool.submit(_call_inherited, name)
            else:
                future = self._pool.submit(call, function, name, case)
            self._processes |= {*multiprocessing.active_children()} - before
        return future


_INHERITED: dict[Any, tuple[Callable[[Case], Any], Case]] = {}
"""What forks are to call that cannot be sent to them."""


def _call_inherited(name: Any) -> tuple[Any, Any]:
    function, case = _INHERITED[name]
    return call(function, name, case)


def _is_sendable(function: Callable[[Case], Any], cases: Mapping[Any, Case]) -> bool:
    try:
        pickle.dumps((function, list(cases.values())))
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True


def _killed(cases: Sequence[Case]) -> str:
    case = cases[0]
    more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
    return (
        f"{case.network.name}, {case.planner_name}, {case.array.name}, batch {case.batch}{more}: "
        "a worker process was killed, and again with this case alone (out of memory?); all other "
        "cases are finished and kept in --store"
    )


def _begin(parent: int) -> None:
    """In a worker: what the parent had is not looked through for garbage, nor copied for that."""
    end_with(parent)
    gc.freeze()
