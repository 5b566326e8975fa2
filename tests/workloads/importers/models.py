"""Models in neutral terms, written operation by operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workloads import Layer, Network
from workloads.importers.network import assemble
from workloads.importers.neutral import Constant, Model, ModelOperation, Shape

Shapes = Mapping[str, Shape]


def op(
    verb: str, inputs: str, outputs: Shapes | Shape, name: str = "", **attributes: Any
) -> ModelOperation:
    """An operation on tensors named with blanks between; ``-`` is one left out.

    Given one shape alone, it makes a tensor of its own name.
    """
    reads = tuple("" if word == "-" else word for word in inputs.split())
    made = outputs if isinstance(outputs, Mapping) else {name or verb: outputs}
    return ModelOperation(name or next(iter(made)), verb, reads, made, attributes)


def trained(**shapes: Shape) -> dict[str, Constant]:
    """Constants that are parameters of the same name."""
    found = {}
    for name, shape in shapes.items():
        elements = 1
        for side in shape:
            elements *= side
        found[name] = Constant(shape, {name: elements})
    return found


def network(
    *operations: ModelOperation,
    x: Shape = (1, 3, 8, 8),
    constants: Mapping[str, Constant] | None = None,
    batch: int = 1,
    inputs: Shapes | None = None,
    whole: frozenset[str] = frozenset(),
) -> Network:
    """The network of a model that reads ``x`` (and ``inputs``)."""
    shapes = {"x": x, **(inputs or {})}
    return assemble(
        Model("mine", "mine.file", shapes, constants or {}, operations, batch, whole, "words")
    )


def layers(*operations: ModelOperation, **model: Any) -> dict[str, Layer]:
    """Its layers by name."""
    return {layer.name: layer for layer in network(*operations, **model).layers}
