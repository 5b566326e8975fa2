"""Fused attention, as its two products and the softmax between them."""

from __future__ import annotations

from dataclasses import replace

from workloads.importers.assembler import Assembler, Value
from workloads.importers.dims import reshaped, size_of, swapped
from workloads.importers.matmuls import computed
from workloads.importers.neutral import ModelOperation


def attention(assembler: Assembler, operation: ModelOperation) -> None:
    """Operands are (samples, heads, positions, features).

    With the attributes ``heads`` and ``kv_heads`` they are (samples,
    positions, heads * features), and so is the result. What is ``causal`` says so on its
    softmax, for whoever fuses it.
    """
    query, key, value = (_heads(assembler.computed(operation, i), operation, i) for i in range(3))
    rows = (*(size_of(d) for d in query.dims[:-1]), size_of(key.dims[-2]))
    shape = (*rows[:-1], size_of(value.dims[-1]))
    scores, softmax, context = (
        ModelOperation(name, verb, reads, {name: outputs})
        for name, verb, reads, outputs in (
            (f"{operation.name}.scores", "matmul", (), rows),
            (f"{operation.name}.softmax", "softmax", (f"{operation.name}.scores",), rows),
            (f"{operation.name}.context", "matmul", (), shape),
        )
    )
    computed(assembler, scores, query, replace(key, dims=swapped(key.dims)))
    assembler.unary(softmax, causal=bool(operation.attributes.get("causal", False)))
    computed(assembler, context, assembler.made_before(softmax.name), value)
    made = assembler.made_before(context.name)
    if "heads" in operation.attributes:
        batch, heads, positions, features = made.dims
        made = replace(made, dims=(batch, positions, (*heads, *features)))
    assembler.values[next(iter(operation.outputs))] = made


def _heads(value: Value, operation: ModelOperation, at: int) -> Value:
    heads = operation.attributes.get("heads" if at == 0 else "kv_heads")
    if heads is None:
        return value
    batch, positions, features = value.shape
    split = reshaped(value.dims, (batch, positions, heads, features // heads))
    return replace(value, dims=(split[0], split[2], split[1], split[3]))
