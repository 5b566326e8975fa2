"""Shards of whole nodes and their parts, and cores that cost them plainly."""

from planners.partition import II, III, I, PartitionType, Shard, V
from simulator.cost.number_bytes import NumberBytes
from simulator.cost.roofline import Core
from workloads import Node

BYTES = NumberBytes(activation=2, weight=2, gradient=4, update=28, state=10)
"""bfloat16 with float32 gradients, master copy and momentum: as literals."""
PLAIN = Core(1e12, 1e9, 1e9, 0.0, tile=False, pad_matrix_unit=0, bytes=BYTES)


def unsplit(node: Node, rows: float) -> Shard:
    """All of a node."""
    groups = node.groups
    return Shard(rows, node.in_channels / groups, node.out_channels / groups, groups)


def halves(node: Node, shard: Shard, kind: PartitionType, share: float) -> list[Shard]:
    """What the two sides of a split have; operators of a join find all channels cut alike."""
    parts = []
    for part in (share, 1 - share):
        rows, inputs, outputs, groups, positions = shard
        if node.join:
            cut = Shard(rows * part, inputs, outputs)
            columns = Shard(rows, inputs * part, outputs * part)
            apart = Shard(rows, inputs, outputs, 1.0, positions * part)
            parts.append({I: cut, II: columns, III: shard, V: apart}[kind])
        else:
            sizes = [rows, inputs, outputs, groups, positions]
            sizes[kind] *= part
            parts.append(Shard(*sizes))
    return parts
