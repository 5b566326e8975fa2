"""What the machine is: devices, arrays, and the spec files they come from."""

from hardware.array import Array, Group, Model, Setting, SpecError, Stack
from hardware.bisection import Bisection, Half, Section, bisection_of, by_core, wires_of
from hardware.device import Arithmetic, ChipLinks, Device, Energy, Power, Roofline
from hardware.interconnect.routing import Wires
from hardware.load import load_array, load_device, load_stack
from hardware.quantity import format_quantity, in_bytes, parse_quantity, split_quantity
from hardware.spec import COMMAND_LINE, catalog_models, catalog_names, catalog_rows, spec_kind
from hardware.topology import Topology
from hardware.units import MatrixUnit, Units, VectorUnit
