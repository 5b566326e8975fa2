"""Networks cut into stages: what each stage is by itself, and which tensors cross the cuts.

A stage has consecutive nodes of the partition graph. To whoever plans or
prices it, it is a network: what other stages send enters through layers whose
operator is RECEIVED, and what they read leaves through such that are SENT. Both
cost nothing; they name the tensors, and whose gradients are needed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from workloads.cache import once_for_each
from workloads.graph import Graph, owners, partition_graph
from workloads.layer_types import Layer
from workloads.layer_types.other import OTHER, RECEIVED, SENT
from workloads.network import Network, unnamed
from workloads.tensors import INPUT, NetworkError, Tensor

MOST_CUTS = 32
"""Cuts of a network that are kept."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """A tensor that node ``producer`` makes in one stage and another one reads.

    ``consumers`` are the nodes there that read it, by their numbers in the whole
    graph, and ``tensor`` is one sample's.
    """

    producer: int
    source: int
    target: int
    consumers: tuple[int, ...]
    tensor: Tensor


@dataclass(frozen=True, slots=True)
class Tie:
    """A weight that stages both use: ``user`` is the node in stage ``target`` that shares it."""

    owner: int
    user: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Cut:
    """A network in stages: a network for each, what crosses, and weights that are cut apart."""

    graph: Graph
    firsts: tuple[int, ...]
    networks: tuple[Network, ...]
    crossings: tuple[Crossing, ...]
    ties: tuple[Tie, ...]

    def __hash__(self) -> int:
        """By its stages, which are asked for often."""
        return hash((self.firsts, self.networks))


def cut(network: Network, firsts: Sequence[int]) -> Cut:
    """Cut a network in front of the nodes ``firsts`` of its partition graph, the first of them 0.

    Raises NetworkError where there is no such cut, or a stage would have no weights.
    """
    graph = partition_graph(network)
    firsts = tuple(firsts)
    if firsts[:1] != (0,) or list(firsts) != sorted(set(firsts)) or firsts[-1] >= len(graph):
        raise NetworkError(
            f"network {network.name!r}: stages begin at layers {list(firsts)}; that must be 0 and "
            f"then ascending numbers below {len(graph)}"
        )
    if len(firsts) == 1:
        return Cut(graph, firsts, (network,), (), ())
    return _cut(network, firsts)


@lru_cache(maxsize=MOST_CUTS)
def _cut(network: Network, firsts: tuple[int, ...]) -> Cut:
    graph = partition_graph(network)
    cutter = _Cutter(network, graph, firsts)
    networks = cutter.networks()
    return Cut(graph, firsts, networks, cutter.crossings(), _ties(graph, firsts))


@once_for_each
def first_alike(cut: Cut) -> tuple[int, ...]:
    """Of each stage the first one that is the same without names: it itself, or an earlier one."""
    seen: dict[Hashable, int] = {}
    return tuple(seen.setdefault(unnamed(one), k) for k, one in enumerate(cut.networks))


def _stage(firsts: Sequence[int], node: int) -> int:
    return bisect_right(firsts, node) - 1


def _ties(graph: Graph, firsts: Sequence[int]) -> tuple[Tie, ...]:
    """One for each stage that uses a weight of another."""
    found: dict[tuple[int, int], Tie] = {}
    for v, node in enumerate(graph):
        if node.tied is not None:
            source, target = _stage(firsts, node.tied), _stage(firsts, v)
            if source != target:
                found.setdefault((node.tied, target), Tie(node.tied, v, source, target))
    return tuple(found.values())


@dataclass(slots=True)
class _Part:
    """A stage in the making."""

    received: dict[str, Layer] = field(default_factory=dict)
    layers: list[Layer] = field(default_factory=list)
    weights: dict[str, str] = field(default_factory=dict)
    """The layer here that has the weights of one in an earlier stage."""


class _Cutter:
    def __init__(self, network: Network, graph: Graph, firsts: Sequence[int]) -> None:
        self._network = network
        self._graph = graph
        self._firsts = firsts
        self._owner = owners(network, graph)
        self._layers = {layer.name: layer for layer in network.layers}
        self._stages = self._placed()
        self._parts = [_Part() for _ in firsts]
        self._crossed: dict[tuple[int, int, Tensor, str], list[int]] = {}
        """Who reads what of another stage: by producer, stage, shape, and which slice of it.

        Noted while ``networks`` are made.
        """

    def crossings(self) -> tuple[Crossing, ...]:
        """By producer, then stage; a tensor that several nodes of a stage read is sent once."""
        return tuple(
            Crossing(
                u,
                _stage(self._firsts, u),
                target,
                tuple(dict.fromkeys(sorted(readers))),
                tensor,
            )
            for (u, target, tensor, _), readers in sorted(
                self._crossed.items(), key=lambda item: item[0][:2]
            )
        )

    def _placed(self) -> dict[str, int]:
        """The stage of each layer: its node's, or of a norm behind a cut its readers'.

        What rides on a node is made where it is read, if what it is made of is sent there anyway:
        the norm that a block begins with, beside the stream that its sum reads.
        """
        readers: dict[str, list[str]] = {}
        for layer in self._network.layers:
            for name in layer.inputs:
                readers.setdefault(name, []).append(layer.name)
        nodes = {node.name for node in self._graph}
        placed = {name: _stage(self._firsts, owner) for name, (owner, _) in self._owner.items()}
        wanted = dict(placed)
        for layer in reversed(self._network.layers):
            stages = {wanted[name] for name in readers.get(layer.name, ())}
            rides = layer.name not in nodes and layer.operands == (layer.output,)
            if rides and layer.operator != "slice" and not self._owner[layer.name][1]:
                wanted[layer.name] = stages.pop() if len(stages) == 1 else wanted[layer.name]
        for layer in self._network.layers:
            here, source = wanted[layer.name], layer.inputs[0]
            others = (placed[name] for name in readers[source] if name != layer.name)
            if here != placed[layer.name] and (placed[source] == here or here in others):
                placed[layer.name] = here
        return placed

    def _slice(self, name: str) -> str:
        """The layer that takes a slice of what its node makes, as queries of one product; or "".

        What else rides on a node, as a norm, a reader can make of what is sent anyway.
        """
        layer = self._layers[name]
        while layer.operator != "slice":
            source = layer.inputs[0]
            if source == INPUT or self._owner[source][0] != self._owner[name][0]:
                return ""
            layer = self._layers[source]
        return layer.name

    def networks(self) -> tuple[Network, ...]:
        for layer in self._network.layers:
            here = self._stages[layer.name]
            part = self._parts[here]
            reader = None if self._moved(layer.name) else self._owner[layer.name][0]
            read = zip(layer.inputs, layer.operands, strict=True)
            inputs = tuple(self._read(name, here, reader, shape) for name, shape in read)
            part.layers.append(replace(layer, inputs=inputs, shared=self._shared(layer, here)))
        return tuple(map(self._network_of, range(len(self._parts))))

    def _moved(self, name: str) -> bool:
        return self._stages[name] != _stage(self._firsts, self._owner[name][0])

    def _read(self, name: str, here: int, reader: int | None, shape: Tensor) -> str:
        """The name of what stage ``here`` reads; what comes from outside, for a node, is noted.

        What depends on the network's input alone is there in every stage.
        """
        source = self._stages[name]
        if source == here and name != INPUT:
            if self._moved(name):
                self._read(self._layers[name].inputs[0], here, reader, shape)
            return name
        if self._owner[name][1]:
            return name if here == 0 else INPUT
        crossed = self._owner[name][0], here, shape, self._slice(name)
        if reader is not None:
            self._crossed.setdefault(crossed, []).append(reader)
        if name not in self._parts[here].received:
            made = self._layers[name].output
            self._parts[here].received[name] = _pass(name, INPUT, made, RECEIVED)
            leaves = f"{name} {SENT}"
            there = self._parts[source].layers
            if all(layer.name != leaves for layer in there):
                there.append(_pass(leaves, name, made, SENT))
        return name

    def _shared(self, layer: Layer, here: int) -> str:
        """Whose weights a layer shares: a copy's, where the owner is in another stage."""
        if not layer.shared or self._stages[layer.shared] == here:
            return layer.shared
        owner = self._parts[here].weights.setdefault(layer.shared, layer.name)
        return "" if owner == layer.name else owner

    def _network_of(self, stage: int) -> Network:
        part = self._parts[stage]
        layers = (*part.received.values(), *part.layers)
        first = next(iter(part.received.values()), None)
        name = f"{self._network.name}, stage {stage}"
        if not any(layer.weighted for layer in layers):
            behind = (*self._firsts, len(self._graph))
            alone = self._graph[behind[stage]].name
            raise NetworkError(
                f"network {self._network.name!r}: stage {stage} (from {alone!r} on) would have no "
                "layer with weights; cut elsewhere, or take fewer stages"
            )
        return Network(
            name, self._network.input if first is None or stage == 0 else first.output, layers
        )


def _pass(name: str, source: str, shape: Tensor, operator: str) -> Layer:
    return Layer(name, OTHER, (source,), shape, shape, operator=operator)
