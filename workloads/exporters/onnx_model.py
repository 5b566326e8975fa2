"""Networks as ONNX models: dims of every weight, no values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workloads.layers import Network, NetworkError

if TYPE_CHECKING:
    import onnx

WEIGHTS = "weights-not-there.bin"
"""Where the initializers say their data is; no such file is written."""


def to_onnx(network: Network) -> onnx.ModelProto:
    """An ONNX model that reads back as the same network.

    The first dimension is the symbolic ``batch``; weights are external data
    that is not there. Operators ONNX has no name for are of the domain
    ``accelarray``. Raises NetworkError where a layer reads another shape than
    its source writes, as in layer files, or where onnx is missing.
    """
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise NetworkError("writing ONNX needs pip install 'accelarray[onnx]'") from None
    from workloads.exporters.onnx_layers import Writer

    return Writer(network).model()


def external(tensor: onnx.TensorProto) -> None:
    """Leave a tensor its name, type and dims alone."""
    import onnx

    name, kind, dims = tensor.name, tensor.data_type, list(tensor.dims)
    tensor.Clear()
    tensor.name, tensor.data_type = name, kind
    tensor.dims.extend(dims)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=WEIGHTS)
