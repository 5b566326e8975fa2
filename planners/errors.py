"""What goes wrong when a network is planned."""

from __future__ import annotations

from hardware.reader import shown


class PlanError(ValueError):
    """A plan cannot be made, read or used as asked."""


LARGEST_BATCH = 1 << 24


def check_batch(batch: int) -> None:
    """Raise PlanError for a number of samples that no step has."""
    if not 1 <= batch <= LARGEST_BATCH:
        said = f"batch {shown(batch, str)} is out of range"
        raise PlanError(f"{said}; it must be within 1...{LARGEST_BATCH}")
