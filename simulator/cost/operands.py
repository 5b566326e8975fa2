"""The maps that a layer's operators read and write, in a core's terms.

A map's channels are given for each of its node's input or output channels,
so that any shard of the node knows its part. An example: a convolution of a
node with 8 input and 16 output channels reads 8 channels (1.0 for each input
channel) and writes 16 (1.0 for each output channel); a batch norm behind it
works on the same 16; a pool in front of the first node is split as that
node's inputs are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from planners.partition import II, III, I, PartitionType
from simulator.cost.hbm_tensors import gradient, tensors
from simulator.cost.operators import Map, Minor
from workloads import Layer, Network, Tensor, owners
from workloads.layer_types import Kept
from workloads.layer_types.other import DROPOUT
from workloads.tensors import INPUT

MASK_BYTES = 1.0


class Operands:
    """Every layer's maps; ``all`` are the network's tensors, ``owner`` the layers' nodes."""

    def __init__(self, network: Network) -> None:
        self.all = tensors(network)
        self.owner = owners(network, self.all.graph)

    def pairs(self, index: int) -> float:
        """Pairs of an input and an output channel of the same group of a node."""
        node = self.all.graph[index]
        return node.in_channels * node.out_channels / node.groups

    def input(self, layer: Layer, place: int = 0) -> Map:
        """What a layer reads: of the tensor that was written, the part that it sees."""
        root, shape = self.all.root[layer.inputs[place]], layer.operands[place]
        side = I if layer.type.gathers else self._input_side(layer)
        held = shape if root == INPUT else self.all.layers[root].output
        share = min(1.0, shape.elements / held.elements)
        channels, area = float(shape.channels), float(shape.area)
        if shape.area == held.area:
            channels /= share
        else:
            area /= share
        found = self._scaled(layer, root, side, channels, area, held, share)
        return replace(found, whole=True) if self._attended(layer, place) else found

    def _attended(self, layer: Layer, place: int) -> bool:
        """Whether an input is an operand of which every position needs all."""
        return place > 0 and self.all.graph[self.owner[layer.name][0]].operand > 0

    def output(self, layer: Layer, tensor: str) -> Map:
        """A tensor in the shape of a layer's output: its values, or a gradient of them."""
        return self._map(layer, tensor, self._side(layer, III), layer.output)

    def received(self, layer: Layer) -> list[Map]:
        """The gradients of a layer's output that its readers wrote, each in its own shape."""
        shapes = ((part, self.all.shapes[part]) for part in self.all.gradients[layer.name])
        return [
            self.output(layer, part)
            if shape.elements == layer.output.elements
            else self._map(layer, part, self._side(layer, III), shape)
            for part, shape in shapes
        ]

    def product_gradient(self, product: Layer) -> Map:
        """The one tensor with the gradient of a product's output."""
        if self.all.whole(product.name):
            return self.received(product)[0]
        return self.output(product, f"gradient of {product.name}")

    def changed(self, layer: Layer) -> list[Map]:
        """A layer's own output, where what rides on it has to be undone, and its masks."""
        changed = layer.name in self.all.fused_readers and self.all.changed(layer.name)
        return [*([self.output(layer, layer.name)] if changed else []), *self.masks(layer)]

    def masks(self, layer: Layer) -> list[Map]:
        """Of a layer's output and what rides on it, those of dropout."""
        return [self._mask(one, layer) for one in self._dropouts(layer)]

    def written_masks(self, layer: Layer) -> list[Map]:
        """The masks that a layer writes forward: what alone reads a dropout draws it."""
        own = [] if self._handed_on(layer.name) else self._dropouts(layer)
        roots = {self.all.root[name] for name in layer.inputs} - {INPUT}
        read = (self.all.layers[root] for root in sorted(roots) if self._handed_on(root))
        if layer.type.join:
            own += [one for root in read for one in self._dropouts(root)]
        return [self._mask(one, layer) for one in own]

    def _dropouts(self, layer: Layer) -> list[Layer]:
        fused = (self.all.layers[name] for name in self.all.fused_readers.get(layer.name, ()))
        return [one for one in (layer, *fused) if one.operator == DROPOUT]

    def _handed_on(self, root: str) -> bool:
        """Whether one join alone reads a root, which may lie otherwise than its partial sums."""
        readers = self.all.readers[root]
        return len(readers) == 1 and self.all.layers[readers[0][0]].type.join

    def _mask(self, dropout: Layer, by: Layer) -> Map:
        """A dropout's mask, in the terms of the layer that reads or writes it."""
        name, side = f"{dropout.name}'s mask", self._side(by, III)
        return replace(self._map(by, name, side, dropout.output), each_bytes=MASK_BYTES)

    def kept(self, layer: Layer, of: Kept) -> Map:
        """What a layer writes beside its output, or the gradient of that."""
        name = (
            f"gradient of {layer.name}'s {of.name}" if of.gradient else f"{layer.name}'s {of.name}"
        )
        shape = replace(layer.output, channels=of.channels)
        whole = self._map(layer, name, self._side(layer, III), shape)
        return replace(whole, each_bytes=of.element_bytes)

    def input_gradients(self, layer: Layer, places: Iterable[int]) -> list[Map]:
        """What a layer writes backward, for those of some inputs that are trained."""
        trained = (place for place in places if layer.inputs[place] in self.all.trained)
        written = {gradient(layer, place): place for place in trained}
        return [
            replace(
                self._map(layer, name, self._input_side(layer), layer.operands[place]),
                whole=self._attended(layer, place),
            )
            for name, place in written.items()
        ]

    def _input_side(self, layer: Layer) -> PartitionType:
        """Products read their node's input channels, what is behind them its outputs."""
        return self._side(layer, II if layer.type.product else III)

    def _side(self, layer: Layer, side: PartitionType) -> PartitionType:
        """Which of its node's channels a layer's tensor is split with."""
        return II if self.owner[layer.name][1] else side

    def _map(self, layer: Layer, tensor: str, side: PartitionType, shape: Tensor) -> Map:
        return self._scaled(layer, tensor, side, shape.channels, shape.area, shape)

    def _scaled(
        self,
        layer: Layer,
        tensor: str,
        side: PartitionType,
        channels: float,
        area: float,
        shape: Tensor,
        share: float = 1.0,
    ) -> Map:
        node = self.all.graph[self.owner[layer.name][0]]
        whole = {I: 1, II: node.in_channels, III: node.out_channels}[side]
        heads = node.computed and side is III
        minor = Minor.HEADS if heads else Minor.POSITIONS
        minor = minor if shape.width == 1 < shape.height else Minor.SAMPLES
        return Map(tensor, side, channels / whole, area, share, minor)
