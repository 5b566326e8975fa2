"""How a command and its worker processes end: by Ctrl-C, by SIGTERM, with their parent."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

LOOK_S = 0.25
"""How often a worker looks whether its parent is still there."""


@contextmanager
def stoppable() -> Iterator[Sequence[int]]:
    """SIGTERM ends what is within as Ctrl-C does: results are kept, workers go first.

    Yields the signals that came so far. Outside the main thread signals are not ours.
    """
    came: list[int] = []

    def stop(number: int, frame: object) -> None:  # noqa: ARG001  (a handler's arguments)
        came.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    ours = [signal.SIGTERM]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nohup ignores it
        ours.append(signal.SIGINT)
    before = [(number, signal.signal(number, stop)) for number in ours]
    try:
        yield came
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Signals wait until the end; processes and threads that start here never hear Ctrl-C.

    A terminal sends it to all processes of a command, and workers that heard it
    would print where they were; it is the parent that ends them.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with(parent: int) -> None:
    """In a worker: end at SIGTERM, and when the parent process is no more, however that ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork has its parent's handler
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_S)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()
