"""What the machine is: devices, arrays, and the spec files they come from."""

from hardware.array import Array, ChipLinks, Device, Group, Setting, SpecError
from hardware.load import load_array, load_device
from hardware.quantity import format_quantity, parse_quantity, split_quantity
from hardware.spec import COMMAND_LINE, catalog_names, spec_kind
from hardware.topology import Topology
from hardware.wires import Wires

__all__ = [
    "COMMAND_LINE",
    "Array",
    "ChipLinks",
    "Device",
    "Group",
    "Setting",
    "SpecError",
    "Topology",
    "Wires",
    "catalog_names",
    "format_quantity",
    "load_array",
    "load_device",
    "parse_quantity",
    "spec_kind",
    "split_quantity",
]
