"""What is known of every tensor of an ONNX graph: its type, its shape, its values where small."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from workloads.importers.neutral import Constant, Shape
from workloads.importers.onnx.guard import LARGEST, MOST_BYTES
from workloads.tensors import NetworkError

MOST_FOLLOWED = 1 << 16
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
FLOATS = frozenset({1, 10, 11, 16, 17, 18, 19, 20, 23})
"""ONNX element types of trained tensors: float, float16, double, bfloat16, the float8 ones."""


def of_tensor(tensor: onnx.TensorProto) -> Array | None:
    """The values of a small tensor that is in the file itself, else None."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return None
    if math.prod(tensor.dims) > MOST_FOLLOWED:
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
    if node.op_type not in FOLDED or node.domain not in ("", "ai.onnx") or elements > MOST_FOLLOWED:
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
    return arrays if all(array.size <= MOST_FOLLOWED for array in arrays) else None


class Tensors:
    """Tensors met so far; ``given`` has the sizes of dimensions that the file only names.

    ``batch`` is the number of samples the shapes are for, ``sample`` the name
    of that dimension.
    """

    def __init__(self, path: str, given: Mapping[str, int]) -> None:
        self.path = path
        self.given = given
        self.types: dict[str, onnx.TypeProto] = {}
        self.constants: dict[str, Constant] = {}
        self.values: dict[str, Array] = {}
        self.batch = 1
        self.sample = ""

    def input(self, value: onnx.ValueInfoProto, *, first: bool) -> Shape:
        """The shape of a graph's input, now known; the first one says what a sample is."""
        where = f"{self.path}, input {value.name!r}"
        if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
            raise NetworkError(f"{where}: a tensor with a shape is expected")
        dims = value.type.tensor_type.shape.dim
        if first and dims:
            self.sample = dims[0].dim_param
        shape = tuple(self._size(where, dim, i) for i, dim in enumerate(dims))
        if first and dims:
            self.batch = shape[0]
        if math.prod(shape) > LARGEST:
            raise NetworkError(f"{where}: {shape} is absurdly large, over {LARGEST:.2g} elements")
        self.set(value.name, value.type.tensor_type.elem_type, shape)
        return shape

    def _size(self, where: str, dim: onnx.TensorShapeProto.Dimension, axis: int) -> int:
        if dim.HasField("dim_value"):
            if dim.dim_value < 1:
                raise NetworkError(f"{where}: dimension {axis} is {dim.dim_value}")
            return dim.dim_value
        if dim.dim_param in self.given:
            return self.given[dim.dim_param]
        unnamed = axis == 0 and not dim.dim_param
        if unnamed or (dim.dim_param and dim.dim_param == self.sample):
            return 1
        named = dim.dim_param or f"{axis}"
        remedy = f"give it a size, as {Path(self.path).name}:{named}=128"
        if not dim.dim_param:
            remedy = "export the model with a size or a name there"
        raise NetworkError(f"{where}: dimension {named!r} has no size; {remedy}")

    def constant(self, name: str, tensor: onnx.TensorProto, where: str) -> None:
        """A tensor of the file; its values are kept where it is small and in the file itself."""
        shape = tuple(tensor.dims)
        elements = math.prod(shape)
        if min(shape, default=1) < 0 or elements > LARGEST:
            raise NetworkError(f"{self.path}, {where}: shape {shape} is impossible")
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if external:
            self._check_location(tensor, where)
        elif _bytes(tensor, elements) > MOST_BYTES:
            raise NetworkError(
                f"{self.path}, {where}: {elements:,} elements do not fit in the file; "
                "a tensor of that size belongs in external data"
            )
        elif tensor.raw_data and len(tensor.raw_data) != _bytes(tensor, elements):
            raise NetworkError(f"{self.path}, {where}: {len(tensor.raw_data)} bytes for {shape}")
        array = of_tensor(tensor)
        if array is not None and (array.size or not elements):
            self.values[name] = array
        trained = {name: elements} if tensor.data_type in FLOATS and shape else {}
        self.constants[name] = Constant(shape, trained)
        self.set(name, tensor.data_type, shape)

    def _check_location(self, tensor: onnx.TensorProto, where: str) -> None:
        """Nothing is opened; but a file that points out of its folder is not to be trusted."""
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        parts = PurePosixPath(location.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or ":" in location:
            raise NetworkError(
                f"{self.path}, {where}: external data at {location[:100]!r}, "
                "outside the model's folder; refused (no external data is ever opened)"
            )

    def sparse(self, sparse: onnx.SparseTensorProto) -> None:
        """A sparse tensor of the file, trained as a dense one of its shape."""
        shape, name = tuple(sparse.dims), sparse.values.name
        if min(shape, default=1) < 0 or math.prod(shape) > LARGEST:
            raise NetworkError(f"{self.path}, sparse initializer {name!r}: impossible {shape}")
        self.constants[name] = Constant(shape, {name: math.prod(shape)})
        self.set(name, sparse.values.data_type, shape)

    def set(self, name: str, kind: int, shape: Shape) -> None:
        """A tensor's element type (ONNX's number for it) and shape."""
        self.types[name] = onnx.helper.make_tensor_type_proto(kind, shape)

    def shape(self, name: str) -> Shape:
        """The shape of a tensor met before."""
        dims = self.types[name].tensor_type.shape.dim
        return tuple(dim.dim_value for dim in dims)

    def integers(self, name: str) -> list[int] | None:
        """The values of a small constant, or None."""
        if name not in self.values:
            return None
        return [int(n) for n in self.values[name].reshape(-1)]

    def known(self, kind: onnx.TypeProto) -> Shape | None:
        """The shape that a type declares, None where a dimension has no size."""
        if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        named = dict(self.given) | ({self.sample: 1} if self.sample else {})
        dims = kind.tensor_type.shape.dim
        sizes = [d.dim_value if d.HasField("dim_value") else named.get(d.dim_param) for d in dims]
        return None if None in sizes else tuple(size for size in sizes if size is not None)


def _bytes(tensor: onnx.TensorProto, elements: int) -> int:
    """Bytes of the data; -1 where the element type is unknown."""
    try:
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except KeyError:
        return -1
    bits = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}.get(tensor.data_type, 8 * kind.itemsize)
    return -(-elements * bits // 8)
