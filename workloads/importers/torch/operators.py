"""Operators of torch.export's graphs as neutral verbs."""

from __future__ import annotations

import operator
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from workloads.importers.neutral import Constant, ModelOperation, Shape

_VIEWS = """
    view reshape flatten unflatten squeeze unsqueeze contiguous clone detach alias to _to_copy
    type_as float half bfloat16 lift_fresh_copy _unsafe_view view_as
    reshape_as
"""
_CONSTANTS = """
    zeros ones full empty arange zeros_like ones_like full_like empty_like new_zeros new_ones
    new_full new_empty scalar_tensor rand randn lift_fresh eye linspace
"""
REDUCTIONS = "sum nansum prod amax amin max min argmax argmin any all logsumexp median"
VIEWS = {
    **dict.fromkeys(_VIEWS.split(), "reshape"),
    **dict.fromkeys(("slice", "narrow", "split", "split_with_sizes", "chunk"), "slice"),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), "expand"),
}
CONSTANTS = frozenset(_CONSTANTS.split())
SIMPLE = {
    **{kind: kind for kind in ("batch_norm", "relu", "softmax", "add", "mul")},
    "_softmax": "softmax",
    "sub": "add",
    "div": "mul",
}
_HIDDEN = """
    rnn_tanh rnn_relu rnn_tanh_cell rnn_relu_cell lstm_cell gru_cell bilinear _trilinear cdist
    addbmm dot vdot linalg_vecdot linalg_multi_dot matrix_power linalg_matrix_power conv_tbc
    _scaled_mm
"""
HIDDEN_PRODUCTS = frozenset(_HIDDEN.split())
"""Operators with products inside that no layer stands for."""


@dataclass(frozen=True, slots=True)
class Call:
    """A node of the graph on its way to an operation."""

    node: torch.fx.Node
    kind: str
    module: str
    outputs: Mapping[str, Shape]
    name: str
    constants: dict[str, Constant]
    """Those so far: a translation may add to them."""

    def arg(self, at: int, key: str, default: Any = None) -> Any:
        """An argument by place or by name."""
        args, kwargs = self.node.args, self.node.kwargs
        return args[at] if at < len(args) else kwargs.get(key, default)

    def shape(self, at: int) -> Shape:
        """The shape of an argument that is a tensor."""
        value = self.node.args[at]
        assert isinstance(value, torch.fx.Node)  # noqa: S101  (torch's own signatures)
        return tuple(int(n) for n in value.meta["val"].shape)

    def operation(self, verb: str, *inputs: Any, **attributes: Any) -> ModelOperation:
        """The operation of this name; arguments that are no tensors count as left out."""
        names = tuple(tensor_name(value) for value in inputs)
        return ModelOperation(
            *(self.name, verb, names, self.outputs),
            {"module": self.module, "part": self.how, **attributes},
        )

    @property
    def how(self) -> str:
        """The operator and what of its arguments is no tensor: which part of one it takes."""
        values = [*self.node.args, *self.node.kwargs.items()]
        return f"{self.node.target} {[v for v in values if not isinstance(v, torch.fx.Node)]}"

    def all_inputs(self) -> tuple[str, ...]:
        """The names of all tensors among the arguments, in lists too."""
        values = [*self.node.args, *self.node.kwargs.values()]
        return tuple(name for value in values for name in _tensor_names(value))


def tensor_name(value: Any) -> str:
    """The name of the tensor that an argument is; "" for anything else."""
    if not isinstance(value, torch.fx.Node):
        return ""
    if value.target is operator.getitem:
        return f"{value.args[0].name}.{value.args[1]}"
    return value.name if isinstance(value.meta.get("val"), torch.Tensor) else ""


def _tensor_names(value: Any) -> Iterator[str]:
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensor_names(part)
    elif name := tensor_name(value):
        yield name


def translate(
    node: torch.fx.Node, outputs: Mapping[str, Shape], module: str, constants: dict[str, Constant]
) -> list[ModelOperation]:
    """The operations of one node; one that is not understood is noted and kept."""
    if node.target is operator.getitem:
        return []  # its tensor is known by its tuple's name and number
    packet = getattr(node.target, "overloadpacket", None)
    kind = getattr(packet, "__name__", str(node.target))
    kind = kind.removesuffix("_") if not kind.startswith("_") else kind
    name = f"{module}.{node.name}" if module else node.name
    call = Call(node, kind, module, outputs, name, constants)
    if kind in CONSTANTS:
        constants.update({key: Constant(shape) for key, shape in outputs.items()})
        return []
    if kind in TRANSLATED:
        found = TRANSLATED[kind](call)
        return found if isinstance(found, list) else [found]
    if kind in VIEWS:
        return [call.operation(VIEWS[kind], node.args[0])]
    inputs, note = call.all_inputs(), {}
    if getattr(node.target, "namespace", "") != "aten" or kind in HIDDEN_PRODUCTS:
        note = {"note": f"{node.target} is not understood"}
    if not inputs:
        constants.update({key: Constant(shape) for key, shape in outputs.items()})
        return []
    return [
        ModelOperation(name, SIMPLE.get(kind, "other"), inputs, outputs, {"operator": kind, **note})
    ]


def _conv(call: Call) -> ModelOperation:
    dims = len(call.shape(0)) - 2

    def measure(at: int, key: str, default: int) -> tuple[int, ...]:
        value = call.arg(at, key, default)
        if isinstance(value, str):
            reach = [(k - 1) * d // 2 for k, d in zip(kernel, measure(*dilation, 1), strict=True)]
            return tuple(reach) if value == "same" else (0,) * dims
        return _along(dims, value)

    kernel = call.shape(1)[2:]
    transposed = call.kind.startswith("conv_transpose")
    groups, dilation = (6, "groups"), (7 if transposed else 5, "dilation")
    if call.kind.endswith("convolution"):  # of either kind
        groups, transposed = (8, "groups"), bool(call.arg(6, "transposed"))
    return call.operation(
        "conv",
        *(call.arg(i, key) for i, key in enumerate(("input", "weight", "bias"))),
        kernel=kernel,
        stride=measure(3, "stride", 1),
        padding=measure(4, "padding", 0),
        dilation=measure(*dilation, 1),
        groups=call.arg(*groups, 1),
        transposed=transposed,
    )


def _pool(call: Call) -> ModelOperation:
    dims = len(call.outputs[next(iter(call.outputs))]) - 2
    kernel = _along(dims, call.arg(1, "kernel_size"))
    verb = "max_pool" if call.kind.startswith("max") else "avg_pool"
    return call.operation(
        verb,
        call.node.args[0],
        kernel=kernel,
        stride=_along(dims, call.arg(2, "stride") or kernel),
        padding=_along(dims, call.arg(3, "padding") or 0),
    )


def _along(dims: int, value: Any) -> tuple[int, ...]:
    """A number for each dimension, of one for all or one each."""
    values = [value] if isinstance(value, int) else list(value)
    return tuple(values * dims if len(values) == 1 else values)


def _adaptive(call: Call) -> ModelOperation:
    before, after = call.shape(0), next(iter(call.outputs.values()))
    average = "avg" in call.kind
    if average and all(n == 1 for n in after[2:]):
        return call.operation("mean", call.node.args[0], axes=tuple(range(2, len(before))))
    kernel = tuple(-(-n // m) for n, m in zip(before[2:], after[2:], strict=True))
    verb = "avg_pool" if average else "max_pool"
    return call.operation(verb, call.node.args[0], kernel=kernel, stride=kernel)


def _reduction(call: Call) -> ModelOperation:
    """A sum, a maximum or the like over some axes; of two tensors an operator like any other."""
    axes = call.arg(1, "dim")
    if isinstance(axes, torch.fx.Node):
        return _operator(call)
    if axes is None or axes == []:
        axes = range(len(call.shape(0)))
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    return call.operation("other", call.node.args[0], operator=call.kind, axes=axes)


def _mean(call: Call) -> ModelOperation:
    axes = call.arg(1, "dim") or tuple(range(len(call.shape(0))))
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    return call.operation("mean", call.node.args[0], axes=axes)


def _linear(call: Call) -> ModelOperation:
    operands = (call.arg(i, k) for i, k in enumerate(("", "", "bias")))
    return call.operation("matmul", *operands, transposed=(1,) * (call.kind == "linear"))


def _addmm(call: Call) -> list[ModelOperation]:
    """Bias + a @ b; a computed bias is an addition of its own."""
    bias, left, right = call.node.args[:3]
    if call.node.kwargs.get("beta") == 0:
        return [call.operation("matmul", left, right)]
    if tensor_name(bias) in call.constants:
        return [call.operation("matmul", left, right, bias)]
    shape, inner = next(iter(call.outputs.values())), f"{call.name}.product"
    names = tuple(tensor_name(value) for value in (left, right))
    return [
        ModelOperation(inner, "matmul", names, {inner: shape}),
        ModelOperation(call.name, "add", (inner, tensor_name(bias)), call.outputs),
    ]


def _einsum(call: Call) -> ModelOperation:
    equation, operands = call.node.args[:2]
    return call.operation("einsum", *operands, equation=equation)


def _tensordot(call: Call) -> ModelOperation:
    """Pairs of dimensions summed over, as an einsum; of ``inner`` the last ones."""
    ranks = len(call.shape(0)), len(call.shape(1))
    one, other = string.ascii_lowercase[: ranks[0]], [*string.ascii_uppercase[: ranks[1]]]
    pairs = zip(call.arg(2, "dims_self", [-1]), call.arg(3, "dims_other", [-1]), strict=True)
    for i, j in pairs:
        other[j] = one[i]
    result = "".join(c for c in (*one, *other) if (c in one) != (c in other))
    equation = f"{one},{''.join(other)}->{result}"
    return call.operation("einsum", *call.node.args[:2], equation=equation)


def _attention(call: Call) -> ModelOperation:
    causal = call.arg(5, "is_causal", False) is True
    mask = call.arg(3, "attn_mask")
    return call.operation("attention", *call.node.args[:3], mask, causal=causal)


def _transpose(call: Call) -> ModelOperation:
    perm = list(range(len(call.shape(0))))
    if call.kind == "permute":
        perm = [axis % len(perm) for axis in call.arg(1, "dims")]
    elif call.kind in ("t", "numpy_T"):
        perm.reverse()
    else:
        one, other = call.arg(1, "dim0", -2), call.arg(2, "dim1", -1)
        if call.kind == "mT":
            one, other = -2, -1
        perm[one], perm[other] = perm[other], perm[one]
    return call.operation("transpose", call.node.args[0], perm=tuple(perm))


def _select(call: Call) -> ModelOperation:
    return call.operation("select", call.node.args[0], axis=call.arg(1, "dim"))


def _unbind(call: Call) -> list[ModelOperation]:
    axis, source = call.arg(1, "dim", 0), tensor_name(call.node.args[0])
    return [
        ModelOperation(
            name, "select", (source,), {name: shape}, {"axis": axis, "part": f"{call.how} {i}"}
        )
        for i, (name, shape) in enumerate(call.outputs.items())
    ]


def _concat(call: Call) -> ModelOperation:
    (parts,) = call.node.args[:1]
    axis = call.arg(1, "dim", 0)
    return call.operation("concat", *parts, axis=axis, operator="concat")


def _stack(call: Call) -> list[ModelOperation]:
    """Each part with an axis more, then behind each other."""
    shape, names = list(next(iter(call.outputs.values()))), []
    axis, found = call.arg(1, "dim", 0) % len(shape), []
    for i, part in enumerate(call.node.args[0]):
        names.append(f"{call.node.name}.part{i}")
        one = tuple(1 if at == axis else n for at, n in enumerate(shape))
        found.append(ModelOperation(names[-1], "reshape", (tensor_name(part),), {names[-1]: one}))
    attributes = {"axis": axis, "operator": "concat"}
    return [*found, ModelOperation(call.name, "concat", tuple(names), call.outputs, attributes)]


def _experts(call: Call) -> ModelOperation:
    offsets, bias = call.arg(2, "offs"), call.arg(3, "bias")
    return call.operation("experts", *call.node.args[:2], offsets, bias)


def _index(call: Call) -> ModelOperation:
    table, ids = call.node.args[:2]
    places = {axis: i for axis, i in enumerate(ids) if i is not None}
    return call.operation("index", table, *places.values(), axes=tuple(places))


def _embedding_bag(call: Call) -> ModelOperation:
    """Its further outputs are what its gradient needs: no tensors of the model."""
    name, shape = next(iter(call.outputs.items()))
    table, ids, offsets = call.node.args[:3]
    reads = (table, ids, offsets, call.arg(6, "per_sample_weights"))
    return ModelOperation(call.name, "embedding_bag", tuple(map(tensor_name, reads)), {name: shape})


def _embedding(call: Call) -> ModelOperation:
    return call.operation("embedding", call.node.args[0], call.node.args[1])


def _dropout(call: Call) -> ModelOperation:
    training = bool(call.arg(2, "train", False)) and bool(call.arg(1, "p", 0))
    return call.operation("other" if training else "reshape", call.node.args[0], operator="dropout")


def _operator(call: Call, **note: str) -> ModelOperation:
    """An operator of all its tensors, whose name says enough."""
    attributes = {"operator": call.kind, **note}
    return ModelOperation(call.name, "other", call.all_inputs(), call.outputs, attributes)


def _cell(call: Call) -> list[ModelOperation]:
    """A stack of recurrent layers as one operation for each."""
    args = list(call.node.args)
    states, weights, biased, layers = args[1], args[2], args[3], args[4]
    both, first = args[7], args[8]
    states = states if isinstance(states, (tuple, list)) else [states]
    directions = 2 if both else 1
    names = list(call.outputs)
    per = len(weights) // (layers * directions)
    if per > (4 if biased else 2):  # a projection of the state: a third matrix in every layer
        note = f"{call.node.target} with a projection is not understood"
        return [_operator(call, note=note)]
    shape = call.outputs[names[0]]
    hidden = shape[-1] // directions
    source, found = tensor_name(args[0]), []
    for layer in range(layers):
        last = layer == layers - 1
        own = weights[layer * per * directions : (layer + 1) * per * directions]
        inner = f"{call.name}.layer{layer}"
        outputs = dict(call.outputs) if last else {inner: shape}
        reads = (source, *map(tensor_name, own), *map(tensor_name, states if not layer else []))
        found.append(
            ModelOperation(
                inner if layers > 1 else call.name,
                call.kind,
                reads,
                outputs,
                {
                    "hidden": hidden,
                    "directions": directions,
                    "biased": bool(biased),
                    "matrices": [at + 1 for at in range(len(own)) if at % per < 2],
                    "biases": [at + 1 for at in range(len(own)) if at % per >= 2],
                    "batch_axis": 0 if first else 1,
                    "split": False,
                },
            )
        )
        source = inner
    return found


TRANSLATED: dict[str, Callable[[Call], ModelOperation | list[ModelOperation]]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "_convolution"), _conv),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), _conv),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d"), _pool),
    **dict.fromkeys(("avg_pool1d", "avg_pool2d", "avg_pool3d"), _pool),
    **dict.fromkeys(
        ("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"), _adaptive
    ),
    **dict.fromkeys(("adaptive_max_pool1d", "adaptive_max_pool2d"), _adaptive),
    "mean": _mean,
    **dict.fromkeys(("linear", "matmul", "bmm", "mm", "mv"), _linear),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), _addmm),
    **dict.fromkeys(("tensordot", "inner"), _tensordot),
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
    **dict.fromkeys(("transpose", "permute", "t", "mT", "numpy_T"), _transpose),
    "select": _select,
    "unbind": _unbind,
    **dict.fromkeys(("cat", "concat"), _concat),
    "stack": _stack,
    "embedding": _embedding,
    **dict.fromkeys(("embedding_bag", "_embedding_bag_forward_only"), _embedding_bag),
    "index": _index,
    **dict.fromkeys(REDUCTIONS.split(), _reduction),
    **dict.fromkeys(("_grouped_mm", "grouped_mm", "grouped_mm_fallback"), _experts),
    "dropout": _dropout,
    **dict.fromkeys(("layer_norm", "rms_norm", "group_norm", "instance_norm"), _operator),
    **dict.fromkeys(("lstm", "gru"), _cell),
}
