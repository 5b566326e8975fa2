"""Networks: what is trained, with the exact shape of every tensor.

A network is a directed acyclic graph of layers. Products (weighted layers and
``matmul``) are what planners partition; the other types are kept with their
shapes because they move memory and because joins tie paths together. Shapes
are those of one sample; the batch size belongs to the training step.

A sequence is a feature map one wide: ``channels`` are the features of a
position and ``height`` counts positions, so a linear layer on a sequence is a
1x1 convolution. Token ids are a map of one channel.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from operator import attrgetter

from workloads.layer_types import TYPES, Layer
from workloads.layer_types.base import is_count
from workloads.layer_types.linear import block_problem
from workloads.layer_types.other import RECEIVED
from workloads.tensors import INPUT, NetworkError, Tensor, sides

_LARGEST = 1 << 62
NUMBER = re.compile(r"(\d+)(?=[./_].)")
"""What counts a block: a number with more of the name behind it, as in layer12.norm1."""
_NAMES = ("name", "inputs", "shared")
_OTHERS = attrgetter(*(field.name for field in fields(Layer) if field.name not in _NAMES))


@dataclass(frozen=True, slots=True)
class Network:
    """Layers in topological order; ``inputs`` name earlier layers or ``"input"``.

    A network of several inputs (tokens and a mask, source and target) calls
    all of them ``"input"``: each layer says by its own shapes what it reads,
    and ``input`` is the main one's shape. On wires the attention of a ``fused`` one is fused where
    neither software nor user says otherwise. ``sizes`` are the description it was made of, if any;
    ``padding`` is how many multiply-accumulates of a sample only fill up what experts take.
    Raises NetworkError when a name repeats, an input is unknown or comes later, a kind is unknown,
    or an arity or shape is wrong.
    """

    name: str
    input: Tensor
    layers: tuple[Layer, ...]
    description: str = ""
    notes: tuple[str, ...] = ()
    fused: bool = False
    sizes: Hashable = field(default=None, compare=False)
    padding: int = 0

    def __post_init__(self) -> None:
        seen: dict[str, Layer | None] = {INPUT: None}
        for layer in self.layers:
            if problem := _problem(layer, seen):
                raise NetworkError(f"network {self.name!r}, layer {layer.name!r}: {problem}")
            seen[layer.name] = layer
        if not any(layer.weighted for layer in self.layers):
            raise NetworkError(f"network {self.name!r}: no weighted layer (conv, fc or the like)")

    def __hash__(self) -> int:
        """By little of it: networks are asked for often, and have thousands of layers."""
        return hash((self.name, self.input, len(self.layers)))

    @property
    def weights(self) -> int:
        """Elements of all weight tensors, shared ones once, without biases and norms."""
        return sum(layer.weights for layer in self.layers if not layer.shared)

    @property
    def parameters(self) -> int:
        """All trained elements: weights, biases, norms and tables."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def tokens(self) -> int | None:
        """Tokens of a sample, where its main input is a sequence that an embedding looks up.

        One number alone is a token of a language model, of which the sizes are known.
        """
        read = (
            layer.type.gathers and layer.inputs == (INPUT,) and layer.input == self.input
            for layer in self.layers
        )
        several = self.input.height > 1 or self.sizes is not None
        one_wide = self.input.channels == self.input.width == 1
        return self.input.height if one_wide and several and any(read) else None

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one sample's forward pass."""
        return sum(layer.macs for layer in self.layers)

    @property
    def model_macs(self) -> int:
        """The same without padding: what model FLOPs count."""
        return self.macs - self.padding


def blocks(network: Network) -> tuple[tuple[str, ...], ...]:
    """The names of the layers of each block that a network repeats, in its order.

    Blocks are called alike but for a number. Those of the name with most layers are blocks, and
    those of other names that have several products each: an encoder's beside a decoder's.
    Where all have a second number, as layer3.4.conv1 of a ResNet, and one tensor alone enters each,
    blocks are those within. What a stage receives is no layer of one.
    """
    found: dict[str, dict[str, list[Layer]]] = {}
    for layer in network.layers:
        if layer.operator != RECEIVED and (number := NUMBER.search(layer.name)):
            stem = layer.name[: number.start()]
            found.setdefault(stem, {}).setdefault(number[0], []).append(layer)
    if not found:
        return ()
    most = max(found, key=lambda stem: sum(map(len, found[stem].values())))
    stems = [stem for stem, groups in found.items() if stem == most or _repeats(groups.values())]
    blocks: list[tuple[str, ...]] = []
    for stem in stems:
        coarse = [tuple(layer.name for layer in group) for group in found[stem].values()]
        blocks += _within(network, coarse) or coarse
    place = {layer.name: i for i, layer in enumerate(network.layers)}
    return tuple(sorted(blocks, key=lambda names: place[names[0]]))


def _repeats(groups: Iterable[Sequence[Layer]]) -> bool:
    """Whether groups are blocks: several, each of several products."""
    products = [sum(layer.weighted for layer in group) for group in groups]
    return len(products) > 1 and min(products) > 1


def numbering(network: Network) -> tuple[tuple[int, ...], ...]:
    """What names say of blocks: the first layer that shares a layer's name up to its numbers.

    Four for each layer: in front of its first number and behind it, and the same of the second.
    """
    seen: dict[str, int] = {}
    found = []
    for i, layer in enumerate(network.layers):
        numbers = [*NUMBER.finditer(layer.name)][:2]
        ends = (end for number in numbers for end in (number.start(), number.end()))
        found.append(tuple(seen.setdefault(layer.name[:end], i) for end in ends))
    return tuple(found)


def _within(network: Network, groups: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """The blocks by the second number of names; none where not all are entered by one tensor.

    Nor are there any where the groups themselves are alike, as T5's of two sublayers each.
    """
    if len({tuple(NUMBER.sub("", name, count=1) for name in group) for group in groups}) == 1:
        return ()
    found: dict[str, list[str]] = {}
    for name in (name for group in groups for name in group):
        numbers = [*NUMBER.finditer(name)][:2]
        if len(numbers) < 2:
            return ()
        found.setdefault(name[: numbers[1].end()], []).append(name)
    place = {layer.name: i for i, layer in enumerate(network.layers)}
    last = {name: i for i, layer in enumerate(network.layers) for name in layer.inputs}
    firsts = {place[names[0]]: names for names in found.values()}
    alive = set[str]()
    for i, layer in enumerate(network.layers):
        alive = {name for name in alive if last.get(name, -1) >= i}
        if i in firsts:
            together = place[firsts[i][-1]] - i == len(firsts[i]) - 1
            if len(alive | {*layer.inputs}) != 1 or not together:
                return ()
        alive.add(layer.name)
    return tuple(map(tuple, found.values()))


def unnamed(network: Network) -> Hashable:
    """A network without names: its layers call each other by number."""
    number = {INPUT: -1, "": -2} | {layer.name: i for i, layer in enumerate(network.layers)}
    layers = [
        (_OTHERS(layer), tuple(number[name] for name in layer.inputs), number[layer.shared])
        for layer in network.layers
    ]
    return network.input, tuple(layers), numbering(network)


def _problem(layer: Layer, seen: Mapping[str, Layer | None]) -> str | None:
    """What is wrong with a layer behind those seen so far."""
    if not isinstance(layer.name, str):
        return "a name must be text"
    if layer.name in seen:
        return "the name is used twice"
    if layer.kind not in TYPES:
        return f"unknown kind {layer.kind!r}; one of {sorted(TYPES)}"
    for source in layer.inputs:
        if source not in seen:
            return f"input {source!r} is not an earlier layer"
    if problem := layer.type.arity_problem(layer):
        return problem
    if layer.others and len(layer.others) != len(layer.inputs) - 1:
        return f"{len(layer.inputs)} inputs, but shapes for {len(layer.others) + 1}"
    return _shape_problem(layer) or _shared_problem(layer, seen)


def _shape_problem(layer: Layer) -> str | None:
    tensors = (*layer.operands, layer.output)
    windows = [sides(v) for v in (layer.kernel, layer.stride, layer.dilation)]
    measures = [measure for pair in windows for measure in pair]
    lengths = [length for t in tensors for length in (t.channels, t.height, t.width)]
    own = [number for _, number in layer.sizes]
    paddings = (*sides(layer.padding), layer.extra, layer.vocabulary)
    counts = (*lengths, *measures, *paddings, *own, layer.groups, layer.directions, layer.block)
    if not all(isinstance(n, Integral) for n in counts):
        return "shapes, kernel, stride and padding, and all other sizes must be whole numbers"
    if min(*lengths, *measures, *own, layer.groups) < 1:
        return "shapes, kernel and stride must be positive"
    if min(paddings) < 0:
        return "shapes, kernel and stride must be positive"
    if layer.directions not in (1, 2) or layer.output.channels % layer.directions:
        return "a recurrent cell has one direction, or two that halve its output"
    if layer.input.channels % layer.groups or layer.output.channels % layer.groups:
        return f"{layer.groups} groups do not divide its {layer.input} to {layer.output}"
    if layer.block != 1 and (problem := block_problem(layer)):
        return problem
    if problem := layer.type.problem(layer):
        return problem
    answers = {word: getattr(layer, word) for word in ("weights", "macs", "parameters")}
    for word, answer in answers.items():
        if not is_count(answer):
            return f"its type {layer.kind} says {answer!r} {word}: a whole number, not negative"
    sizes = (*(t.elements for t in tensors), *measures, *answers.values())
    return (
        f"a size or count is absurdly large, over {_LARGEST:.2g}" if max(sizes) > _LARGEST else None
    )


def _shared_problem(layer: Layer, seen: Mapping[str, Layer | None]) -> str | None:
    if not layer.shared:
        return None
    owner = seen.get(layer.shared)
    if owner is None or owner.shared or not layer.weighted or owner.weights != layer.weights:
        return f"it cannot share the weights of {layer.shared!r}"
    return None
