"""How full an array's HBM gets: what a run says of it, and what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MOVING = ("gradients", "activations", "logits", "buffers")
"""Classes of what comes and goes in HBM during a step.

Gradients of weights; what forward keeps for backward; what the last layer makes; and
what lives within one pass, as the errors of activations and what is computed again.
"""
CLASSES = ("weights", "optimizer", *MOVING)
"""All classes: weights as operators read them, and master copies with moments."""

NAMED = 3
"""Of what does not fit: so many devices, or stages, are named in a message."""


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """HBM of all an array's cores of one device: the fullest one's peak, and how many overflow.

    Bytes are a core's. ``operator`` is the first at the peak ("" where all are idle), which
    ``by_class`` has by CLASSES where that is known.
    """

    device: str
    peak_bytes: float
    capacity_bytes: float
    operator: str
    cores: int
    cores_over: int
    by_class: tuple[float, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether every core's peak is within its capacity."""
        return self.cores_over == 0

    def __str__(self) -> str:
        return fullness(self.peak_bytes, self.capacity_bytes, self.operator)


def all_classes(
    held_bytes: float, weight_bytes: float, gradient_bytes: float, moving: Sequence[float]
) -> tuple[float, ...]:
    """Bytes of each of CLASSES: of what is held all the time, and of what comes and goes."""
    gradients, *others = moving
    state = held_bytes - weight_bytes - gradient_bytes
    return (weight_bytes, state, gradient_bytes + gradients, *others)


def fullness(peak_bytes: float, capacity_bytes: float, operator: str) -> str:
    """A core's peak against its capacity in words, and the operator at the peak ("": none)."""
    place = f", at {operator}" if operator else ""
    return f"peak {readable(peak_bytes)} of {readable(capacity_bytes)} a core{place}"


def readable(size_bytes: float) -> str:
    """GiB with two digits behind the point, or MiB where that is less than one."""
    if size_bytes >= 2**30:
        return f"{size_bytes / 2**30:.2f} GiB"
    return f"{size_bytes / 2**20:.2f} MiB"


def overflow(network: str, planner: str, array: str, memory: Sequence[DeviceMemory]) -> str | None:
    """What does not fit, where, and what helps; None where everything fits.

    Of more than NAMED devices or stages the fullest ones are named, and the others counted.
    """
    full = [one for one in memory if not one.fits]
    if not full:
        return None
    named = full
    if len(full) > NAMED:
        named = sorted(full, key=lambda one: one.peak_bytes / one.capacity_bytes, reverse=True)
    over = [
        f"{one.device}: {one} ({one.cores_over:,} of {one.cores:,} cores)" for one in named[:NAMED]
    ]
    if others := len(full) - len(over):
        over.append(f"and {others} more")
    return (
        f"{network} under {planner} does not fit in the memory of {array}: {'; '.join(over)}; "
        "take a smaller batch, more devices or another planner"
    )
