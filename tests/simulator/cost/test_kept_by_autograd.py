"""What eager PyTorch keeps for backward: activations beside autograd's own count, to the byte."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from hardware import load_array
from planners.order import Phase
from simulator.cost.memory import memory_use
from simulator.cost.roofline import core_of
from simulator.cost.training_operators import operators
from tests.simulator.shapes import unsplit
from workloads.importers import from_torch
from workloads.transforms import eager

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's own
    torch = pytest.importorskip("torch")
nn = torch.nn


class Scaled(nn.Module):  # type: ignore[misc,name-defined]
    """A trained number for each feature, as LayerScale has."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8, 1, 1))

    def forward(self, x: Any) -> Any:
        return x * self.scale


def kept_by_autograd(module: Any, x: Any) -> int:
    """Bytes of tensors that backward was given, small ones left out, and of the output."""
    parameters = {one.untyped_storage().data_ptr() for one in module.parameters()}
    found: dict[int, Any] = {}

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters and tensor.numel() > 100:
            found[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = module(x)
    own = int(output.untyped_storage().nbytes())
    return own + sum(int(size) for size, _ in found.values())


SAME = {"kernel_size": 3, "padding": 1}
BLOCKS = {
    "batch norm, SiLU": [nn.BatchNorm2d(8), nn.SiLU()],
    "batch norm, ReLU6": [nn.BatchNorm2d(8), nn.ReLU6()],
    "batch norm, read by a product": [nn.BatchNorm2d(8)],
    "batch norm, ReLU": [nn.BatchNorm2d(8), nn.ReLU()],
    "max pool": [nn.ReLU(), nn.MaxPool2d(2)],
    "scale, GELU": [Scaled(), nn.GELU()],
    "pixel shuffle": [nn.PixelShuffle(2), nn.Conv2d(2, 8, **SAME)],
    "upsample": [nn.Upsample(scale_factor=2)],
    "pad": [nn.ZeroPad2d(2)],
}


@pytest.mark.parametrize("block", BLOCKS)
def test_activations_of_eager_operators(block: str) -> None:
    """Between two convolutions, in float32; the last one's output nobody reads."""
    first, last = nn.Conv2d(3, 8, **SAME), nn.Conv2d(8, 4, **SAME)
    module = nn.Sequential(first, *BLOCKS[block], last).train()
    x = torch.randn(2, 3, 16, 16)
    network = eager(from_torch(module, x))
    assert network.parameters == sum(one.numel() for one in module.parameters())
    core = core_of(load_array("h100-cluster", ["precision=fp32"]).group.kinds[0][0])
    graph = operators(network)
    use = memory_use(graph, [unsplit(node, 2) for node in graph.graph], core)
    forward = max(i for i, (_, phase) in enumerate(use.products) if phase is Phase.FORWARD)
    assert use.kept[forward] - use.held_bytes == kept_by_autograd(module, x)
