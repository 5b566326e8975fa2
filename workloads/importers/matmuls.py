"""Matrix products: with a constant matrix a layer with weights, else of two computed tensors."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from workloads.importers.assembler import Assembler, Value
from workloads.importers.dims import (
    Dims,
    Role,
    area_of,
    count,
    dim,
    reshaped,
    retag,
    size_of,
    tensor_of,
)
from workloads.importers.neutral import Constant, Operation, Shape
from workloads.layers import NetworkError, Tensor


def matmul(assembler: Assembler, operation: Operation) -> None:
    """The product of the last two dimensions, either operand constant or not."""
    left, right = assembler.operand(operation, 0), assembler.operand(operation, 1)
    turned = operation.attributes.get("transposed", ())
    if isinstance(left, Value) and 0 in turned:
        left = replace(left, dims=_swapped(left.dims))
    if isinstance(right, Value) and 1 in turned:
        right = replace(right, dims=_swapped(right.dims))
    if isinstance(left, Value) and isinstance(right, Value):
        computed(assembler, operation, left, right)
    elif isinstance(left, Value) and isinstance(right, Constant):
        linear(assembler, operation, left, right)
    elif isinstance(left, Constant) and isinstance(right, Value):  # W x, as (xT WT)T
        flipped = replace(right, dims=_swapped(right.dims))
        linear(assembler, operation, flipped, left, swap=len(right.dims) > 1)
    else:
        raise NetworkError("a product takes two operands")


def linear(
    assembler: Assembler,
    operation: Operation,
    value: Value,
    weight: Constant,
    *,
    swap: bool = False,
) -> None:
    """A product with a constant matrix, or with one for each of several groups.

    ``swap``: the file's output has its last two dimensions the other way round.
    """
    depth, bias = size_of(value.dims[-1]), assembler.operand(operation, 2)
    features = _features(operation.output, len(weight.shape), swap=swap)
    groups, odd = divmod(math.prod(weight.shape), depth * features)
    if odd or groups < 1:
        raise NetworkError(f"{value.shape} times {weight.shape} is not {operation.output}")
    kind, input_, output = _layer_shapes(value.dims, groups, features)
    fields: dict[str, Any] = {"groups": groups} if groups > 1 else {}
    layer = assembler.weighted(
        operation,
        kind,
        weight,
        inputs=(value.source,),
        input=input_,
        output=output,
        bias=isinstance(bias, Constant),
        **fields,
    )
    assembler.count([bias])
    role = Role.POSITION if groups == 1 else Role.CHANNEL
    rows = tuple(retag(d, role) for d in value.dims[:-1])
    if groups > 1:
        rows = (*rows[:-1], retag(rows[-1], Role.POSITION))
    dims = (*rows, dim(features, Role.CHANNEL))
    dims = _swapped(dims) if swap else dims
    assembler.product(operation, layer, reshaped(dims, operation.output))


def _features(shape: Shape, rank: int, *, swap: bool) -> int:
    if rank == 1:
        return 1
    return shape[-2] if swap else shape[-1]


def _layer_shapes(dims: Dims, groups: int, features: int) -> tuple[str, Tensor, Tensor]:
    """A linear layer on every position, or a grouped 1x1 convolution."""
    depth = size_of(dims[-1])
    rows = [retag(d, Role.POSITION) for d in dims[:-1]]
    if groups == 1:
        height, width = area_of(rows)
        return "fc", Tensor(depth, height, width), Tensor(features, height, width)
    positions = count(rows, Role.POSITION) // groups
    return "conv", Tensor(groups * depth, positions), Tensor(groups * features, positions)


def computed(assembler: Assembler, operation: Operation, left: Value, right: Value) -> None:
    """A product of two computed tensors: heads, windows and the like are its groups."""
    a, b = _matrix(left.dims, first=True), _matrix(right.dims, first=False)
    depth, features = size_of(a[-1]), size_of(b[-1])
    batch = _batch(a[:-2], b[:-2])
    groups = math.prod(size_of(d) for d in batch) // count(batch, Role.SAMPLE)
    rows = size_of(a[-2]) // count(a[-2:-1], Role.SAMPLE)
    second = tensor_of(right.dims)
    matrices, odd = divmod(second.elements, depth * features)
    if odd or matrices < 1 or groups % matrices:
        second = Tensor(groups * depth, features)
    layer = assembler.layer(
        operation,
        "matmul",
        inputs=(left.source, right.source),
        input=Tensor(groups * depth, rows),
        others=(second,),
        output=Tensor(groups * features, rows),
        groups=groups,
    )
    heads = tuple(retag(d, Role.CHANNEL) for d in batch)
    dims = (*heads, retag(a[-2], Role.POSITION), dim(features, Role.CHANNEL))
    assembler.product(operation, layer, reshaped(dims, operation.output))


def _swapped(dims: Dims) -> Dims:
    return dims if len(dims) < 2 else (*dims[:-2], dims[-1], dims[-2])


def _matrix(dims: Dims, *, first: bool) -> Dims:
    """At least two dimensions: a vector is a row before, a column behind."""
    if len(dims) > 1:
        return dims
    return ((), *dims) if first else (*dims, ())


def _batch(one: Dims, other: Dims) -> Dims:
    """The batch dimensions of a product, of which either may be one or missing."""
    long, short = (one, other) if len(one) >= len(other) else (other, one)
    padded = ((),) * (len(long) - len(short)) + tuple(short)
    pairs = zip(*((long, padded) if long is one else (padded, long)), strict=True)
    return tuple(d if size_of(d) > 1 else e for d, e in pairs)


def attention(assembler: Assembler, operation: Operation) -> None:
    """Fused attention as its two products and the softmax between them.

    Operands are (samples, heads, positions, features), or (samples, positions,
    heads * features) with the attributes ``heads`` and ``kv_heads``.
    """
    query, key, value = (_heads(assembler.computed(operation, i), operation, i) for i in range(3))
    rows = (*(size_of(d) for d in query.dims[:-1]), size_of(key.dims[-2]))
    name = operation.name
    scores = Operation(f"{name}.scores", "matmul", (), {f"{name}.scores": rows})
    computed(assembler, scores, query, replace(key, dims=_swapped(key.dims)))
    softmax = Operation(f"{name}.softmax", "softmax", (scores.name,), {f"{name}.softmax": rows})
    assembler.unary(softmax)
    weights = assembler.made_before(softmax.name)
    shape = (*rows[:-1], size_of(value.dims[-1]))
    context = Operation(f"{name}.context", "matmul", (), {f"{name}.context": shape})
    computed(assembler, context, weights, value)
    made = assembler.made_before(context.name)
    if "heads" in operation.attributes:
        batch, heads, positions, features = made.dims
        made = replace(made, dims=(batch, positions, (*heads, *features)))
    assembler.values[next(iter(operation.outputs))] = made


def _heads(value: Value, operation: Operation, at: int) -> Value:
    heads = operation.attributes.get("heads" if at == 0 else "kv_heads")
    if heads is None:
        return value
    batch, positions, features = value.shape
    split = reshaped(value.dims, (batch, positions, heads, features // heads))
    return replace(value, dims=(split[0], split[2], split[1], split[3]))


def einsum(assembler: Assembler, operation: Operation) -> None:
    """Where two operands meet in a matrix product, that product; else an operator."""
    operands = [assembler.operand(operation, at) for at in range(len(operation.inputs))]
    terms = _terms(operation.attributes["equation"], [len(_shape(v)) for v in operands])
    if len(operands) == 2 and isinstance(operands[0], Constant):
        operands.reverse()
        terms = (terms[1], terms[0], terms[2])
    left = operands[0]
    if len(operands) != 2 or not isinstance(left, Value) or not _is_product(terms):
        equation = operation.attributes["equation"]
        assembler.warn(operation, f"Einsum {equation!r}, which is no matrix product")
        assembler.other(operation)
        return
    one, two, result = terms
    batch = [c for c in one if c in two and c in result]
    rows = [c for c in one if c not in two]
    depth = [c for c in one if c in two and c not in result]
    columns = [c for c in two if c not in one]
    size = dict(zip(one + two, _shape(left) + _shape(operands[1]), strict=True))
    shape = tuple(
        [size[c] for c in batch]
        + [math.prod(size[c] for c in rows), math.prod(size[c] for c in columns)]
    )
    product = replace(operation, inputs=(), outputs={next(iter(operation.outputs)): shape})
    first = _gathered(left.dims, one, batch, rows, depth)
    right = operands[1]
    if isinstance(right, Value):
        second = _gathered(right.dims, two, batch, depth, columns)
        computed(assembler, product, replace(left, dims=first), replace(right, dims=second))
    elif right is not None:
        linear(assembler, product, replace(left, dims=first), right)
    output = next(iter(operation.outputs))
    made = assembler.made_before(output)
    order = batch + rows + columns
    apart = dict(zip(order, reshaped(made.dims, [size[c] for c in order]), strict=True))
    assembler.values[output] = replace(made, dims=tuple(apart[c] for c in result))


def _shape(value: Value | Constant | None) -> Shape:
    return value.shape if value is not None else ()


def _gathered(dims: Dims, labels: str, batch: list[str], *merged: list[str]) -> Dims:
    """Batch dimensions as they are, then one dimension for each group of labels."""
    of = dict(zip(labels, dims, strict=True))
    joined = [tuple(factor for c in group for factor in of[c]) for group in merged]
    return (*(of[c] for c in batch), *joined)


def _terms(equation: str, ranks: list[int]) -> tuple[str, str, str]:
    """Labels of both operands and the result, an ellipsis written out."""
    left, _, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != 2 or "->" not in equation:
        return ("", "", "!")
    wide = max(rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True))
    free = [chr(0x1F00 + i) for i in range(max(0, min(wide, 64)))]
    full = [
        t.replace("...", "".join(free[len(free) - (rank - len(t) + 3) :]))
        for t, rank in zip(terms, ranks, strict=True)
    ]
    return full[0], full[1], result.replace("...", "".join(free))


def _is_product(terms: tuple[str, str, str]) -> bool:
    """Whether every label is summed over both, or kept from one or both."""
    one, two, result = terms
    apart = all(len(set(term)) == len(term) for term in terms)
    kept = set(one) ^ set(two)
    return apart and bool(one) and kept <= set(result) and set(result) <= set(one) | set(two)
