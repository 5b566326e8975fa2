"""The ways to split a layer between two groups, and what each one moves.

After AccPar (Song et al., HPCA 2020; docs/model.md): a layer multiplies F_l
(B x Di) by W_l (Di x Do) into F_{l+1} (B x Do); a split cuts one of B, Di, Do.
A fourth cuts the groups of a grouped convolution or the heads of attention;
docs/partitions.md derives which type suits which kind of layer.
Everything here counts elements of tensors; bytes and seconds come later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import lru_cache
from typing import NamedTuple

from workloads import CELLS, Node


class PartitionType(IntEnum):
    """Which dimension is split: I the batch, II the inputs (Di), III the outputs (Do), IV groups.

    For a join (``add``, ``concat``) the type is the layout of its tensor: I
    rows, II columns, III replicated, which is what a layer of that type would
    read. IV gives each side whole groups: their inputs, weights and outputs.
    """

    I = 0  # noqa: E741  (the papers' name)
    II = 1
    III = 2
    IV = 3

    def __str__(self) -> str:
        return self.name


I, II, III, IV = PartitionType  # noqa: E741  (the papers' names)

LAYOUTS = (I, II, III)
"""How a tensor lies on a group: rows (I), columns (II) or the whole of it (III); a join's types."""
AS_READ = (I, II, III, II)
"""The layout in which a layer of each type reads its input: one of type III reads the whole."""
AS_MADE = (I, III, II, II)
"""The layout in which it leaves its output: one of type II has the whole, once it is summed."""
AS_WEIGHT = (III, I, II, II)
"""The layout in which it has its weights (Di x Do): one of type I the whole, one of II rows."""
AS_TURNED = (III, II, I, II)
"""The same for a layer whose weights are the transpose."""
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


class Shard(NamedTuple):
    """How many samples, channels and groups of a node a group of devices holds.

    Planners count fractions of the whole (B, Di, Do, groups), the simulator's
    placement samples and channels. Channels are those of one group of a grouped
    convolution (or head of a matmul): a layer keeps ``inputs * groups`` of its
    input channels. A partition's type is the number of the field that it cuts.
    """

    rows: float = 1.0
    inputs: float = 1.0
    outputs: float = 1.0
    groups: float = 1.0

    @property
    def empty(self) -> bool:
        """Whether the group takes no part in the node."""
        return min(self) <= 0


WHOLE = Shard()


def shrink(shard: Shard, type_: PartitionType, share: float) -> Shard:
    """What a group that takes ``share`` under a split of this type keeps."""
    kept = list(shard)
    kept[type_] *= share
    return Shard(*kept)


def legal(node: Node, shard: Shard = WHOLE) -> tuple[PartitionType, ...]:
    """The types a node may take where ``shard`` of it is left, in ascending order.

    docs/partitions.md has the reasons. IV needs two whole groups to part.
    """
    if node.join:
        return LAYOUTS
    if node.kind in CELLS:
        return (I,)
    types = [I]
    if node.kind != "matmul":
        if node.groups == 1 or node.in_channels > node.groups:
            types.append(II)
        if node.groups == 1 or node.out_channels > node.groups:
            types.append(III)
    if node.groups > 1 and node.groups * shard.groups >= 2.0:
        types.append(IV)
    return tuple(types)


def shrunk(
    shards: Sequence[Shard], partitions: Sequence[Partition]
) -> tuple[tuple[Shard, ...], tuple[Shard, ...]]:
    """What each side of a split keeps of every node."""
    pairs = list(zip(shards, partitions, strict=True))
    alike = {(id(shard), id(p)): (shard, p) for shard, p in pairs}  # many are one object
    first = {key: shrink(shard, p.type, p.share) for key, (shard, p) in alike.items()}
    second = {key: shrink(shard, p.type, 1.0 - p.share) for key, (shard, p) in alike.items()}
    keys = [(id(shard), id(p)) for shard, p in pairs]
    return tuple(first[key] for key in keys), tuple(second[key] for key in keys)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Elements of one node's tensors, and FLOPs of its three products.

    ``weights`` is A(W_l), ``input`` A(F_l) = A(E_l), ``output`` A(F_{l+1})
    before pooling and ``pooled`` after it. ``flops`` are those of forward,
    backward and gradient. ``reads`` has the tensor of each edge into the node.
    """

    weights: float
    input: float
    output: float
    pooled: float
    flops: tuple[float, float, float]
    reads: tuple[float, ...] = ()


NO_FLOPS = (0.0, 0.0, 0.0)


def sizes(node: Node, batch: int, shard: Shard, *, fused: bool = False) -> Sizes:
    """Sizes of a node for a batch, cut down to ``shard``; a join has no weights, no FLOPs.

    ``inputs`` and ``outputs`` are channels of all groups that are left. A dot
    product of n terms is 2n - 1 FLOPs (AccPar), or 2n where multiply-adds are ``fused``.
    """
    rows = batch * shard.rows
    inputs = node.in_channels * shard.inputs * shard.groups
    outputs = node.out_channels * shard.outputs * shard.groups
    kept = shard.inputs * shard.groups
    reads = tuple(rows * (tensor.channels * kept) * tensor.area for tensor in node.reads)
    source = rows * inputs * node.in_area
    if node.join:
        return Sizes(0.0, source, source, source, NO_FLOPS, reads)
    saved = 0 if fused else 1
    depth = node.in_channels * shard.inputs / node.groups
    output = rows * outputs * node.out_area
    pooled = rows * outputs * node.pooled_area
    if node.kind == "matmul":
        flops = _matmul_flops(node, rows, shard.groups, source, output, saved)
        return Sizes(0.0, source, output, pooled, flops, reads)
    weights = depth * outputs * node.kernel_area
    if node.kind == "embedding":  # a gather: nothing to multiply, and ids have no error
        return Sizes(weights, 0.0, output, pooled, NO_FLOPS, reads)
    flops = _flops(node, rows, shard, source, output, weights, saved)
    return Sizes(weights / node.block, source, output, pooled, flops, reads)


def _flops(
    node: Node,
    rows: float,
    shard: Shard,
    source: float,
    output: float,
    weights: float,
    saved: int,
) -> tuple[float, float, float]:
    """FLOPs of a weighted layer's products, as the paper counts them.

    A dot product of n terms costs 2n less what is ``saved`` (never less than 0 when
    a fraction of a channel is left); a convolution's backward is counted on its output map
    as its forward, a fully connected layer's on its input. A transposed
    convolution is a convolution run backwards: all is counted on its input map.
    """
    into = node.in_channels * shard.inputs / node.groups * node.kernel_area
    out = node.out_channels * shard.outputs / node.groups * node.kernel_area
    area = node.in_area if node.transposed else node.out_area
    gradient = weights * max(0.0, 2 * rows * area - saved) * node.work
    if node.transposed:
        forward = source * max(0.0, 2 * out - saved)
        return forward, forward, gradient
    forward = output * max(0.0, 2 * into - saved) * node.work
    backward = source * max(0.0, 2 * out - saved) * node.work if node.kind == "fc" else forward
    return forward, backward, gradient


def _matmul_flops(
    node: Node, rows: float, groups: float, source: float, output: float, saved: int
) -> tuple[float, float, float]:
    """FLOPs of a product of two computed operands, and of the errors of the first and second."""
    into, out = node.in_channels / node.groups, node.out_channels / node.groups
    second = rows * node.operand * groups
    return (
        output * max(0.0, 2 * into - saved),
        source * max(0.0, 2 * out - saved),
        second * max(0.0, 2 * node.in_area - saved),
    )


def partial_sums(type_: PartitionType, size: Sizes, *, pooled: bool = False) -> float:
    """Elements each group receives to complete its partial sums (AccPar).

    I sums the gradient, II the output, III the error, IV nothing. ``pooled``
    charges type II the output after pooling, as the authors' released program does.
    """
    if type_ is I:
        return size.weights
    if type_ is II:
        return size.pooled if pooled else size.output
    return size.input if type_ is III else 0.0


def tied_sums(
    node: Node,
    owner: Node,
    types: tuple[PartitionType, PartitionType],
    weights: float,
    owners: float,
) -> tuple[float, float]:
    """What the second use of a weight exchanges behind its gradient, by (its, its owner's) types.

    ``weights`` and ``owners`` are the elements that are left of it for either.
    Returns (fixed, swap) in elements: a side with share a receives
    ``fixed + a * (1 - a) * swap``. Two replicas exchange the sum of both
    gradients once, with the owner. Where each cuts another dimension, the part
    of the gradient that the owner keeps and the part of the new weights that
    this use needs change hands.
    """
    turned = "embedding" in {node.kind} ^ {owner.kind}  # its rows are the columns of its head
    own, other = (AS_TURNED if turned else AS_WEIGHT)[types[0]], AS_WEIGHT[types[1]]
    if own is III:
        return max(0.0, weights - (owners if other is III else 0.0)), 0.0
    return 0.0, 0.0 if other in (III, own) else 2 * weights


@lru_cache(maxsize=1 << 14)
def boundary(
    producer: PartitionType,
    consumer: PartitionType,
    share: float,
    table: Communication = Communication.PRINTED,
) -> tuple[float, float]:
    """What a group lacks at a boundary, as fractions of the consumer's input tensor.

    Returns (forward, backward): features before the consumer's forward
    product, errors before the producer's backward product (AccPar).
    ``share`` is the consumer's share in the receiving group. Type IV reads
    columns, as II does, and writes columns, as III does.
    """
    if table is Communication.PLOTTED and (producer, consumer) != (I, II):
        return (0.0, 0.0)
    made, read = AS_MADE[producer], AS_READ[consumer]
    return _lacks(made, read, share), _lacks(read, made, share)


def _lacks(held: PartitionType, read: PartitionType, share: float) -> float:
    """What a group with that ``share`` reads of a tensor and does not hold, as a fraction of it.

    With a quarter: of the columns it reads (1/4) it holds a quarter of the rows
    (1/16), and lacks 3/16. Of the whole it lacks 3/4.
    """
    if held in (III, read):
        return 0.0
    return (1.0 if read is III else share) * (1.0 - share)


def producer_type(node: Node, type_: PartitionType) -> PartitionType:
    """The type under which a node's consumers see it."""
    return AS_PRODUCER[type_] if node.join else type_
