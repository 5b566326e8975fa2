"""What two layers exchange that use the same weights."""

from __future__ import annotations

from planners.partition import AS_TURNED, AS_WEIGHT, III, PartitionType
from workloads import Node


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
