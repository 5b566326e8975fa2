"""Progress where stderr is no terminal: a line every few seconds, from another thread."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from experiments.encodings import legible

EVERY_S = 10.0


class Count:
    """Finished cases and what is worked on; the rate so far says how long the rest will take.

    Where cases are unlike, their estimates are weighed: of 8 s and twice 1 s, with the first one
    done after 12 s, 3 s are left.
    """

    def __init__(self, total: int | None, shown: Callable[[Count], None] = lambda _: None) -> None:
        """Begin to count; ``shown`` hears of every change."""
        self.total, self.done, self.label = total, 0, "the first case"
        self._started, self._shown = time.monotonic(), shown
        self._due: dict[str, float] = {}
        self._due_from, self._due_done_s = self._started, 0.0

    def __call__(self, label: str) -> None:
        """One more is finished; those that came in addition count into the total."""
        self.done += 1
        if self.total is not None:
            self.total = max(self.total, self.done)
        self._due_done_s += self._due.get(label, 0.0)
        self.working(label)

    def expect(self, seconds: Mapping[str, float]) -> None:
        """Cases that come from now on, by their labels, and how long each will take about."""
        self._due, self._due_from, self._due_done_s = dict(seconds), time.monotonic(), 0.0

    def working(self, label: str) -> None:
        """What is worked on, where a case has several parts."""
        self.label = label
        self._shown(self)

    @property
    def left_s(self) -> float | None:
        """Seconds left; None before the first is finished."""
        now = time.monotonic()
        if self._due:
            due_s, done_s = sum(self._due.values()), self._due_done_s
            return (now - self._due_from) * (due_s / done_s - 1) if done_s else None
        if self.total is None or not self.done:
            return None
        return (now - self._started) / self.done * max(self.total - self.done, 0)

    @property
    def left(self) -> str:
        """The same in words."""
        over = self.done == self.total  # all cases; what comes behind them has no count
        return "" if self.left_s is None or over else f"about {self.left_s:,.0f} s left"

    def __str__(self) -> str:
        elapsed_s = time.monotonic() - self._started
        of = "" if self.total is None else f" of {self.total:,}"
        rest = f", {self.left}" if self.left else ""
        at = f"; at {legible(self.label)}" if self.label else ""
        return f"{self.done:,}{of} done after {elapsed_s:,.0f} s{rest}{at}"


def working(progress: Callable[[str], None], label: str) -> None:
    """Say what is worked on, to a count; functions of one's own hear of finished cases alone."""
    if isinstance(progress, Count):
        progress.working(label)


def expecting(progress: Callable[[str], None], seconds: Mapping[str, float]) -> None:
    """Say how long cases will take, to a count."""
    if isinstance(progress, Count):
        progress.expect(seconds)


@contextmanager
def lines(total: int | None) -> Iterator[Count]:
    """Write a line on stderr every EVERY_S while cases are counted."""
    count, over = Count(total), threading.Event()

    def write() -> None:
        while not over.wait(EVERY_S):
            if sys.stderr is not None:
                print(f"accelarray: {count}", file=sys.stderr, flush=True)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield count
    finally:
        over.set()
        writer.join()
