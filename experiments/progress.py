"""Progress where stderr is no terminal: a line every few seconds, from another thread."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from experiments.encodings import legible

EVERY_S = 10.0


class Count:
    """Finished cases and what is worked on; the rate so far says how long the rest will take."""

    def __init__(self, total: int | None, shown: Callable[[Count], None] = lambda _: None) -> None:
        """Begin to count; ``shown`` hears of every change."""
        self.total, self.done, self.label = total, 0, "the first case"
        self._started, self._shown = time.monotonic(), shown

    def __call__(self, label: str) -> None:
        """One more is finished."""
        self.done += 1
        self.working(label)

    def working(self, label: str) -> None:
        """What is worked on, where a case has several parts."""
        self.label = label
        self._shown(self)

    def left_s(self, elapsed_s: float) -> float | None:
        """Seconds left by the mean of the finished ones; None before the first."""
        if self.total is None or not self.done:
            return None
        return elapsed_s / self.done * max(self.total - self.done, 0)

    def __str__(self) -> str:
        elapsed_s = time.monotonic() - self._started
        of = "" if self.total is None else f" of {self.total:,}"
        left_s = self.left_s(elapsed_s)
        rest = "" if left_s is None else f", about {left_s:,.0f} s left"
        return f"{self.done:,}{of} done after {elapsed_s:,.0f} s{rest}; at {legible(self.label)}"


def working(progress: Callable[[str], None], label: str) -> None:
    """Say what is worked on, to a count; functions of one's own hear of finished cases alone."""
    if isinstance(progress, Count):
        progress.working(label)


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
