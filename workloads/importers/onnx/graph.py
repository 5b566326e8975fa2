"""One walk over an ONNX graph: shapes, small constants, and each node in neutral terms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

from workloads.importers.neutral import (
    OF_PARAMETERS,
    Constant,
    Model,
    ModelOperation,
    Shape,
    printable,
)
from workloads.importers.onnx import guard, operators
from workloads.importers.onnx.guard import LARGEST, MOST_MADE
from workloads.importers.onnx.tensors import FLOATS, Tensors, fold, of_constant
from workloads.tensors import NetworkError


class Reader:
    """A graph on its way to a model: its tensors so far, and the operations of its nodes."""

    def __init__(self, path: str, model: onnx.ModelProto, given: Mapping[str, int]) -> None:
        self.path = path
        self.graph = model.graph
        self.tensors = Tensors(path, given)
        self.opsets = {o.domain.removeprefix("ai.onnx"): o.version for o in model.opset_import}
        self.imports = list(model.opset_import)
        self.operations: list[ModelOperation] = []
        self.notes: list[str] = []
        self._held = set[str]()
        """Tensors of real numbers in Constant nodes."""
        self.declared = {v.name: v.type for v in [*self.graph.value_info, *self.graph.output]}

    def model(self) -> Model:
        """The whole graph; raises NetworkError naming the file and the node."""
        inputs = self._known_at_first()
        self._check_given()
        self._nodes()
        operations, types = self._reaching(), self.tensors.types
        self._note_weights(operations, inputs)
        return Model(
            printable(Path(self.path).stem),
            self.path,
            inputs,
            self.tensors.constants,
            operations,
            self.tensors.batch,
            frozenset(n for n in inputs if types[n].tensor_type.elem_type not in FLOATS),
            f"ONNX file {self.path}",
            tuple(self.notes),
        )

    def _known_at_first(self) -> dict[str, Shape]:
        """Take in the file's constants and the graph's inputs; returns the inputs' shapes."""
        for tensor in self.graph.initializer:
            self.tensors.constant(tensor.name, tensor, f"initializer {tensor.name!r}")
        for sparse in self.graph.sparse_initializer:
            self.tensors.sparse(sparse)
        inputs: dict[str, Shape] = {}
        for value in self.graph.input:
            if value.name not in self.tensors.constants:
                inputs[value.name] = self.tensors.input(value, first=not inputs)
        if not inputs:
            raise NetworkError(f"{self.path}: the graph has no input")
        return inputs

    def _nodes(self) -> None:
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

    def _reaching(self) -> tuple[ModelOperation, ...]:
        """Operations from which an output of the graph is reached; all where there is none."""
        needed, kept = {value.name for value in self.graph.output}, list[ModelOperation]()
        for one in reversed(self.operations):
            if not needed.isdisjoint((*one.outputs, *one.attributes.get("further", ()))):
                needed |= {*filter(None, one.inputs)}
                kept.append(one)
        names = {one.name for one in kept or self.operations}
        views = {*operators.VIEWS.values(), "transpose", "select"}  # which cost nothing
        dead = (o for o in self.operations if o.name not in names and o.verb not in views)
        left = dict.fromkeys(one.name for one in dead)
        if left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            self.notes.append(
                f"{next(iter(left))}{more}: no output of the graph needs it; left out"
            )
        return tuple(reversed(kept)) or tuple(self.operations)

    def _note_weights(
        self, operations: Sequence[ModelOperation], inputs: Mapping[str, Shape]
    ) -> None:
        """Products with a further input that has no samples: it may be a matrix that is trained."""
        _, *further = inputs
        for one in operations:
            for read in one.inputs[:2] if one.verb in ("conv", "matmul") else ():
                if read in further and inputs[read][:1] != (self.tensors.batch,):
                    self.notes.append(
                        f"{one.name}: {read!r} is an input of the model; what is trained must be "
                        "in the file: export it with initializers"
                    )

    def _check_given(self) -> None:
        """A size for a dimension that the file does not name is a slip of the pen."""
        declared = [*self.graph.input, *self.graph.value_info, *self.graph.output]
        dims = (dim for value in declared for dim in value.type.tensor_type.shape.dim)
        named = sorted({dim.dim_param for dim in dims if dim.dim_param})
        for key in self.tensors.given:
            if key not in named:
                found = ", ".join(map(repr, named[:10])) or "none"
                raise NetworkError(f"{self.path}: no dimension is named {key!r}; named are {found}")

    def _node(self, name: str, node: onnx.NodeProto) -> None:
        reads = [*node.input, *dict.fromkeys(_captured(node, self.tensors.types))]
        for tensor in node.input:
            if tensor and tensor not in self.tensors.types:
                raise NetworkError(
                    f"it reads {tensor!r}, which nothing before it makes "
                    "(a cycle, nodes out of order, or an initializer that the file lacks)"
                )
        for tensor in node.output:
            if tensor and tensor in self.tensors.types:
                raise NetworkError(f"it makes {tensor!r}, which is there already")
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            self._constant(name, node)
            return
        shapes = self._shapes(name, node)
        constants = self.tensors.constants
        if node.op_type in operators.SETTINGS:
            reads = [read for at, read in enumerate(reads) if not at or read not in constants]
        if node.op_type == "Add" and self.operations:
            self._held_bias(reads, self.operations[-1])
        if self._measured(node) or all(read in constants or not read for read in reads):
            self._fold(node, shapes, reads)
            if node.op_type in operators.PRODUCTS and any(constants[o].trained for o in shapes):
                self.notes.append(f"{name}: {OF_PARAMETERS}")
            return
        understood = operators.translate(name, node, shapes, tuple(reads), self.tensors)
        self.operations += understood

    def _constant(self, name: str, node: onnx.NodeProto) -> None:
        """A constant in the graph itself: known, and not trained."""
        made = node.output[0]
        self.tensors.constant(made, of_constant(node), f"node {name!r}")
        if self.tensors.constants[made].trained:
            self._held.add(made)
        self.tensors.constants[made] = Constant(self.tensors.constants[made].shape)

    def _measured(self, node: onnx.NodeProto) -> bool:
        """Whether a node asks for a shape, which is known; its value is kept."""
        if node.op_type not in ("Shape", "Size"):
            return False
        shape = np.array(self.tensors.shape(node.input[0]), np.int64)
        bounds = {a.name: a.i for a in node.attribute}
        value = shape[slice(bounds.get("start"), bounds.get("end"))]
        self.tensors.values[node.output[0]] = value if node.op_type == "Shape" else shape.prod()
        return True

    def _held_bias(self, reads: list[str], product: ModelOperation) -> None:
        """A vector in a Constant node, added to a product, is trained as its matrix there is."""
        if product.verb == "matmul" and not product.outputs.keys().isdisjoint(reads):
            for read in self._held.intersection(reads):
                if self.tensors.shape(read) == product.output[-1:]:
                    trained = {read: product.output[-1]}
                    self.tensors.constants[read] = Constant(product.output[-1:], trained)

    def _fold(
        self, node: onnx.NodeProto, shapes: Mapping[str, Shape], reads: Iterable[str]
    ) -> None:
        """A node of constants: its outputs are constants, with values where they are small."""
        known = self.tensors.constants
        constants = [known[name] for name in reads if name in known]
        if node.op_type == "DequantizeLinear":  # whole numbers, but weights
            first = constants[0]
            trained = first.trained or {node.input[0]: math.prod(first.shape)}
            constants = [replace(first, trained=trained)]
        others = [n for n in node.input if n not in known or not known[n].trained]
        how = f"{node.op_type} {others} {[a.SerializeToString() for a in node.attribute]}"
        if node.op_type in operators.PRODUCTS:
            how = ""  # of all that they are made of
        elements = sum(math.prod(shape) for shape in shapes.values())
        if elements > max(MOST_MADE, sum(math.prod(one.shape) for one in constants)):
            raise NetworkError(f"it makes a constant of {elements:,} elements")
        found = fold(node, self.tensors.values, elements, self.opsets.get("", 1))
        for name, array in zip(node.output, found or (), strict=False):
            self.tensors.values[name] = array
        for i, (name, shape) in enumerate(shapes.items()):
            made = self.tensors.values[name].shape if name in self.tensors.values else shape
            known[name] = Constant.of(how and f"{how} {i}", tuple(made), constants)

    def _shapes(self, name: str, node: onnx.NodeProto) -> dict[str, Shape]:
        """The shape of every output: inferred, else as the file says, else as its input's."""
        inferred = self._infer(node)
        shapes = {}
        for output in filter(None, node.output):
            kind = inferred.get(output) or self.declared.get(output) or onnx.TypeProto()
            shape = self.tensors.known(kind)
            if shape is None and output in self.declared:
                shape = self.tensors.known(self.declared[output])
            if shape is None:
                shape = self._assumed(name, node)
            if min(shape, default=1) < 0 or math.prod(shape) > LARGEST:
                raise NetworkError(f"its output {output!r} is {shape}")
            shapes[output] = shape
            self.tensors.set(output, kind.tensor_type.elem_type or onnx.TensorProto.FLOAT, shape)
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
        guard.check(node, {read: self.tensors.shape(read) for read in node.input if read})
        known = {read: self.tensors.types[read] for read in node.input if read}
        data = {
            read: numpy_helper.from_array(self.tensors.values[read])
            for read in node.input
            if read in self.tensors.values
        }
        try:
            return shape_inference.infer_node_outputs(
                schema, node, known, data, opset_imports=self.imports
            )
        except Exception as error:  # onnx raises bare C++ exceptions of many types
            text = str(error).partition("\n")[0][:300]
            raise NetworkError(f"its shapes do not fit: {text}") from None

    def _assumed(self, name: str, node: onnx.NodeProto) -> Shape:
        first = next(
            (read for read in node.input if read and read not in self.tensors.constants), ""
        )
        taken = f"that of its input {first!r}" if first else "one element"
        self.notes.append(
            f"{name}: the shape of what {node.op_type} makes is unknown; taken to be {taken}"
        )
        return self.tensors.shape(first) if first else (1,)


def _captured(node: onnx.NodeProto, outside: Mapping[str, onnx.TypeProto]) -> Iterator[str]:
    """Tensors that a node's subgraphs (of If, Loop, Scan) read from outside."""
    graphs = [a.g for a in node.attribute if a.HasField("g")]
    while graphs:
        graph = graphs.pop()
        inside = {output for inner in graph.node for output in inner.output}
        for inner in graph.node:
            yield from (r for r in inner.input if r in outside and r not in inside)
            graphs += [a.g for a in inner.attribute if a.HasField("g")]
