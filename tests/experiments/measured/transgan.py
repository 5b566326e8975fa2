"""The networks that tests/data/plans/transgan.csv names, written into a folder.

    python -m tests.experiments.measured.transgan tests/data/plans

The generator of DachengLi1/AMP (megatron/model/trans_gan_gen.py, depth 12,0,0,0,0,12,
bottom_width 9, gf_dim 1024, g_window_size 18, latent_dim 512): twelve blocks of 1,024 features on
9 x 9 positions, five doublings of the map, twelve blocks of 16 features in 256 windows of
18 x 18. Each norm, the noise and GELU are single operators there, and so they are here.

With tensor parallelism that program has four heads of a part of their features on each rank, so
scores do not get fewer. That is a network of four heads for each rank: one file for each tp.
"""

import sys
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

BLOCKS, FEATURES, WIDTH, WINDOW, LATENT, HEADS = 12, 1024, 9, 18, 512, 4


class _Graph:
    """ONNX nodes one after the other; weights have sizes and no values."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[onnx.TensorProto] = []

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"{kind}_{len(self.nodes)}_{k}" for k in range(outputs)]
        node = helper.make_node(kind, inputs, names, name=f"{kind}_{len(self.nodes)}", **attributes)
        self.nodes.append(node)
        return names

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.add(kind, *inputs, **attributes)[0]

    def weight(self, *sizes: int) -> str:
        tensor = TensorProto(name=f"w{len(self.tensors)}", dims=sizes, data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="none")
        self.tensors.append(tensor)
        return tensor.name

    def numbers(self, *values: int) -> str:
        name = f"n{len(self.tensors)}"
        self.tensors.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def scales(self, *values: float) -> str:
        name = f"n{len(self.tensors)}"
        self.tensors.append(helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values))
        return name

    def reshape(self, name: str, *sizes: int) -> str:
        return self.one("Reshape", name, self.numbers(*sizes))

    def linear(self, name: str, inputs: int, outputs: int) -> str:
        made = self.one("MatMul", name, self.weight(inputs, outputs))
        return self.one("Add", made, self.weight(outputs))

    def norm(self, name: str) -> str:
        """PixelNorm: x over the root of the mean of its squares."""
        squares = self.one("Pow", name, self.weight())
        mean = self.one("ReduceMean", squares, axes=[2], keepdims=1)
        root = self.one("Sqrt", self.one("Add", mean, self.weight()))
        return self.one("Div", name, root)

    def block(self, name: str, features: int, positions: int, heads: int) -> str:
        """Attention with noise before it and a table of relative positions, then an MLP."""
        noisy = self.one("Add", self.norm(name), self.weight(1, positions, 1))
        split = self.reshape(self.linear(noisy, features, 3 * features), -1, positions, 3, heads,
                             features // heads)  # fmt: skip
        parts = self.add("Split", self.one("Transpose", split, perm=[2, 0, 3, 1, 4]), axis=0,
                         outputs=3)  # fmt: skip
        q, k, v = (self.one("Squeeze", one, self.numbers(0)) for one in parts)
        scores = self.one("MatMul", q, self.one("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.one("Mul", scores, self.weight())
        scores = self.one("Add", scores, self.weight(1, heads, positions, positions))
        mixed = self.one("MatMul", self.one("Softmax", scores, axis=-1), v)
        mixed = self.one("Transpose", mixed, perm=[0, 2, 1, 3])
        name = self.one("Add", name, self.linear(self.reshape(mixed, -1, positions, features),
                                                 features, features))  # fmt: skip
        wide = self.linear(self.norm(name), features, 4 * features)
        half = self.one("Mul", wide, self.weight())
        curve = self.one("Erf", self.one("Div", wide, self.weight()))
        gelu = self.one("Mul", half, self.one("Add", curve, self.weight()))
        return self.one("Add", name, self.linear(gelu, 4 * features, features))

    def as_map(self, name: str, features: int, width: int) -> str:
        turned = self.one("Transpose", name, perm=[0, 2, 1])
        return self.reshape(turned, -1, features, width, width)

    def as_positions(self, name: str, features: int, width: int) -> str:
        flat = self.reshape(name, -1, features, width * width)
        return self.one("Transpose", flat, perm=[0, 2, 1])


def transgan(tp: int) -> onnx.ModelProto:
    """The generator with four heads for each of ``tp`` ranks."""
    graph, features, width, heads = _Graph(), FEATURES, WIDTH, HEADS * tp
    name = graph.one("Gemm", "input", graph.weight(LATENT, WIDTH**2 * FEATURES),
                     graph.weight(WIDTH**2 * FEATURES))  # fmt: skip
    name = graph.reshape(name, -1, WIDTH**2, FEATURES)
    for _ in range(BLOCKS):
        name = graph.block(name, features, WIDTH**2, heads)
    for doubling in range(5):
        name, width = graph.as_map(name, features, width), 2 * width
        if doubling < 2:
            name = graph.one("Resize", name, "", graph.scales(1.0, 1.0, 2.0, 2.0))
        else:
            name = graph.one("DepthToSpace", name, blocksize=2, mode="CRD")
            features //= 4
        name = graph.as_positions(name, features, width)
    many = width // WINDOW
    name = graph.reshape(name, -1, many, WINDOW, many, WINDOW, features)
    name = graph.one("Transpose", name, perm=[0, 1, 3, 2, 4, 5])
    name = graph.reshape(name, -1, WINDOW**2, features)
    for _ in range(BLOCKS):
        name = graph.block(name, features, WINDOW**2, heads)
    name = graph.reshape(name, -1, many, many, WINDOW, WINDOW, features)
    name = graph.one("Transpose", name, perm=[0, 1, 3, 2, 4, 5])
    name = graph.as_map(graph.reshape(name, -1, width**2, features), features, width)
    name = graph.one("Conv", name, graph.weight(3, features, 1, 1), graph.weight(3))
    read = helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, LATENT])
    made = helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, width, width])
    whole = helper.make_graph(graph.nodes, "transgan", [read], [made], graph.tensors)
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)])


def write(folder: Path) -> None:
    """Write a file for each tp."""
    for ranks in (1, 2, 4):
        onnx.save(transgan(ranks), str(folder / f"transgan-tp{ranks}.onnx"))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
