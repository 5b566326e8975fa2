"""What computes inside a core: matrix and vector units and a buffer, their area and their power.

Area is a linear model, fitted on the areas of 3,670 designs that Phaze publishes from an
Accelergy-based flow (``experiments/published/core_areas.csv``): least squares of the relative
error. ``python -m experiments.scripts.area_fit`` makes the fit, and what it misses on designs
that it has not seen, again (docs/explanation/chip-design.md). There vector units are as wide as
matrix units, so that the two widths' own costs are told apart by the counts alone.

Power is that of units which all work in every cycle. Its energies are parameters. Those of
``POWER`` are of 45 nm: M. Horowitz, "Computing's energy problem", ISSCC 2014, figures 1.1.8 and
1.1.9: a 16-bit floating-point multiplication 1.1 pJ and addition 0.4 pJ; 64 bits from an SRAM of
1 MB about 100 pJ, 12.5 pJ a byte. HBM2 takes 3.9 pJ a bit, 31 pJ a byte (O'Connor et al., MICRO
2017). What a chip loses standing still is an assumption: 0.05 W a square millimetre.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from hardware.reader import Bytes, Frequency, whole

WIDEST = 1 << 16
Dataflow = Literal["weight_stationary", "output_stationary"]


@dataclass(frozen=True, slots=True)
class MatrixUnit:
    """``count`` equal systolic arrays of ``depth`` rows and ``width`` columns.

    They share every product that is given to them. With another dataflow, or other
    sides, they are another unit, which can do another product meanwhile.
    """

    width: Annotated[int, whole(1, WIDEST)]
    depth: Annotated[int, whole(1, WIDEST)]
    count: Annotated[int, whole(1, WIDEST)] = 1
    dataflow: Dataflow = "weight_stationary"

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates of all of them in a cycle."""
        return self.width * self.depth * self.count


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """``count`` equal vector units of ``width`` lanes."""

    width: Annotated[int, whole(1, WIDEST)]
    count: Annotated[int, whole(1, WIDEST)] = 1

    @property
    def lanes(self) -> int:
        """Lanes of all of them."""
        return self.width * self.count


@dataclass(frozen=True, slots=True)
class Units:
    """The units of one core at one clock, and the buffer (bytes) that they work from."""

    clock_hz: Frequency
    matrix: tuple[MatrixUnit, ...]
    vector: tuple[VectorUnit, ...]
    buffer_bytes: Bytes

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


MM2 = 1e-6
"""Square millimetres of a square micrometre."""


@dataclass(frozen=True, slots=True)
class Area:
    """Square micrometres of a multiplier, a matrix unit, a lane, a vector unit, a byte, the rest.

    An example, with AREA: 2 matrix units of 128 x 128, 2 vector units of 128 lanes
    and 16 MiB take 2 (16384 x 790 + 5446) + 2 (128 x 775 + 6047) + 16 Mi x 1.318 + 616544
    um2 = 48.8 mm2.
    """

    multiplier: float
    matrix_unit: float
    lane: float
    vector_unit: float
    byte: float
    rest: float

    def um2(self, units: Units) -> float:
        """Square micrometres of one core."""
        matrix = sum(
            u.count * (u.width * u.depth * self.multiplier + self.matrix_unit) for u in units.matrix
        )
        vector = sum(u.count * (u.width * self.lane + self.vector_unit) for u in units.vector)
        return matrix + vector + units.buffer_bytes * self.byte + self.rest

    def mm2(self, units: Units) -> float:
        """Square millimetres of one core."""
        return self.um2(units) * MM2


AREA = Area(789.7546, 5445.5184, 774.9176, 6046.5389, 1.318159, 616544.1433)
"""The fit on all of the designs."""


ELEMENT_BYTES = 2


@dataclass(frozen=True, slots=True)
class Power:
    """Joules of a multiply-add, a lane's operation, a byte of the buffer, one of HBM; leakage.

    ``leakage_w_per_mm2`` is what a square millimetre takes whether it works or not.
    """

    mac_j: float
    lane_j: float
    buffer_j_per_byte: float
    hbm_j_per_byte: float
    leakage_w_per_mm2: float

    def watts(self, units: Units, hbm_bytes_per_s: float, area: Area = AREA) -> float:
        """A core's power with every unit and its HBM busy.

        Each cycle a matrix unit reads a row and writes a column at its edges, a lane
        reads two elements and writes one: that is what the buffer moves.
        """
        macs = sum(unit.macs_per_cycle for unit in units.matrix)
        edges = sum(unit.count * (unit.depth + unit.width) for unit in units.matrix)
        moved = ELEMENT_BYTES * (edges + 3 * units.lanes)
        cycle_j = macs * self.mac_j + units.lanes * self.lane_j + moved * self.buffer_j_per_byte
        still_w = self.leakage_w_per_mm2 * area.mm2(units)
        return cycle_j * units.clock_hz + hbm_bytes_per_s * self.hbm_j_per_byte + still_w


POWER = Power(1.5e-12, 0.4e-12, 12.5e-12, 31.2e-12, 0.05)
"""Of 45 nm, 16-bit floating point."""
