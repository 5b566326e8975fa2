"""Small constants that decide shapes: what is computed, against numpy, and what is left alone."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from workloads import NetworkError
from workloads.importers.onnx.tensors import (
    FOLDED,
    MOST_FOLLOWED,
    fold,
    of_constant,
    of_tensor,
)

A, B = np.array([6, 4, 9], np.int64), np.array([4, 4, 2], np.int64)
ROW = np.arange(6, dtype=np.int64).reshape(2, 3)
INDEX, AXES, SHAPE = (np.array(v, np.int64) for v in ([2, 0], [0], [3, 2]))


def folded(kind: str, *operands: Any, opset: int = 21, elements: int = 8, **attributes: Any) -> Any:
    names = [f"i{i}" for i in range(len(operands))]
    node = helper.make_node(kind, names, ["o"], **attributes)
    found = fold(node, dict(zip(names, operands, strict=True)), elements, opset)
    return None if found is None else found[0].tolist()


@pytest.mark.parametrize(
    ("kind", "operands", "attributes", "wanted"),
    [
        ("Add", (A, B), {}, A + B),
        ("Sub", (A, B), {}, A - B),
        ("Mul", (A, B), {}, A * B),
        ("Div", (A, B), {}, A // B),
        ("Mod", (A, B), {}, A % B),
        ("Neg", (A,), {}, -A),
        ("Abs", (-A,), {}, A),
        ("Max", (A, B), {}, np.maximum(A, B)),
        ("Min", (A, B), {}, np.minimum(A, B)),
        ("Equal", (A, B), {}, A == B),
        ("Greater", (A, B), {}, A > B),
        ("LessOrEqual", (A, B), {}, A <= B),
        ("Not", (A == B,), {}, A != B),
        ("Where", (A > B, A, B), {}, np.where(A > B, A, B)),
        ("Concat", (A, B), {"axis": 0}, np.concatenate([A, B])),
        ("Gather", (A, INDEX), {}, A[[2, 0]]),
        ("Gather", (ROW, INDEX), {"axis": 1}, ROW[:, [2, 0]]),
        ("Slice", (A, AXES, INDEX[:1]), {}, A[0:2]),
        ("Squeeze", (A[None], AXES), {}, A),
        ("Unsqueeze", (A, AXES), {}, A[None]),
        ("Reshape", (ROW, SHAPE), {}, ROW.reshape(3, 2)),
        ("Transpose", (ROW,), {"perm": [1, 0]}, ROW.T),
        ("Flatten", (ROW,), {"axis": 0}, ROW.reshape(1, 6)),
        ("Expand", (A[:1], SHAPE), {}, np.full((3, 2), 6)),
        ("Tile", (A, INDEX[:1]), {}, np.tile(A, 2)),
        ("Range", (np.int64(1), np.int64(9), np.int64(3)), {}, np.arange(1, 9, 3)),
        ("ReduceProd", (A, AXES), {"keepdims": 0}, A.prod()),
        ("ReduceSum", (A, AXES), {"keepdims": 0}, A.sum()),
        ("ReduceMax", (A, AXES), {"keepdims": 0}, A.max()),
        ("Cast", (A,), {"to": TensorProto.FLOAT}, A.astype(np.float32)),
        ("Floor", (A / 4,), {}, np.floor(A / 4)),
        ("Ceil", (A / 4,), {}, np.ceil(A / 4)),
        ("Identity", (A,), {}, A),
        ("ConstantOfShape", (SHAPE,), {}, np.zeros((3, 2))),
    ],
)
def test_folding_is_what_numpy_does(
    kind: str, operands: tuple[Any, ...], attributes: dict[str, Any], wanted: Any
) -> None:
    assert kind in FOLDED
    assert folded(kind, *operands, **attributes) == np.asarray(wanted).tolist()


def test_folding_leaves_alone_what_it_does_not_know() -> None:
    assert folded("Conv", A, B) is None
    assert folded("Add", A, B, elements=MOST_FOLLOWED + 1) is None
    assert folded("Reshape", ROW, np.array([5, 5], np.int64)) is None  # impossible: no exception
    node = helper.make_node("Add", ["a", "b"], ["o"])
    assert fold(node, {"a": A}, 3, 21) is None
    node = helper.make_node("Add", ["a", "b"], ["o"], domain="strange")
    assert fold(node, {"a": A, "b": B}, 3, 21) is None


def test_a_result_larger_than_it_was_said_to_be_is_not_followed() -> None:
    long = np.array([MOST_FOLLOWED + 1], np.int64)
    assert folded("Expand", A[:1], long) is None


@pytest.mark.parametrize(
    ("attribute", "value", "wanted"),
    [
        ("value", numpy_helper.from_array(ROW), ROW),
        ("value_int", 7, np.int64(7)),
        ("value_ints", [7, 8], np.array([7, 8])),
        ("value_float", 0.5, np.float32(0.5)),
        ("value_floats", [0.5, 2.0], np.array([0.5, 2.0])),
    ],
)
def test_a_constant_may_be_written_five_ways(attribute: str, value: Any, wanted: Any) -> None:
    tensor = of_constant(helper.make_node("Constant", [], ["c"], **{attribute: value}))
    assert np.array_equal(numpy_helper.to_array(tensor), wanted)
    assert np.array_equal(np.asarray(of_tensor(tensor)), wanted)


def test_a_constant_of_another_kind_is_refused() -> None:
    node = helper.make_node("Constant", [], ["c"], value_string="hello")
    with pytest.raises(NetworkError, match="a constant without a value that is understood"):
        of_constant(node)


def test_values_outside_the_file_and_large_ones_are_not_looked_at() -> None:
    outside = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2])
    outside.data_location = TensorProto.EXTERNAL
    assert of_tensor(outside) is None
    large = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[MOST_FOLLOWED + 1])
    assert of_tensor(large) is None
    absent = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3])
    assert of_tensor(absent) is None
    assert of_tensor(onnx.TensorProto(name="w", data_type=99, dims=[2])) is None
