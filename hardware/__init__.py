"""What the machine is: devices, arrays, and the spec files they come from."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hardware.array import Array, Group, Model, Setting, SpecError
from hardware.bisection import Bisection, Half, Section, bisection_of, by_core, wires_of
from hardware.device import Arithmetic, ChipLinks, Device, Energy, Roofline
from hardware.quantity import format_quantity, in_bytes, parse_quantity, split_quantity
from hardware.spec import COMMAND_LINE, catalog_models, catalog_names, catalog_rows, spec_kind
from hardware.stack import Stack
from hardware.topology import Topology
from hardware.units import MatrixUnit, Units, VectorUnit

if TYPE_CHECKING:
    from hardware.interconnect.routing import Wires
    from hardware.load import load_array, load_device, load_stack
else:
    _HEAVY = {
        "Wires": "hardware.interconnect.routing",
        "load_array": "hardware.load",
        "load_device": "hardware.load",
        "load_stack": "hardware.load",
    }
    """Names that bring NumPy, which lists of what there is do without."""

    def __getattr__(name: str) -> Any:
        if name not in _HEAVY:
            raise AttributeError(f"module 'hardware' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(_HEAVY[name]), name)
        return found


__all__ = [
    "COMMAND_LINE",
    "Arithmetic",
    "Array",
    "Bisection",
    "ChipLinks",
    "Device",
    "Energy",
    "Group",
    "Half",
    "MatrixUnit",
    "Model",
    "Roofline",
    "Section",
    "Setting",
    "SpecError",
    "Stack",
    "Topology",
    "Units",
    "VectorUnit",
    "Wires",
    "bisection_of",
    "by_core",
    "catalog_models",
    "catalog_names",
    "catalog_rows",
    "format_quantity",
    "in_bytes",
    "load_array",
    "load_device",
    "load_stack",
    "parse_quantity",
    "spec_kind",
    "split_quantity",
    "wires_of",
]
