"""Call a function with many cases: here, one after another, or on this machine's cores."""

from __future__ import annotations

import gc
import multiprocessing.connection
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar, cast

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
_Cases = Sequence[tuple[Any, Case]]
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

    They start when there are cases for two. Results come in the order in which they
    finish; what is raised there is raised here, with the traceback as a note.
    RunError when one is killed.
    """
    team = _Team(jobs)
    try:
        yield team.spread
    finally:
        team.end()


class _Team:
    """Processes that are given cases, again and again.

    On Linux they are forked, and so have NumPy, the model and the first cases from the
    start: two are at work after 20 ms, where new ones take half a second to load
    all that. Elsewhere forks are not safe, and cases are sent to new ones. Further cases
    are sent, but for those that cannot be (a planner may be a function in a function):
    these have processes of their own.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._working = ExitStack()
        self._pipes: list[Connection] = []

    def end(self) -> None:
        """End the processes, whatever they do."""
        self._pipes = []
        self._working.close()

    def spread(
        self, function: Callable[[Case], Any], cases: Mapping[Any, Case]
    ) -> Generator[tuple[Any, Any]]:
        """See ``Spread``; one case is no work for others."""
        if len(cases) < 2:
            yield from here(function, cases)
            return
        try:
            yield from self._results(self._told(function, list(cases.items())), len(cases))
        except BaseException:  # nobody will hear what is under way
            self.end()
            raise

    def _told(self, function: Callable[[Case], Any], cases: _Cases) -> list[Connection]:
        """Processes that know these cases: those there are, or new ones."""
        wanted = min(self._jobs, len(cases))
        work = _sendable((function, cases)) if len(self._pipes) >= wanted else None
        if work is None:
            self.end()
            self._pipes = self._working.enter_context(_working(wanted, function, cases))
        else:
            for pipe in self._pipes:
                with suppress(OSError):  # it was killed, which is seen where its results are read
                    pipe.send_bytes(work)
        return self._pipes

    def _results(self, pipes: Sequence[Connection], many: int) -> Generator[tuple[Any, Any]]:
        numbers = iter(range(many))
        left = dict.fromkeys(pipes, 0)
        for pipe in [*pipes, *pipes]:  # one to work on, and one for the time until it hears more
            _give(pipe, numbers, left)
        while busy := [pipe for pipe in pipes if left[pipe]]:
            for pipe in cast("list[Connection]", multiprocessing.connection.wait(busy)):
                try:
                    result, error = pipe.recv()
                except (EOFError, OSError):
                    raise RunError(
                        "a worker process was killed (out of memory?); finished cases are kept in "
                        "--store. Run the same command again, perhaps with fewer --jobs"
                    ) from None
                if error is not None:
                    raise error
                left[pipe] -= 1
                _give(pipe, numbers, left)
                yield result


def _sendable(work: tuple[Callable[[Case], Any], _Cases]) -> bytes | None:
    """As processes that are at work already are sent it; None where it cannot be."""
    try:
        return pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def _give(pipe: Connection, numbers: Iterator[int], left: dict[Connection, int]) -> None:
    """Tell a worker the number of another case, if there is one."""
    if (number := next(numbers, None)) is not None:
        with suppress(OSError):  # it was killed, which is seen where its results are read
            pipe.send(number)
        left[pipe] += 1


@contextmanager
def _working(
    jobs: int, function: Callable[[Case], Any], cases: Sequence[tuple[Any, Case]]
) -> Iterator[list[Connection]]:
    """Processes that wait for the numbers of cases, and are ended whatever happens here."""
    context: Any = multiprocessing.get_context(START)
    pipes: list[Connection] = []
    processes: list[BaseProcess] = []
    try:
        with undisturbed():
            for _ in range(jobs):
                ours, theirs = multiprocessing.Pipe()
                args = theirs, os.getpid(), function, cases
                process = context.Process(target=_work, args=args, daemon=True)
                process.start()
                theirs.close()
                pipes.append(ours)
                processes.append(process)
        yield pipes
    finally:
        with undisturbed():
            for process in processes:
                process.terminate()
            for process in processes:
                process.join()
            for pipe in pipes:
                pipe.close()


def _work(
    pipe: Connection,
    parent: int,
    function: Callable[[Case], Any],
    cases: _Cases,
) -> None:
    """What a worker does: cases by their numbers, of these and of others it is sent."""
    end_with(parent)
    gc.freeze()  # what the parent had is not looked through for garbage, nor copied for that
    while True:
        asked = pipe.recv()
        if not isinstance(asked, int):
            function, cases = asked
            continue
        name, case = cases[asked]
        try:
            pipe.send((call(function, name, case), None))
        except Exception as error:  # whatever it is, it is the asker's
            error.add_note(traceback.format_exc())
            pipe.send((None, error))
