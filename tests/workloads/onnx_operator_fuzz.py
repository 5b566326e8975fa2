"""Random nodes of every operator of the standard, through the guard, into onnx's own inference.

    python -m tests.workloads.onnx_operator_fuzz NODES SEED

A hang or a crash is in C++ and ends the process (SIGALRM after five seconds,
or whatever the crash raises); the last node is on standard error.
"""

import random
import signal
import sys

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper, shape_inference

from workloads import NetworkError
from workloads.importers.onnx import guard

NUMBERS = (0, -1, 1, 2, 3, 7, 64, -3, 1 << 31, (1 << 31) - 1, 1 << 40, (1 << 63) - 1, -(1 << 63))
SIZES = (1, 2, 3, 4, 8, 0, 1 << 31, 1 << 40, 1 << 62)
FLOATS = (0.0, 1.0, -1.0, 1e30, float("nan"))
TEXTS: tuple[bytes, ...] = (b"", b"SAME_UPPER", b"VALID", b"bidirectional", b"linear", b"i->ij")
TEXTS += (b"ij,jk->ik", b"i...,...j->ij", b"ij_,jk", b"...i...", b"a.b", b"->", b"ii", b",,")


def tensors(
    rng: random.Random, names: list[str]
) -> tuple[dict[str, onnx.TypeProto], dict[str, TensorProto]]:
    types, data = {}, {}
    for i, name in enumerate(names):
        kind = rng.choice((1, 1, 1, 7, 7, 6, 9, 10))
        shape = [
            rng.choice(SIZES if rng.random() < 0.3 else SIZES[:4]) for _ in range(rng.randrange(6))
        ]
        if i and rng.random() < 0.6:
            kind = rng.choice((7, 7, 1))
            shape = [] if rng.random() < 0.2 else [rng.randrange(5)]
            values = [rng.choice(NUMBERS) for _ in range(int(np.prod(shape)))]
            array = np.array(values, np.int64 if kind == 7 else np.float32).reshape(shape)
            data[name] = numpy_helper.from_array(array)
        types[name] = helper.make_tensor_type_proto(kind, shape)
    return types, data


def attribute(rng: random.Random, name: str, kind: str) -> AttributeProto | None:
    made = AttributeProto(name=name, type=getattr(AttributeProto, kind))
    several = range(rng.randrange(5))
    if kind == "INT":
        made.i = rng.choice(NUMBERS)
    elif kind == "INTS":
        made.ints.extend(rng.choice(NUMBERS) for _ in several)
    elif kind == "FLOAT":
        made.f = rng.choice(FLOATS)
    elif kind == "FLOATS":
        made.floats.extend(rng.choice(FLOATS) for _ in several)
    elif kind == "STRING":
        made.s = rng.choice(TEXTS)
    elif kind == "TENSOR":
        dims = [rng.choice((0, 1, 2, 1 << 40))]
        made.t.CopyFrom(TensorProto(data_type=7, dims=dims, raw_data=b"12345678"))
    else:
        return None
    return made


def infer_one(rng: random.Random, schema: onnx.defs.OpSchema) -> bool:
    """Whether the guard let a random node of an operator pass; onnx may then refuse it."""
    most = min(schema.max_input, schema.min_input + 3, 8)
    names = [f"i{i}" for i in range(rng.randint(schema.min_input, max(schema.min_input, most)))]
    outputs = [f"o{i}" for i in range(rng.randint(1, max(1, min(schema.max_output, 3))))]
    types, data = tensors(rng, names)
    node = onnx.NodeProto(op_type=schema.name, input=names, output=outputs, name="node")
    for name, known in schema.attributes.items():
        made = attribute(rng, name, str(known.type).rpartition(".")[2])
        if made is not None and (known.required or rng.random() < 0.6):
            node.attribute.append(made)
    print(schema.since_version, node, types, data, sep="\n", file=sys.stderr)
    shapes = {n: tuple(d.dim_value for d in t.tensor_type.shape.dim) for n, t in types.items()}
    try:
        guard.check(node, shapes)
    except NetworkError:
        return False
    signal.alarm(5)
    try:
        opsets = [helper.make_opsetid("", schema.since_version)]
        shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=opsets)
    except Exception:  # noqa: S110  (refusing is right; coming back is what counts)
        pass
    signal.alarm(0)
    return True


def main(nodes: int, seed: int) -> None:
    """Print how many nodes reached onnx."""
    rng = random.Random(seed)  # noqa: S311  (not cryptography)
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if not s.domain]
    passed = 0
    for _ in range(nodes):
        passed += infer_one(rng, rng.choice(schemas))
    print(passed)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
