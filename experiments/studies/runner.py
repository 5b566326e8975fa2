"""Run cases, each once: look them up, run those that are missing, keep what they give."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.cluster import on_cluster
from experiments.studies.outputs import Outputs, run_case
from experiments.studies.workers import Spread, here, on_cores

if TYPE_CHECKING:
    from experiments.studies.store import Store

PATIENCE_S = 2.0
WORTH_S = 5.0
"""Worker processes take seconds to start: without ``jobs``, cases are run here for PATIENCE_S,
and from then on only what would take more than WORTH_S is given to workers."""

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
    ``jobs`` processes run cases; None is one, or all cores where that is worth it.
    Raises UsageError for a number of processes that makes no sense.
    """

    store: Store | None = None
    jobs: int | None = 1
    cluster: str | None = None

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise UsageError(f"--jobs {self.jobs}: must be at least 1")

    def run(
        self,
        cases: Mapping[K, Case],
        then: Callable[[K, Outputs], Mapping[K, Case]] = nothing,
    ) -> Iterator[Finished[K]]:
        """Cases as they finish; ``then`` says which further ones a finished one calls for.

        One by one they finish in the order given, each followed by what it called for.
        Raises RunError when workers are lost, and StoreError when the store fails.
        """
        everything = dict(cases)
        waiting = deque(everything)
        seen: dict[str, Outputs] = {}
        started = time.monotonic()
        with self._workers() as spread:
            while waiting:
                alone = self._alone(time.monotonic() - started, len(everything), len(waiting))
                wave = [waiting.popleft() for _ in range(1 if alone else len(waiting))]
                asked = {name: everything[name] for name in wave}
                for finished in self._wave(asked, seen, here if alone else spread):
                    yield finished
                    more = then(finished.name, finished.outputs)
                    everything |= more
                    waiting.extendleft(reversed(list(more)))

    def _workers(self) -> AbstractContextManager[Spread]:
        if self.cluster:
            return on_cluster(self.cluster)
        return nullcontext(partial(on_cores, self.jobs or os.cpu_count() or 1))

    def _alone(self, spent_s: float, cases: int, left: int) -> bool:
        """Whether the next case is run here."""
        if self.cluster:
            return False
        if left == 1 or self.jobs is not None:
            return left == 1 or self.jobs == 1
        if os.cpu_count() == 1 or spent_s < PATIENCE_S:
            return True
        return spent_s / max(1, cases - left) * left <= WORTH_S

    def _wave(
        self, cases: Mapping[K, Case], seen: dict[str, Outputs], spread: Spread
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
        for key, outputs in spread(run_case, missing):
            if self.store is not None:
                self.store.put(key, missing[key].inputs, outputs)
            yield from self._finish(names[key], key, outputs, seen)

    def _finish(
        self, names: list[K], key: str, outputs: Outputs, seen: dict[str, Outputs]
    ) -> Iterator[Finished[K]]:
        seen[key] = outputs
        for name in names:
            yield Finished(name, key, outputs)
