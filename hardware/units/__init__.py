"""What computes inside a core: matrix and vector units and a buffer, their area and their power."""

from hardware.units.area import AREA, Area
from hardware.units.description import DATAFLOWS, Dataflow, MatrixUnit, Units, VectorUnit
from hardware.units.power import POWER, Power

__all__ = [
    "AREA",
    "DATAFLOWS",
    "POWER",
    "Area",
    "Dataflow",
    "MatrixUnit",
    "Power",
    "Units",
    "VectorUnit",
]
