"""What a stranger's file may ask for: limits, and what onnx itself cannot stand.

onnx's own shape inference is not called where it would hang or take the process down.

Found by feeding every operator random attributes (onnx 1.23): an ``Einsum``
with two ellipses in a term never returns, a ``LayerNormalization`` with an
axis of 2^31 is a segmentation fault, an ``Expand`` to a shape of 2^40
dimensions fills the memory. C++ cannot be interrupted from Python.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from workloads.importers.neutral import Shape
from workloads.tensors import NetworkError

if TYPE_CHECKING:
    import onnx

MOST_BYTES = 2**31 - 1
"""Protobuf's own limit for one message."""
MOST_NODES = 20_000
MOST_TENSORS = 100_000
MOST_MADE = 1 << 28
"""Most elements of a constant that operators make, unless they read as many."""
LARGEST = 1 << 62
"""Most elements of any tensor."""
MOST_DIMENSIONS = 64
_WIDE = 1 << 31
_TERM = r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(?:,{_TERM})*(?:->{_TERM})?")
_AXES = frozenset({"axis", "axes", "batch_axis", "time_axis", "batch_dims", "perm"})
_SHAPED = frozenset({"Reshape", "Expand", "ConstantOfShape", "Tile", "Unsqueeze", "Squeeze"})
"""Operators whose last operand has one element for each of some tensor's dimensions."""


def check(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> None:
    """Refuse a node that onnx must not see; raises NetworkError."""
    for attribute in node.attribute:
        _check_attribute(node, attribute)
    reads = [shapes[name] for name in node.input if name]
    if any(len(shape) > MOST_DIMENSIONS for shape in reads):
        raise NetworkError(f"a tensor of more than {MOST_DIMENSIONS} dimensions")
    if node.op_type in _SHAPED or node.op_type.startswith("Random"):
        for shape in reads if node.op_type == "ConstantOfShape" else reads[1:]:
            if len(shape) == 1 and shape[0] > MOST_DIMENSIONS:
                raise NetworkError(f"a shape of {shape[0]:,} dimensions")
    axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
    if "Normalization" in node.op_type and reads and not -len(reads[0]) <= axis < len(reads[0]):
        raise NetworkError(f"axis {axis} of a tensor of {len(reads[0])} dimensions")


def _check_attribute(node: onnx.NodeProto, attribute: onnx.AttributeProto) -> None:
    name, values = attribute.name, [attribute.i, *attribute.ints]
    if name in _AXES and max(map(abs, values)) > MOST_DIMENSIONS:
        raise NetworkError(f"{name} {max(values, key=abs)} is out of range")
    if name == "batch_dims" and attribute.i < 0:
        raise NetworkError(f"batch_dims {attribute.i} is negative")
    if name == "num_outputs" and attribute.i != len(node.output):
        raise NetworkError(f"num_outputs is {attribute.i}, but it has {len(node.output)}")
    wide = max(map(abs, values)) >= _WIDE
    if wide and node.op_type not in ("Slice", "Constant"):  # to the end; any value
        raise NetworkError(f"{name} {max(values, key=abs)} is out of range")
    if name == "equation":
        text = attribute.s.decode(errors="replace").replace(" ", "")
        if not _EQUATION.fullmatch(text):
            raise NetworkError(f"equation {text[:80]!r} is not of the form 'ij,jk->ik'")
