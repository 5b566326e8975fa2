"""The ways to split a layer between two groups, and what each one moves.

After AccPar (Song et al., HPCA 2020; docs/explanation/models.md): a layer multiplies F_l
(B x Di) by W_l (Di x Do) into F_{l+1} (B x Do); a split cuts one of B, Di, Do.
A fourth cuts the groups of a grouped convolution or the heads of attention, a
fifth the positions of a sequence; docs/explanation/partitions.md derives which type suits which
kind of layer.
Everything here counts elements of tensors; bytes and seconds come later.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from workloads import Node
from workloads.layer_types import DIMENSIONS


class PartitionType(IntEnum):
    """What is split: I the batch, II inputs (Di), III outputs (Do), IV groups, V positions.

    For a join (``add``, ``concat``) the type is the layout of its tensor: I
    rows, II columns, III replicated, V positions, which is what a layer of that type
    would read. IV gives each side whole groups: their inputs, weights and outputs.
    """

    I = 0  # noqa: E741  (the papers' name)
    II = 1
    III = 2
    IV = 3
    V = 4

    def __str__(self) -> str:
        return self.name

    @property
    def dimension(self) -> str:
        """What it splits, as types of layers call it; of a join III has the whole."""
        return DIMENSIONS[self]


I, II, III, IV, V = PartitionType  # noqa: E741  (the papers' names)

SAME_WEIGHTS = (I, V)
"""Types that leave both sides the same weights, whose gradients they sum."""
USUAL = (I, II, III, IV)
"""What planners weigh unless they are asked for positions, too."""
LAYOUTS = (I, II, III)
"""How a tensor lies on a group: rows (I), columns (II) or the whole of it (III); a join's types.

Of a sequence positions (V), too."""
AS_READ = (I, II, III, II, V)
"""The layout in which a layer of each type reads its input: one of type III reads the whole."""
AS_OPERAND = (I, II, III, II, III)
"""The same for further inputs of a product of two: each position attends to all of them."""
AS_MADE = (I, III, II, II, V)
"""The layout in which it leaves its output: one of type II has the whole, once it is summed."""
AS_WEIGHT = (III, I, II, II, III)
"""The layout in which it has its weights (Di x Do): one of type I the whole, one of II rows."""
AS_TURNED = (III, II, I, II, III)
"""The same for a layer whose weights are the transpose."""
AS_PRODUCER = (I, III, II, IV, V)
"""A join that reads rows, columns, the whole or positions hands on what I, III, II or V would."""


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
    """How many samples, channels, groups and positions of a node a group of devices holds.

    Planners count fractions of the whole (B, Di, Do, groups, positions), the
    simulator's placement samples, channels and positions. Channels are those of one
    group of a grouped convolution (or head of a matmul): a layer keeps ``inputs * groups``
    of its input channels. A partition's type is the number of the field that it cuts.
    """

    rows: float = 1.0
    inputs: float = 1.0
    outputs: float = 1.0
    groups: float = 1.0
    positions: float = 1.0

    @property
    def empty(self) -> bool:
        """Whether the group takes no part in the node."""
        return min(self) <= 0


WHOLE = Shard()


def legal(node: Node, shard: Shard = WHOLE) -> tuple[PartitionType, ...]:
    """The types a node may take where ``shard`` of it is left, in ascending order.

    Reasons: docs/explanation/partitions.md. Its layer's type says which dimensions may be split
    at all; of the channels of a group there must be several, and IV needs two whole groups to part.
    """
    whole = node.join or node.groups == 1
    several = {
        I: True,
        II: whole or node.in_channels > node.groups,
        III: whole or node.out_channels > node.groups,
        IV: not node.join and node.groups > 1 and node.groups * shard.groups >= 2.0,
        V: sequence(node),
    }
    return tuple(one for one in PartitionType if several[one] and one.dimension in node.shardable)


def usual(node: Node) -> tuple[PartitionType, ...]:
    """The types that planners weigh for a node where nobody asks for positions, too."""
    return tuple(one for one in legal(node) if one in USUAL)


def sequence(node: Node) -> bool:
    """Whether each position of what a node makes depends on that position of its first input.

    Tokens are brought to experts, or back, among those of the same part of a sequence.
    """
    alike = node.in_area == node.out_area and node.kernel_area == 1
    return node.out_area > 1 and (alike or node.routes)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Elements of one node's tensors, and FLOPs of its three products.

    ``weights`` is A(W_l), ``input`` A(F_l) = A(E_l), ``output`` A(F_{l+1})
    before pooling and ``pooled`` after it. ``flops`` are those of forward,
    backward and gradient. ``reads`` has the tensor of each edge into the node, and
    ``operand`` are the further operands of a product of several.
    """

    weights: float
    input: float
    output: float
    pooled: float
    flops: tuple[float, float, float]
    reads: tuple[float, ...] = ()
    operand: float = 0.0


def is_operand(node: Node, edge: int) -> bool:
    """Whether an edge brings a further operand of a product: keys or values, not queries."""
    return node.operand > 0 and edge > 0


def partial_sums(type_: PartitionType, size: Sizes, *, pooled: bool = False) -> float:
    """Elements each group receives to complete its partial sums (AccPar).

    I sums the gradient, II the output, III the error, IV nothing, V the gradient or
    the errors of further operands. ``pooled``
    charges type II the output after pooling, as the authors' released program does.
    """
    if type_ is I:
        return size.weights
    if type_ is II:
        return size.pooled if pooled else size.output
    if type_ is V:
        return size.weights + size.operand
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
    turned = node.type.gathers != owner.type.gathers  # its rows are the columns of its head
    own, other = (AS_TURNED if turned else AS_WEIGHT)[types[0]], AS_WEIGHT[types[1]]
    if own is III:
        return max(0.0, weights - (owners if other is III else 0.0)), 0.0
    return 0.0, 0.0 if other in (III, own) else 2 * weights


def boundary(
    producer: PartitionType,
    consumer: PartitionType,
    share: float,
    table: Communication = Communication.PRINTED,
    operand: bool = False,
    made_share: float | None = None,
) -> tuple[float, float]:
    """What a group lacks at a boundary, as fractions of the consumer's input tensor.

    Returns (forward, backward): features before the consumer's forward
    product, errors before the producer's backward product (AccPar).
    ``share`` is the consumer's share in the receiving group. The paper takes it for the
    producer's, too; ``made_share`` is the producer's own. Type IV reads
    columns, as II does, and writes columns, as III does; of a product's further
    ``operand`` type V reads the whole.
    """
    if table is Communication.PLOTTED and (producer, consumer) != (I, II):
        return (0.0, 0.0)
    made, read = AS_MADE[producer], (AS_OPERAND if operand else AS_READ)[consumer]
    own = share if made_share is None else made_share
    return _lacks((made, own), (read, share)), _lacks((read, share), (made, own))


def _lacks(held: tuple[PartitionType, float], read: tuple[PartitionType, float]) -> float:
    """What a group reads of a tensor and does not hold, as a fraction of it.

    It holds a share of the tensor in one layout and reads a share in another. With a quarter
    of both: of the columns it reads (1/4) it holds a quarter of the rows (1/16), and lacks 3/16.
    Of the whole it lacks 3/4. Of the same rows it lacks none; of a half, one quarter.
    """
    (layout, has), (wanted, needs) = held, read
    if layout is III:
        return 0.0
    if layout is wanted:
        return max(0.0, needs - has)
    return (1.0 if wanted is III else needs) * (1.0 - has)


def producer_type(node: Node, type_: PartitionType) -> PartitionType:
    """The type under which a node's consumers see it."""
    return AS_PRODUCER[type_] if node.join else type_
