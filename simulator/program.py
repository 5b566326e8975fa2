"""A training step as operations, written once for everything that does the same."""

from __future__ import annotations

from dataclasses import dataclass

from hardware import Device
from planners.steps import Kind, Phase

PICOSECONDS = 10**12
"""A second, in the engine's unit of time."""
COMPUTE_LEVEL = -1
"""The ``level`` of operations that run on cores, below every split."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """What every unit named by its place in the program does once.

    On cores (``level`` is COMPUTE_LEVEL) ``flops`` are one core's; on a
    split's link (``level`` counts from 0 at the top) ``received`` are the
    bytes that the first and the second side receive, both at once.
    ``energy_j`` goes with these amounts. ``index`` is its place in
    ``Program.operations``.
    """

    index: int
    kind: Kind
    phase: Phase
    layer: str
    level: int
    duration_ps: int
    received: tuple[float, float] = (0.0, 0.0)
    flops: float = 0.0
    energy_j: float = 0.0

    @property
    def bytes(self) -> float:
        """Bytes in both directions together."""
        return self.received[0] + self.received[1]

    def __str__(self) -> str:
        place = "" if self.level == COMPUTE_LEVEL else f" at level {self.level}"
        return f"{self.phase} {self.kind} of {self.layer}{place}"


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """What one accelerator does, in order; exchanges are shared with their partners.

    It stands for ``multiplicity`` accelerators. Of each one ``chips`` chips
    with ``cores_per_chip`` cores are simulated.
    """

    device: Device
    operations: tuple[Operation, ...]
    chips: int
    cores_per_chip: int
    multiplicity: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """A split: two sub-trees, one object twice where both do the same.

    It stands for ``multiplicity`` splits; only one sub-tree where it is folded.
    """

    level: int
    halves: tuple[Branch | Leaf, ...]
    multiplicity: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Every distinct operation, and the tree of accelerators that run them."""

    operations: tuple[Operation, ...]
    root: Branch | Leaf
