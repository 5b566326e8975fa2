"""Rows picked by ids: embeddings, bags of them, and any other tensor with an index."""

from __future__ import annotations

import math
from dataclasses import replace

from workloads.importers.assembler import Assembler, Value
from workloads.importers.dims import (
    Dim,
    Dims,
    Role,
    broadcast,
    count,
    dim,
    like,
    retag,
    shape_of,
    size_of,
    tensor_of,
)
from workloads.importers.neutral import Constant, ModelOperation
from workloads.tensors import NetworkError, Tensor


def embedding(assembler: Assembler, operation: ModelOperation) -> None:
    """Rows of a trained table; a gather from anything else is an operator.

    Of an ``embedding_bag`` those of a bag are made one: an embedding that writes fewer rows.
    Ids are (bags, ids of each), or one row of ids with the offsets at which bags begin.
    """
    bag = operation.verb == "embedding_bag"
    table, ids = assembler.operand(operation, 0), assembler.computed(operation, 1)
    if not isinstance(table, Constant) or len(table.shape) != 2 or not table.trained:
        attributes = {"operator": operation.verb if bag else "gather"}
        assembler.other(replace(operation, attributes=attributes))
        return
    positions: Dims = tuple(retag(d, Role.POSITION) for d in ids.dims)
    read = tensor_of((*positions, ()))
    if bag:
        positions = (_bags(assembler, operation, ids),)
        read = Tensor(1, -(-math.prod(ids.shape) // count(positions, Role.SAMPLE)))
    dims = (*positions, dim(table.shape[1], Role.CHANNEL))
    sizes = {"input": read, "output": tensor_of(dims), "vocabulary": table.shape[0]}
    layer = assembler.weighted(operation, "embedding", table, ids, **sizes)
    assembler.product(operation, layer, dims)
    if bag and assembler.operand(operation, 3) is not None:
        assembler.notes.append(f"{operation.name}: the weights of its ids are not counted")


def _bags(assembler: Assembler, operation: ModelOperation, ids: Value) -> Dim:
    """What the bags stand for: they are samples, or several for each, whatever ids look like.

    A row of ids of all samples, and offsets into it, do not begin with the
    samples as other inputs do.
    """
    bags, batch = operation.output[0], assembler.model.batch
    offsets = assembler.operand(operation, 2)
    known = ids if len(ids.dims) == 2 else offsets
    if isinstance(known, Value) and size_of(known.dims[0]) == bags:
        found = retag(known.dims[0], Role.POSITION)
        if count((found,), Role.SAMPLE) > 1:
            return found
    if bags % batch:
        raise NetworkError(f"its {bags} bags are not those of {batch} samples")
    return dim(batch, Role.SAMPLE) + dim(bags // batch, Role.POSITION)


def index(assembler: Assembler, operation: ModelOperation) -> None:
    """What ids pick along some axes of a tensor; either may be constant.

    Attribute ``axes``: those of the ids, one each. Ids of neighbouring axes
    stand where these were, others in front.
    """
    axes: tuple[int, ...] = operation.attributes["axes"]
    table, *ids = (assembler.operand(operation, at) for at in range(len(operation.inputs)))
    if isinstance(table, Value):
        dims = table.dims
    else:
        shape = table.shape if table is not None else ()
        dims = tuple(dim(n, Role.CHANNEL) for n in shape)
    along = axes[-1]
    computed = [i.dims for i in ids if isinstance(i, Value)]
    rank = len(operation.output) - len(dims) + len(axes)
    first = axes[0] if axes == tuple(range(axes[0], along + 1)) else 0
    picked: Dims = like(dims[along : along + 1], operation.output[first : first + rank])
    if computed:
        met = broadcast(computed, operation.output[first : first + rank])
        picked = tuple(retag(d, Role.POSITION) for d in met)
    elif rank > 1:
        picked = tuple(dim(n, Role.POSITION) for n in operation.output[first : first + rank])
    rest = tuple(d for axis, d in enumerate(dims) if axis not in axes)
    made = (*rest[:first], *picked, *rest[first:])
    if shape_of(made) != operation.output:
        raise NetworkError(f"its output should be {shape_of(made)}, not {operation.output}")
    assembler.other(replace(operation, attributes={"operator": "gather"}), made)
