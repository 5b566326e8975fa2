"""Run cases, each once: look them up, run those that are missing, keep what they give."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.running.cluster import on_cluster
from experiments.studies.running.cores import Spread, here, on_cores
from experiments.studies.running.estimate import forewarning, together, too_large
from experiments.studies.running.outputs import REFUSED, Outputs, check_kept, refusal, run_case
from experiments.studies.running.store import Store

WORKERS_S = 0.3
"""What processes must save by the clock: about twice what they cost, to be forked and to make
again what is kept between cases (measured: of two, 0.15 s of a processor together)."""

K = TypeVar("K", bound=Hashable)


class Finished(NamedTuple, Generic[K]):
    """A case by the name that its asker gave it, its key, and what came out."""

    name: K
    key: str
    outputs: Outputs


@dataclass(frozen=True, slots=True)
class Runner:
    """Where cases are run and what is kept: ``--store``, ``--jobs`` and ``--cluster``.

    Cases that ``store`` has are not run; others are put there one by one as
    they finish, so that what interrupts a run loses nothing that was finished.
    ``tell`` hears of a run that will take long or much memory, before it.

    A case of which simulating would hold more than ``limit_bytes`` by its ``estimate`` is not run:
    its outputs are a ``refusal``, and ``tell`` hears of how many there were.

    ``jobs`` processes run cases. None is one, or as many as there are cores where these
    save more than WORKERS_S by the cases' ``estimate``.
    Raises UsageError for a number of processes that makes no sense.
    """

    store: Store | None = None
    jobs: int | None = 1
    cluster: str | None = None
    tell: Callable[[str], None] = lambda said: None
    limit_bytes: float = math.inf

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"--jobs {self.jobs}: must be at least 1")

    def run(
        self,
        cases: Mapping[K, Case],
        then: Callable[[K, Outputs], Mapping[K, Case]] = lambda name, outputs: {},
        work: Callable[[Case], Outputs] | None = None,
    ) -> Iterator[Finished[K]]:
        """Cases as they finish; ``then`` says which further ones a finished one calls for.

        ``work`` runs one, in any process (None: as any step). One by one they
        finish in the order given, each followed by what it called for.
        Raises RunError when workers are lost, and StoreError when the store fails.
        """
        everything = dict(cases)
        self._forewarn(everything)
        waiting = deque(everything)
        seen: dict[str, Outputs] = {}
        with self._workers(everything) as spread:
            while waiting:
                count = 1 if spread is here else len(waiting)
                wave = [waiting.popleft() for _ in range(count)]
                asked = {name: everything[name] for name in wave}
                for finished in self._wave(asked, seen, spread, work or run_case):
                    yield finished
                    more = then(finished.name, finished.outputs)
                    everything |= more
                    waiting.extendleft(reversed(list(more)))

    @property
    def processes(self) -> int:
        """How many processes there may be on this machine."""
        return self.jobs or os.cpu_count() or 1

    def spread(
        self, function: Callable[[Any], Any], parts: Mapping[K, Any]
    ) -> Iterator[tuple[K, Any]]:
        """Results of other work than cases, on this machine; nothing is kept."""
        with on_cores(self.processes) as spread:
            yield from spread(function, parts)

    def _workers(self, cases: Mapping[K, Case]) -> AbstractContextManager[Spread]:
        """Who runs cases: a cluster, processes, or this one where others save too little."""
        if self.cluster:
            return on_cluster(self.cluster)
        jobs = self.processes
        saved_s = together(cases.values()).seconds * (1 - 1 / jobs)
        if jobs == 1 or (self.jobs is None and saved_s <= WORKERS_S):
            return nullcontext(here)
        return on_cores(jobs)

    def _forewarn(self, cases: Mapping[K, Case]) -> None:
        """Tell of a long or large run, but for what the store has already; and what is refused."""
        jobs = self.processes
        refused = {n: why for n, case in cases.items() if (why := self._too_large(case))}
        if not refused and forewarning(cases.values(), jobs) is None:
            return
        known = set[K]()
        if self.store is not None:
            keys = {name: case.key for name, case in cases.items() if case.is_settled}
            stored = dict(self.store.get(keys.values(), check_kept))
            known = {name for name, key in keys.items() if key in stored}
        refused = {name: why for name, why in refused.items() if name not in known}
        if refused:
            first, many = next(iter(refused.values())), f"{len(refused):,} of {len(cases):,}"
            self.tell(f"{many} steps are not run; the first is {first}")
        done = known.union(refused)
        left = [case for name, case in cases.items() if name not in done]
        if said := forewarning(left, jobs):
            self.tell(said if self.store else f"{said}. --store FILE keeps what is finished")

    def _too_large(self, case: Case) -> str:
        return too_large(case, self.limit_bytes)

    def _wave(
        self,
        cases: Mapping[K, Case],
        seen: dict[str, Outputs],
        spread: Spread,
        work: Callable[[Case], Outputs],
    ) -> Iterator[Finished[K]]:
        """Cases side by side; of several with one key, one is run."""
        settled = {name: case for name, case in cases.items() if case.is_settled}
        others = {name: case for name, case in cases.items() if name not in settled}
        for name in [name for name, case in others.items() if self._too_large(case)]:
            yield Finished(name, "", refusal(self._too_large(others.pop(name))))
        settled |= dict(spread(Case.settled, others))
        names: dict[str, list[K]] = {}
        for name in (name for name in cases if name in settled):
            names.setdefault(settled[name].key, []).append(name)
        known = {key: seen[key] for key in names if key in seen}
        if self.store is not None:
            asked = [key for key in names if key not in known]
            found = self.store.get(asked, check_kept).items()
            # why a combination does not fit is told to who asks for combinations alone
            known |= {k: own for k, own in found if work is not run_case or not own.get("reason")}
        missing = {key: settled[of[0]] for key, of in names.items() if key not in known}
        known |= {k: refusal(why) for k, case in missing.items() if (why := self._too_large(case))}
        to_run = {key: case for key, case in missing.items() if key not in known}
        for key, outputs in chain(known.items(), spread(work, to_run)):
            if self.store is not None and key in missing and REFUSED not in outputs:
                self.store.put(key, missing[key].inputs, outputs)
            seen[key] = outputs
            for name in names[key]:
                yield Finished(name, key, outputs)
