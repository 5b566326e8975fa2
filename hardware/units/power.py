"""Power of a core's units when all of them work in every cycle.

Energies are parameters. Those of ``POWER`` are of 45 nm: M. Horowitz, "Computing's
energy problem", ISSCC 2014, figures 1.1.8 and 1.1.9: a 16-bit floating-point
multiplication 1.1 pJ and addition 0.4 pJ; 64 bits from an SRAM of 1 MB about 100 pJ,
12.5 pJ a byte. HBM2 takes 3.9 pJ a bit, 31 pJ a byte (O'Connor et al., MICRO 2017).
What a chip loses standing still is an assumption: 0.05 W a square millimetre.
"""

from __future__ import annotations

from dataclasses import dataclass

from hardware.units.area import AREA, Area
from hardware.units.description import Units

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
