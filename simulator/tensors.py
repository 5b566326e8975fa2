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


@dataclass(frozen=True, slots=True)
class Tensors:
    """A network's layers by name, what each reads in HBM, and who owns it.

    ``root`` maps a layer to the layer whose output holds its values; ``owner``
    to its node of the partition graph and whether it lies in front of it
    (on the network's input); ``readers`` to the layers that read it, riders
    looked through.
    """

    graph: Graph
    layers: dict[str, Layer]
    root: dict[str, str]
    owner: dict[str, tuple[int, bool]]
    readers: dict[str, tuple[str, ...]]

    def riders(self, root: str) -> list[Layer]:
        """What rides on reads of a root, in the network's order."""
        return [y for x, y in self.layers.items() if self.root[x] == root and x != root]

    def changed(self, root: str) -> bool:
        """Whether something rides on a root that backward needs its values for."""
        return any(layer.kind != "flatten" for layer in self.riders(root))

    def trained(self, root: str) -> bool:
        """Whether anything up to this root has parameters: its gradient is then needed."""
        if any(layer.parameters for layer in self.riders(root)):
            return True
        if root == INPUT:
            return False
        layer = self.layers[root]
        return layer.parameters > 0 or any(self.trained(self.root[x]) for x in layer.inputs)

    def normed(self, join: Layer) -> list[str]:
        """Roots read through a batch norm by this join alone: it reduces for them, backward."""
        through = [x for x in join.inputs if self._normed(x)]
        return [self.root[x] for x in through if self.readers[self.root[x]] == (join.name,)]

    def _normed(self, name: str) -> bool:
        while name != self.root[name]:
            if self.layers[name].kind == "batch_norm":
                return True
            name = self.layers[name].inputs[0]
        return False

    def passes(self, join: Layer) -> bool:
        """Whether a join's gradient is the one it receives, so that nothing is to be done."""
        alone = len(self.gradients(join.name)) == 1
        return alone and not self.changed(join.name) and not self.normed(join)

    def gradients(self, name: str) -> tuple[str, ...]:
        """Tensors whose sum is the gradient of a layer's output.

        The last layer's is formed in place of its output.
        """
        if not self.readers[name]:
            return (self.root[name],)
        return tuple(dict.fromkeys(x for y in self.readers[name] for x in self._written(y)))

    def _written(self, reader: str) -> tuple[str, ...]:
        layer = self.layers[reader]
        if layer.kind in JOINS and self.passes(layer):
            return self.gradients(reader)
        return (gradient(reader),)


def gradient(reader: str) -> str:
    """The name of the gradient of a layer's input."""
    return f"gradient of {reader}'s input"


def tensors(network: Network) -> Tensors:
    """The tensors of a network."""
    graph = partition_graph(network)
    root, readers = {INPUT: INPUT}, dict[str, list[str]]({INPUT: []})
    for layer in network.layers:
        rides = layer.kind in RIDES
        root[layer.name] = root[layer.inputs[0]] if rides else layer.name
        readers[layer.name] = []
    for layer in reversed(network.layers):
        mine = readers[layer.name] if layer.kind in RIDES else [layer.name]
        for source in dict.fromkeys(layer.inputs):
            readers[source] += mine
    layers = {layer.name: layer for layer in network.layers}
    found = {name: tuple(dict.fromkeys(reversed(names))) for name, names in readers.items()}
    return Tensors(graph, layers, root, _owners(network, graph), found)


def _owners(network: Network, graph: Graph) -> dict[str, tuple[int, bool]]:
    """Operators behind a node are its; those on the network's input, their first reader's."""
    index = {node.name: i for i, node in enumerate(graph)}
    owner: dict[str, tuple[int, bool]] = {}
    for layer in network.layers:
        if layer.name in index:
            owner[layer.name] = index[layer.name], False
        elif layer.inputs[0] in owner:
            owner[layer.name] = owner[layer.inputs[0]]
    ahead = {INPUT}
    for layer in network.layers:
        if layer.name not in owner and layer.inputs[0] in ahead:
            ahead.add(layer.name)
    first = next(
        (index[x.name] for x in network.layers if x.name in index and ahead & {*x.inputs}), 0
    )
    return owner | dict.fromkeys(ahead - {INPUT}, (first, True))
