"""Evaluations that survive: rows of a store, written a few at a time."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from functools import partial
from typing import Annotated

from pydantic import Field

from experiments.design.space import Design
from experiments.studies.running.store import Store
from hardware.reader import Table, checked, number

AT_ONCE = 32
"""Evaluations that are written together: a tenth of a second's work at most is done again."""


class _Evaluation(Table):
    """What is kept of one."""

    seconds: Annotated[list[Annotated[float, number(0, 1e300)]], Field(min_length=1)]


class StoredEvaluations:
    """A store's evaluations of some steps, of the identity ``of``; the rest is put there."""

    def __init__(self, store: Store, of: str) -> None:
        self._store = store
        self._of = of
        self._waiting: list[tuple[str, Design, tuple[float, ...]]] = []

    def key(self, design: Design) -> str:
        """SHA-256 of the steps' identity and the design."""
        text = json.dumps([self._of, asdict(design)], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def get(self, design: Design) -> tuple[float, ...] | None:
        """Seconds of each step, if they were kept."""
        key = self.key(design)
        found = self._store.get([key], partial(checked, _Evaluation)).get(key)
        return None if found is None else tuple(found["seconds"])

    def put(self, design: Design, seconds: tuple[float, ...]) -> None:
        """Keep them, with others."""
        self._waiting.append((self.key(design), design, seconds))
        if len(self._waiting) >= AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write what waits."""
        self._store.put_all(
            (key, {"design": str(design), "of": self._of}, {"seconds": list(seconds)})
            for key, design, seconds in self._waiting
        )
        self._waiting = []
