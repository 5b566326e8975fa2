"""Mutated files are read or refused: no crash, no hang, no other exception.

    python -m tests.workloads.importers.onnx.test_fuzz FILES [SEED]

tries as many as wanted; a file that breaks the reader is kept.
"""

import random
import sys
import tempfile
from pathlib import Path

import onnx
import pytest

from tests.effort import calls
from workloads import NetworkError, load_network

FOLDER = Path(__file__).parents[3] / "data" / "onnx"
MOST_CALLS = 2_000_000
"""A few seconds, whatever the file says."""


def seeds() -> list[bytes]:
    return [path.read_bytes() for path in sorted(FOLDER.glob("*.onnx"))]


def mutated(rng: random.Random, data: bytes, others: list[bytes]) -> bytes:
    """Bytes changed, cut out, repeated or taken from another file; or a field of the model."""
    if rng.random() < 0.4:
        return field_mutated(rng, data)
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        at, length = rng.randrange(len(result)), rng.choice((1, 1, 2, 8, 64))
        kind = rng.randrange(5)
        if kind == 0:
            result[at] = rng.randrange(256)
        elif kind == 1:
            del result[at : at + length]
        elif kind == 2:
            result[at:at] = result[at : at + length]
        elif kind == 3:
            other = rng.choice(others)
            start = rng.randrange(len(other))
            result[at : at + length] = other[start : start + length]
        else:
            result[at] ^= 1 << rng.randrange(8)
        if not result:
            return b"\0"
    return bytes(result)


NUMBERS = (
    0,
    -1,
    1,
    2,
    3,
    7,
    64,
    1 << 31,
    (1 << 31) - 1,
    1 << 40,
    (1 << 62),
    (1 << 63) - 1,
    -(1 << 63),
)


def field_mutated(rng: random.Random, data: bytes) -> bytes:
    """A file that still parses: dims, names, operators, attributes and order changed."""
    proto = onnx.ModelProto()
    proto.ParseFromString(data)
    graph = proto.graph
    for _ in range(rng.choice((1, 1, 2, 4))):
        kind, node = rng.randrange(9), rng.choice(graph.node)
        if kind == 0 and graph.initializer:
            tensor = rng.choice(graph.initializer)
            if tensor.dims:
                tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(NUMBERS)
        elif kind == 1 and node.input:
            node.input[rng.randrange(len(node.input))] = rng.choice(rng.choice(graph.node).output)
        elif kind == 2:
            node.op_type = rng.choice(sorted({s.name for s in onnx.defs.get_all_schemas()}))
        elif kind == 3 and node.attribute:
            attribute = rng.choice(node.attribute)
            attribute.i = rng.choice(NUMBERS)
            if attribute.ints:
                attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(NUMBERS)
        elif kind == 4 and node.attribute:
            del node.attribute[rng.randrange(len(node.attribute))]
        elif kind == 5:
            dim = rng.choice(graph.input[0].type.tensor_type.shape.dim)
            dim.dim_value = rng.choice(NUMBERS)
        elif kind == 6:
            del graph.node[rng.randrange(len(graph.node))]
        elif kind == 7 and graph.initializer:
            small = [t for t in graph.initializer if t.raw_data and len(t.raw_data) % 8 == 0]
            if small:
                tensor = rng.choice(small)
                values = [rng.choice(NUMBERS) for _ in range(len(tensor.raw_data) // 8)]
                tensor.raw_data = b"".join(v.to_bytes(8, "little", signed=True) for v in values)
        elif node.input:
            del node.input[rng.randrange(len(node.input))]
        if not graph.node:
            break
    changed: bytes = proto.SerializeToString()
    return changed


def refuses(path: Path) -> bool:
    """Whether a file is refused; raises on anything but a network or a NetworkError."""
    try:
        load_network(str(path))
    except NetworkError as error:
        if str(path) not in str(error):
            raise AssertionError(f"{path}: the message does not name it: {error}") from None
        return True
    return False


def fuzz(folder: Path, files: int, seed: int) -> int:
    """How many of so many files are refused; raises where one is too much work."""
    rng = random.Random(seed)  # noqa: S311  (not cryptography)
    others = seeds()
    path = folder / f"fuzz-{seed}.onnx"
    found: list[bool] = []
    for _ in range(files):
        path.write_bytes(mutated(rng, rng.choice(others), others))
        made = calls(lambda: found.append(refuses(path)))
        if made > MOST_CALLS:
            raise AssertionError(f"{path}: {made:,} calls")
    return sum(found)


@pytest.mark.parametrize(
    ("files", "seed"), [(200, 1), pytest.param(50_000, 2, marks=pytest.mark.slow)]
)
def test_mutated_files_are_read_or_refused(files: int, seed: int, tmp_path: Path) -> None:
    assert 0 < fuzz(tmp_path, files, seed) < files


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    print(fuzz(Path(tempfile.mkdtemp()), wanted, number))
