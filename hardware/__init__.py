"""What the machine is: devices, arrays, and the spec files they come from."""

from hardware.array import (
    Arithmetic,
    Array,
    ChipLinks,
    Device,
    Energy,
    Group,
    Roofline,
    Setting,
    SpecError,
)
from hardware.load import load_array, load_device
from hardware.quantity import format_quantity, parse_quantity, split_quantity
from hardware.spec import COMMAND_LINE, catalog_names, spec_kind
from hardware.topology import Topology
from hardware.wires import Wires, by_core, wires_of

__all__ = [
    "COMMAND_LINE",
    "Arithmetic",
    "Array",
    "ChipLinks",
    "Device",
    "Energy",
    "Group",
    "Roofline",
    "Setting",
    "SpecError",
    "Topology",
    "Wires",
    "by_core",
    "catalog_names",
    "format_quantity",
    "load_array",
    "load_device",
    "parse_quantity",
    "spec_kind",
    "split_quantity",
    "wires_of",
]
