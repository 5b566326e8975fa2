"""Which tensors of a training step are in HBM, and which exist only while they are read.

Batch norm, ReLU and flatten are applied by whoever reads them: reading one
is reading its root, the tensor that was written. Backward, each layer writes
one gradient, that of its input; a join's is the same for all its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads import Graph, Layer, Network, partition_graph
from workloads.layers import INPUT, JOINS

RIDES = frozenset({"batch_norm", "relu", "flatten"})
"""Kinds that write nothing forward: they ride on their consumers' reads."""

Names = dict[str, tuple[str, ...]]
"""Layers' names by a layer's name."""


@dataclass(frozen=True, slots=True)
class Tensors:
    """A network's layers by name, and what each reads and writes in HBM.

    ``root`` maps a layer to the layer whose output holds its values; ``riders``
    a root to what rides on it; ``readers`` a layer to those that read it,
    riders looked through. ``trained`` are layers with parameters in or before
    them: only their gradients are needed. ``gradients`` are the tensors whose
    sum is the gradient of a layer's output (the last layer's is formed in
    place of its output); ``normed`` the roots that a join alone reads, through
    a batch norm, whose backward reductions it does in passing.
    """

    graph: Graph
    layers: dict[str, Layer]
    root: dict[str, str]
    riders: Names
    readers: Names
    trained: frozenset[str]
    normed: Names
    gradients: Names

    def changed(self, root: str) -> bool:
        """Whether something rides on a root that backward needs its values for."""
        return _changed(self.layers, self.riders[root])

    def passes(self, join: str) -> bool:
        """Whether a join's gradient is the one it receives, so that nothing is to be done."""
        return not self.normed[join] and _passes(self.gradients[join], self.changed(join))


def gradient(reader: str) -> str:
    """The name of the gradient of a layer's input."""
    return f"gradient of {reader}'s input"


def tensors(network: Network) -> Tensors:
    """The tensors of a network."""
    layers = {layer.name: layer for layer in network.layers}
    root = _roots(network)
    riders = {
        name: tuple(x for x in layers if root[x] == name and x != name) for name in {*root.values()}
    }
    readers = _readers(network)
    normed = {
        join.name: _normed(join, layers, root, readers)
        for join in network.layers
        if join.kind in JOINS
    }
    return Tensors(
        graph=partition_graph(network),
        layers=layers,
        root=root,
        riders=riders,
        readers=readers,
        trained=_trained(network),
        normed=normed,
        gradients=_gradients(network, root, riders, readers, normed),
    )


def _roots(network: Network) -> dict[str, str]:
    root = {INPUT: INPUT}
    for layer in network.layers:
        root[layer.name] = root[layer.inputs[0]] if layer.kind in RIDES else layer.name
    return root


def _readers(network: Network) -> Names:
    readers: dict[str, list[str]] = {
        name: [] for name in (INPUT, *(layer.name for layer in network.layers))
    }
    for layer in reversed(network.layers):
        for source in dict.fromkeys(layer.inputs):
            readers[source] += readers[layer.name] if layer.kind in RIDES else [layer.name]
    return {name: tuple(dict.fromkeys(reversed(found))) for name, found in readers.items()}


def _trained(network: Network) -> frozenset[str]:
    trained: set[str] = set()
    for layer in network.layers:
        if layer.parameters or not trained.isdisjoint(layer.inputs):
            trained.add(layer.name)
    return frozenset(trained)


def _normed(
    join: Layer, layers: dict[str, Layer], root: dict[str, str], readers: Names
) -> tuple[str, ...]:
    def through_norm(name: str) -> bool:
        while name != root[name]:
            if layers[name].kind == "batch_norm":
                return True
            name = layers[name].inputs[0]
        return False

    roots = [root[name] for name in join.inputs if through_norm(name)]
    return tuple(name for name in roots if readers[name] == (join.name,))


def _gradients(
    network: Network, root: dict[str, str], riders: Names, readers: Names, normed: Names
) -> Names:
    layers = {layer.name: layer for layer in network.layers}
    gradients: Names = {}
    written: Names = {}
    for name in (*(layer.name for layer in reversed(network.layers)), INPUT):
        parts = dict.fromkeys(part for reader in readers[name] for part in written[reader])
        gradients[name] = tuple(parts) or (root[name],)
        through = (
            name in normed
            and not normed[name]
            and _passes(gradients[name], _changed(layers, riders[name]))
        )
        written[name] = gradients[name] if through else (gradient(name),)
    return gradients


def _changed(layers: dict[str, Layer], riders: tuple[str, ...]) -> bool:
    return any(layers[name].kind != "flatten" for name in riders)


def _passes(gradients: tuple[str, ...], changed: bool) -> bool:
    return len(gradients) == 1 and not changed


def owners(network: Network, graph: Graph) -> dict[str, tuple[int, bool]]:
    """The node each layer belongs to, and whether it lies in front of it.

    Operators behind a node are its own; those on the network's input belong
    to the first node, which has nothing else to read.
    """
    index = {node.name: i for i, node in enumerate(graph)}
    owner: dict[str, tuple[int, bool]] = {}
    ahead = {INPUT}
    for layer in network.layers:
        if layer.name in index:
            owner[layer.name] = index[layer.name], False
        elif layer.inputs[0] in ahead:
            ahead.add(layer.name)
        else:
            owner[layer.name] = owner[layer.inputs[0]]
    return owner | dict.fromkeys(ahead - {INPUT}, (0, True))
