"""Pooling and batch normalisation, which make a map of a map."""

from __future__ import annotations

from workloads.layer_types.base import Layer, LayerType, Role, Step, register
from workloads.layer_types.linear import slid
from workloads.tensors import Tensor


class Pool(LayerType):
    """The largest, or the mean, of a window of each channel."""

    keys = ("kernel", "stride", "padding")
    keeps_maps = True

    def output(self, layer: Layer, features: int) -> Tensor:
        return Tensor(layer.input.channels, *slid(layer))


@register
class MaxPool(Pool):
    """The largest element of a window."""

    name = "max_pool"

    def element_cycles(self, layer: Layer, *, forward: bool) -> float:
        return float(layer.kernel_area if forward else 1)


@register
class AveragePool(Pool):
    """The mean of a window."""

    name = "avg_pool"


@register
class BatchNorm(LayerType):
    """Each channel less its mean, by its deviation, over the batch; then scaled and shifted."""

    name = "batch_norm"
    statistics = True
    keeps_maps = True

    def further_parameters(self, layer: Layer) -> int:
        return 2 * layer.output.channels

    def forward(self, layer: Layer) -> tuple[Step, ...]:
        """A pass to sum up; what reads it normalises in passing."""
        return (Step((Role.INPUTS,), what="statistics"),)

    def in_passing(self, layer: Layer) -> bool:
        return not layer.apart
