"""What to know about a result: Python's warnings, which the command line writes on stderr."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from experiments.encodings import one_line
from experiments.output import prose

if TYPE_CHECKING:
    from workloads import Network

MOST = 10
"""Warnings about one network; ``Network.notes`` has all."""
OURS = frozenset({"accelarray", "experiments", "hardware", "planners", "simulator", "workloads"})


class AccelarrayWarning(UserWarning):
    """Something to know about a result: a layer not understood, a step that does not fit."""


def tell(sentence: str) -> None:
    """Warn, as from the line of the caller's own that led here."""
    depth, frame = 1, sys._getframe()
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] in OURS:
        depth, frame = depth + 1, frame.f_back
    warnings.warn(sentence, AccelarrayWarning, stacklevel=depth)


REMEDY = "(--strict-memory, strict_memory=True in Python, makes this an error)"
"""Said of a step that does not fit in memory."""


def tell_notes(network: Network) -> None:
    """What was not understood of a network's file or module."""
    for note in network.notes[:MOST]:
        tell(f"{network.name}: {note}")
    if more := len(network.notes[MOST:]):
        tell(f"{network.name}: and {more} more")


@contextmanager
def warnings_on_stderr() -> Iterator[None]:
    """Meanwhile every one of our warnings is a line on stderr, if there is any."""

    def write(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not issubclass(category, AccelarrayWarning):
            before(message, category, *rest, **more)
        elif sys.stderr is not None:
            text = prose(f"accelarray: warning: {one_line(str(message))}", sys.stderr)
            print(text, file=sys.stderr)

    with warnings.catch_warnings():
        before = warnings.showwarning
        warnings.simplefilter("always", AccelarrayWarning)
        warnings.showwarning = write
        yield
