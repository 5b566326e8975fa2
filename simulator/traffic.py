"""The operators of a training step, and what each reads, writes and multiplies.

Each is described for any shard of its node: maps by their channels and
areas, weights and products for each pair of input and output channels. Which
operators are fused, and what they read, is a compiler's doing: the table of
docs/roofline.md, found to predict measured TPU steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from planners.steps import Phase
from simulator.tensors import RIDES, gradient, owners, tensors
from workloads import Graph, Layer, Network
from workloads.layers import INPUT, JOINS

MAP_BYTES = 2
"""Activations, their gradients, and weights as operators read them: bfloat16."""
GRADIENT_BYTES = 4
"""A weight's gradient: float32."""
UPDATE_BYTES = 28
"""The optimizer's traffic for a parameter: LARS with momentum reads weight and gradient for
their norms (8 B), then reads both and the momentum, and writes weight and momentum (20 B)."""


@dataclass(frozen=True, slots=True)
class Map:
    """An activation or its gradient: ``channels`` for each of the node's, of ``area`` elements.

    Its channels are split as the node's outputs are, or as its inputs (``of_input``).
    """

    tensor: str
    of_input: bool
    channels: float
    area: int


@dataclass(frozen=True, slots=True)
class Operator:
    """What a core does at a time, for one node of the partition graph.

    ``macs`` are multiply-accumulates for each row, input and output channel;
    ``pair_bytes`` the weights' traffic for each input and output channel,
    ``channel_bytes`` that for each output channel; ``kernel`` the weights of
    a pair of channels.
    """

    name: str
    node: int
    phase: Phase
    reads: tuple[Map, ...] = ()
    writes: tuple[Map, ...] = ()
    macs: float = 0.0
    pair_bytes: float = 0.0
    channel_bytes: float = 0.0
    kernel: float = 1.0


@dataclass(frozen=True, slots=True)
class NodeOperators:
    """A node's operators by phase, each in the order in which they run.

    ``pair_parameters`` and ``channel_parameters`` are trained parameters for
    each pair of channels and for each output channel.
    """

    forward: tuple[Operator, ...]
    backward: tuple[Operator, ...]
    gradient: tuple[Operator, ...]
    update: tuple[Operator, ...]
    pair_parameters: float
    channel_parameters: float

    def of(self, phase: Phase) -> tuple[Operator, ...]:
        """The operators of a phase."""
        found: tuple[Operator, ...] = getattr(self, phase)
        return found


@dataclass(frozen=True, slots=True)
class Operators:
    """A network's operators: one entry for each node of its partition graph, in its order."""

    graph: Graph
    nodes: tuple[NodeOperators, ...]

    def schedule(self) -> Iterator[Operator]:
        """Every operator in the order of a step: forward, backward with gradients, update."""
        for node in self.nodes:
            yield from node.forward
        for node in reversed(self.nodes):
            yield from node.backward
            yield from node.gradient
        for node in self.nodes:
            yield from node.update


def operators(network: Network) -> Operators:
    """The operators of one training step; every layer's are there exactly once."""
    step = _Step(network)
    return Operators(step.all.graph, tuple(map(step.node, range(len(step.all.graph)))))


class _Step:
    def __init__(self, network: Network) -> None:
        self.all = tensors(network)
        self.owner = owners(network, self.all.graph)
        self.own: list[list[Layer]] = [[] for _ in self.all.graph]
        for layer in network.layers:
            self.own[self.owner[layer.name][0]].append(layer)

    def node(self, index: int) -> NodeOperators:
        own, node = self.own[index], self.all.graph[index]
        weights = [x for x in own if x.weighted]
        channels = node.in_channels * node.out_channels / node.groups
        pairs = sum(x.weights for x in weights) / channels
        rest = sum(x.parameters - x.weights for x in own) / node.out_channels
        return NodeOperators(
            forward=tuple(op for x in own for op in self._forward(x)),
            backward=tuple(op for x in reversed(own) for op in self._backward(x)),
            gradient=tuple(op for x in weights for op in self._gradient(x)),
            update=tuple(self._update(index, pairs, rest)),
            pair_parameters=pairs,
            channel_parameters=rest,
        )

    def _forward(self, layer: Layer) -> Iterator[Operator]:
        if layer.kind == "batch_norm":
            yield self._operator(layer, Phase.FORWARD, "statistics", [self._input(layer)])
        elif layer.kind not in RIDES:
            reads = [self._input(layer, x) for x in layer.inputs]
            writes = [self._output(layer, layer.name)]
            yield self._operator(layer, Phase.FORWARD, "", reads, writes, MAP_BYTES)

    def _backward(self, layer: Layer) -> Iterator[Operator]:
        """What a root does backward, and before it the reductions of batch norms that ride on it.

        Nothing where no gradient is needed: nothing before has parameters.
        """
        if layer.kind in RIDES:
            if self.all.root[layer.name] == INPUT and layer.kind == "batch_norm":
                yield from self._reductions(layer)
            return
        if layer.weighted:
            yield from self._summed(layer)
        for rider in reversed(self.all.riders[layer.name]):
            if self.all.layers[rider].kind == "batch_norm":
                yield from self._reductions(self.all.layers[rider])
        if not self.all.trained.isdisjoint(layer.inputs):
            yield from self._input_gradient(layer)

    def _summed(self, layer: Layer) -> Iterator[Operator]:
        """A product reads its output's gradient several times: many readers' are summed first."""
        parts = self.all.gradients[layer.name]
        if len(parts) > 1:
            reads = [self._output(layer, x) for x in parts]
            whole = [self._output(layer, self._gradient_of(layer.name))]
            yield self._operator(layer, Phase.BACKWARD, "gradient sum", reads, whole)

    def _gradient_of(self, weighted: str) -> str:
        """The one tensor with the gradient of a weighted layer's output."""
        parts = self.all.gradients[weighted]
        return parts[0] if len(parts) == 1 else f"gradient of {weighted}"

    def _reductions(self, norm: Layer) -> Iterator[Operator]:
        """Batch norm backward, unless the join behind does it in passing."""
        root = self.all.root[norm.name]
        if any(root in self.all.normed.get(reader, ()) for reader in self.all.readers[root]):
            return
        weighted = root != INPUT and self.all.layers[root].weighted
        parts = (self._gradient_of(root),) if weighted else self.all.gradients[norm.name]
        reads = [*(self._output(norm, x) for x in parts), self._output(norm, root)]
        yield self._operator(norm, Phase.BACKWARD, "reductions", reads)

    def _input_gradient(self, layer: Layer) -> Iterator[Operator]:
        writes = [self._input_map(layer, gradient(layer.name))]
        reads = [self._output(layer, x) for x in self.all.gradients[layer.name]]
        own = [self._output(layer, layer.name)] if self.all.changed(layer.name) else []
        if layer.weighted:
            reads = [self._output(layer, self._gradient_of(layer.name)), *own]
        elif layer.kind in JOINS:
            if self.all.passes(layer.name):
                return
            reads += own + [self._output(layer, x) for x in self.all.normed[layer.name]]
        else:
            reads += [*own, self._input(layer)]
        yield self._operator(layer, Phase.BACKWARD, "", reads, writes, MAP_BYTES)

    def _gradient(self, layer: Layer) -> Iterator[Operator]:
        reads = [self._input(layer), self._output(layer, self._gradient_of(layer.name))]
        if self.all.changed(layer.name):
            reads.append(self._output(layer, layer.name))
        yield self._operator(layer, Phase.GRADIENT, "", reads, (), GRADIENT_BYTES)

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
        weight_bytes: int = 0,
    ) -> Operator:
        """An operator of a layer; ``weight_bytes`` is what it moves of each of its weights."""
        index, _ = self.owner[layer.name]
        kernel = layer.weights / (layer.input.channels * layer.output.channels)
        product = kernel * layer.output.area if weight_bytes else 0.0
        return Operator(
            f"{layer.name} {what or phase}",
            index,
            phase,
            tuple(reads),
            tuple(writes),
            macs=product,
            pair_bytes=kernel * weight_bytes,
            kernel=kernel,
        )

    def _input(self, layer: Layer, source: str | None = None) -> Map:
        return self._input_map(layer, self.all.root[source or layer.inputs[0]])

    def _input_map(self, layer: Layer, tensor: str) -> Map:
        of_input = layer.weighted or self.owner[layer.name][1]
        return self._map(layer, tensor, of_input, layer.input.channels, layer.input.area)

    def _output(self, layer: Layer, tensor: str) -> Map:
        of_input = self.owner[layer.name][1]
        return self._map(layer, tensor, of_input, layer.output.channels, layer.output.area)

    def _map(self, layer: Layer, tensor: str, of_input: bool, channels: int, area: int) -> Map:
        node = self.all.graph[self.owner[layer.name][0]]
        whole = node.in_channels if of_input else node.out_channels
        return Map(tensor, of_input, channels / whole, area)
