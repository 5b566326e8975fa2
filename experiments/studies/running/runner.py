"""Run cases, each once: look them up, run those that are missing, keep what they give."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.running.cluster import on_cluster
from experiments.studies.running.cores import Spread, here, on_cores
from experiments.studies.running.estimate import forewarning, together
from experiments.studies.running.outputs import REFUSED, Outputs, run_case

if TYPE_CHECKING:
    from experiments.studies.running.store import Store


PATIENCE_S = 2.0
"""From then on the pace of what is done says how long the rest takes, not the estimate alone."""
WORKERS_S = 0.3
"""What processes must save by the clock. They cost about half of that, to be forked and to make
again what is kept between cases (measured: of two, 0.15 s of a processor together, in ``speedup``
where bare SimPy timeouts ran at 1.6 M/s); it is not worth less than as much again."""

K = TypeVar("K", bound=Hashable)


class Finished(NamedTuple, Generic[K]):
    """A case by the name that its asker gave it, its key, and what came out."""

    name: K
    key: str
    outputs: Outputs


def nothing(name: Any, outputs: Outputs) -> Mapping[Any, Case]:  # noqa: ARG001  (asks for no more)
    """No further cases."""
    return {}


@dataclass(frozen=True, slots=True)
class Runner:
    """Where cases are run and what is kept: ``--store``, ``--jobs`` and ``--cluster``.

    Cases that ``store`` has are not run; others are put there one by one as
    they finish, so that what interrupts a run loses nothing that was finished.
    ``tell`` hears of a run that will take long or much memory, before it.

    ``jobs`` processes run cases. None is one, unless workers bring more than they
    cost: what is left goes to as many workers as there are cores where the time that
    they save is more than WORKERS_S, by its ``estimate`` and, once cases were run here
    for PATIENCE_S, at the pace of these.
    Raises UsageError for a number of processes that makes no sense.
    """

    store: Store | None = None
    jobs: int | None = 1
    cluster: str | None = None
    tell: Callable[[str], None] = lambda said: None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"--jobs {self.jobs}: must be at least 1")

    def run(
        self,
        cases: Mapping[K, Case],
        then: Callable[[K, Outputs], Mapping[K, Case]] = nothing,
        work: Callable[[Case], Outputs] | None = None,
        size: Callable[[K], float] = lambda name: 0.0,
    ) -> Iterator[Finished[K]]:
        """Cases as they finish; ``then`` says which further ones a finished one calls for.

        ``work`` runs one, in any process (None: as any step). Where several run at once, those
        of the largest ``size`` begin first, so that none is left to the end alone.

        One by one they finish in the order given, each followed by what it called for.
        Raises RunError when workers are lost, and StoreError when the store fails.
        """
        everything = dict(cases)
        self._forewarn(everything)
        waiting = deque(everything)
        seen: dict[str, Outputs] = {}
        started, done_s, working = time.monotonic(), 0.0, False
        left_s = together(everything.values()).seconds
        with self._workers() as spread:
            while waiting:
                spent_s = time.monotonic() - started
                paid = working and len(waiting) > 1  # workers are there already
                alone = not paid and self._alone(spent_s, done_s, left_s, len(waiting))
                working |= not alone
                wave = [waiting.popleft() for _ in range(1 if alone else len(waiting))]
                wave.sort(key=size, reverse=True)
                asked = {name: everything[name] for name in wave}
                begun_s = together(asked.values()).seconds
                done_s, left_s = done_s + begun_s, left_s - begun_s
                for finished in self._wave(asked, seen, here if alone else spread, work):
                    yield finished
                    more = then(finished.name, finished.outputs)
                    everything |= more
                    left_s += together(more.values()).seconds
                    waiting.extendleft(reversed(list(more)))

    def _workers(self) -> AbstractContextManager[Spread]:
        if self.cluster:
            return on_cluster(self.cluster)
        return on_cores(self.jobs or os.cpu_count() or 1)

    def _forewarn(self, cases: Mapping[K, Case]) -> None:
        """Tell of a long or large run, but for what the store has already."""
        jobs = self.jobs or os.cpu_count() or 1
        if forewarning(cases.values(), jobs) is None:
            return
        known = set[K]()
        if self.store is not None:
            keys = {name: case.key for name, case in cases.items() if case.is_settled}
            stored = dict(self.store.get(keys.values()))
            known = {name for name, key in keys.items() if key in stored}
        left = [case for name, case in cases.items() if name not in known]
        if said := forewarning(left, jobs):
            self.tell(said if self.store else f"{said}. --store FILE keeps what is finished")

    def _alone(self, spent_s: float, done_s: float, left_s: float, left: int) -> bool:
        """Whether the next case is run here, of ``left``; by estimate so much is done and left."""
        if self.cluster:
            return False
        if left == 1 or self.jobs is not None:
            return left == 1 or self.jobs == 1
        cores = os.cpu_count() or 1
        pace = spent_s / done_s if spent_s >= PATIENCE_S and done_s else 1.0
        return pace * left_s * (1 - 1 / cores) <= WORKERS_S

    def _wave(
        self,
        cases: Mapping[K, Case],
        seen: dict[str, Outputs],
        spread: Spread,
        work: Callable[[Case], Outputs] | None,
    ) -> Iterator[Finished[K]]:
        """Cases side by side; of several with one key, one is run."""
        settled = {name: case for name, case in cases.items() if case.is_settled}
        others = {name: case for name, case in cases.items() if name not in settled}
        settled |= dict(spread(Case.settled, others))
        names: dict[str, list[K]] = {}
        for name in cases:
            names.setdefault(settled[name].key, []).append(name)
        known = {key: seen[key] for key in names if key in seen}
        if self.store is not None:
            known |= self.store.get(key for key in names if key not in known)
        for key, outputs in known.items():
            yield from self._finish(names[key], key, outputs, seen)
        missing = {key: settled[of[0]] for key, of in names.items() if key not in known}
        for key, outputs in spread(work or run_case, missing):
            if self.store is not None and REFUSED not in outputs:
                self.store.put(key, missing[key].inputs, outputs)
            yield from self._finish(names[key], key, outputs, seen)

    def _finish(
        self, names: list[K], key: str, outputs: Outputs, seen: dict[str, Outputs]
    ) -> Iterator[Finished[K]]:
        seen[key] = outputs
        for name in names:
            yield Finished(name, key, outputs)
