"""Shards of whole nodes, and their parts."""

from planners.partition import II, III, I, PartitionType
from simulator.lowering.placement import Shard
from workloads import Node


def unsplit(node: Node, rows: float) -> Shard:
    """All of a node."""
    groups = node.groups
    return Shard(rows, node.in_channels / groups, node.out_channels / groups, groups)


def halves(node: Node, shard: Shard, kind: PartitionType, share: float) -> list[Shard]:
    """What the two sides of a split have; operators of a join find all channels cut alike."""
    parts = []
    for part in (share, 1 - share):
        rows, inputs, outputs, groups = shard
        if node.join:
            cut = Shard(rows * part, inputs, outputs)
            columns = Shard(rows, inputs * part, outputs * part)
            parts.append({I: cut, II: columns, III: shard}[kind])
        else:
            sizes = [rows, inputs, outputs, groups]
            sizes[kind] *= part
            parts.append(Shard(*sizes))
    return parts
