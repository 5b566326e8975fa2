"""Networks as ONNX models: dims of every weight, no values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardware.reader import extra
from workloads.attention import ATTENTION, with_attention
from workloads.network import Network
from workloads.tensors import NetworkError

if TYPE_CHECKING:
    import onnx


def to_onnx(network: Network) -> onnx.ModelProto:
    """An ONNX model that reads back as the same network.

    The first dimension is the symbolic ``batch``; weights are external data
    that is not there. Operators ONNX has no name for are of the domain
    ``accelarray``; fused attention is written as its parts, and that it is causal, or what
    is ``apart``, is not. Raises NetworkError where a layer reads another shape than
    its source writes, as in layer files, or where onnx is missing.
    """
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise NetworkError(f"writing ONNX needs {extra('onnx')}") from None
    from workloads.exporters.onnx_writer import Writer, write

    if any(layer.kind == ATTENTION for layer in network.layers):
        network = with_attention(network, "unfused")
    writer = Writer(network)
    for layer in network.layers:
        write(writer, layer)
    return writer.model()
