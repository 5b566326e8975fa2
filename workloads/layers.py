"""Layers and networks: what is trained, with the exact shape of every tensor.

A network is a directed acyclic graph of layers. Products (weighted layers and
``matmul``) are what planners partition; the other kinds are kept with their
shapes because they move memory and because joins tie paths together. Shapes
are those of one sample; the batch size belongs to the training step.

A sequence is a feature map one wide: ``channels`` are the features of a
position and ``height`` counts positions, so a linear layer on a sequence is a
1x1 convolution. Token ids are a map of one channel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.circulant import macs
from workloads.kinds import (
    ATTENTION,
    CELLS,
    COMPUTED,
    INPUT,
    JOINS,
    KINDS,
    OTHER,
    WEIGHTED,
    NetworkError,
    Sides,
    Tensor,
    sides,
)

_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator: its kind, where its inputs come from and its exact shapes.

    ``input`` is the shape of its first input, ``others`` those of the further
    ones where they are unlike. ``kernel`` is the window of ``conv`` and the
    pools, else 1. ``groups`` cuts channels into independent products: a
    convolution's groups, or the heads of a ``matmul``. A ``matmul`` computes,
    in each group, positions x k times k x n without weights; its second
    operand may have fewer groups, each serving several of the first's.
    ``attention`` reads queries, keys and values, and is both products at once.

    ``vocabulary`` is the number of an embedding's rows, ``directions`` of a
    recurrent cell 1 or 2. ``extra`` counts trained elements that are no
    product's matrix (a norm's scale and shift, a position table). ``shared``
    names an earlier layer whose weights this one uses (tied embeddings). With a
    ``block`` above 1 the matrix is of circulant blocks of that side. In a ``causal``
    softmax, or attention, a position sees itself and those before it. What is ``apart`` is
    an operator of its own, although it could be done in passing (docs/roofline.md).
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    input: Tensor
    output: Tensor
    kernel: Sides = 1
    stride: Sides = 1
    padding: Sides = 0
    bias: bool = False
    groups: int = 1
    dilation: Sides = 1
    transposed: bool = False
    others: tuple[Tensor, ...] = ()
    operator: str = ""
    vocabulary: int = 0
    directions: int = 1
    extra: int = 0
    shared: str = ""
    block: int = 1
    causal: bool = False
    apart: bool = False

    def __post_init__(self) -> None:
        for field in ("kernel", "stride", "padding", "dilation"):
            value = getattr(self, field)
            if isinstance(value, tuple) and value[0] == value[1]:
                object.__setattr__(self, field, value[0])
        if self.others and all(shape == self.input for shape in self.others):
            object.__setattr__(self, "others", ())

    @property
    def weighted(self) -> bool:
        """Whether the layer has a weight matrix that planners partition."""
        return self.kind in WEIGHTED

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """The shape of each input, in the order of ``inputs``."""
        return (self.input, *(self.others or (self.input,) * (len(self.inputs) - 1)))

    @property
    def kernel_area(self) -> int:
        """Elements of the window."""
        height, width = sides(self.kernel)
        return height * width

    @property
    def weights(self) -> int:
        """A(W): elements of the weight tensor it uses, without biases and norms."""
        into, out = self.input.channels, self.output.channels
        if self.kind == "embedding":
            return self.vocabulary * out
        if self.kind in CELLS:
            return CELLS[self.kind] * out * (into + out // self.directions) // self.block
        if not self.weighted:
            return 0
        return into * out * self.kernel_area // self.groups // self.block

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one sample's forward product (a gather has none).

        Of attention those of all pairs of positions, ``causal`` or not.
        """
        if self.kind == "embedding":
            return 0
        if self.kind == "matmul":
            return self.input.elements * self.output.channels // self.groups
        if self.kind == ATTENTION:
            both = self.input.channels + self.output.channels
            return self.input.area * self.operands[1].area * both
        if self.block > 1:
            return sum(self.spectral_macs)
        return self.weights * (self.input if self.transposed else self.output).area

    @property
    def spectral_macs(self) -> tuple[int, int]:
        """Of ``macs`` with block-circulant weights, transforms and products of spectra."""
        into, out, many = self.input.channels, self.output.channels, self.groups * self.directions
        if self.kind in CELLS:
            into, out = many * into + out, out * CELLS[self.kind]
        return macs(
            self.block, many, into, out, self.input.area, self.output.area, self.kernel_area
        )

    @property
    def parameters(self) -> int:
        """All trained elements the layer brings: weights unless shared, biases, norms, tables."""
        brought = self.extra if self.shared else self.weights + self.extra
        if self.kind == "batch_norm":
            brought += 2 * self.output.channels
        # a recurrent cell has a bias for the input product and one for the recurrent
        biases = 2 * CELLS[self.kind] if self.kind in CELLS else 1
        return brought + (biases * self.output.channels if self.bias else 0)


@dataclass(frozen=True, slots=True)
class Network:
    """Layers in topological order; ``inputs`` name earlier layers or ``"input"``.

    A network of several inputs (tokens and a mask, source and target) calls
    all of them ``"input"``: each layer says by its own shapes what it reads,
    and ``input`` is the main one's shape. Raises NetworkError when a name
    repeats, an input is unknown or comes later, a kind is unknown, or an arity
    or shape is wrong.
    """

    name: str
    input: Tensor
    layers: tuple[Layer, ...]
    description: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen: dict[str, Layer | None] = {INPUT: None}
        for layer in self.layers:
            if problem := _problem(layer, seen):
                raise NetworkError(f"network {self.name!r}, layer {layer.name!r}: {problem}")
            seen[layer.name] = layer
        if not any(layer.weighted for layer in self.layers):
            raise NetworkError(f"network {self.name!r}: no weighted layer (conv, fc or the like)")

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
        """Tokens of a sample, where its main input is a sequence that an embedding looks up."""
        read = (
            layer.kind == "embedding" and layer.inputs == (INPUT,) and layer.input == self.input
            for layer in self.layers
        )
        one_wide = self.input.channels == self.input.width == 1
        return self.input.height if one_wide and self.input.height > 1 and any(read) else None

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one sample's forward pass."""
        return sum(layer.macs for layer in self.layers)


def _problem(layer: Layer, seen: Mapping[str, Layer | None]) -> str | None:
    """What is wrong with a layer behind those seen so far."""
    if layer.name in seen:
        return "the name is used twice"
    if layer.kind not in KINDS:
        return f"unknown kind {layer.kind!r}; one of {sorted(KINDS)}"
    for source in layer.inputs:
        if source not in seen:
            return f"input {source!r} is not an earlier layer"
    return _arity_problem(layer) or _shape_problem(layer) or _shared_problem(layer, seen)


def _arity_problem(layer: Layer) -> str | None:
    arity = len(layer.inputs)
    if layer.kind == "matmul" and arity != 2:
        return f"a matmul takes two inputs, got {arity}"
    if layer.kind == ATTENTION and arity != 3:
        return f"attention takes queries, keys and values, got {arity} inputs"
    several = layer.kind in JOINS | COMPUTED | {OTHER}
    if arity < 1 or (not several and arity != 1):
        return f"a {layer.kind} takes one input, got {arity}"
    if layer.others and len(layer.others) != arity - 1:
        return f"{arity} inputs, but shapes for {len(layer.others) + 1}"
    return None


def _shape_problem(layer: Layer) -> str | None:
    tensors = (*layer.operands, layer.output)
    windows = [sides(v) for v in (layer.kernel, layer.stride, layer.dilation)]
    measures = [measure for pair in windows for measure in pair]
    lengths = [length for t in tensors for length in (t.channels, t.height, t.width)]
    if min(*lengths, *measures, layer.groups) < 1 or min(*sides(layer.padding), layer.extra) < 0:
        return "shapes, kernel and stride must be positive"
    if layer.kind == "embedding" and layer.vocabulary < 1:
        return "an embedding needs a vocabulary of at least one row"
    if layer.directions not in (1, 2) or layer.output.channels % layer.directions:
        return "a recurrent cell has one direction, or two that halve its output"
    if layer.input.channels % layer.groups or layer.output.channels % layer.groups:
        return f"{layer.groups} groups do not divide its {layer.input} to {layer.output}"
    if layer.block != 1 and (problem := _block_problem(layer)):
        return problem
    if layer.kind == "matmul" and (problem := _matmul_problem(layer)):
        return problem
    if layer.kind == ATTENTION and (problem := _attention_problem(layer)):
        return problem
    sizes = (*(t.elements for t in tensors), *measures, layer.weights, layer.macs, layer.extra)
    return "shapes are absurdly large" if max(sizes) > _LARGEST else None


def _block_problem(layer: Layer) -> str | None:
    """Blocks are powers of two that divide the channels of both sides of each group."""
    block, parts = layer.block, layer.directions * layer.groups
    channels = layer.input.channels // layer.groups, layer.output.channels // parts
    if block < 1 or block & (block - 1) or any(length % block for length in channels):
        return f"blocks of {block} are no powers of two, or do not divide its channels"
    if layer.kind not in ("fc", "conv", *CELLS) or layer.transposed:
        return f"a {layer.kind} like this has no block-circulant weights"
    return None


def _matmul_problem(layer: Layer) -> str | None:
    """The second operand must be whole k x n matrices, each serving as many groups."""
    right, groups = layer.operands[1].elements, layer.groups
    matrix = (layer.input.channels // groups) * (layer.output.channels // groups)
    matrices = right // matrix
    if right % matrix or groups % max(matrices, 1) or layer.input.area != layer.output.area:
        return f"{layer.input} times {layer.operands[1]} in {groups} groups is not {layer.output}"
    return None


def _attention_problem(layer: Layer) -> str | None:
    """Keys have the queries' features of a head, values the outputs', each of as many positions."""
    query, key, value = layer.operands
    each, made = query.channels // layer.groups, layer.output.channels // layer.groups
    heads = value.channels // made
    fits = heads * made == value.channels and heads * each == key.channels
    same = key.area == value.area and query.area == layer.output.area
    if not (fits and same and heads and layer.groups % heads == 0):
        return f"queries {query}, keys {key} and values {value} in {layer.groups} heads do not fit"
    return None


def _shared_problem(layer: Layer, seen: Mapping[str, Layer | None]) -> str | None:
    if not layer.shared:
        return None
    owner = seen.get(layer.shared)
    if owner is None or owner.shared or not layer.weighted or owner.weights != layer.weights:
        return f"it cannot share the weights of {layer.shared!r}"
    return None
