"""What the command line says on stderr, as Python's warnings."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

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


def tell_notes(network: Network) -> None:
    """What was not understood of a network's file or module."""
    for note in network.notes[:MOST]:
        tell(f"{network.name}: {note}")
    if more := len(network.notes[MOST:]):
        tell(f"{network.name}: and {more} more")
