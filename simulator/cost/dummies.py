"""Gradients that are there for their shape alone, beside the buffer that has the real ones.

A kernel of Transformer Engine adds a weight's gradient to Megatron-LM's buffer, and hands PyTorch
a dummy of the weight's shape: one for all weights of a shape, which is kept (since pull
request 1651 of April 2025). Embeddings and output heads are Megatron-LM's own: they have one made
for each backward, which goes with it. In a block of Llama-3-70B, in bfloat16 and not split:

    query, key, value    10,240 x 8,192    as one product, of what they read
    output                8,192 x 8,192
    gate, up             57,344 x 8,192    as one
    down                  8,192 x 28,672   together 1.6 GiB, however many blocks there are
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from planners.order import Phase
from planners.partition import Shard
from simulator.cost.operators import Operator, Operators


def kept(operators: Operators, shards: Sequence[Shard], apart: frozenset[int]) -> float:
    """Elements of one dummy of each shape, of one core's parts of the nodes.

    Nodes ``apart`` have no buffer: their gradients are PyTorch's own.
    """
    outputs: dict[tuple[str, float], float] = {}
    for v, shard in enumerate(shards):
        read = _read(operators, v)
        if read is not None and v != operators.logits and v not in apart and not shard.empty:
            key = read, operators.nodes[v].pair_parameters * shard.inputs
            outputs[key] = outputs.get(key, 0.0) + shard.outputs
    shapes = {(round(rows, 3), round(inputs, 3)) for (_, inputs), rows in outputs.items()}
    return sum(rows * inputs for rows, inputs in sorted(shapes))


def made(
    operators: Operators, mine: Sequence[Operator], shards: Sequence[Shard], apart: frozenset[int]
) -> Iterator[tuple[int, float]]:
    """At which of a core's operators a dummy is made, and its elements."""
    for i, op in enumerate(mine):
        own = operators.nodes[op.node]
        is_own = op.node == operators.logits or _read(operators, op.node) is None
        if op.phase is Phase.GRADIENT and op.pair.gradients and is_own and op.node not in apart:
            shard = shards[op.node]
            pairs = own.pair_parameters + own.shared_parameters
            yield i, pairs * shard.inputs * shard.outputs * shard.groups


def _read(operators: Operators, node: int) -> str | None:
    """What a product with weights of its own reads; None where a node has no such product."""
    own = operators.nodes[node]
    products = (op for op in own.forward if op.macs and op.reads and own.pair_parameters)
    return next((op.reads[0].tensor for op in products), None)
