"""An ONNX graph being written: nodes, tensors, and the views between layouts.

A tensor is written in one of three layouts: a map (samples, channels, height,
width), a sequence (samples, positions, channels) or a vector (samples,
channels). Where a layer reads another layout than its source writes, views
stand between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import onnx
from onnx import TensorProto, helper

from workloads.importers.onnx.operators import DOMAIN
from workloads.layer_types import Layer
from workloads.network import Network
from workloads.tensors import INPUT, NetworkError, Tensor

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

    def model(self) -> onnx.ModelProto:
        """What has been written."""
        last = self.written[self.network.layers[-1].name]
        graph = helper.make_graph(
            self.nodes,
            self.network.name,
            self.inputs,
            [self.info(last.name, last.tensor, last.layout)],
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
