"""What is known of an ONNX graph's tensors: inputs, constants, sizes of dimensions."""

from typing import Any

import numpy as np
import pytest
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from workloads import NetworkError
from workloads.importers.neutral import Constant
from workloads.importers.onnx.tensors import Tensors

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name: str, shape: list[Any] | None, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def tensor(name: str, dims: list[int], kind: int = FLOAT) -> TensorProto:
    return TensorProto(name=name, data_type=kind, dims=dims)


@pytest.mark.parametrize(
    ("shape", "given", "wanted", "batch"),
    [
        (["batch", 3, 8], {}, (1, 3, 8), 1),
        ([4, 3, 8], {}, (4, 3, 8), 4),
        ([None, 3], {}, (1, 3), 1),
        (["batch", "steps"], {"steps": 7}, (1, 7), 1),
        (["batch", 3], {"batch": 6}, (6, 3), 6),
        (["n", 3, "n"], {}, (1, 3, 1), 1),
        ([], {}, (), 1),
    ],
)
def test_the_first_input_says_what_a_sample_is(
    shape: list[Any], given: dict[str, int], wanted: tuple[int, ...], batch: int
) -> None:
    tensors = Tensors("f.onnx", given)
    assert tensors.input(value("x", shape), first=True) == wanted
    assert (tensors.batch, tensors.shape("x")) == (batch, wanted)


def test_a_further_input_shares_the_name_of_the_batch() -> None:
    tensors = Tensors("f.onnx", {})
    tensors.input(value("x", ["batch", 3]), first=True)
    assert tensors.input(value("mask", ["batch", 5]), first=False) == (1, 5)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (["batch", "steps"], "dimension 'steps' has no size; give it a size, as f.onnx:steps=128"),
        (["batch", None], "dimension '1' has no size; export the model with a size or a name"),
        ([0, 3], "dimension 0 is 0"),
        (None, "a tensor with a shape is expected"),
        ([1 << 40, 1 << 40], "is absurdly large"),
    ],
)
def test_an_input_without_a_size_is_asked_for(shape: list[Any] | None, words: str) -> None:
    with pytest.raises(NetworkError, match=r"f\.onnx, input 'x': ") as caught:
        Tensors("f.onnx", {}).input(value("x", shape), first=True)
    assert words in str(caught.value)


def test_trained_are_floats_with_a_shape() -> None:
    tensors = Tensors("f.onnx", {})
    for name, dims, kind in (
        ("w", [4, 3], FLOAT),
        ("half", [5], TensorProto.FLOAT16),
        ("scale", [], FLOAT),
        ("ids", [4], INT64),
    ):
        tensors.constant(name, tensor(name, dims, kind), "initializer")
    assert tensors.constants == {
        "w": Constant((4, 3), {"w": 12}),
        "half": Constant((5,), {"half": 5}),
        "scale": Constant(()),
        "ids": Constant((4,)),
    }


def test_small_values_are_kept() -> None:
    tensors = Tensors("f.onnx", {})
    tensors.constant("shape", numpy_helper.from_array(np.array([2, -1]), "shape"), "initializer")
    assert tensors.integers("shape") == [2, -1]
    assert tensors.integers("nothing") is None
    tensors.constant("w", tensor("w", [4]), "initializer")  # no data in the file
    assert tensors.integers("w") is None


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (tensor("w", [-1, 4]), "shape (-1, 4) is impossible"),
        (tensor("w", [1 << 40, 1 << 40]), "is impossible"),
        (tensor("w", [1 << 31]), "2,147,483,648 elements do not fit in the file"),
        (TensorProto(name="w", data_type=FLOAT, dims=[2], raw_data=b"123"), "3 bytes for (2,)"),
    ],
)
def test_impossible_constants(made: TensorProto, words: str) -> None:
    with pytest.raises(NetworkError) as caught:
        Tensors("f.onnx", {}).constant("w", made, "initializer 'w'")
    assert str(caught.value).startswith("f.onnx, initializer 'w': ")
    assert words in str(caught.value)


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "a/../../w", "C:w.bin", "..\\w"])
def test_data_outside_the_models_folder_is_refused(location: str) -> None:
    outside = tensor("w", [2])
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value=location)
    with pytest.raises(NetworkError, match=r"outside the model's folder; refused"):
        Tensors("f.onnx", {}).constant("w", outside, "initializer")


def test_a_sparse_tensor_counts_as_a_dense_one() -> None:
    tensors = Tensors("f.onnx", {})
    tensors.sparse(SparseTensorProto(values=tensor("w", [2]), dims=[30, 20]))
    assert tensors.constants["w"] == Constant((30, 20), {"w": 600})
    with pytest.raises(NetworkError, match="sparse initializer 'w': impossible"):
        tensors.sparse(SparseTensorProto(values=tensor("w", [2]), dims=[-1]))


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [(["batch", 3, "steps"], (1, 3, 7)), ([2, 3], (2, 3)), (["other", 3], None), ([None], None)],
)
def test_declared_shapes_are_known_where_every_size_is(
    shape: list[Any], wanted: tuple[int, ...] | None
) -> None:
    tensors = Tensors("f.onnx", {"steps": 7})
    tensors.input(value("x", ["batch", 3]), first=True)
    assert tensors.known(value("y", shape).type) == wanted
    assert tensors.known(value("y", None).type) is None
