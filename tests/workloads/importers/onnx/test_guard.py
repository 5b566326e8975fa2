"""What onnx's shape inference must not see (each of these hung or crashed onnx 1.23)."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.workloads.onnx_models import Node, model, node, read, save
from workloads import NetworkError, load_network
from workloads.importers.onnx import guard

ROOT = Path(__file__).parents[4]
W = {"w": (4, 3, 1, 1)}


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (node("Einsum", "c c", "y", name="bad", equation="ant_133_k->bhsk"), "is not of the form"),
        (node("Einsum", "c c", "y", name="bad", equation="...i...->i"), "is not of the form"),
        (node("Einsum", "c c", "y", name="bad", equation="a.b"), "is not of the form"),
        (node("LayerNormalization", "c w", "y", name="bad", axis=1 << 31), "out of range"),
        (node("LayerNormalization", "c w", "y", name="bad", axis=4), "axis 4 of a tensor of 4"),
        (node("GatherND", "c i", "y", name="bad", batch_dims=-1), "batch_dims -1 is negative"),
        (node("Split", "c", "y", name="bad", num_outputs=2), "num_outputs is 2, but it has 1"),
        (node("Expand", "c long", "y", name="bad"), "a shape of 1,099,511,627,776 dimensions"),
        (node("Conv", "c w", "y", name="bad", strides=[1 << 31, 1]), "strides 2147483648 is out"),
    ],
)
def test_nodes_that_onnx_cannot_stand(tmp_path: Path, bad: Node, words: str) -> None:
    proto = model([node("Conv", "x w", "c"), bad], W)
    ids = onnx.TensorProto(name="i", data_type=onnx.TensorProto.INT64, dims=[0])
    long = onnx.TensorProto(name="long", data_type=onnx.TensorProto.INT64, dims=[1 << 40])
    long.data_location = onnx.TensorProto.EXTERNAL
    proto.graph.initializer.extend([ids, long])
    with pytest.raises(NetworkError, match="node 'bad'") as caught:
        load_network(save(tmp_path, proto))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "i...,...j->ij", "ij,jk", "ii", " a b , b c ", "->"]
)
def test_equations_of_the_usual_form_pass(equation: str) -> None:
    made = onnx.helper.make_node("Einsum", ["a", "b"], ["c"], equation=equation)
    guard.check(made, {"a": (2, 2), "b": (2, 2)})


def test_slices_to_the_end_pass(tmp_path: Path) -> None:
    ends: dict[str, Any] = {"starts": [0], "ends": [(1 << 63) - 1], "axes": [2]}
    nodes = [node("Conv", "x w", "c"), node("Slice", "c", "y", **ends)]
    assert read(tmp_path, nodes, W, opset=9).layers[0].kind == "conv"


def random_nodes(nodes: int, seed: int, seconds: float) -> int:
    command = [sys.executable, "-m", "tests.workloads.onnx_operator_fuzz", str(nodes), str(seed)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return int(ran.stdout)


def test_random_nodes_of_every_operator_come_back() -> None:
    assert random_nodes(2_000, 1, 60) > 1_000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_random_nodes_of_every_operator_come_back(seed: int) -> None:
    assert random_nodes(50_000, seed, 600) > 20_000
