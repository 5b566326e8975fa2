"""The three ways to split a layer between two groups, and what each one moves.

After AccPar (Song et al., HPCA 2020; docs/model.md): a layer multiplies F_l
(B x Di) by W_l (Di x Do) into F_{l+1} (B x Do); a split cuts one of B, Di, Do.
Everything here counts elements of tensors; bytes and seconds come later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from workloads import Node


class PartitionType(IntEnum):
    """Which dimension is split: I the batch, II the inputs (Di), III the outputs (Do).

    For a join (``add``) the type is the layout of its tensor: I rows, II
    columns, III replicated, which is what a layer of that type would read.
    """

    I = 0  # noqa: E741  (the papers' name)
    II = 1
    III = 2

    def __str__(self) -> str:
        return self.name


I, II, III = PartitionType  # noqa: E741  (the papers' names)

AS_PRODUCER = (I, III, II)
"""A join that reads rows, columns or the whole hands on what I, III or II would."""


@dataclass(frozen=True, slots=True)
class Partition:
    """One node's split: its type and the share of the first group (0...1)."""

    type: PartitionType
    share: float


class Communication(StrEnum):
    """Which published table says what an exchange moves.

    ``printed``: AccPar's, which at equal shares is HyPar's Table 2.
    ``plotted``: what HyPar's figures follow, of types I and II in a chain: of
    all boundaries only I to II moves something, and type II its pooled output.
    """

    PRINTED = "printed"
    PLOTTED = "plotted"

    @property
    def pooled(self) -> bool:
        """Whether type II moves its output after pooling."""
        return self is Communication.PLOTTED


Scale = tuple[float, float, float]
"""Fractions of B, Di and Do that earlier splits have left of a layer."""

WHOLE: Scale = (1.0, 1.0, 1.0)


def shrink(scale: Scale, kind: PartitionType, share: float) -> Scale:
    """What a group that takes ``share`` under a split of type ``kind`` keeps."""
    batch, inputs, outputs = scale
    if kind is I:
        return (batch * share, inputs, outputs)
    if kind is II:
        return (batch, inputs * share, outputs)
    return (batch, inputs, outputs * share)


def shrunk(
    scales: Sequence[Scale], partitions: Sequence[Partition]
) -> tuple[tuple[Scale, ...], tuple[Scale, ...]]:
    """What each side of a split keeps of every node."""
    pairs = list(zip(scales, partitions, strict=True))
    first = tuple(shrink(scale, p.type, p.share) for scale, p in pairs)
    return first, tuple(shrink(scale, p.type, 1.0 - p.share) for scale, p in pairs)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Elements of one node's tensors, and FLOPs of its three products.

    ``weights`` is A(W_l), ``input`` A(F_l) = A(E_l), ``output`` A(F_{l+1})
    before pooling and ``pooled`` after it. ``flops`` are those of forward,
    backward and gradient.
    """

    weights: float
    input: float
    output: float
    pooled: float
    flops: tuple[float, float, float]


def sizes(node: Node, batch: int, scale: Scale, *, fused: bool = False) -> Sizes:
    """Sizes of a node for a batch, shrunk by ``scale``; a join has no weights, no FLOPs.

    FLOPs are the AccPar paper's: a dot product of n terms costs 2n - 1 (never
    less than 0 when a fraction of a channel is left), or 2n where multiply-adds
    are ``fused``; a convolution's backward is counted on its output map, a fully
    connected layer's on its input.
    """
    rows, into, out = batch * scale[0], node.in_channels * scale[1], node.out_channels * scale[2]
    source = rows * into * node.in_area
    if node.join:
        return Sizes(0.0, source, source, source, (0.0, 0.0, 0.0))
    weights = into * out * node.kernel_area
    output = rows * out * node.out_area
    saved = 0 if fused else 1
    forward = output * max(0.0, 2 * into * node.kernel_area - saved)
    backward = source * max(0.0, 2 * out - saved) if node.kind == "fc" else forward
    gradient = weights * max(0.0, 2 * rows * node.out_area - saved)
    pooled = rows * out * node.pooled_area
    return Sizes(weights, source, output, pooled, (forward, backward, gradient))


def partial_sums(kind: PartitionType, size: Sizes, *, pooled: bool = False) -> float:
    """Elements each group receives to complete its partial sums (AccPar).

    I sums the gradient, II the output, III the error. ``pooled`` charges type
    II the output after pooling, as the authors' released program does.
    """
    if kind is I:
        return size.weights
    if kind is II:
        return size.pooled if pooled else size.output
    return size.input


def boundary(
    producer: PartitionType,
    consumer: PartitionType,
    share: float,
    table: Communication = Communication.PRINTED,
) -> tuple[float, float]:
    """What a group lacks at a boundary, as fractions of the consumer's input tensor.

    Returns (forward, backward): features before the consumer's forward
    product, errors before the producer's backward product (AccPar).
    ``share`` is the consumer's share in the receiving group.
    """
    if table is Communication.PLOTTED and (producer, consumer) != (I, II):
        return (0.0, 0.0)
    rest = 1.0 - share
    swap = share * rest
    if consumer is I:
        return (0.0, 0.0) if producer is I else (0.0, rest) if producer is II else (swap, swap)
    if consumer is II:
        return (swap, swap) if producer is I else (0.0, rest) if producer is II else (0.0, 0.0)
    return (0.0, 0.0) if producer is II else (rest, 0.0)


def producer_type(node: Node, kind: PartitionType) -> PartitionType:
    """The type under which a node's consumers see it."""
    return AS_PRODUCER[kind] if node.join else kind
