"""The operators of a training step, and what each reads, writes and multiplies.

Each is described for any shard of its node: maps by their channels and
areas, weights and products for each pair of input and output channels of a
group. Which operators are fused, and what they read, is a compiler's doing:
the table of docs/roofline.md, found to predict measured TPU steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from planners.partition import II, III, I, PartitionType
from planners.steps import Phase
from simulator.cost.hbm_tensors import gradient, owners, rides, tensors
from simulator.cost.operators import (
    GRADIENT_BYTES,
    MAP_BYTES,
    UPDATE_BYTES,
    Map,
    NodeOperators,
    Operator,
    Operators,
)
from workloads import Layer, Network, Tensor
from workloads.layers import CELLS, INPUT, JOINS


@dataclass(frozen=True, slots=True)
class _Work:
    """What an operator does beside its maps, for its layer's weights and products.

    ``weights`` are bytes for each weight, ``rows`` bytes for each element of
    an embedding's output, ``products`` the part of the layer's products.
    """

    weights: float = 0.0
    products: float = 0.0
    rows: float = 0.0
    steps: int = 1


_NONE = _Work()


def operators(network: Network) -> Operators:
    """The operators of one training step; every layer's are there exactly once."""
    step = _Step(network)
    return Operators(step.all.graph, tuple(map(step.node, range(len(step.all.graph)))))


class _Step:
    def __init__(self, network: Network) -> None:
        self.all = tensors(network)
        self.owner = owners(network, self.all.graph)
        self.own: list[list[Layer]] = [[] for _ in self.all.graph]
        self.last_use: dict[str, str] = {}
        for layer in network.layers:
            self.own[self.owner[layer.name][0]].append(layer)
            self.last_use[layer.shared or layer.name] = layer.name

    def node(self, index: int) -> NodeOperators:
        own = self.own[index]
        weights = [x for x in own if x.weighted]
        brought = sum(x.weights for x in weights if not x.shared)
        rest = sum(x.parameters for x in own) - brought
        pairs, channels = self._pairs(index), self.all.graph[index].out_channels
        return NodeOperators(
            forward=tuple(op for x in own for op in self._forward(x)),
            backward=tuple(op for x in reversed(own) for op in self._backward(x)),
            gradient=tuple(op for x in own for op in self._gradient(x)),
            update=tuple(self._update(index, brought / pairs, rest / channels)),
            pair_parameters=brought / pairs,
            channel_parameters=rest / channels,
            shared_parameters=sum(x.weights for x in weights if x.shared) / pairs,
        )

    def _pairs(self, index: int) -> float:
        """Pairs of an input and an output channel of the same group."""
        node = self.all.graph[index]
        return node.in_channels * node.out_channels / node.groups

    def _forward(self, layer: Layer) -> Iterator[Operator]:
        reads = [self._input(layer, place) for place in range(len(layer.inputs))]
        writes = [self._output(layer, layer.name)]
        if layer.kind == "batch_norm":
            yield self._operator(layer, Phase.FORWARD, "statistics", reads)
        elif rides(layer):
            return
        elif layer.kind == "embedding":
            work = _Work(rows=MAP_BYTES)
            yield self._operator(layer, Phase.FORWARD, "", reads, writes, work)
        elif layer.kind in CELLS:
            writes.append(self._gates(layer))
            yield self._operator(layer, Phase.FORWARD, "", reads, writes, _recurrent(layer))
        else:
            work = _Work(MAP_BYTES, 1.0)
            yield self._operator(layer, Phase.FORWARD, "", reads, writes, work)

    def _backward(self, layer: Layer) -> Iterator[Operator]:
        """What a root does backward, and before it the reductions of batch norms that ride on it.

        Nothing where no gradient is needed: nothing before has parameters.
        """
        if rides(layer):
            if self.all.root[layer.name] == INPUT and layer.kind == "batch_norm":
                yield from self._reductions(layer)
            return
        if self._summed_first(layer.name):
            yield from self._summed(layer)
        for rider in reversed(self.all.riders.get(layer.name, ())):
            if self.all.layers[rider].kind == "batch_norm":
                yield from self._reductions(self.all.layers[rider])
        if layer.kind in CELLS:
            yield self._through_time(layer)
        elif layer.kind == "matmul":
            yield from self._operand_gradient(layer, 0, Phase.BACKWARD)
        elif layer.kind != "embedding" and not self.all.trained.isdisjoint(layer.inputs):
            yield from self._input_gradient(layer)

    def _summed_first(self, name: str) -> bool:
        """Products read their output's gradient several times; a cell reads it once."""
        if name == INPUT:
            return False
        layer = self.all.layers[name]
        return layer.kind == "matmul" or (layer.weighted and layer.kind not in CELLS)

    def _summed(self, layer: Layer) -> Iterator[Operator]:
        """The gradients of many readers, or of readers of parts, become one tensor."""
        if not self.all.whole(layer.name):
            reads = self._received(layer)
            whole = [self._output(layer, f"gradient of {layer.name}")]
            yield self._operator(layer, Phase.BACKWARD, "gradient sum", reads, whole)

    def _product_gradient(self, product: Layer) -> Map:
        """The one tensor with the gradient of a product's output."""
        if self.all.whole(product.name):
            return self._received(product)[0]
        return self._output(product, f"gradient of {product.name}")

    def _received(self, layer: Layer) -> list[Map]:
        """The gradients of a layer's output that its readers wrote, each in its own shape."""
        shapes = ((part, self.all.shapes[part]) for part in self.all.gradients[layer.name])
        return [
            self._output(layer, part)
            if shape.elements == layer.output.elements
            else self._map(layer, part, self._side(layer, III), shape)
            for part, shape in shapes
        ]

    def _reductions(self, norm: Layer) -> Iterator[Operator]:
        """Batch norm backward, unless the join behind does it in passing."""
        root = self.all.root[norm.name]
        readers = (reader for reader, _ in self.all.readers[root])
        if any(root in self.all.normed.get(reader, ()) for reader in readers):
            return
        if self._summed_first(root):
            parts = [self._product_gradient(self.all.layers[root])]
        else:
            parts = self._received(norm)
        reads = [*parts, self._output(norm, root)]
        yield self._operator(norm, Phase.BACKWARD, "reductions", reads)

    def _changed(self, layer: Layer) -> list[Map]:
        """A layer's own output, where what rides on it has to be undone."""
        changed = layer.name in self.all.riders and self.all.changed(layer.name)
        return [self._output(layer, layer.name)] if changed else []

    def _input_gradient(self, layer: Layer) -> Iterator[Operator]:
        own, writes = self._changed(layer), self._input_gradients(layer)
        if layer.weighted:
            reads = [self._product_gradient(layer), *own]
            work = _Work(MAP_BYTES, 1.0)
            yield self._operator(layer, Phase.BACKWARD, "", reads, writes, work)
            return
        reads = [*self._received(layer), *own]
        if layer.kind in JOINS - {"mul"}:
            if self.all.passes(layer.name):
                return
            normed = self.all.normed[layer.name]
            places = [self.all.root[name] for name in layer.inputs]
            reads += [self._input(layer, places.index(root)) for root in normed]
        elif layer.kind == "softmax" and layer.name not in self.all.gradients[layer.name]:
            reads += [] if own else [self._output(layer, layer.name)]
        else:
            reads += [self._input(layer, place) for place in range(len(layer.inputs))]
        yield self._operator(layer, Phase.BACKWARD, "", reads, writes)

    def _input_gradients(self, layer: Layer) -> list[Map]:
        """What a layer writes backward, for the inputs that are trained."""
        written = {
            gradient(layer, place): layer.operands[place]
            for place, source in enumerate(layer.inputs)
            if source in self.all.trained
        }
        side = self._side(layer, II if layer.weighted else III)
        return [self._map(layer, name, side, shape) for name, shape in written.items()]

    def _operand_gradient(self, layer: Layer, place: int, phase: Phase) -> Iterator[Operator]:
        """The gradient of one operand of a matmul is a product with the other one."""
        if layer.inputs[place] in self.all.trained:
            reads = [self._product_gradient(layer), *self._changed(layer)]
            reads.append(self._input(layer, 1 - place))
            shape = layer.operands[place]
            writes = [self._map(layer, gradient(layer, place), II, shape)]
            yield self._operator(layer, phase, "", reads, writes, _Work(products=1.0))

    def _through_time(self, cell: Layer) -> Operator:
        """A cell's errors step by step; without those of its input where nobody needs them."""
        trained = cell.inputs[0] in self.all.trained
        reads = [*self._received(cell), *self._changed(cell), self._gates(cell)]
        writes = [self._gate_gradients(cell), *self._input_gradients(cell)]
        work = _recurrent(cell, whole=trained)
        return self._operator(cell, Phase.BACKWARD, "", reads, writes, work)

    def _gates(self, cell: Layer) -> Map:
        """What a cell keeps for backward: its gates, and one more state for each unit."""
        channels = (CELLS[cell.kind] + 1) * cell.output.channels
        shape = Tensor(channels, cell.output.height, cell.output.width)
        return self._map(cell, f"{cell.name}'s gates", III, shape)

    def _gate_gradients(self, cell: Layer) -> Map:
        channels = CELLS[cell.kind] * cell.output.channels
        shape = Tensor(channels, cell.output.height, cell.output.width)
        return self._map(cell, f"gradient of {cell.name}'s gates", III, shape)

    def _gradient(self, layer: Layer) -> Iterator[Operator]:
        if layer.kind == "matmul":
            yield from self._operand_gradient(layer, 1, Phase.GRADIENT)
        if not layer.weighted:
            return
        first = self.last_use[layer.shared or layer.name] == layer.name
        work = _Work(GRADIENT_BYTES if first else 2 * GRADIENT_BYTES, 1.0)
        reads = [self._input(layer)]
        if layer.kind in CELLS:
            reads += [self._output(layer, layer.name), self._gate_gradients(layer)]
        else:
            reads += [self._product_gradient(layer), *self._changed(layer)]
        if layer.kind == "embedding":  # zeros for the whole table, then what is touched
            work = _Work(GRADIENT_BYTES if first else 0.0, 0.0, 2 * GRADIENT_BYTES)
        yield self._operator(layer, Phase.GRADIENT, "", reads, (), work)

    def _update(self, index: int, pairs: float, rest: float) -> Iterator[Operator]:
        if pairs or rest:
            yield Operator(
                f"{self.all.graph[index].name} update",
                index,
                Phase.UPDATE,
                pair_bytes=UPDATE_BYTES * pairs,
                channel_bytes=UPDATE_BYTES * rest,
            )

    def _operator(
        self,
        layer: Layer,
        phase: Phase,
        what: str,
        reads: Iterable[Map],
        writes: Iterable[Map] = (),
        work: _Work = _NONE,
    ) -> Operator:
        """An operator of a layer."""
        index, _ = self.owner[layer.name]
        pairs = self._pairs(index)
        rows = work.rows * layer.output.area / layer.vocabulary if work.rows else 0.0
        return Operator(
            f"{layer.name} {what or phase}",
            index,
            phase,
            tuple(reads),
            tuple(writes),
            macs=work.products * layer.macs / pairs,
            pair_bytes=work.weights * layer.weights / pairs,
            row_bytes=rows,
            kernel=layer.kernel_area if layer.kind == "conv" else 1.0,
            steps=work.steps,
        )

    def _side(self, layer: Layer, side: PartitionType) -> PartitionType:
        """Which of its node's channels a layer's tensor is split with."""
        return II if self.owner[layer.name][1] else side

    def _input(self, layer: Layer, place: int = 0) -> Map:
        """What a layer reads: of the tensor that was written, the part that it sees."""
        root, shape = self.all.root[layer.inputs[place]], layer.operands[place]
        side = self._side(layer, II if layer.weighted or layer.kind == "matmul" else III)
        side = I if layer.kind == "embedding" else side
        held = shape if root == INPUT else self.all.layers[root].output
        share = min(1.0, shape.elements / held.elements)
        channels, area = float(shape.channels), float(shape.area)
        if shape.area == held.area:
            channels /= share
        else:
            area /= share
        return self._scaled(layer, root, side, channels, area, share)

    def _output(self, layer: Layer, tensor: str) -> Map:
        return self._map(layer, tensor, self._side(layer, III), layer.output)

    def _map(self, layer: Layer, tensor: str, side: PartitionType, shape: Tensor) -> Map:
        return self._scaled(layer, tensor, side, shape.channels, shape.area)

    def _scaled(
        self,
        layer: Layer,
        tensor: str,
        side: PartitionType,
        channels: float,
        area: float,
        share: float = 1.0,
    ) -> Map:
        node = self.all.graph[self.owner[layer.name][0]]
        whole = {I: 1, II: node.in_channels, III: node.out_channels}[side]
        return Map(tensor, side, channels / whole, area, share)


def _recurrent(cell: Layer, *, whole: bool = True) -> _Work:
    """A cell's weights and products; those of the state alone where the whole is not needed.

    The weights of the state are read again at each step in time.
    """
    units, steps = cell.output.channels // cell.directions, cell.output.area
    state = units / (cell.input.channels + units)
    once = 1.0 if whole else state
    return _Work(MAP_BYTES * (once + state * (steps - 1)), once, steps=steps)
