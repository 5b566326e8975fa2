"""Chip area of a core's units: a linear model, fitted on the areas of 3,670 designs.

Phaze publishes what an Accelergy-based flow says of these designs
(``experiments/published/core_areas.csv``). Least squares of the relative error;
``python -m experiments.scripts.area_fit`` makes the fit, and what it misses on designs
that it has not seen, again (docs/design.md). There the vector units are as wide as
the matrix units, so that the two widths' own costs are told apart by the counts alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from hardware.units.description import Units

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
