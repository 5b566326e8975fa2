"""Single ONNX operators in neutral terms: verbs, operands and attributes."""

from typing import Any

import pytest
from onnx import TensorProto, helper

from workloads import NetworkError
from workloads.importers.neutral import Constant, ModelOperation, Shape
from workloads.importers.onnx.operators import DOMAIN, translate
from workloads.importers.onnx.tensors import Tensors

MAP: Shape = (1, 4, 8, 8)
KNOWN: dict[str, Shape] = {
    "x": MAP,
    "y": MAP,
    "m": (2, 4),
    "n": (2, 6),
    "s": (9, 2, 4),
    "w": (6, 4, 3, 3),
    "v": (4, 6),
    "b": (6,),
    "g": (1, 16, 4),
    "r": (1, 16, 4),
    "table": (50, 4),
    "ids": (2, 7),
    "one": (),
    "some": (3,),
}
CONSTANTS = {"w", "v", "b", "g", "r", "table", "one", "some"}


def tensors(**integers: list[int]) -> Tensors:
    found = Tensors("mine.onnx", {})
    for name, shape in KNOWN.items():
        found.set(name, TensorProto.FLOAT, shape)
        if name in CONSTANTS:
            found.constants[name] = Constant(shape, {name: 1})
    for name, values in integers.items():
        tensor = helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
        found.constant(name, tensor, "initializer")
    return found


def read(
    kind: str,
    inputs: str,
    outputs: dict[str, Shape],
    integers: dict[str, list[int]] | None = None,
    domain: str = "",
    **attributes: Any,
) -> list[ModelOperation]:
    reads = ["" if word == "-" else word for word in inputs.split()]
    node = helper.make_node(kind, reads, [*outputs], "n", domain=domain, **attributes)
    known = tensors(**(integers or {}))
    return translate("n", node, outputs, tuple(reads), known)


def window(*measures: tuple[int, int], **more: Any) -> dict[str, Any]:
    """A convolution's kernel of 3 x 3, stride, padding and dilation, and what else it says."""
    names = dict(zip(("stride", "padding", "dilation"), measures, strict=True))
    return {"kernel": (3, 3), "groups": 1, "transposed": False} | names | more


CELL = {"hidden": 4, "biased": True, "batch_axis": 1, "split": True}
HEADS = {"q_num_heads": 4, "kv_num_heads": 2}


@pytest.mark.parametrize(
    ("kind", "inputs", "given", "verb", "attributes"),
    [
        ("Flatten", "x", {}, "reshape", {}),
        ("Expand", "x", {}, "expand", {}),
        ("Sub", "x y", {}, "add", {}),
        ("Div", "x y", {}, "mul", {}),
        ("BatchNormalization", "x y", {}, "batch_norm", {}),
        ("LayerNormalization", "x", {}, "other", {"operator": "layer_norm"}),
        ("InstanceNormalization", "x", {}, "other", {"operator": "instance_norm"}),
        ("HardSwish", "x", {}, "other", {"operator": "hard_swish"}),
        ("LogSoftmax", "x", {}, "other", {"operator": "log_softmax"}),
        ("LRN", "x", {}, "other", {"operator": "lrn"}),
        ("RNN", "x", {}, "other", {"note": "operator RNN is not understood"}),
        ("Loop", "x", {}, "other", {"note": "operator Loop is not understood"}),
        ("Mystery", "x", {}, "other", {"note": "operator Mystery is not understood"}),
        (
            "Relu",
            "x",
            {"domain": "com.ms"},
            "other",
            {"note": "operator Relu of com.ms is not understood"},
        ),
        ("swish", "x", {"domain": DOMAIN, "channel_axis": 2}, "other", {"channel_axis": 2}),
        ("swish", "x", {"domain": DOMAIN}, "other", {"operator": "swish", "channel_axis": 1}),
        ("Conv", "x w b", {}, "conv", window((1, 1), (0, 0), (1, 1))),
        (
            "Conv",
            "x w",
            {"strides": [2, 1], "pads": [1, 2, 1, 2]},
            "conv",
            window((2, 1), (1, 2), (1, 1)),
        ),
        ("Conv", "x w", {"auto_pad": "SAME_UPPER"}, "conv", window((1, 1), (1, 1), (1, 1))),
        (
            "Conv",
            "x w",
            {"auto_pad": "SAME_LOWER", "dilations": [3, 2]},
            "conv",
            window((1, 1), (3, 2), (3, 2)),
        ),
        ("Conv", "x w", {"auto_pad": "VALID"}, "conv", window((1, 1), (0, 0), (1, 1))),
        ("ConvTranspose", "x w", {"group": 2}, "conv", {"groups": 2, "transposed": True}),
        (
            "MaxPool",
            "x",
            {"kernel_shape": [2, 2], "strides": [2, 2]},
            "max_pool",
            {"kernel": (2, 2), "stride": (2, 2)},
        ),
        (
            "AveragePool",
            "x",
            {"kernel_shape": [2, 3]},
            "avg_pool",
            {"kernel": (2, 3), "stride": (1, 1)},
        ),
        ("GlobalAveragePool", "x", {}, "mean", {"axes": (2, 3)}),
        ("GlobalMaxPool", "x", {}, "max_pool", {"kernel": (8, 8)}),
        ("ReduceMean", "x", {"axes": [2, 3]}, "mean", {"axes": (2, 3)}),
        ("ReduceMean", "x minus", {}, "mean", {"axes": (-1,)}),
        ("ReduceMean", "x", {}, "mean", {"axes": (0, 1, 2, 3)}),
        ("ReduceMax", "x", {"axes": [1], "keepdims": 0}, "other", {"axes": (1,)}),
        ("ReduceSum", "x minus", {"keepdims": 0}, "other", {"axes": (-1,)}),
        ("ReduceL2", "x", {}, "other", {"axes": (0, 1, 2, 3), "operator": "reduce_l2"}),
        ("ReduceSum", "x", {"noop_with_empty_axes": 1}, "other", {"axes": ()}),
        ("ArgMax", "x", {"axis": 2}, "other", {"axes": (2,)}),
        ("ArgMin", "x", {}, "other", {"axes": (0,)}),
        ("Gemm", "m v b", {}, "matmul", {"transposed": ()}),
        ("Gemm", "m v b", {"transA": 1}, "matmul", {"transposed": (0,)}),
        ("Gemm", "m v b", {"transA": 1, "transB": 1}, "matmul", {"transposed": (0, 1)}),
        ("Gather", "table ids", {}, "embedding", {}),
        ("Gather", "table ids", {"axis": -2}, "embedding", {}),
        ("Gather", "table ids", {"axis": 1}, "other", {"operator": "gather"}),
        ("Gather", "x one", {"axis": 2}, "select", {"axis": 2}),
        ("Gather", "x some", {"axis": 1}, "slice", {}),
        ("Gather", "x ids", {}, "other", {"operator": "gather"}),
        ("LSTM", "s g r b", {}, "lstm", CELL | {"directions": 1}),
        ("LSTM", "s g r b", {"direction": "bidirectional"}, "lstm", CELL | {"directions": 2}),
        ("Dropout", "x", {}, "reshape", {}),
        ("Dropout", "x - zero", {}, "reshape", {}),
        ("Dropout", "x - plus", {}, "other", {"operator": "dropout"}),
        ("Attention", "x x x", {}, "attention", {"causal": False}),
        ("Attention", "x x x", {"is_causal": 1}, "attention", {"causal": True}),
        ("Attention", "s s s", HEADS, "attention", {"causal": False, "heads": 4, "kv_heads": 2}),
        ("Einsum", "m v", {"equation": "ij,jk->ik"}, "einsum", {"equation": "ij,jk->ik"}),
        ("Transpose", "x", {}, "transpose", {"perm": (3, 2, 1, 0)}),
        ("Transpose", "x", {"perm": [0, 2, 1, 3]}, "transpose", {"perm": (0, 2, 1, 3)}),
    ],
)
def test_one_operation_for_a_node(
    kind: str, inputs: str, given: dict[str, Any], verb: str, attributes: dict[str, Any]
) -> None:
    (found,) = read(kind, inputs, {"o": MAP}, {"minus": [-1], "zero": [0], "plus": [1]}, **given)
    assert found.verb == verb
    assert {key: found.attributes[key] for key in attributes} == attributes
    words = ["" if word == "-" else word for word in inputs.split()]
    one = "axes" in attributes and "Pool" not in kind
    one = one or kind == "Dropout" or verb in ("select", "slice")
    assert found.inputs == tuple(words[:1] if one else words)
    assert ("note" in found.attributes) == ("note" in attributes)


@pytest.mark.parametrize("attributes", [{"strides": [1]}, {"dilations": [1, 1, 1]}, {"pads": [1]}])
def test_a_window_of_unlike_lengths_is_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(NetworkError, match="kernel, strides, dilations and pads differ in length"):
        read("Conv", "x w", {"o": MAP}, **attributes)


def test_an_operand_that_is_missing_is_named() -> None:
    with pytest.raises(NetworkError, match="Conv lacks input 1"):
        read("Conv", "x", {"o": MAP})


def test_gemm_with_a_computed_addend_is_a_product_and_a_sum() -> None:
    product, total = read("Gemm", "m v n", {"o": (2, 6)})
    assert (product.verb, product.inputs) == ("matmul", ("m", "v"))
    assert (total.verb, total.inputs) == ("add", (product.name, "n"))
    assert dict(product.outputs) == {product.name: (2, 6)}
    assert dict(total.outputs) == {"o": (2, 6)}


def test_a_cell_of_which_only_the_last_state_is_read() -> None:
    reads = ("s", "g", "r")
    node = helper.make_node("GRU", reads, ["", "last"], "n", layout=0)
    (found,) = translate("n", node, {"last": (1, 2, 4)}, reads, tensors())
    assert list(found.outputs.values()) == [(9, 1, 2, 4), (1, 2, 4)]
    assert (found.verb, found.attributes["biased"]) == ("gru", False)


def test_dropouts_mask_is_a_tensor_like_its_operand() -> None:
    first, mask = read("Dropout", "x", {"o": MAP, "mask": MAP})
    assert (first.verb, mask.verb, dict(mask.outputs)) == ("reshape", "reshape", {"mask": MAP})
