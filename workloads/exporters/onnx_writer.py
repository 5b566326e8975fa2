"""An ONNX graph being written: layer by layer, with the views between layouts.

A tensor is written in one of three layouts: a map (samples, channels, height,
width), a sequence (samples, positions, channels) or a vector (samples,
channels). Where a layer reads another layout than its source writes, views
stand between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import onnx
from onnx import TensorProto, helper

from workloads.importers.onnx.operators import DOMAIN
from workloads.layer_types import Layer
from workloads.layer_types.recurrent import CELLS
from workloads.network import Network
from workloads.tensors import INPUT, NetworkError, Tensor, sides

OPSET = 21
BATCH = "batch"
WEIGHTS = "weights-not-there.bin"
"""Where the initializers say their data is; no such file is written."""


class Layout(StrEnum):
    """How a tensor's dimensions are ordered."""

    MAP = "map"
    SEQUENCE = "sequence"
    VECTOR = "vector"


def natural(tensor: Tensor) -> Layout:
    """The layout of operators that have no preference."""
    if tensor.area == 1:
        return Layout.VECTOR
    return Layout.SEQUENCE if tensor.width == 1 else Layout.MAP


@dataclass(frozen=True, slots=True)
class Written:
    """A tensor of the model."""

    name: str
    tensor: Tensor
    layout: Layout


class Writer:
    """Nodes and initializers so far."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.declared: list[onnx.ValueInfoProto] = []
        self.written: dict[str, Written] = {}
        self.made: dict[str, str] = {}
        """Of weights that are made of further parameters, the matrix."""

    def model(self) -> onnx.ModelProto:
        """What has been written."""
        layers = self.network.layers
        read = {source for layer in layers for source in layer.inputs}
        ends = [self.written[layer.name] for layer in layers if layer.name not in read]
        graph = helper.make_graph(
            self.nodes,
            self.network.name,
            self.inputs,
            [self.info(end.name, end.tensor, end.layout) for end in ends],
            self.initializers,
            value_info=self.declared,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, producer_name="accelarray")

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Append a node; its output's name is its own, unless another ``name`` is given."""
        attributes = {"name": output, "domain": ""} | attributes
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def weight(self, name: str, *dims: int) -> str:
        """An initializer of which only the dims are written."""
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims)
        external(tensor)
        self.initializers.append(tensor)
        return name

    def integers(self, name: str, values: list[int]) -> str:
        """A small initializer: a shape."""
        self.initializers.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def reshape(self, source: str, output: str, shape: list[int]) -> str:
        """A view; 0 keeps a dimension, as the first one always is kept."""
        return self.node("Reshape", [source, self.integers(f"{output}.shape", shape)], output)

    def transpose(self, source: str, output: str, *perm: int) -> str:
        """A view with dimensions in another order."""
        return self.node("Transpose", [source], output, perm=perm)

    def info(self, name: str, tensor: Tensor, layout: Layout) -> onnx.ValueInfoProto:
        """What ONNX wants to know of a tensor: its name and shape."""
        shape: list[str | int | None] = [BATCH, *dims_of(tensor, layout)]
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def read(self, layer: Layer, at: int, layout: Layout) -> str:
        """Operand ``at`` of a layer, in a layout of the layer's choice."""
        wanted = layer.operands[at]
        if layer.inputs[at] == INPUT:
            return self._input(wanted, layout)
        found = self.written[layer.inputs[at]]
        if found.tensor.elements != wanted.elements:
            raise NetworkError(
                f"network {self.network.name!r}, layer {layer.name!r}: it reads {wanted}, but "
                f"{layer.inputs[at]!r} writes {found.tensor}; ONNX has no way to say that"
            )
        if found.layout is layout and dims_of(found.tensor, layout) == dims_of(wanted, layout):
            return found.name
        return self._adapted(found, wanted, layout, f"{layer.name}/{at}")

    def _input(self, wanted: Tensor, layout: Layout) -> str:
        name = INPUT if not self.inputs else f"{INPUT}_{wanted}_{layout}"
        known = {value.name for value in self.inputs}
        first = f"{INPUT}_{self.network.input}_{layout}"
        if f"{INPUT}_{wanted}_{layout}" == first and INPUT in known:
            name = INPUT
        if name not in known:
            self.inputs.append(self.info(name, wanted, layout))
        return name

    def _adapted(self, found: Written, wanted: Tensor, layout: Layout, name: str) -> str:
        """Views that turn one layout into another; channels stay channels where they can."""
        source, tensor = found.name, found.tensor
        if found.layout is Layout.SEQUENCE and layout is Layout.MAP:
            source = self.transpose(source, f"{name}.turned", 0, 2, 1)
        elif found.layout is Layout.MAP and layout is Layout.SEQUENCE:
            flat = self.reshape(source, f"{name}.flat", [0, tensor.channels, tensor.area])
            source = self.transpose(flat, f"{name}.turned", 0, 2, 1)
        return self.reshape(source, f"{name}.view", [0, *dims_of(wanted, layout)])


def dims_of(tensor: Tensor, layout: Layout) -> list[int]:
    """A tensor's dimensions in a layout, without the samples."""
    if layout is Layout.MAP:
        return [tensor.channels, tensor.height, tensor.width]
    return [tensor.area, tensor.channels] if layout is Layout.SEQUENCE else [tensor.elements]


def external(tensor: onnx.TensorProto) -> None:
    """Leave a tensor its name, type and dims alone."""
    name, kind, dims = tensor.name, tensor.data_type, list(tensor.dims)
    tensor.Clear()
    tensor.name, tensor.data_type = name, kind
    tensor.dims.extend(dims)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=WEIGHTS)


def write(writer: Writer, layer: Layer) -> None:
    """The nodes of one layer; raises NetworkError where ONNX cannot say it."""
    if layer.block > 1 or (layer.type.product and layer.kind not in KINDS):
        what = f"block-circulant weights ({layer.block})" if layer.block > 1 else layer.kind
        where = f"network {writer.network.name!r}, layer {layer.name!r}"
        raise NetworkError(f"{where}: ONNX has no operator for {what}")
    layout = KINDS.get(layer.kind, _other)(writer, layer)
    writer.written[layer.name] = Written(layer.name, layer.output, layout)


def _conv(writer: Writer, layer: Layer) -> Layout:
    height, width = sides(layer.kernel)
    into, out = layer.input.channels, layer.output.channels
    pair = (into, out // layer.groups) if layer.transposed else (out, into // layer.groups)
    reads = [writer.read(layer, 0, Layout.MAP), _weight(writer, layer, *pair, height, width)]
    if layer.bias:
        reads.append(writer.weight(f"{layer.name}.bias", out))
    writer.node(
        "ConvTranspose" if layer.transposed else "Conv",
        reads,
        layer.name,
        **_window(layer),
        dilations=sides(layer.dilation),
        group=layer.groups,
    )
    return Layout.MAP


def _pool(writer: Writer, layer: Layer) -> Layout:
    kind = "MaxPool" if layer.kind == "max_pool" else "AveragePool"
    writer.node(kind, [writer.read(layer, 0, Layout.MAP)], layer.name, **_window(layer))
    return Layout.MAP


def _batch_norm(writer: Writer, layer: Layer) -> Layout:
    reads, channels = [], layer.output.channels
    for part in ("weight", "bias", "running_mean", "running_var"):
        name = f"{layer.name}.{part}"
        if layer.parameters or part.startswith("running"):
            reads.append(writer.weight(name, channels))
        else:
            shape = writer.integers(f"{name}.shape", [channels])
            reads.append(writer.node("ConstantOfShape", [shape], name))
    writer.node("BatchNormalization", [writer.read(layer, 0, Layout.MAP), *reads], layer.name)
    return Layout.MAP


def _fc(writer: Writer, layer: Layer) -> Layout:
    if layer.groups > 1:
        return _experts(writer, layer)
    layout = Layout.VECTOR if layer.input.area == 1 else Layout.SEQUENCE
    into, out = layer.input.channels, layer.output.channels
    source = writer.read(layer, 0, layout)
    if layer.shared:
        matrix = _shared(writer, layer, into, out)
    else:
        matrix = _weight(writer, layer, into, out)
    product = f"{layer.name}/product" if layer.bias else layer.name
    writer.node("MatMul", [source, matrix], product, name=layer.name)
    if layer.bias:
        bias = writer.weight(f"{layer.name}.bias", out)
        writer.node("Add", [product, bias], layer.name, name=f"{layer.name}/bias")
    return layout


def _experts(writer: Writer, layer: Layer) -> Layout:
    """A product of each group's features with a matrix of its own."""
    groups = layer.groups
    pair = (layer.input.channels // groups, layer.output.channels // groups)
    return _by_groups(writer, layer, _weight(writer, layer, groups, *pair))


def _weight(writer: Writer, layer: Layer, *dims: int, part: str = "weight") -> str:
    """Its weights: its own, or those of the layer whose it shares, seen in its dims."""
    name = f"{layer.shared or layer.name}.{part}"
    there = next((tuple(t.dims) for t in writer.initializers if t.name == name), None)
    if there is None:
        there = dims
        writer.weight(name, *dims)
        if layer.extra and part == "weight":  # what else its matrix is made of
            parts = [name, writer.weight(f"{layer.name}.extra", layer.extra)]
            writer.made[name] = writer.node("made_of", parts, f"{name}.made", domain=DOMAIN)
            made = helper.make_tensor_value_info(f"{name}.made", TensorProto.FLOAT, dims)
            writer.declared.append(made)
    name = writer.made.get(name, name)
    return name if there == dims else writer.reshape(name, f"{layer.name}/matrix", [*dims])


def _shared(writer: Writer, layer: Layer, into: int, out: int) -> str:
    """The matrix of another layer, turned where that is an embedding's table."""
    owner = next(other for other in writer.network.layers if other.name == layer.shared)
    name = writer.made.get(f"{owner.name}.weight", f"{owner.name}.weight")
    if owner.type.gathers:
        return writer.transpose(name, f"{layer.name}/table", 1, 0)
    if owner.kind != layer.kind or (owner.input.channels, owner.output.channels) == (into, out):
        return _weight(writer, layer, into, out)
    return writer.transpose(name, f"{layer.name}/matrix", 1, 0)


def _embedding(writer: Writer, layer: Layer) -> Layout:
    if layer.output.area != layer.input.area:
        raise NetworkError(f"{layer.name}: ONNX has no operator for a bag of an embedding's rows")
    table = _weight(writer, layer, layer.vocabulary, layer.output.channels)
    positions = layer.input.elements
    if layer.inputs[0] == INPUT and not writer.inputs:
        ids = helper.make_tensor_value_info(INPUT, TensorProto.INT64, [BATCH, positions])
        writer.inputs.append(ids)
        source = INPUT
        writer.written[INPUT] = Written(INPUT, layer.input, Layout.VECTOR)
    else:
        flat = writer.reshape(
            writer.read(layer, 0, natural(layer.input)), f"{layer.name}/flat", [0, positions]
        )
        source = writer.node("Cast", [flat], f"{layer.name}/ids", to=TensorProto.INT64)
    writer.node("Gather", [table, source], layer.name)
    return Layout.SEQUENCE


def _cell(writer: Writer, layer: Layer) -> Layout:
    directions, into = layer.directions, layer.input.channels
    hidden = layer.output.channels // directions
    gates = CELLS[layer.kind].gates
    reads = [
        writer.read(layer, 0, Layout.SEQUENCE),
        _weight(writer, layer, directions, gates * hidden, into),
        _weight(writer, layer, directions, gates * hidden, hidden, part="state"),
    ]
    if layer.bias:
        reads.append(writer.weight(f"{layer.name}.bias", directions, 2 * gates * hidden))
    writer.node(
        layer.kind.upper(),
        reads,
        f"{layer.name}/states",
        hidden_size=hidden,
        layout=1,
        direction="bidirectional" if directions == 2 else "forward",
        name=layer.name,
    )
    shape = [0, *dims_of(layer.output, Layout.SEQUENCE)]
    writer.reshape(f"{layer.name}/states", layer.name, shape)
    writer.nodes[-1].name = f"{layer.name}/view"
    return Layout.SEQUENCE


def _matmul(writer: Writer, layer: Layer) -> Layout:
    k, n = layer.input.channels // layer.groups, layer.output.channels // layer.groups
    return _by_groups(writer, layer, _second(writer, layer, k, n))


def _by_groups(writer: Writer, layer: Layer, right: str) -> Layout:
    """A product for each group: its features of the first operand with its matrix in ``right``."""
    groups, rows, name = layer.groups, layer.input.area, layer.name
    k, n = layer.input.channels // groups, layer.output.channels // groups
    left = writer.reshape(
        writer.read(layer, 0, Layout.SEQUENCE), f"{name}/left", [0, rows, groups, k]
    )
    left = writer.transpose(left, f"{name}/heads", 0, 2, 1, 3)
    made = writer.node("MatMul", [left, right], f"{name}/product", name=name)
    if layer.bias:
        bias = writer.weight(f"{name}.bias", groups, 1, n)
        made = writer.node("Add", [made, bias], f"{name}/biased", name=f"{name}/bias")
    merged = writer.transpose(made, f"{name}/turned", 0, 2, 1, 3)
    writer.reshape(merged, name, [0, rows, groups * n])
    writer.nodes[-1].name = f"{name}/view"
    return Layout.SEQUENCE


def _second(writer: Writer, layer: Layer, k: int, n: int) -> str:
    """The second operand as (samples, groups, k, n), copied to the groups it serves."""
    tensor, name = layer.operands[1], layer.name
    held = tensor.elements // (k * n)
    source = writer.read(layer, 1, Layout.SEQUENCE)
    if (tensor.channels, tensor.area) == (held * k, n):
        split = writer.reshape(source, f"{name}/right", [0, n, held, k])
        right = writer.transpose(split, f"{name}/matrices", 0, 2, 3, 1)
    elif (tensor.channels, tensor.area) == (held * n, k):
        split = writer.reshape(source, f"{name}/right", [0, k, held, n])
        right = writer.transpose(split, f"{name}/matrices", 0, 2, 1, 3)
    else:
        raise NetworkError(
            f"network {writer.network.name!r}, layer {name!r}: {tensor} holds no matrices of "
            f"{k}x{n} as ONNX could write them"
        )
    if held == layer.groups:
        return right
    times = layer.groups // held
    one = writer.reshape(right, f"{name}/one", [0, held, 1, k, n])
    sizes = writer.integers(f"{name}/many.shape", [1, held, times, k, n])
    many = writer.node("Expand", [one, sizes], f"{name}/many")
    return writer.reshape(many, f"{name}/served", [0, layer.groups, k, n])


def _flatten(writer: Writer, layer: Layer) -> Layout:
    writer.node("Flatten", [writer.read(layer, 0, natural(layer.input))], layer.name)
    return Layout.VECTOR


def _concat(writer: Writer, layer: Layer) -> Layout:
    layout = natural(layer.output)
    reads = [writer.read(layer, at, layout) for at in range(len(layer.inputs))]
    axis = {Layout.MAP: 1, Layout.SEQUENCE: 2, Layout.VECTOR: 1}[layout]
    writer.node("Concat", reads, layer.name, axis=axis)
    return layout


def _other(writer: Writer, layer: Layer) -> Layout:
    if layer.operator == "batch_norm":  # an eager one
        return _batch_norm(writer, layer)
    layout = natural(layer.output)
    reads = [writer.read(layer, at, natural(t)) for at, t in enumerate(layer.operands)]
    if layer.parameters:
        reads.append(writer.weight(f"{layer.name}.extra", layer.parameters))
    axis = 2 if layout is Layout.SEQUENCE else 1
    kind = layer.operator or ("operator" if layer.kind in KINDS else layer.kind)
    writer.node(kind, reads, layer.name, domain=DOMAIN, channel_axis=axis)
    writer.declared.append(writer.info(layer.name, layer.output, layout))
    return layout


def _plain(writer: Writer, layer: Layer) -> Layout:
    layout = natural(layer.output)
    reads = [writer.read(layer, at, layout) for at in range(len(layer.inputs))]
    kind = PLAIN[layer.kind]
    if len(reads) == 1 and layer.input.elements != layer.output.elements:
        raise NetworkError(f"{layer.name}: ONNX has no {kind} that writes more than it reads")
    further = {"axis": 1 if layout is Layout.MAP else -1} if kind == "Softmax" else {}
    writer.node(kind, reads, layer.name, **further)
    return layout


def _window(layer: Layer) -> dict[str, Any]:
    """A window, with the padding behind that reaches the output's height and width.

    It is as the one in front where that does.
    """
    measures = zip(
        (layer.input.height, layer.input.width),
        (layer.output.height, layer.output.width),
        *(sides(v) for v in (layer.kernel, layer.stride, layer.padding, layer.dilation)),
        strict=True,
    )
    behind, further = [], []
    for n, out, k, s, p, d in measures:
        long, short = (n, out) if layer.transposed else (out, n)
        least = s * (long - 1) + (k - 1) * d + 1 - p - short
        behind.append(max(p, least) if layer.transposed else min(max(p, least), least + s - 1))
        further.append(behind[-1] - least)
    if min(behind) < 0:  # as of a third dimension in the width
        raise NetworkError(f"{layer.name}: ONNX has no window that leaves out the end of a map")
    return {
        "kernel_shape": sides(layer.kernel),
        "strides": sides(layer.stride),
        "pads": [*sides(layer.padding), *behind],
    } | ({"output_padding": further} if layer.transposed else {})


PLAIN = {"relu": "Relu", "softmax": "Softmax", "add": "Sum", "mul": "Mul"}
"""Operators without weights or attributes."""
KINDS: dict[str, Callable[[Writer, Layer], Layout]] = {
    "conv": _conv,
    "max_pool": _pool,
    "avg_pool": _pool,
    "batch_norm": _batch_norm,
    "fc": _fc,
    "embedding": _embedding,
    **dict.fromkeys(CELLS, _cell),
    "matmul": _matmul,
    "flatten": _flatten,
    "concat": _concat,
    **dict.fromkeys(PLAIN, _plain),
    "other": _other,
}
