"""The units of one core: matrix units, which do products, vector units, and a buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Dataflow = Literal["weight_stationary", "output_stationary"]
DATAFLOWS: tuple[Dataflow, ...] = get_args(Dataflow)


@dataclass(frozen=True, slots=True)
class MatrixUnit:
    """``count`` equal systolic arrays of ``depth`` rows and ``width`` columns.

    They share every product that is given to them. With another dataflow, or other
    sides, they are another unit, which can do another product meanwhile.
    """

    width: int
    depth: int
    count: int = 1
    dataflow: Dataflow = "weight_stationary"

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of all of them in a cycle."""
        return self.width * self.depth * self.count


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """``count`` equal vector units of ``width`` lanes."""

    width: int
    count: int = 1

    @property
    def lanes(self) -> int:
        """Lanes of all of them."""
        return self.width * self.count


@dataclass(frozen=True, slots=True)
class Units:
    """The units of one core at one clock, and the buffer (bytes) that they work from."""

    clock_hz: float
    matrix: tuple[MatrixUnit, ...]
    vector: tuple[VectorUnit, ...]
    buffer_bytes: float

    @property
    def names(self) -> tuple[str, ...]:
        """What works at the same time: each entry of matrix units, then all vector units."""
        many = len(self.matrix)
        return (*(f"matrix{i}" if many > 1 else "matrix" for i in range(many)), "vector")

    @property
    def flops_per_s(self) -> float:
        """Peak of all matrix units, two FLOPs a multiply-accumulate."""
        return 2 * self.clock_hz * sum(unit.macs_per_cycle for unit in self.matrix)

    @property
    def lanes(self) -> int:
        """Lanes of all vector units."""
        return sum(unit.lanes for unit in self.vector)
