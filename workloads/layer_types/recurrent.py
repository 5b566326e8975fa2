"""Recurrent cells, which run along a sequence; all their states are the output.

A cell has one matrix for features and state, with a column for each gate of each unit. It
keeps its gates for backward, and one more state for each unit.
"""

from __future__ import annotations

from workloads.layer_types.base import (
    Dimensions,
    Kept,
    Layer,
    Operand,
    Role,
    Step,
    Tensors,
    register,
)
from workloads.layer_types.linear import Weighted
from workloads.tensors import Tensor


class Cell(Weighted):
    """A cell with ``gates``, run in one or two ``directions``.

    Each gate has a bias for the input's product and one for the state's.
    """

    gates: int
    cycles: tuple[int, int]
    """Of a lane for an element of the output, forward and backward: its gates, and joining them."""
    keys = ("features", "directions")
    shardable = ("samples",)
    circulant = True
    sums_error = False

    def output(self, layer: Layer, features: int) -> Tensor:
        return Tensor(features, layer.input.height)

    def dimensions(self, layer: Layer) -> Dimensions:
        of = super().dimensions(layer)
        state = of.out_channels // layer.directions
        return of._replace(
            in_channels=of.in_channels + state, out_channels=self.gates * of.out_channels
        )

    def weights(self, layer: Layer) -> int:
        into, out = layer.input.channels, layer.output.channels
        return self.gates * out * (into + out // layer.directions) // layer.block

    def spectral_macs(self, layer: Layer) -> tuple[int, int]:
        many, out = layer.groups * layer.directions, layer.output.channels
        return self._spectral(layer, many * layer.input.channels + out, out * self.gates, many)

    def forward(self, layer: Layer) -> tuple[Step, ...]:
        kept = Kept("gates", (self.gates + 1) * layer.output.channels)
        return (self._along(layer, (Role.INPUTS,), (Role.OUTPUT, kept)),)

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        """Errors step by step; without those of its input where nobody needs them."""
        kept = Kept("gates", (self.gates + 1) * layer.output.channels)
        writes = (self._errors(layer), Role.ERRORS)
        return (self._along(layer, (Role.ERROR, kept), writes, whole=needed),)

    def gradient(self, layer: Layer) -> tuple[Step, ...]:
        reads = (Operand(0), Role.OUTPUT, self._errors(layer))
        return (Step(reads, products=1.0, gradients=(1.0, 2.0)),)

    def element_cycles(self, layer: Layer, *, forward: bool) -> float:
        return float(self.cycles[not forward])

    def _errors(self, layer: Layer) -> Kept:
        return Kept("gates", self.gates * layer.output.channels, gradient=True)

    def _along(self, layer: Layer, reads: Tensors, writes: Tensors, *, whole: bool = True) -> Step:
        """All steps in time; the weights of the state are read again at each.

        Only the state's products where the ``whole`` is not needed.
        """
        units, times = layer.output.channels // layer.directions, layer.output.area
        state = units / (layer.input.channels + units)
        once = 1.0 if whole else state
        return Step(reads, writes, once, once + state * (times - 1), times=times)


@register
class LSTM(Cell):
    """Long short-term memory."""

    name = "lstm"
    gates = 4
    biases = 2 * gates
    cycles = (3 * 12 + 2 * 27 + 4, 5 * 2 + 8)


@register
class GRU(Cell):
    """Gated recurrent units."""

    name = "gru"
    gates = 3
    biases = 2 * gates
    cycles = (2 * 12 + 27 + 5, 3 * 2 + 8)


CELLS: dict[str, type[Cell]] = {cell.name: cell for cell in (LSTM, GRU)}
