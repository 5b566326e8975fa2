"""Sizes of one node after the other, written without arrays: what ``planners.sizing`` must give."""

from __future__ import annotations

from collections.abc import Sequence

from planners.partition import Partition, PartitionType, Shard, Sizes, is_operand
from workloads import Node

Flops = tuple[float, float, float]
"""Of forward, backward and gradient."""
NO_FLOPS: Flops = (0.0, 0.0, 0.0)


def layer_flops(
    node: Node,
    rows: float,
    channels: tuple[float, float],
    source: float,
    output: float,
    weights: float,
    saved: int,
) -> Flops:
    """FLOPs of a weighted layer's products, as the AccPar paper counts them.

    ``channels`` are the parts of the node's input and output channels that are left. A dot
    product of n terms costs 2n less what is ``saved`` (never less than 0 when a fraction of a
    channel is left); a convolution's backward is counted on its output map as its forward, a
    fully connected layer's on its input. A transposed convolution is a convolution run
    backwards: all is counted on its input map.
    """
    inputs, outputs = channels
    into = node.in_channels * inputs / node.groups * node.kernel_area
    out = node.out_channels * outputs / node.groups * node.kernel_area
    area = node.in_area if node.transposed else node.out_area
    gradient = weights * max(0.0, 2 * rows * area - saved) * node.work
    if node.transposed:
        forward = source * max(0.0, 2 * out - saved)
        return forward, forward, gradient
    forward = output * max(0.0, 2 * into - saved) * node.work
    backward = (
        source * max(0.0, 2 * out - saved) * node.work if node.type.fully_connected else forward
    )
    return forward, backward, gradient


def matmul_flops(
    node: Node, operand: float, positions: float, source: float, output: float, saved: int
) -> Flops:
    """FLOPs of a product of two computed operands, and of the errors of the first and second.

    ``operand`` counts the elements of the second, to which that part of the ``positions``
    attends that is left.
    """
    into, out = node.in_channels / node.groups, node.out_channels / node.groups
    return (
        output * max(0.0, 2 * into - saved),
        source * max(0.0, 2 * out - saved),
        operand * max(0.0, 2 * node.in_area * positions - saved),
    )


def fused_flops(node: Node, rows: float, groups: float) -> Flops:
    """FLOPs of a fused kernel: two a multiply-accumulate, whatever is saved elsewhere.

    One kernel makes the errors of all inputs, so that nothing is left for the gradient.
    """
    forward, backward = node.fused
    return 2 * rows * groups * forward, 2 * rows * groups * backward, 0.0


def shrink(shard: Shard, type_: PartitionType, share: float) -> Shard:
    """What a group that takes ``share`` under a split of this type keeps."""
    kept = list(shard)
    kept[type_] *= share
    return Shard(*kept)


def shrunk(
    shards: Sequence[Shard], partitions: Sequence[Partition]
) -> tuple[tuple[Shard, ...], tuple[Shard, ...]]:
    """What each side of a split keeps of every node."""
    pairs = list(zip(shards, partitions, strict=True))
    return (
        tuple(shrink(shard, p.type, p.share) for shard, p in pairs),
        tuple(shrink(shard, p.type, 1.0 - p.share) for shard, p in pairs),
    )


def sizes(node: Node, batch: int, shard: Shard, *, fused: bool = False) -> Sizes:
    """Sizes of a node for a batch, cut down to ``shard``; a join has no weights, no FLOPs.

    ``inputs`` and ``outputs`` are channels of all groups that are left. A dot
    product of n terms is 2n - 1 FLOPs (AccPar), or 2n where multiply-adds are ``fused``.
    """
    rows = batch * shard.rows * shard.positions
    inputs = node.in_channels * shard.inputs * shard.groups
    outputs = node.out_channels * shard.outputs * shard.groups
    kept = shard.inputs * shard.groups
    reads = tuple(
        (batch * shard.rows if is_operand(node, edge) else rows)
        * (tensor.channels * kept)
        * tensor.area
        for edge, tensor in enumerate(node.reads)
    )
    source = rows * inputs * node.in_area
    if node.join:
        return Sizes(0.0, source, source, source, NO_FLOPS, reads)
    saved = 0 if fused else 1
    depth = node.in_channels * shard.inputs / node.groups
    output = rows * outputs * node.out_area
    pooled = rows * outputs * node.pooled_area
    operand = batch * shard.rows * node.operand * shard.groups
    if node.computed and any(node.fused):
        flops = fused_flops(node, rows, shard.groups)
        return Sizes(0.0, source, output, pooled, flops, reads, operand)
    if node.computed:
        flops = matmul_flops(node, operand, shard.positions, source, output, saved)
        return Sizes(0.0, source, output, pooled, flops, reads, operand)
    weights = depth * outputs * node.kernel_area
    if node.type.gathers:  # a gather: nothing to multiply, and ids have no error
        return Sizes(weights, 0.0, output, pooled, NO_FLOPS, reads)
    channels = shard.inputs, shard.outputs
    flops = layer_flops(node, rows, channels, source, output, weights, saved)
    return Sizes(weights / node.block, source, output, pooled, flops, reads)
