"""Single ONNX operators in neutral terms: verbs, operands and attributes."""

from typing import Any

import pytest
from onnx import TensorProto, helper

from workloads import NetworkError
from workloads.importers.neutral import Constant, ModelOperation, Shape
from workloads.importers.onnx.operators import SIMPLE, TRANSLATED, VIEWS, translate
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


def only(*args: Any, **kwargs: Any) -> ModelOperation:
    (operation,) = read(*args, **kwargs)
    return operation


@pytest.mark.parametrize("kind", VIEWS)
def test_views(kind: str) -> None:
    operation = only(kind, "x", {"o": MAP})
    assert (operation.verb, operation.inputs) == (VIEWS[kind], ("x",))


@pytest.mark.parametrize("kind", [k for k in SIMPLE if k not in TRANSLATED])
def test_operators_of_one_verb(kind: str) -> None:
    operation = only(kind, "x y", {"o": MAP})
    assert (operation.verb, operation.inputs) == (SIMPLE[kind], ("x", "y"))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("LayerNormalization", "layer_norm"),
        ("InstanceNormalization", "instance_norm"),
        ("HardSwish", "hard_swish"),
        ("Gelu", "gelu"),
        ("LogSoftmax", "log_softmax"),
        ("LRN", "lrn"),
    ],
)
def test_any_other_operator_keeps_its_name(kind: str, name: str) -> None:
    operation = only(kind, "x", {"o": MAP})
    assert (operation.verb, operation.attributes["operator"]) == ("other", name)
    assert "note" not in operation.attributes


@pytest.mark.parametrize(
    ("kind", "domain", "words"),
    [
        ("RNN", "", "operator RNN is not understood"),
        ("Loop", "", "operator Loop is not understood"),
        ("Mystery", "", "operator Mystery is not understood"),
        ("Relu", "com.microsoft", "operator Relu of com.microsoft is not understood"),
    ],
)
def test_what_hides_products_is_noted(kind: str, domain: str, words: str) -> None:
    operation = only(kind, "x", {"o": MAP}, domain=domain)
    assert (operation.verb, operation.attributes["note"]) == ("other", words)


def test_our_own_domain_says_where_channels_are() -> None:
    operation = only("swish", "x", {"o": MAP}, domain="accelarray", channel_axis=2)
    assert operation.attributes == {"operator": "swish", "channel_axis": 2}
    assert only("swish", "x", {"o": MAP}, domain="accelarray").attributes["channel_axis"] == 1


@pytest.mark.parametrize(
    ("attributes", "measures"),
    [
        ({}, ((1, 1), (0, 0), (1, 1))),
        ({"strides": [2, 1], "pads": [1, 2, 1, 2]}, ((2, 1), (1, 2), (1, 1))),
        ({"auto_pad": "SAME_UPPER"}, ((1, 1), (1, 1), (1, 1))),
        ({"auto_pad": "SAME_LOWER", "dilations": [3, 2]}, ((1, 1), (3, 2), (3, 2))),
        ({"auto_pad": "VALID"}, ((1, 1), (0, 0), (1, 1))),
    ],
)
def test_a_convolutions_window(
    attributes: dict[str, Any], measures: tuple[tuple[int, int], ...]
) -> None:
    operation = only("Conv", "x w b", {"o": (1, 6, 6, 6)}, **attributes)
    found = operation.attributes
    assert (operation.verb, found["kernel"]) == ("conv", (3, 3))
    assert (found["stride"], found["padding"], found["dilation"]) == measures
    assert (found["groups"], found["transposed"]) == (1, False)


def test_a_transposed_convolution_of_groups() -> None:
    found = only("ConvTranspose", "x w", {"o": (1, 6, 6, 6)}, group=2).attributes
    assert (found["groups"], found["transposed"]) == (2, True)


@pytest.mark.parametrize("attributes", [{"strides": [1]}, {"dilations": [1, 1, 1]}, {"pads": [1]}])
def test_a_window_of_unlike_lengths_is_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(NetworkError, match="kernel, strides, dilations and pads differ in length"):
        read("Conv", "x w", {"o": MAP}, **attributes)


def test_an_operand_that_is_missing_is_named() -> None:
    with pytest.raises(NetworkError, match="Conv lacks input 1"):
        read("Conv", "x", {"o": MAP})


@pytest.mark.parametrize(("kind", "verb"), [("MaxPool", "max_pool"), ("AveragePool", "avg_pool")])
def test_pools(kind: str, verb: str) -> None:
    operation = only(kind, "x", {"o": (1, 4, 4, 4)}, kernel_shape=[2, 2], strides=[2, 2])
    assert (operation.verb, operation.attributes["kernel"]) == (verb, (2, 2))
    assert operation.attributes["stride"] == (2, 2)


def test_global_pools() -> None:
    average = only("GlobalAveragePool", "x", {"o": (1, 4, 1, 1)})
    assert (average.verb, average.attributes["axes"]) == ("mean", (2, 3))
    largest = only("GlobalMaxPool", "x", {"o": (1, 4, 1, 1)})
    assert (largest.verb, largest.attributes["kernel"]) == ("max_pool", (8, 8))


@pytest.mark.parametrize(
    ("inputs", "attributes", "integers", "axes"),
    [
        ("x", {"axes": [2, 3]}, {}, (2, 3)),
        ("x a", {}, {"a": [-1]}, (-1,)),
        ("x", {}, {}, (0, 1, 2, 3)),
    ],
)
def test_a_mean_has_its_axes_from_anywhere(
    inputs: str, attributes: dict[str, Any], integers: dict[str, list[int]], axes: tuple[int, ...]
) -> None:
    operation = only("ReduceMean", inputs, {"o": (1, 4)}, integers, **attributes)
    assert (operation.verb, operation.inputs) == ("mean", ("x",))
    assert operation.attributes["axes"] == axes


@pytest.mark.parametrize(
    ("attributes", "turned"),
    [({}, ()), ({"transA": 1}, (0,)), ({"transB": 1}, (1,)), ({"transA": 1, "transB": 1}, (0, 1))],
)
def test_gemm(attributes: dict[str, Any], turned: tuple[int, ...]) -> None:
    operation = only("Gemm", "m v b", {"o": (2, 6)}, **attributes)
    assert (operation.verb, operation.inputs) == ("matmul", ("m", "v", "b"))
    assert operation.attributes["transposed"] == turned


def test_gemm_with_a_computed_addend_is_a_product_and_a_sum() -> None:
    product, total = read("Gemm", "m v n", {"o": (2, 6)})
    assert (product.verb, product.inputs) == ("matmul", ("m", "v"))
    assert (total.verb, total.inputs) == ("add", (product.name, "n"))
    assert dict(product.outputs) == {product.name: (2, 6)}
    assert dict(total.outputs) == {"o": (2, 6)}


@pytest.mark.parametrize(
    ("inputs", "attributes", "verb"),
    [
        ("table ids", {}, "embedding"),
        ("table ids", {"axis": 1}, "other"),
        ("x one", {"axis": 2}, "select"),
        ("x some", {"axis": 1}, "slice"),
        ("x ids", {}, "other"),
    ],
)
def test_a_gather_is_what_it_gathers_from(
    inputs: str, attributes: dict[str, Any], verb: str
) -> None:
    operation = only("Gather", inputs, {"o": (2, 7, 4)}, **attributes)
    assert operation.verb == verb
    if verb == "select":
        assert operation.attributes["axis"] == 2


@pytest.mark.parametrize(("direction", "count"), [("forward", 1), ("bidirectional", 2)])
def test_a_cell(direction: str, count: int) -> None:
    outputs = {"all": (9, count, 2, 4), "last": (count, 2, 4)}
    found = only("LSTM", "s g r b", outputs, direction=direction)
    assert found.verb == "lstm"
    assert found.attributes == {
        "hidden": 4,
        "directions": count,
        "biased": True,
        "batch_axis": 1,
        "split": True,
    }
    assert dict(found.outputs) == outputs


def test_a_cell_of_which_only_the_last_state_is_read() -> None:
    reads = ("s", "g", "r")
    node = helper.make_node("GRU", reads, ["", "last"], "n", layout=0)
    (found,) = translate("n", node, {"last": (1, 2, 4)}, reads, tensors())
    assert list(found.outputs.values()) == [(9, 1, 2, 4), (1, 2, 4)]
    assert (found.verb, found.attributes["biased"]) == ("gru", False)


@pytest.mark.parametrize(
    ("inputs", "integers", "verbs"),
    [
        ("x", {}, ["reshape"]),
        ("x - off", {"off": [0]}, ["reshape"]),
        ("x - on", {"on": [1]}, ["other"]),
    ],
)
def test_dropout_does_nothing_unless_it_trains(
    inputs: str, integers: dict[str, list[int]], verbs: list[str]
) -> None:
    assert [item.verb for item in read("Dropout", inputs, {"o": MAP}, integers)] == verbs


def test_dropouts_mask_is_a_tensor_like_its_operand() -> None:
    first, mask = read("Dropout", "x", {"o": MAP, "mask": MAP})
    assert (first.verb, mask.verb, dict(mask.outputs)) == ("reshape", "reshape", {"mask": MAP})


def test_attention_says_its_heads_where_they_are_no_dimension() -> None:
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    found = only("Attention", "s s s", {"o": (9, 2, 4)}, **heads)
    attributes = {"causal": False, "heads": 4, "kv_heads": 2}
    assert (found.verb, found.attributes) == ("attention", attributes)
    assert only("Attention", "x x x", {"o": MAP}).attributes == {"causal": False}
    assert only("Attention", "x x x", {"o": MAP}, is_causal=1).attributes == {"causal": True}


def test_einsum_and_transpose() -> None:
    found = only("Einsum", "m v", {"o": (2, 6)}, equation="ij,jk->ik")
    assert (found.verb, found.attributes["equation"]) == ("einsum", "ij,jk->ik")
    assert only("Transpose", "x", {"o": MAP}).attributes["perm"] == (3, 2, 1, 0)
    assert only("Transpose", "x", {"o": MAP}, perm=[0, 2, 1, 3]).attributes["perm"] == (0, 2, 1, 3)
