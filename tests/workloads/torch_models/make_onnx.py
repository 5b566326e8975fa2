"""Make the ONNX files in tests/data/onnx: torch's own exports, without the weights' values.

    pip install torch onnx onnxscript
    python -m tests.workloads.torch_models.make_onnx

Tensors of more than 64 elements keep name, type and dims alone.
"""

import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn
from torch.onnx import TrainingMode

from tests.workloads.torch_models.resnet import ResNet50
from tests.workloads.torch_models.small import MODELS
from workloads.exporters.onnx_writer import external

FOLDER = Path(__file__).parent.parent.parent / "data" / "onnx"
BATCH = {"dynamic_axes": {"x": {0: "batch"}}}


def dims_only(path: Path) -> onnx.ModelProto:
    model = onnx.load(path, load_external_data=False)
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) > 64:
            external(tensor)
        else:
            tensor.doc_string = ""
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
    for value in [*model.graph.value_info, *model.graph.input, *model.graph.output]:
        del value.metadata_props[:]
    return model


def export(name: str, module: nn.Module, x: torch.Tensor, **options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        torch.onnx.export(module, (x,), path, input_names=["x"], **options)
        data = dims_only(path).SerializeToString()
    (FOLDER / f"{name}.onnx").write_bytes(data)
    print(name, len(data))


def drawn(module: nn.Module) -> nn.Module:
    """With unlike weights: exporters merge tensors that are equal."""
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


def main() -> None:
    """Write every file."""
    FOLDER.mkdir(exist_ok=True)
    image = torch.zeros(1, 3, 224, 224)
    keep = {"training": TrainingMode.TRAINING, "do_constant_folding": False}
    export("resnet50-batch-norm", drawn(ResNet50()).train(), image, dynamo=False, **BATCH, **keep)
    export("resnet50-folded", drawn(ResNet50()).eval(), image, dynamo=False, **BATCH)
    for name, (make, x) in MODELS.items():
        script = {"dynamo": False, "do_constant_folding": False}
        export(f"{name}-symbolic", drawn(make()).eval(), x, **BATCH, **script)
        export(f"{name}-fixed", drawn(make()).eval(), x, dynamo=True, verbose=False)


if __name__ == "__main__":
    main()
