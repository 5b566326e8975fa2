"""One walk over an ONNX graph: shapes, small constants, and each node in neutral terms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

from workloads.importers import onnx_guard, onnx_operators, onnx_values
from workloads.importers.neutral import Constant, Model, Operation, Shape, printable
from workloads.importers.onnx_file import MOST_BYTES, MOST_MADE
from workloads.layers import NetworkError

_LARGEST = 1 << 62
_FLOATS = frozenset({1, 10, 11, 16, 17, 18, 19, 20, 23})
"""ONNX element types of trained tensors: float, float16, double, bfloat16, the float8 ones."""


class Reader:
    """What is known so far about every tensor of a graph."""

    def __init__(self, path: str, model: onnx.ModelProto, given: Mapping[str, int]) -> None:
        self.path = path
        self.graph = model.graph
        self.given = given
        self.opsets = {o.domain.removeprefix("ai.onnx"): o.version for o in model.opset_import}
        self.imports = list(model.opset_import)
        self.types: dict[str, onnx.TypeProto] = {}
        self.constants: dict[str, Constant] = {}
        self.values: dict[str, onnx_values.Array] = {}
        self.operations: list[Operation] = []
        self.notes: list[str] = []
        self.batch = 1
        self.sample = ""
        self.declared = {v.name: v.type for v in [*self.graph.value_info, *self.graph.output]}

    def model(self) -> Model:
        """The whole graph; raises NetworkError naming the file and the node."""
        for tensor in self.graph.initializer:
            self._constant(tensor.name, tensor, f"initializer {tensor.name!r}")
        for sparse in self.graph.sparse_initializer:
            self._sparse(sparse)
        inputs: dict[str, Shape] = {}
        for value in self.graph.input:
            if value.name not in self.constants:
                inputs[value.name] = self._input(value, first=not inputs)
        if not inputs:
            raise NetworkError(f"{self.path}: the graph has no input")
        self._check_given()
        for index, node in enumerate(self.graph.node):
            name = printable(node.name or f"{node.op_type}_{index}")[:200]
            try:
                self._node(name, node)
            except NetworkError as error:
                raise NetworkError(f"{self.path}, node {name!r}: {error}") from None
            except (LookupError, TypeError, ValueError, ArithmeticError) as error:
                # strangers' files may say anything; whatever does not fit ends here
                problem = f"{type(error).__name__}: {error}"[:300]
                raise NetworkError(f"{self.path}, node {name!r}: malformed ({problem})") from None
        return Model(
            Path(self.path).stem,
            self.path,
            inputs,
            self.constants,
            tuple(self.operations),
            self.batch,
            frozenset(n for n in inputs if self.types[n].tensor_type.elem_type not in _FLOATS),
            f"ONNX file {self.path}",
            tuple(self.notes),
        )

    # --- inputs and constants

    def _check_given(self) -> None:
        """A size for a dimension that the file does not name is a slip of the pen."""
        values = [*self.graph.input, *self.graph.value_info, *self.graph.output]
        dims = (dim for value in values for dim in value.type.tensor_type.shape.dim)
        named = sorted({dim.dim_param for dim in dims if dim.dim_param})
        for key in self.given:
            if key not in named:
                found = ", ".join(map(repr, named[:10])) or "none"
                raise NetworkError(f"{self.path}: no dimension is named {key!r}; named are {found}")

    def _input(self, value: onnx.ValueInfoProto, *, first: bool) -> Shape:
        where = f"{self.path}, input {value.name!r}"
        if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
            raise NetworkError(f"{where}: a tensor with a shape is expected")
        dims = value.type.tensor_type.shape.dim
        if first and dims:
            self.sample = dims[0].dim_param
        shape = tuple(self._size(where, dim, i) for i, dim in enumerate(dims))
        if first and dims:
            self.batch = shape[0]
        if math.prod(shape) > _LARGEST:
            raise NetworkError(f"{where}: {shape} is absurdly large")
        self._set(value.name, value.type.tensor_type.elem_type, shape)
        return shape

    def _size(self, where: str, dim: onnx.TensorShapeProto.Dimension, axis: int) -> int:
        if dim.HasField("dim_value"):
            if dim.dim_value < 1:
                raise NetworkError(f"{where}: dimension {axis} is {dim.dim_value}")
            return dim.dim_value
        if dim.dim_param in self.given:
            return max(1, self.given[dim.dim_param])
        unnamed = axis == 0 and not dim.dim_param
        if unnamed or (dim.dim_param and dim.dim_param == self.sample):
            return 1
        named = dim.dim_param or f"{axis}"
        remedy = f"give it a size, as {Path(self.path).name}:{named}=128"
        if not dim.dim_param:
            remedy = "export the model with a size or a name there"
        raise NetworkError(f"{where}: dimension {named!r} has no size; {remedy}")

    def _constant(self, name: str, tensor: onnx.TensorProto, where: str) -> None:
        shape = tuple(tensor.dims)
        elements = math.prod(shape)
        if min(shape, default=1) < 0 or elements > _LARGEST:
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
        array = onnx_values.of_tensor(tensor)
        if array is not None and (array.size or not elements):
            self.values[name] = array
        trained = {name: elements} if tensor.data_type in _FLOATS and shape else {}
        self.constants[name] = Constant(shape, trained)
        self._set(name, tensor.data_type, shape)

    def _check_location(self, tensor: onnx.TensorProto, where: str) -> None:
        """Nothing is opened; but a file that points out of its folder is not to be trusted."""
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        parts = PurePosixPath(location.replace("\\", "/"))
        if parts.is_absolute() or ".." in parts.parts or ":" in location:
            raise NetworkError(
                f"{self.path}, {where}: external data at {location[:100]!r}, "
                "outside the model's folder; refused (no external data is ever opened)"
            )

    def _sparse(self, sparse: onnx.SparseTensorProto) -> None:
        shape, name = tuple(sparse.dims), sparse.values.name
        if min(shape, default=1) < 0 or math.prod(shape) > _LARGEST:
            raise NetworkError(f"{self.path}, sparse initializer {name!r}: impossible {shape}")
        self.constants[name] = Constant(shape, {name: math.prod(shape)})
        self._set(name, sparse.values.data_type, shape)

    def _set(self, name: str, kind: int, shape: Shape) -> None:
        self.types[name] = onnx.helper.make_tensor_type_proto(kind, shape)

    # --- nodes

    def _node(self, name: str, node: onnx.NodeProto) -> None:
        reads = [*node.input, *dict.fromkeys(_captured(node, self.types))]
        for tensor in node.input:
            if tensor and tensor not in self.types:
                raise NetworkError(
                    f"it reads {tensor!r}, which nothing before it makes "
                    "(a cycle, or nodes out of order)"
                )
        for tensor in node.output:
            if tensor and tensor in self.types:
                raise NetworkError(f"it makes {tensor!r}, which is there already")
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            self._constant(node.output[0], onnx_values.of_constant(node), f"node {name!r}")
            self.constants[node.output[0]] = Constant(self.constants[node.output[0]].shape)
            return
        shapes = self._shapes(name, node)
        if self._measured(node) or all(read in self.constants or not read for read in reads):
            self._fold(node, shapes)
            return
        understood = onnx_operators.translate(name, node, shapes, tuple(reads), self)
        self.operations += understood

    def _measured(self, node: onnx.NodeProto) -> bool:
        """Whether a node asks for a shape, which is known; its value is kept."""
        if node.op_type not in ("Shape", "Size"):
            return False
        shape = np.array(self.shape(node.input[0]), np.int64)
        bounds = {a.name: a.i for a in node.attribute}
        value = shape[slice(bounds.get("start"), bounds.get("end"))]
        self.values[node.output[0]] = value if node.op_type == "Shape" else shape.prod()
        return True

    def _fold(self, node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> None:
        """A node of constants: its outputs are constants, with values where they are small."""
        trained = {
            key: n
            for name in node.input
            if name in self.constants
            for key, n in self.constants[name].trained.items()
        }
        elements = sum(math.prod(shape) for shape in shapes.values())
        if elements > MOST_MADE:
            raise NetworkError(f"it makes a constant of {elements:,} elements")
        found = onnx_values.fold(node, self.values, elements, self.opsets.get("", 1))
        for name, array in zip(node.output, found or (), strict=False):
            self.values[name] = array
        for name, shape in shapes.items():
            known = self.values[name].shape if name in self.values else shape
            self.constants[name] = Constant(tuple(known), trained)

    def shape(self, name: str) -> Shape:
        """The shape of a tensor met before."""
        dims = self.types[name].tensor_type.shape.dim
        return tuple(dim.dim_value for dim in dims)

    def integers(self, name: str) -> list[int] | None:
        """The values of a small constant, or None."""
        if name not in self.values:
            return None
        return [int(n) for n in self.values[name].reshape(-1)]

    # --- shapes

    def _shapes(self, name: str, node: onnx.NodeProto) -> dict[str, Shape]:
        """The shape of every output: inferred, else as the file says, else as its input's."""
        inferred = self._infer(node)
        shapes = {}
        for output in filter(None, node.output):
            kind = inferred.get(output) or self.declared.get(output) or onnx.TypeProto()
            shape = self._known(kind)
            if shape is None and output in self.declared:
                shape = self._known(self.declared[output])
            if shape is None:
                shape = self._assumed(name, node)
            if min(shape, default=1) < 0 or math.prod(shape) > _LARGEST:
                raise NetworkError(f"its output {output!r} is {shape}")
            shapes[output] = shape
            self._set(output, kind.tensor_type.elem_type or onnx.TensorProto.FLOAT, shape)
        if not shapes:
            raise NetworkError("it has no output")
        return shapes

    def _infer(self, node: onnx.NodeProto) -> dict[str, onnx.TypeProto]:
        domain = "" if node.domain == "ai.onnx" else node.domain
        if any(a.HasField("g") or a.graphs for a in node.attribute):
            return {}  # control flow: what its branches hold has not been checked
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opsets.get(domain, 0), domain)
        except onnx.defs.SchemaError:
            return {}
        onnx_guard.check(node, {read: self.shape(read) for read in node.input if read})
        known = {read: self.types[read] for read in node.input if read}
        data = {
            read: numpy_helper.from_array(self.values[read])
            for read in node.input
            if read in self.values
        }
        try:
            return shape_inference.infer_node_outputs(
                schema, node, known, data, opset_imports=self.imports
            )
        except Exception as error:  # onnx raises bare C++ exceptions of many types
            text = str(error).partition("\n")[0][:300]
            raise NetworkError(f"its shapes do not fit: {text}") from None

    def _known(self, kind: onnx.TypeProto) -> Shape | None:
        if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
            return None
        sizes = []
        for dim in kind.tensor_type.shape.dim:
            if dim.HasField("dim_value"):
                sizes.append(dim.dim_value)
            elif dim.dim_param and dim.dim_param == self.sample:
                sizes.append(1)
            elif dim.dim_param in self.given:
                sizes.append(self.given[dim.dim_param])
            else:
                return None
        return tuple(sizes)

    def _assumed(self, name: str, node: onnx.NodeProto) -> Shape:
        first = next((read for read in node.input if read and read not in self.constants), "")
        taken = f"that of its input {first!r}" if first else "one element"
        self.notes.append(
            f"{name}: the shape of what {node.op_type} makes is unknown; taken to be {taken}"
        )
        return self.shape(first) if first else (1,)


def _bytes(tensor: onnx.TensorProto, elements: int) -> int:
    """Bytes of the data; -1 where the element type is unknown."""
    try:
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except KeyError:
        return -1
    bits = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}.get(tensor.data_type, 8 * kind.itemsize)
    return -(-elements * bits // 8)


def _captured(node: onnx.NodeProto, outside: Mapping[str, onnx.TypeProto]) -> Iterator[str]:
    """Tensors that a node's subgraphs (of If, Loop, Scan) read from outside."""
    graphs = [a.g for a in node.attribute if a.HasField("g")]
    while graphs:
        graph = graphs.pop()
        inside = {output for inner in graph.node for output in inner.output}
        for inner in graph.node:
            yield from (r for r in inner.input if r in outside and r not in inside)
            graphs += [a.g for a in inner.attribute if a.HasField("g")]
