"""Matrix products: with a constant matrix a layer with weights, else of two computed tensors.

Fused attention is its two products and the softmax between them. An einsum is a product
where its two operands meet in one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    swapped,
    tensor_of,
)
from workloads.importers.neutral import Constant, ModelOperation, Shape
from workloads.tensors import NetworkError, Tensor

_FREE = "".join(chr(0x1F00 + i) for i in range(64))
"""Labels that no equation has, for dimensions without any."""


def matmul(assembler: Assembler, operation: ModelOperation) -> None:
    """The product of the last two dimensions, either operand constant or not."""
    left, right = assembler.operand(operation, 0), assembler.operand(operation, 1)
    turned = operation.attributes.get("transposed", ())
    if isinstance(left, Value) and 0 in turned:
        left = replace(left, dims=swapped(left.dims))
    if isinstance(right, Value) and 1 in turned:
        right = replace(right, dims=swapped(right.dims))
    if isinstance(left, Value) and isinstance(right, Value):
        computed(assembler, operation, left, right)
        if assembler.operand(operation, 2) is not None:
            reads = (*operation.outputs, operation.inputs[2])
            assembler.other(replace(operation, verb="add", inputs=reads))
    elif isinstance(left, Value) and isinstance(right, Constant):
        linear(assembler, operation, left, right)
    elif isinstance(left, Constant) and isinstance(right, Value):  # W x, as (xT WT)T
        flipped = replace(right, dims=swapped(right.dims))
        linear(assembler, operation, flipped, left, swap=len(right.dims) > 1)
    else:
        raise NetworkError("a product takes two operands")


def linear(
    assembler: Assembler,
    operation: ModelOperation,
    value: Value,
    weight: Constant,
    *,
    swap: bool = False,
) -> None:
    """A product with a constant matrix, or with one for each of several groups.

    ``swap``: the file's output has its last two dimensions the other way round.
    """
    copies = weight.copies
    if not weight.trained and len(weight.shape) == len(value.dims) > 2:
        copies = weight.shape[0]  # as the states that linear attention begins with
    if copies > 1 and copies == count(value.dims[:1], Role.SAMPLE):
        weight = replace(weight, shape=weight.shape[1:], copies=0)  # the same for each sample
    depth, bias = size_of(value.dims[-1]), assembler.operand(operation, 2)
    features = 1 if len(weight.shape) == 1 else operation.output[-2 if swap else -1]
    groups, odd = divmod(math.prod(weight.shape), depth * features)
    if odd or groups < 1:
        raise NetworkError(f"{value.shape} times {weight.shape} is not {operation.output}")
    if groups > 1 and math.prod(value.shape[:-1]) * features != math.prod(operation.output):
        _spread(assembler, operation, value, weight, swap=swap)
        return
    sizes = _sizes(value.dims, groups, features)
    sizes["bias"] = assembler.biased(bias)
    if isinstance(bias, Constant) and (own := math.prod(bias.shape)) != groups * features:
        sizes |= {"bias": False, "extra": own * sizes["bias"]}
    layer = assembler.weighted(operation, "fc", weight, value, **sizes)
    role = Role.POSITION if groups == 1 else Role.CHANNEL
    rows = tuple(retag(d, role) for d in value.dims[:-1])
    if groups > 1:
        rows = (*rows[:-1], retag(rows[-1], Role.POSITION))
    dims = (*rows, dim(features, Role.CHANNEL))
    dims = swapped(dims) if swap else dims
    assembler.product(operation, layer, reshaped(dims, operation.output))


def _spread(
    assembler: Assembler, operation: ModelOperation, value: Value, weight: Constant, *, swap: bool
) -> None:
    """Several matrices that meet the same rows: an einsum, without dimensions of one."""
    rank = len(operation.output)

    def term(shape: Shape, last: str) -> dict[str, int]:
        ahead = zip(_FREE[rank - len(shape) :], shape[:-2], strict=False)
        return {c: n for c, n in ahead if n > 1} | dict(zip(last, shape[-2:], strict=False))

    a = term(value.shape, "rd")
    b = term(weight.shape, "cd" if swap else "dc")
    made = term(operation.output, "cr" if swap else "rc")
    sizes = {*a.items(), *b.items(), *made.items()}
    if len(sizes) != len(dict(sizes)):
        raise NetworkError(f"{value.shape} times {weight.shape} is not {operation.output}")
    lead = [d for d in value.dims[:-2] if size_of(d) > 1]
    value = replace(value, dims=(*lead, *value.dims[-2:]))
    weight = replace(weight, shape=tuple(b.values()))
    terms = ("".join(a), "".join(b), "".join(made))
    result = _summed(assembler, operation, value, weight, terms)
    name = next(iter(operation.outputs))
    assembler.values[name] = replace(result, dims=reshaped(result.dims, operation.output))


def _sizes(dims: Dims, groups: int, features: int) -> dict[str, Any]:
    """Shapes of a linear layer on every position, or on those of each group."""
    rows = [retag(d, Role.POSITION) for d in dims[:-1]]
    area = area_of(rows) if groups == 1 else (count(rows, Role.POSITION) // groups, 1)
    into, out = Tensor(groups * size_of(dims[-1]), *area), Tensor(groups * features, *area)
    return {"input": into, "output": out, "groups": groups}


def experts(assembler: Assembler, operation: ModelOperation) -> None:
    """Rows that each meet one of several matrices, which one is not known before it runs.

    Counted as a router that is in balance deals them out: as many to each expert.
    """
    value, weight = assembler.computed(operation, 0), assembler.operand(operation, 1)
    if not isinstance(weight, Constant) or len(weight.shape) != 3 or len(value.dims) != 2:
        assembler.warn(operation, "a grouped product of other tensors than rows and matrices")
        assembler.other(operation)
        return
    bias = assembler.operand(operation, 3)
    groups, depth, features = weight.shape
    if (size_of(value.dims[1]), operation.output[-1]) != (depth, features):
        raise NetworkError(f"{value.shape} times {weight.shape} is not {operation.output}")
    rows = size_of(value.dims[0]) // count(value.dims[:1], Role.SAMPLE)
    each = -(-rows // groups)
    if rows % groups:
        assembler.notes.append(
            f"{operation.name}: a sample's {rows} rows do not deal out to {groups} experts; "
            f"counted as {each} for each"
        )
    into, out = groups * depth, groups * features
    sizes = {"input": Tensor(into, each), "output": Tensor(out, each), "groups": groups}
    biased = assembler.biased(bias)
    layer = assembler.weighted(operation, "fc", weight, value, **sizes, bias=biased)
    dims = (retag(value.dims[0], Role.POSITION), dim(features, Role.CHANNEL))
    assembler.product(operation, layer, dims)


def computed(assembler: Assembler, operation: ModelOperation, left: Value, right: Value) -> None:
    """A product of two computed tensors: heads, windows and the like are its groups."""
    a, b = _matrix(left.dims, first=True), _matrix(right.dims, first=False)
    depth, features = size_of(a[-1]), size_of(b[-1])
    if depth != size_of(b[-2]):
        raise NetworkError(f"{left.shape} times {right.shape}: {depth} is not {size_of(b[-2])}")
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


def attention(assembler: Assembler, operation: ModelOperation) -> None:
    """Fused attention, whose operands are (samples, heads, positions, features).

    With the attributes ``heads`` and ``kv_heads`` they are (samples,
    positions, heads * features), and so is the result. What is ``causal`` says so on its
    softmax, for whoever fuses it.
    """
    query, key, value = (_operand(assembler, operation, at) for at in range(3))
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
    further = zip(
        operation.attributes.get("further", ()),
        (key, value, assembler.made_before(scores.name)),
        strict=False,
    )
    assembler.values.update(further)
    mask = assembler.operand(operation, 3)
    if isinstance(mask, Constant) and mask.trained:
        name, reads = f"{operation.name}.mask", (scores.name, operation.inputs[3])
        assembler.other(ModelOperation(name, "add", reads, {name: rows}))
        softmax = replace(softmax, inputs=(name,))
    assembler.unary(softmax, causal=bool(operation.attributes.get("causal", False)))
    computed(assembler, context, assembler.made_before(softmax.name), value)
    made = assembler.made_before(context.name)
    if "heads" in operation.attributes:
        batch, heads, positions, features = made.dims
        made = replace(made, dims=(batch, positions, (*heads, *features)))
    assembler.values[next(iter(operation.outputs))] = made


def _operand(assembler: Assembler, operation: ModelOperation, at: int) -> Value:
    """Queries, keys or values by heads; the latter two behind those of the past."""
    value = assembler.computed(operation, at)
    if (heads := operation.attributes.get("heads" if at == 0 else "kv_heads")) is not None:
        batch, positions, features = value.shape
        split = reshaped(value.dims, (batch, positions, heads, features // heads))
        value = replace(value, dims=(split[0], split[2], split[1], split[3]))
    past = assembler.operand(operation, at + 3) if at else None
    if past is None:
        return value
    name, shape = f"{operation.name}.{('keys', 'values')[at - 1]}", list(value.shape)
    shape[-2] += past.shape[-2]
    assembler.values[name] = value
    reads = (name, operation.inputs[at + 3])
    assembler.join(ModelOperation(name, "concat", reads, {name: tuple(shape)}))
    return assembler.made_before(name)


def einsum(assembler: Assembler, operation: ModelOperation) -> None:
    """A product of two operands, a constant one on either side; anything else an operator.

    With a constant and no sum it is an element-wise product.
    """
    operands, equation = assembler.operands(operation), operation.attributes["equation"]
    terms = _terms(equation, [len(v.shape) for v in operands])
    if terms is None or not _is_product(*terms):
        assembler.warn(operation, f"Einsum {equation!r}, which is no matrix product")
        assembler.other(operation)
        return
    (left, right), (a, b, result) = operands, terms
    if isinstance(left, Constant):
        left, right, a, b = right, left, b, a
    assert isinstance(left, Value)  # noqa: S101  (what is of constants alone is constant)
    if isinstance(right, Constant) and {*a, *b} <= {*result}:  # nothing is summed: a gate
        of = {c: dim(n, Role.CHANNEL) for c, n in zip(b, right.shape, strict=True)}
        of |= dict(zip(a, left.dims, strict=True))
        gate = replace(operation, attributes={"operator": "mul"})
        assembler.other(gate, tuple(of[c] for c in result))
        return
    made = _summed(assembler, operation, left, right, (a, b, result))
    assembler.values[next(iter(operation.outputs))] = made


def _summed(
    assembler: Assembler,
    operation: ModelOperation,
    left: Value,
    right: Value | Constant,
    terms: tuple[str, str, str],
) -> Value:
    """What an einsum that is a product makes of two operands."""
    a, b, result = terms
    size = dict(zip(a + b, left.shape + right.shape, strict=True))
    batch = [c for c in a if c in b and c in result]
    rows = [c for c in a if c not in b]
    depth = [c for c in a if c in b and c not in result]
    columns = [c for c in b if c not in a]
    output = next(iter(operation.outputs))
    merged = [math.prod(size[c] for c in group) for group in (rows, columns)]
    shape = (*(size[c] for c in batch), *merged)
    product = replace(operation, inputs=(), outputs={output: shape})
    one = replace(left, dims=_gathered(left.dims, a, batch, rows, depth))
    if isinstance(right, Constant):
        linear(assembler, product, one, right)
    else:
        other = replace(right, dims=_gathered(right.dims, b, batch, depth, columns))
        computed(assembler, product, one, other)
    made = assembler.made_before(output)
    order = [*batch, *rows, *columns]
    apart = dict(zip(order, reshaped(made.dims, [size[c] for c in order]), strict=True))
    return replace(made, dims=tuple(apart[c] for c in result))


def _is_product(left: str, right: str, result: str) -> bool:
    """Whether every label is summed over both operands, or kept from one or both."""
    once = all(len(set(term)) == len(term) for term in (left, right, result))
    return once and {*left} ^ {*right} <= {*result} <= {*left} | {*right}


def _gathered(dims: Dims, labels: str, batch: Sequence[str], *merged: Sequence[str]) -> Dims:
    """Batch dimensions as they are, then one dimension for each group of labels."""
    of = dict(zip(labels, dims, strict=True))
    joined = [tuple(factor for c in group for factor in of[c]) for group in merged]
    return (*(of[c] for c in batch), *joined)


def _terms(equation: str, ranks: Sequence[int]) -> tuple[str, str, str] | None:
    """Labels of two operands and a result, an ellipsis written out; None of anything else.

    A result that is not said has the labels that stand once, in order.
    """
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != 2 or len(ranks) != 2:
        return None
    if not arrow:
        once = sorted(c for c in left if c.isalpha() and left.count(c) == 1)
        result = "..." * ("..." in left) + "".join(once)
    spans = [
        rank - len(term.replace("...", "")) if "..." in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    full = [t.replace("...", _FREE[64 - n :]) for t, n in zip(terms, spans, strict=True)]
    if [len(term) for term in full] != [*ranks]:
        return None
    return full[0], full[1], result.replace("...", _FREE[64 - max(spans) :])
