"""Which tensors of a training step are in HBM, and which exist only while they are read.

Batch norm, element-wise operators of one input and views are fused: their output is not written.
Who reads it reads its root, the tensor that it was computed from. Backward, each layer writes a
gradient for each of its inputs; an ``add``'s is the same for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads import RECEIVED, Graph, Layer, Network, Tensor, partition_graph
from workloads.tensors import INPUT

Names = dict[str, tuple[str, ...]]
"""Layers' or tensors' names by a layer's name."""
Use = tuple[str, int]
"""A layer, and which of its inputs."""
Readers = dict[str, tuple[Use, ...]]


@dataclass(frozen=True, slots=True)
class Tensors:
    """A network's layers by name, and what each reads and writes in HBM.

    ``root`` maps a layer to the layer whose output holds its values; ``fused_readers``
    a root to what is fused to it; ``readers`` a layer to those that read it,
    looking through fused ones. ``trained`` are layers with parameters in or before
    them (what another stage sends is behind some): only their gradients are
    needed. ``gradients`` are the tensors whose sum is the gradient of a layer's
    output (the last layer's is formed in place of its output), ``written``
    those a layer writes, one for each input, and ``shapes`` has the shape of
    each; ``normed`` the roots that a join alone reads, through a batch norm,
    whose backward reductions it does in passing.
    """

    graph: Graph
    layers: dict[str, Layer]
    root: dict[str, str]
    fused_readers: Names
    readers: Readers
    trained: frozenset[str]
    normed: Names
    gradients: Names
    written: Names
    shapes: dict[str, Tensor]

    def changed(self, root: str) -> bool:
        """Whether something rides on a root that backward needs its values for."""
        return any(
            layer.type.needs_values(layer)
            for layer in map(self.layers.__getitem__, self.fused_readers[root])
        )

    def whole(self, name: str) -> bool:
        """Whether one tensor is the whole gradient of a layer's output."""
        parts = self.gradients[name]
        return len(parts) == 1 and (
            self.shapes[parts[0]].elements >= self.layers[name].output.elements
        )

    def passes(self, join: str) -> bool:
        """Whether a join's gradient is the one it receives, so that nothing is to be done."""
        alike = self.layers[join].type.sums
        return alike and not self.normed[join] and self.whole(join) and not self.changed(join)


def gradient(reader: Layer, place: int = 0) -> str:
    """The name of the gradient of one of a layer's inputs."""
    number = "" if reader.type.sums or len(reader.inputs) == 1 else f" {place + 1}"
    return f"gradient of {reader.name}'s input{number}"


def tensors(network: Network) -> Tensors:
    """The tensors of a network."""
    layers = {layer.name: layer for layer in network.layers}
    root = _roots(network)
    held: dict[str, list[str]] = {name: [] for name in root.values()}
    for name in layers:
        if root[name] != name:
            held[root[name]].append(name)
    readers = _readers(network)
    found = Tensors(
        graph=partition_graph(network),
        layers=layers,
        root=root,
        fused_readers={name: tuple(riding) for name, riding in held.items()},
        readers=readers,
        trained=_trained(network),
        normed={
            join.name: _normed(join, layers, root, readers)
            for join in network.layers
            if join.type.join
        },
        gradients={},
        written={},
        shapes={INPUT: network.input},
    )
    _follow_gradients(found)
    return found


def _roots(network: Network) -> dict[str, str]:
    root = {INPUT: INPUT}
    for layer in network.layers:
        root[layer.name] = root[layer.inputs[0]] if layer.type.in_passing(layer) else layer.name
    return root


def _readers(network: Network) -> Readers:
    readers: dict[str, list[Use]] = {
        name: [] for name in (INPUT, *(layer.name for layer in network.layers))
    }
    for layer in reversed(network.layers):
        for place, source in reversed(list(enumerate(layer.inputs))):
            readers[source] += (
                readers[layer.name] if layer.type.in_passing(layer) else [(layer.name, place)]
            )
    return {name: tuple(dict.fromkeys(reversed(found))) for name, found in readers.items()}


def _trained(network: Network) -> frozenset[str]:
    trained: set[str] = set()
    for layer in network.layers:
        received = layer.operator == RECEIVED
        if layer.parameters or layer.shared or received or not trained.isdisjoint(layer.inputs):
            trained.add(layer.name)
    return frozenset(trained)


def _normed(
    join: Layer, layers: dict[str, Layer], root: dict[str, str], readers: Readers
) -> tuple[str, ...]:
    def through_norm(name: str) -> bool:
        while name != root[name]:
            if layers[name].type.statistics:
                return True
            name = layers[name].inputs[0]
        return False

    roots = [root[name] for name in join.inputs if through_norm(name)]
    return tuple(name for name in roots if {reader for reader, _ in readers[name]} == {join.name})


def _follow_gradients(found: Tensors) -> None:
    """Fill in which gradients each layer receives and writes, last layer first; ids have none."""
    for layer in found.layers.values():
        found.shapes[layer.name] = layer.output
        for place, shape in enumerate(layer.operands):
            found.shapes[gradient(layer, place)] = shape
    for name, layer in reversed(found.layers.items()):
        readers = [use for use in found.readers[name] if not found.layers[use[0]].type.gathers]
        parts = dict.fromkeys(found.written[reader][place] for reader, place in readers)
        found.gradients[name] = tuple(parts) or (found.root[name],)
        own = tuple(gradient(layer, place) for place in range(len(layer.inputs)))
        through = name in found.normed and found.passes(name)
        found.written[name] = found.gradients[name] * len(own) if through else own
