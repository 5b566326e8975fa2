"""Reader for ONNX files: shapes only, never a weight's value, never another file.

A file may come from a stranger. It is parsed within limits, external data is
never opened, and whatever does not fit is a NetworkError that names the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from hardware.reader import extra
from workloads.importers.onnx.guard import MOST_BYTES, MOST_NODES, MOST_TENSORS
from workloads.network import Network
from workloads.tensors import NetworkError

if TYPE_CHECKING:
    import onnx


def is_onnx(name: str) -> bool:
    """Whether a name is the path of an ONNX file, with or without sizes behind it."""
    return name.endswith(".onnx") or ".onnx:" in name


def read_onnx(name: str) -> Network:
    """Read ``PATH.onnx``, or ``PATH.onnx:DIM=N:...`` where dimensions have names.

    The batch need not be given: a symbolic first dimension of the first input
    is one sample; a fixed one is divided out. Weights may be absent. Raises
    NetworkError.
    """
    path, given = split_name(name)
    model = _load(path)
    from workloads.importers.network import assemble
    from workloads.importers.onnx.graph import Reader

    try:
        return assemble(Reader(path, model, given).model())
    except NetworkError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        # a string that is no UTF-8 comes as bytes, wherever the file has one
        problem = f"{type(error).__name__}: {error}"[:300]
        raise NetworkError(f"{path}: malformed ({problem})") from None


def split_name(name: str) -> tuple[str, dict[str, int]]:
    """The path, and the sizes given to symbolic dimensions."""
    path, ending, options = name.partition(".onnx:")
    if not ending:
        return name, {}
    sizes: dict[str, int] = {}
    for option in options.split(":"):
        key, _, text = option.partition("=")
        whole = text.isascii() and text.isdigit() and len(text) < 10
        if not key or not whole or not int(text):
            at_least = f"expected DIM=N after the colon, N at least 1, found {option!r}"
            raise NetworkError(f"{name!r}: {at_least}")
        sizes[key] = int(text)
    return f"{path}.onnx", sizes


def _load(path: str) -> onnx.ModelProto:
    data = _bytes(path)
    try:
        import onnx
        from google.protobuf.message import DecodeError
    except ImportError:
        raise NetworkError(f"{path}: ONNX files need {extra('onnx')}") from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise NetworkError(f"{path}: not an ONNX file, or a truncated one") from None
    _check_sizes(path, model)
    if model.functions:
        _check_functions(path, model)
        from onnx import inliner

        try:
            model = inliner.inline_local_functions(model)
        except Exception as error:  # onnx raises bare C++ exceptions of many types
            raise NetworkError(f"{path}: its functions cannot be inlined: {error}") from None
        _check_sizes(path, model)
    return model


def _bytes(path: str) -> bytes:
    file = Path(path)
    try:
        odd = file.exists() and not file.is_file()
        size = file.stat().st_size
        if not odd and size <= MOST_BYTES:
            return file.read_bytes()
    except OSError as error:
        raise NetworkError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise NetworkError(f"{path!r}: not a path") from None
    if odd:
        raise NetworkError(f"{path}: not a regular file")
    raise NetworkError(f"{path}: larger than 2 GiB; keep weights in external data")


def _check_sizes(path: str, model: onnx.ModelProto) -> None:
    graph = model.graph
    if not graph.node:
        raise NetworkError(f"{path}: not an ONNX file: it has no nodes")
    if len(graph.node) > MOST_NODES:
        raise NetworkError(f"{path}: {len(graph.node)} nodes; at most {MOST_NODES} are read")
    if len(graph.initializer) > MOST_TENSORS:
        raise NetworkError(f"{path}: more than {MOST_TENSORS} constants")


def _check_functions(path: str, model: onnx.ModelProto) -> None:
    """Refuse functions that call themselves, or that grow beyond MOST_NODES when inlined."""
    bodies = {(f.domain, f.name): f.node for f in model.functions}
    sizes: dict[tuple[str, str], int] = {}

    def size(key: tuple[str, str], above: tuple[tuple[str, str], ...]) -> int:
        if key in above or len(above) > 50:
            raise NetworkError(f"{path}: function {key[1]!r} calls itself")
        if key not in sizes:
            calls = _calls(bodies[key])
            sizes[key] = sum(size(c, (*above, key)) if c in bodies else 1 for c in calls)
        return sizes[key]

    total = sum(size(call, ()) if call in bodies else 1 for call in _calls(model.graph.node))
    if total > MOST_NODES:
        raise NetworkError(f"{path}: {total} nodes with functions inlined; at most {MOST_NODES}")


def _calls(nodes: Iterable[onnx.NodeProto]) -> list[tuple[str, str]]:
    """What nodes are, and those in their branches and bodies."""
    found, left = list[tuple[str, str]](), [*nodes]
    while left:
        node = left.pop()
        found.append((node.domain, node.op_type))
        left += [n for a in node.attribute for graph in (a.g, *a.graphs) for n in graph.node]
    return found
