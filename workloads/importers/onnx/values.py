"""Small constants of an ONNX file: the shapes, axes and indices that decide other shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from workloads.tensors import NetworkError

LARGEST = 1 << 16
"""Most elements of a constant whose values are followed."""
Array = NDArray[Any]

_FOLDED = """
    Abs Add And Cast Ceil Concat ConstantOfShape Div Equal Expand Flatten Floor Gather Greater
    GreaterOrEqual Identity Less LessOrEqual Max Min Mod Mul Neg Not Or Pow Range ReduceMax
    ReduceMin ReduceProd ReduceSum Reshape Slice Sqrt Squeeze Sub Tile Transpose Trilu
    Unsqueeze Where
"""
FOLDED = frozenset(_FOLDED.split())
"""Operators computed here where all their operands are small constants."""


def of_tensor(tensor: onnx.TensorProto) -> Array | None:
    """The values of a small tensor that is in the file itself, else None."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    if math.prod(tensor.dims) > LARGEST:
        return None
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError, NotImplementedError):
        return None


def of_constant(node: onnx.NodeProto) -> onnx.TensorProto:
    """What a Constant node holds, as a tensor."""
    kinds: dict[str, Any] = {"value_int": np.int64, "value_ints": np.int64}
    kinds |= {"value_float": np.float32, "value_floats": np.float32}
    for attribute in node.attribute:
        if attribute.name == "value":
            tensor: onnx.TensorProto = attribute.t
            return tensor
        if attribute.name in kinds:
            value = onnx.helper.get_attribute_value(attribute)
            return numpy_helper.from_array(np.array(value, kinds[attribute.name]))
    raise NetworkError("a constant without a value that is understood")


def fold(
    node: onnx.NodeProto, values: Mapping[str, Array], elements: int, opset: int
) -> list[Array] | None:
    """A node's outputs where its operands are known and its result is small, else None."""
    names = [name for name in node.input if name]
    if node.op_type not in FOLDED or node.domain not in ("", "ai.onnx") or elements > LARGEST:
        return None
    if not all(name in values for name in names):
        return None
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            graph = onnx.GraphProto(
                node=[node],
                input=[onnx.ValueInfoProto(name=name) for name in dict.fromkeys(names)],
                output=[onnx.ValueInfoProto(name=name) for name in node.output],
            )
            evaluator = ReferenceEvaluator(graph, {"": opset})
            found = evaluator.run(None, {name: values[name] for name in names})
    except Exception:  # whatever numpy or the evaluator thinks of strange operands
        return None
    arrays = [np.asarray(array) for array in found]
    return arrays if all(array.size <= LARGEST for array in arrays) else None
