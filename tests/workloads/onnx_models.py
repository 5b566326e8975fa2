"""ONNX models written node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from workloads import Network, read_onnx

Node = tuple[str, list[str], list[str], dict[str, Any]]


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Node:
    """Names of tensors separated by blanks; ``-`` is an input left out."""
    names = [["" if n == "-" else n for n in text.split()] for text in (inputs, outputs)]
    return kind, names[0], names[1], attributes


def model(
    nodes: Sequence[Node],
    weights: Mapping[str, Sequence[int]] | None = None,
    x: Sequence[int | str] = ("batch", 3, 8, 8),
    integers: dict[str, list[int]] | None = None,
    opset: int = 21,
    kind: int = TensorProto.FLOAT,
    inputs: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    """A model that reads ``x``; weights have dims and no data."""
    protos = []
    for i, (op, reads, makes, given) in enumerate(nodes):
        attributes = dict(given)
        domain = attributes.pop("domain", "")
        name = attributes.pop("name", f"node{i}")
        protos.append(helper.make_node(op, reads, makes, name, domain=domain, **attributes))
    constants = [
        TensorProto(name=name, data_type=TensorProto.FLOAT, dims=list(dims))
        for name, dims in (weights or {}).items()
    ]
    constants += [
        helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
        for name, values in (integers or {}).items()
    ]
    first = helper.make_tensor_value_info("x", kind, list(x))
    out = helper.make_tensor_value_info(nodes[-1][2][0] if nodes else "x", TensorProto.FLOAT, None)
    graph = helper.make_graph(protos, "graph", [first, *inputs], [out], constants)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("strange", 1)]
    return helper.make_model(graph, opset_imports=opsets)


def save(folder: Path, proto: onnx.ModelProto, name: str = "model.onnx") -> str:
    """Write the model; its path."""
    path = folder / name
    path.write_bytes(proto.SerializeToString())
    return str(path)


def read(folder: Path, *args: Any, **kwargs: Any) -> Network:
    """Write a model and read it."""
    return read_onnx(save(folder, model(*args, **kwargs)))
