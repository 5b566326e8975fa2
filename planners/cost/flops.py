"""FLOPs of a node's forward product, of its errors and of its gradient, for a part of it."""

from __future__ import annotations

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
