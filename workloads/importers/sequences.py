"""Recurrent cells."""

from __future__ import annotations

from dataclasses import replace

from workloads.importers.assembler import Assembler, Value
from workloads.importers.dims import Dims, Role, area_of, dim, retag, size_of
from workloads.importers.neutral import Constant, ModelOperation
from workloads.tensors import Tensor


def cell(assembler: Assembler, operation: ModelOperation) -> None:
    """An LSTM or GRU along a sequence: outputs are all states, then the last ones.

    Attributes: ``hidden``, ``directions``, ``biased``, ``batch_axis`` (0 or 1)
    and ``split``: whether directions are a dimension of their own (ONNX).
    """
    value, attributes = assembler.computed(operation, 0), operation.attributes
    rest = assembler.operands(operation)[1:]
    trained = {k: n for v in rest if isinstance(v, Constant) for k, n in v.trained.items()}
    directions, hidden = attributes["directions"], attributes["hidden"]
    height, width = area_of([retag(d, Role.POSITION) for d in value.dims[:2]])
    steps = Tensor(size_of(value.dims[2]), height, width)
    layer = assembler.weighted(
        operation,
        operation.verb,
        Constant((), trained),
        inputs=(value.source,),
        input=steps,
        output=replace(steps, channels=directions * hidden),
        directions=directions,
        bias=attributes["biased"],
    )
    first, second = (retag(d, Role.POSITION) for d in value.dims[:2])
    both, features = dim(directions, Role.CHANNEL), dim(hidden, Role.CHANNEL)
    every: Dims = (first, second, (*both, *features))
    if attributes["split"]:
        every = (first, second, both, features)
        if attributes["batch_axis"]:
            every = (first, both, second, features)
    last = (both, second if attributes["batch_axis"] else first, features)
    for name, dims in zip(operation.outputs, (every, last, last), strict=False):
        assembler.values[name] = Value(dims, layer.name, layer.name)
    if any(isinstance(v, Value) and v.behind is not None for v in rest):
        assembler.notes.append(f"{operation.name}: what sets its initial state is not followed")
