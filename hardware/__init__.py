"""What the machine is: devices, arrays, and the spec files they come from."""

from hardware.array import (
    Arithmetic,
    Array,
    ChipLinks,
    Device,
    Energy,
    Group,
    Model,
    Roofline,
    Setting,
    SpecError,
)
from hardware.bisection import Bisection, Half, bisection_of, by_core, wires_of
from hardware.interconnect.routing import Wires
from hardware.load import load_array, load_device
from hardware.quantity import format_quantity, parse_quantity, split_quantity
from hardware.spec import COMMAND_LINE, catalog_names, spec_kind
from hardware.topology import Topology

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
    "Model",
    "Roofline",
    "Setting",
    "SpecError",
    "Topology",
    "Wires",
    "bisection_of",
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
