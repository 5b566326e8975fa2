"""Convolutions, pools and means over maps, and cells that run along sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from workloads.importers.assembler import Assembler, Value
from workloads.importers.dims import Dims, Role, area_of, count, dim, like, retag, size_of
from workloads.importers.neutral import Constant, ModelOperation, Shape
from workloads.tensors import NetworkError, Sides, Tensor


def conv(assembler: Assembler, operation: ModelOperation) -> None:
    """A convolution, grouped, dilated or transposed as its attributes say."""
    value, weight = assembler.computed(operation, 0), assembler.operand(operation, 1)
    if not isinstance(weight, Constant):
        assembler.warn(operation, "a convolution with computed kernels")
        assembler.other(operation)
        return
    if (groups := operation.attributes.get("groups", 1)) < 1:
        raise NetworkError(f"{groups} groups: at least one")
    shape = operation.output
    dims = _map_dims(value.dims, shape)
    bias, sizes = assembler.operand(operation, 2), _measures(operation)
    sizes |= {"input": _map(value.dims, value.shape), "output": _map(dims, shape)}
    biased = assembler.biased(bias) or isinstance(bias, Value)
    layer = assembler.weighted(operation, "conv", weight, value, **sizes, bias=biased)
    if layer.weights != math.prod(weight.shape):
        raise NetworkError(f"{layer.weights} weights expected, its tensor is {weight.shape}")
    assembler.product(operation, layer, dims)


def pool(assembler: Assembler, operation: ModelOperation) -> None:
    """A max or average pool."""
    value, shape = assembler.computed(operation, 0), operation.output
    dims = _map_dims(value.dims, shape)
    fields = _measures(operation) | {"input": _map(value.dims, value.shape)}
    assembler.applied(operation, operation.verb, value, dims, output=_map(dims, shape), **fields)


def mean(assembler: Assembler, operation: ModelOperation) -> None:
    """A mean over the positions of a map is an average pool; any other one an operator."""
    value, shape = assembler.computed(operation, 0), operation.output
    axes = sorted({axis % len(value.dims) for axis in operation.attributes["axes"]})
    roles = {role for axis in axes for _, role in value.dims[axis]}
    if not axes or roles - {Role.POSITION} or shape == value.shape:
        assembler.other(replace(operation, attributes={"operator": "mean", "axes": axes}))
        return
    dims: Dims = tuple(() if axis in axes else d for axis, d in enumerate(value.dims))
    if len(shape) < len(dims):
        dims = tuple(d for axis, d in enumerate(dims) if axis not in axes)
    kernel = _two(tuple(size_of(value.dims[axis]) for axis in axes))
    assembler.applied(operation, "avg_pool", value, dims, kernel=kernel)


def cell(assembler: Assembler, operation: ModelOperation) -> None:
    """An LSTM or GRU along a sequence: outputs are all states, then the last ones.

    Attributes: ``hidden``, ``directions``, ``biased``, ``batch_axis`` (0 or 1), the places of its
    ``matrices`` and ``biases``, and ``split``: whether directions are a dimension of their own
    (ONNX). What else is trained (peepholes, first states) is its ``extra``.
    """
    value, attributes = assembler.computed(operation, 0), operation.attributes
    rest = assembler.operands(operation)[1:]
    places = (attributes.get("matrices", (1, 2)), attributes.get("biases", (3,)))
    matrices, biases = ([assembler.operand(operation, at) for at in of] for of in places)
    others = [v for v in rest if v not in matrices and v not in biases]
    directions, hidden = attributes["directions"], attributes["hidden"]
    height, width = area_of([retag(d, Role.POSITION) for d in value.dims[:2]])
    steps = Tensor(size_of(value.dims[2]), height, width)
    states = replace(steps, channels=directions * hidden)
    sizes = {"input": steps, "output": states, "directions": directions}
    sizes["extra"] = assembler.count(others)
    sizes["bias"] = attributes["biased"] and assembler.biased(_all(biases))
    layer = assembler.weighted(operation, operation.verb, _all(matrices), value, **sizes)
    shapes = [v.shape for v in matrices if isinstance(v, Constant)]
    if len(shapes) == len(matrices) and sum(map(math.prod, shapes)) != layer.weights:
        listed = ", ".join(map(str, shapes))
        raise NetworkError(f"{layer.weights} weights expected, its tensors are {listed}")
    first, second = (retag(d, Role.POSITION) for d in value.dims[:2])
    both, features = dim(directions, Role.CHANNEL), dim(hidden, Role.CHANNEL)
    every: Dims = (first, second, (*both, *features))
    last: Dims = (both, second if attributes["batch_axis"] else first, features)
    if attributes["split"] and attributes["batch_axis"]:
        every = (first, both, second, features)
    elif attributes["split"]:  # ONNX with layout=1
        every, last = (first, second, both, features), (first, both, features)
    for name, dims in zip(operation.outputs, (every, last, last), strict=False):
        assembler.values[name] = Value(dims, layer.name, layer.name)
    if any(isinstance(v, Value) and v.behind is not None for v in rest):
        assembler.notes.append(f"{operation.name}: what sets its initial state is not followed")


def _all(tensors: Sequence[Value | Constant | None]) -> Constant:
    """The parameters of several tensors."""
    constants = (one for one in tensors if isinstance(one, Constant))
    return Constant((), {key: n for one in constants for key, n in one.trained.items()})


def _measures(operation: ModelOperation) -> dict[str, Any]:
    given, windows = operation.attributes, ("kernel", "stride", "padding", "dilation")
    found = {key: _two(tuple(given[key]), key != "padding") for key in windows if key in given}
    return found | {key: given[key] for key in ("groups", "transposed") if key in given}


def _two(values: tuple[int, ...], one: int = 1) -> Sides:
    """A window's measures as height and width (``one`` of a sequence); a third joins the width."""
    if len(values) < 2:
        return (values[0], int(one))
    return (values[0], math.prod(values[1:]))


def _map(dims: Dims, shape: Shape) -> Tensor:
    """Channels, height and width; what else comes in the first dimension adds to the height."""
    rows = size_of(dims[0]) // count(dims[:1], Role.SAMPLE)
    height, *width = shape[2:] if len(shape) > 2 else (1,)
    return Tensor(shape[1], rows * height, math.prod(width))


def _map_dims(before: Dims, shape: Shape) -> Dims:
    rows = retag(before[0], Role.POSITION)
    if len(before) != len(shape):
        raise NetworkError(f"a map of {len(before)} dimensions cannot become {shape}")
    positions = tuple(dim(n, Role.POSITION) for n in shape[2:])
    return like((rows, dim(shape[1], Role.CHANNEL), *positions), shape)
