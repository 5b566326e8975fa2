"""Nodes of ONNX graphs that read constants alone."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from workloads.importers.onnx.file import read_onnx


def test_all_that_a_smaller_product_of_initializers_is_made_of_is_trained(tmp_path: Path) -> None:
    """Rows of a table through a matrix that is larger than they are."""
    shapes = {"rows": (2, 4), "w": (4, 4)}
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["rows", "w"], ["small"], name="small"),
            helper.make_node("Transpose", ["small"], ["turned"], name="turn", perm=[1, 0]),
            helper.make_node("MatMul", ["x", "turned"], ["f"], name="f"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])],
        [helper.make_tensor_value_info("f", TensorProto.FLOAT, [3, 2])],
        [numpy_helper.from_array(np.zeros(shape, np.float32), n) for n, shape in shapes.items()],
    )
    path = str(tmp_path / "small.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert read_onnx(path).parameters == 2 * 4 + 4 * 4
