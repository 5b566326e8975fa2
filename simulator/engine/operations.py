"""A training step as operations, written once for everything that does the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardware import Device, Wires
from planners.steps import Kind, Phase
from simulator.engine.occupancy import DeviceMemory

if TYPE_CHECKING:
    from simulator.engine.jobs import Job

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

    Under the deployed model an exchange has ``jobs``, which the network
    carries one after the other and which decide how long it takes (``received``
    is then what all cores of each half receive), and a core's operation keeps
    its slice of the HBM busy with ``memory``, another operation, meanwhile;
    ``bound_s`` are the seconds of it that its FLOPs, its HBM traffic and fixed
    overheads account for.
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
    jobs: tuple[Job, ...] = ()
    memory: Operation | None = None
    bound_s: tuple[float, float, float] = (0.0, 0.0, 0.0)

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
    with ``cores_per_chip`` cores are simulated. Where ``chips`` is 0 it is a
    single core with its slice of the HBM, and stands for so many cores.

    With ``needs`` operations overlap: a core computes in order, but waits
    only for those of its operations that are named (by their places in
    ``operations``), and an exchange starts when those it needs are done.
    """

    device: Device
    operations: tuple[Operation, ...]
    chips: int
    cores_per_chip: int
    multiplicity: int = 1
    needs: tuple[tuple[int, ...], ...] | None = None
    first: int = 0
    """Of a class of single cores, the number of the first one in the array."""

    @property
    def single(self) -> bool:
        """Whether it is one core and not a board."""
        return self.chips == 0


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
    """Every distinct operation, and the tree of accelerators that run them.

    Under the deployed model it has the ``wires`` whose links jobs name, and
    says how full each device's HBM gets.
    """

    operations: tuple[Operation, ...]
    root: Branch | Leaf
    wires: Wires | None = None
    memory: tuple[DeviceMemory, ...] = ()
