"""What can go wrong with a run."""

from __future__ import annotations

from collections.abc import Mapping

MOST_NAMED = 20
"""Workers that a message names; the others are counted."""


class SimulationError(ValueError):
    """A run is beyond what the engine can hold."""


class DeadlockError(RuntimeError):
    """A run stopped with operations outstanding; the message says who waits for what."""


class OutOfMemoryError(SimulationError):
    """A step does not fit in a device's HBM, and was to."""


def who_waits(now_ps: int, waits: Mapping[str, str]) -> str:
    """The message of a deadlock: each worker's name, and the operation that it waits in."""
    lines = [f"{worker} waits in {operation}" for worker, operation in waits.items()]
    shown = "\n  ".join(lines[:MOST_NAMED])
    rest = len(lines) - MOST_NAMED
    more = f"\n  and {rest} more" if rest > 0 else ""
    return f"deadlock at {now_ps} ps, {len(lines)} accelerators wait:\n  {shown}{more}"
