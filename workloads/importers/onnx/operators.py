"""ONNX operators as neutral verbs: what is a product, what is a view, what only moves memory."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from workloads.importers.neutral import ModelOperation, Shape
from workloads.importers.onnx.tensors import Tensors
from workloads.tensors import NetworkError

DOMAIN = "accelarray"
"""The domain of our own exporter's operators: unweighted ones that ONNX has no name for."""

_RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Cast", "CastLike")
VIEWS = {
    **dict.fromkeys(_RESHAPES, "reshape"),
    **dict.fromkeys(("Slice", "Split"), "slice"),
    "Expand": "expand",
}
SIMPLE = {
    **dict.fromkeys(("Add", "Sub", "Sum"), "add"),
    **dict.fromkeys(("Mul", "Div"), "mul"),
    "BatchNormalization": "batch_norm",
    **{kind: kind.lower() for kind in ("MatMul", "Relu", "Softmax", "Concat")},
}
NAMES = {
    "LayerNormalization": "layer_norm",
    "RMSNormalization": "rms_norm",
    "SimplifiedLayerNormalization": "rms_norm",
    "InstanceNormalization": "instance_norm",
    "GroupNormalization": "group_norm",
}
SETTINGS = frozenset(
    ["Resize", "Upsample", "Pad", "Clip", "OneHot", "QuantizeLinear", "DequantizeLinear"]
)
"""Operators whose constants, but for the first operand, say how: they are not trained."""
PRODUCTS = frozenset(
    ["MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose", "Attention", "LSTM", "GRU"]
)
_REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
    ReduceSum ReduceSumSquare ArgMax ArgMin
"""
_NOT_UNDERSTOOD = """
    RNN ConvInteger MatMulInteger QLinearConv QLinearMatMul DeformConv If Loop Scan
    SequenceMap STFT DFT
"""
NOT_UNDERSTOOD = frozenset(_NOT_UNDERSTOOD.split())
"""Operators of the standard that hide products or whole graphs."""


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    node: onnx.NodeProto
    outputs: Mapping[str, Shape]
    reads: tuple[str, ...]
    tensors: Tensors
    attributes: Mapping[str, Any]

    def input(self, at: int) -> str:
        return self.reads[at] if at < len(self.reads) else ""

    def constant(self, at: int) -> bool:
        return self.input(at) in self.tensors.constants

    def shape(self, at: int) -> Shape:
        if not self.input(at):
            raise NetworkError(f"{self.node.op_type} lacks input {at}")
        return self.tensors.shape(self.input(at))

    def operation(self, verb: str, **attributes: Any) -> ModelOperation:
        return ModelOperation(self.name, verb, self.reads, self.outputs, attributes)


def translate(
    name: str,
    node: onnx.NodeProto,
    outputs: Mapping[str, Shape],
    reads: tuple[str, ...],
    tensors: Tensors,
) -> list[ModelOperation]:
    """The operations of one node; one that is not understood is noted and kept."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    item = _Node(name, node, outputs, reads, tensors, attributes)
    kind = node.op_type
    if node.domain == DOMAIN:
        axis = attributes.get("channel_axis", 1)
        return [item.operation("other", operator=kind, channel_axis=axis)]
    if node.domain not in ("", "ai.onnx") or not onnx.defs.has(kind) or kind in NOT_UNDERSTOOD:
        origin = f" of {node.domain}" if node.domain else ""
        note = f"operator {kind}{origin} is not understood"
        return [item.operation("other", operator=_snake(kind), note=note)]
    if kind in TRANSLATED:
        return TRANSLATED[kind](item)
    if kind in VIEWS:
        return [item.operation(VIEWS[kind])]
    return [item.operation(SIMPLE.get(kind, "other"), operator=_snake(kind))]


def _snake(kind: str) -> str:
    return NAMES.get(kind) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()[:60]


def _window(item: _Node, kernel: Shape) -> dict[str, tuple[int, ...]]:
    """Kernel, strides, leading pads and dilations of a convolution or a pool."""
    ones = (1,) * len(kernel)
    strides = tuple(item.attributes.get("strides", ones))
    dilations = tuple(item.attributes.get("dilations", ones))
    pads = tuple(item.attributes.get("pads", ()))[: len(kernel)]
    if not pads:
        pads = (0,) * len(kernel)
    if item.attributes.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = tuple((k - 1) * d // 2 for k, d in zip(kernel, dilations, strict=True))
    if not len(kernel) == len(strides) == len(dilations) == len(pads):
        raise NetworkError("kernel, strides, dilations and pads differ in length")
    return {"kernel": kernel, "stride": strides, "padding": pads, "dilation": dilations}


def _conv(item: _Node) -> list[ModelOperation]:
    window = _window(item, item.shape(1)[2:])
    transposed = item.node.op_type == "ConvTranspose"
    groups = item.attributes.get("group", 1)
    return [item.operation("conv", groups=groups, transposed=transposed, **window)]


def _pool(item: _Node) -> list[ModelOperation]:
    verb = "max_pool" if item.node.op_type == "MaxPool" else "avg_pool"
    return [item.operation(verb, **_window(item, tuple(item.attributes["kernel_shape"])))]


def _global_pool(item: _Node) -> list[ModelOperation]:
    axes = range(2, len(item.shape(0)))
    if item.node.op_type == "GlobalAveragePool":
        return [item.operation("mean", axes=tuple(axes))]
    return [item.operation("max_pool", kernel=item.shape(0)[2:])]


def _reduction(item: _Node) -> list[ModelOperation]:
    """Axes are an attribute or an operand; all of them where none is said."""
    kind, axes = item.node.op_type, item.attributes.get("axes")
    if kind.startswith("Arg"):
        axes = [item.attributes.get("axis", 0)]
    elif axes is None and item.input(1):
        axes = item.tensors.integers(item.input(1))
    if not axes and not item.attributes.get("noop_with_empty_axes"):
        axes = range(len(item.shape(0)))
    attributes = {"axes": tuple(axes or ()), "operator": _snake(kind)}
    verb = "mean" if kind == "ReduceMean" else "other"
    return [ModelOperation(item.name, verb, item.reads[:1], item.outputs, attributes)]


def _gemm(item: _Node) -> list[ModelOperation]:
    keys = ("transA", "transB")
    transposed = tuple(at for at, key in enumerate(keys) if item.attributes.get(key))
    bias = item.input(2)
    if not bias or item.constant(2):
        return [item.operation("matmul", transposed=transposed)]
    (output, shape), product = next(iter(item.outputs.items())), f"{item.name}.product"
    return [
        ModelOperation(
            product, "matmul", item.reads[:2], {product: shape}, {"transposed": transposed}
        ),
        ModelOperation(item.name, "add", (product, bias), {output: shape}),
    ]


def _gather(item: _Node) -> list[ModelOperation]:
    axis, ids = item.attributes.get("axis", 0), item.shape(1)
    if item.constant(0) and axis in (0, -len(item.shape(0))):
        return [item.operation("embedding")]
    if item.constant(1) and not item.constant(0) and len(ids) <= 1:
        verb = "slice" if ids else "select"
        return [ModelOperation(item.name, verb, item.reads[:1], item.outputs, {"axis": axis})]
    return [item.operation("other", operator="gather")]


def _cell(item: _Node) -> list[ModelOperation]:
    both = item.attributes.get("direction", b"forward") == b"bidirectional"
    batch_axis = 0 if item.attributes.get("layout", 0) else 1
    every = [item.outputs.get(name) for name in item.node.output]
    if not every or every[0] is None:  # only the last states are read
        steps, samples = item.shape(0)[1 - batch_axis], item.shape(0)[batch_axis]
        hidden, name = item.shape(2)[2], f"{item.name}.states"
        outputs = {name: (steps, 1 + both, samples, hidden), **item.outputs}
    else:
        outputs = dict(item.outputs)
    attributes = {
        "hidden": item.attributes.get("hidden_size", item.shape(2)[2]),
        "directions": 1 + both,
        "biased": bool(item.input(3)),
        "batch_axis": batch_axis,
        "split": True,
    }
    reads = [*item.reads]
    for at in (5, 6):
        if item.constant(at) and _is_given(item, at, batch_axis):
            reads[at] = ""
    return [ModelOperation(item.name, item.node.op_type.lower(), tuple(reads), outputs, attributes)]


def _is_given(item: _Node, at: int, batch_axis: int) -> bool:
    """Whether a first state is nothing trained: zeros, or one for each of several samples."""
    shape, values = item.shape(at), item.tensors.values.get(item.input(at))
    own = sum(item.tensors.constants[item.input(at)].trained.values())
    zeros = values is not None and not values.any()
    return zeros or (shape[batch_axis] > 1 and own == math.prod(shape))


def _dropout(item: _Node) -> list[ModelOperation]:
    training = item.tensors.integers(item.input(2)) if item.input(2) else None
    reads = item.reads[:1]
    if training and training[0]:
        return [ModelOperation(item.name, "other", reads, item.outputs, {"operator": "dropout"})]
    return [  # its mask, too, if anybody reads it
        ModelOperation(item.name, "reshape", reads, {name: shape})
        for name, shape in item.outputs.items()
    ]


def _attention(item: _Node) -> list[ModelOperation]:
    attributes: dict[str, Any] = {"causal": bool(item.attributes.get("is_causal", 0))}
    if len(item.shape(0)) == 3:
        attributes |= {
            "heads": item.attributes["q_num_heads"],
            "kv_heads": item.attributes["kv_num_heads"],
        }
    attributes["further"] = tuple(item.node.output[1:])
    for at, name in enumerate(item.node.output[1:3], 1):  # not inferred where there is no past
        shape, heads = item.shape(at), attributes.get("kv_heads", 1)
        if len(shape) == 3:
            shape = (shape[0], heads, shape[1], shape[2] // heads)
        before = item.shape(at + 3)[2] if item.input(at + 3) else 0
        kind = item.tensors.types[item.input(at)].tensor_type.elem_type
        item.tensors.set(name, kind, (*shape[:2], before + shape[2], shape[3]))
    return [ModelOperation(item.name, "attention", item.reads, item.outputs, attributes)]


def _einsum(item: _Node) -> list[ModelOperation]:
    equation = item.attributes["equation"].decode(errors="replace")
    return [item.operation("einsum", equation=equation)]


def _transpose(item: _Node) -> list[ModelOperation]:
    rank = len(item.shape(0))
    return [item.operation("transpose", perm=tuple(item.attributes.get("perm", range(rank)[::-1])))]


TRANSLATED: dict[str, Callable[[_Node], list[ModelOperation]]] = {
    **dict.fromkeys(("Conv", "ConvTranspose"), _conv),
    **dict.fromkeys(("MaxPool", "AveragePool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _global_pool),
    **dict.fromkeys(_REDUCTIONS.split(), _reduction),
    "Gemm": _gemm,
    "Gather": _gather,
    **dict.fromkeys(("LSTM", "GRU"), _cell),
    "Dropout": _dropout,
    "Attention": _attention,
    "Einsum": _einsum,
    "Transpose": _transpose,
}
