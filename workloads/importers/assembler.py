"""The assembler: operations of a model, one after the other, become layers of a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from workloads.importers.dims import (
    Dims,
    Role,
    broadcast,
    dim,
    expanded,
    flattened,
    like,
    mixed,
    reduced,
    reshaped,
    shape_of,
    tensor_of,
    written,
)
from workloads.importers.neutral import Constant, Model, ModelOperation, Shape, printable
from workloads.layer_types import Layer
from workloads.tensors import INPUT, NetworkError, Tensor

CHANNELS_FIRST = frozenset({"conv", "max_pool", "avg_pool", "batch_norm"})
"""Verbs whose first operand is (samples, channels, positions ...)."""
COPIES = frozenset({"repeat", "tile", "repeat_interleave"})
"""Operators that write a tensor several times, the last one each element by itself."""
LEARNED = "learned"
"""The operator of what no input is needed for."""
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Value:
    """A computed tensor: the layer that made it, and what its dimensions stand for.

    ``behind`` is the product or join whose layout it has (None: the network's input).
    """

    dims: Dims
    source: str = INPUT
    behind: str | None = None

    @property
    def shape(self) -> Shape:
        """The plain shape, samples included."""
        return shape_of(self.dims)

    @property
    def tensor(self) -> Tensor:
        """Channels and positions of one sample."""
        return tensor_of(self.dims)


class Assembler:
    """Layers so far, and what every tensor of the model is by now."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.layers: list[Layer] = []
        self.values: dict[str, Value | Constant] = dict(model.constants)
        self.notes = list(model.notes)
        self._names = {INPUT: 1}
        """Of each name, the last number behind it."""
        self._owners: dict[tuple[frozenset[str], str], str] = {}
        self._parts: dict[frozenset[str], dict[str, int]] = {}
        """Of the same parameters the elements of each part that layers have."""
        self._counted: set[str] = set()
        self._biases = set[tuple[frozenset[str], str]]()
        first = {x: op.verb for op in reversed(model.operations) for x in op.inputs[:1]}
        for name, shape in model.inputs.items():
            self.values[name] = Value(self._input_dims(name, shape, first.get(name, "")))

    def _input_dims(self, name: str, shape: Shape, reader: str) -> Dims:
        """Samples; then channels first for maps, last for anything else.

        Samples are the first dimension, or the one other of the batch's size (ids by table).
        """
        batch = self.model.batch
        fits = [axis for axis, n in enumerate(shape) if n == batch]
        sample = fits[0] if fits and (fits[0] == 0 or (len(fits) == 1 and shape[0] > 1)) else None
        rest = [axis for axis in range(len(shape)) if axis != sample]
        channel = rest[0 if reader in CHANNELS_FIRST or len(rest) > 2 else -1] if rest else None
        roles = dict.fromkeys(rest, Role.POSITION)
        if channel is not None and name not in self.model.whole:
            roles[channel] = Role.CHANNEL
        return tuple(dim(n, roles.get(axis, Role.SAMPLE)) for axis, n in enumerate(shape))

    def _maps(self, shape: Shape, axis: int) -> Dims:
        """Samples first, channels at ``axis``, positions elsewhere."""
        roles = {0: Role.SAMPLE, axis: Role.CHANNEL}
        return tuple(dim(n, roles.get(i, Role.POSITION)) for i, n in enumerate(shape))

    # --- what operations read

    def computed(self, operation: ModelOperation, at: int) -> Value:
        """The computed operand at a place; raises NetworkError where it is another thing."""
        value = self.operand(operation, at)
        if not isinstance(value, Value):
            raise NetworkError(f"input {at} must be computed, not a constant")
        return value

    def made_before(self, name: str) -> Value:
        """A computed tensor by its name."""
        return self.computed(ModelOperation(name, "", (name,), {}), 0)

    def operand(self, operation: ModelOperation, at: int) -> Value | Constant | None:
        """The operand at a place, None where an optional one is left out."""
        name = operation.inputs[at] if at < len(operation.inputs) else ""
        if not name:
            return None
        if name not in self.values:
            raise NetworkError(f"it reads {name!r}, which nothing before it makes")
        return self.values[name]

    def operands(self, operation: ModelOperation) -> list[Value | Constant]:
        """All operands that are there."""
        found = (self.operand(operation, at) for at in range(len(operation.inputs)))
        return [value for value in found if value is not None]

    # --- what operations make

    def layer(self, operation: ModelOperation, kind: str, name: str = "", **fields: Any) -> Layer:
        """Append a layer under a name not used so far."""
        wanted = printable(name or operation.name or kind)[:_LONGEST_NAME]
        unique = wanted
        while unique in self._names:
            self._names[wanted] += 1
            unique = f"{wanted}_{self._names[wanted]}"
        self._names[unique] = 1
        self.layers.append(Layer(unique, kind, **fields))
        return self.layers[-1]

    def weighted(
        self, operation: ModelOperation, kind: str, weight: Constant, value: Value, **fields: Any
    ) -> Layer:
        """Append a layer of a value and a weight matrix, named after that; one again is shared.

        Further parameters that the matrix is made of (LoRA, weight norm) are its ``extra``.
        """
        of = frozenset(weight.trained)
        names = [name for name in weight.trained if name.endswith(".weight")]
        key = of, self._part(weight)
        shared = self._owners.get(key, "") if of else ""
        name = names[0].removesuffix(".weight") if len(names) == 1 else ""
        if name:  # a tied matrix has a name of its own in every module
            name = operation.attributes.get("module", "" if shared else name)
        fields |= {"inputs": (value.source,), "shared": shared}
        layer = self.layer(operation, kind, name, **fields)
        if shared and self._owner(shared).weights != layer.weights:
            layer = self.layers[-1] = replace(layer, shared="")
        self._owners.setdefault(key, layer.name)
        further = self.count([weight]) - layer.weights
        if further > 0 and not weight.part:
            layer = self.layers[-1] = replace(layer, extra=layer.extra + further)
        return layer

    def _part(self, weight: Constant) -> str:
        """Which part of its parameters it is; one as large where they have no more parts."""
        of = frozenset(weight.trained)
        parts = self._parts.setdefault(of, {})
        if weight.part in parts:
            return weight.part
        taken, each = sum(parts.values()), math.prod(weight.shape)
        if parts and taken + each > sum(weight.trained.values()):
            return next((one for one, n in parts.items() if n == each), next(iter(parts)))
        parts[weight.part] = each
        return weight.part

    def _owner(self, name: str) -> Layer:
        return next(layer for layer in self.layers if layer.name == name)

    def count(self, constants: Sequence[Value | Constant | None]) -> int:
        """Trained elements among some operands that no layer has counted before."""
        new = {
            name: elements
            for constant in constants
            if isinstance(constant, Constant)
            for name, elements in constant.trained.items()
            if name not in self._counted
        }
        self._counted.update(new)
        return sum(new.values())

    def biased(self, vector: Value | Constant | None) -> bool:
        """Whether a layer adds a trained vector that no other has; a module again has its first."""
        if not isinstance(vector, Constant):
            return False
        key = frozenset(vector.trained), vector.part
        again = bool(vector.trained) and key in self._biases
        self._biases.add(key)
        self.count([vector])
        return not again

    def made(self, operation: ModelOperation, layer: Layer, dims: Dims, behind: str | None) -> None:
        """The first output is what a layer wrote; any further ones come from it too."""
        for i, (name, shape) in enumerate(operation.outputs.items()):
            self.values[name] = Value(like(dims, shape) if i else dims, layer.name, behind)

    def product(self, operation: ModelOperation, layer: Layer, dims: Dims) -> None:
        """The first output is what a product wrote, with the shape the file says."""
        self.made(operation, layer, dims, layer.name)
        if shape_of(dims) != operation.output:
            raise NetworkError(f"its output should be {shape_of(dims)}, not {operation.output}")

    def warn(self, operation: ModelOperation, what: str) -> None:
        """Note an operation of which only the memory traffic is known."""
        self.notes.append(f"{operation.name}: {what}; counted as memory traffic")

    # --- views and unweighted operators

    def view(self, operation: ModelOperation) -> None:
        """Reshape, transpose, slice, expand: no layer; a flattened map is one, as in the zoo.

        A slice of nothing (of features that are not rotated, where all are) is as good as constant.
        """
        for output, shape in operation.outputs.items():
            value = self.computed(operation, 0)
            if 0 in shape:
                self.values[output] = Constant(shape)
                continue
            axis = operation.attributes["axis"] if operation.verb == "select" else None
            if axis is not None and any(role is Role.SAMPLE for _, role in value.dims[axis]):
                self.notes.append(
                    f"{operation.name}: it takes one of {self.model.batch} samples, so that what "
                    "follows may be counted for all of them; trace it with another batch"
                )
            if operation.verb == "reshape" and math.prod(value.shape) != math.prod(shape):
                raise NetworkError(f"{value.shape} cannot be seen as {shape}")
            dims = _viewed(operation, value.dims, shape)
            if mixed(dims):
                dims = flattened(dims)
                flat = self.layer(
                    operation,
                    "flatten",
                    inputs=(value.source,),
                    input=value.tensor,
                    output=tensor_of(dims),
                )
                value = replace(value, source=flat.name)
            self.values[output] = replace(value, dims=dims)

    def unary(self, operation: ModelOperation, **fields: Any) -> None:
        """An unweighted operator of one input that keeps meaning and layout."""
        value, shape = self.computed(operation, 0), operation.output
        dims = like(value.dims, shape)
        if operation.verb == "batch_norm":
            found = self.count([self.operand(operation, at) for at in (1, 2)])
            more = found - 2 * tensor_of(dims).channels
            fields |= {"extra": max(more, 0), "sizes": (("untrained", -more),) * (more < 0)}
        self.count(self.operands(operation))
        self.applied(operation, operation.verb, value, dims, **fields)

    def applied(
        self, operation: ModelOperation, kind: str, value: Value, dims: Dims, **fields: Any
    ) -> None:
        """An unweighted layer of one operand, whose path its output is on."""
        dims = written(dims, self.model.batch)
        shapes = {"input": value.tensor, "output": tensor_of(dims)} | fields
        layer = self.layer(operation, kind, inputs=(value.source,), **shapes)
        self.made(operation, layer, dims, value.behind)

    def join(self, operation: ModelOperation) -> None:
        """Add, multiply or concatenate; with one path behind it, an operator like any other."""
        paths = {v.behind for v in self.operands(operation) if isinstance(v, Value)} - {None}
        self.other(operation, kind=operation.verb if len(paths) > 1 else "other")

    def other(
        self, operation: ModelOperation, made: Dims | None = None, kind: str = "other"
    ) -> None:
        """An unweighted operator, counted as memory traffic; ``made`` where its output is known."""
        operands = self.operands(operation)
        values = [v for v in operands if isinstance(v, Value)]
        extra = self.count(operands)
        if self._bias(operation, operands, extra):
            return
        dims = self._joined(operation, values) if made is None else made
        dims = written(dims, self.model.batch)
        behind = list(dict.fromkeys(v.behind for v in values if v.behind is not None))
        first, *others = (value.tensor for value in values)
        word = str(operation.attributes.get("operator", operation.verb))
        layer = self.layer(
            operation,
            kind,
            inputs=tuple(value.source for value in values),
            input=first,
            others=tuple(others),
            output=tensor_of(dims),
            operator=word if kind == "other" else "",
            extra=extra,
        )
        path = layer.name if len(behind) > 1 else behind[0] if behind else None
        self.made(operation, layer, dims, path)

    def learned(self, operation: ModelOperation) -> None:
        """What is trained and the same for each sample, as a layer that reads next to nothing."""
        name, shape = next(iter(operation.outputs.items()))
        dims = self._input_dims(name, shape, "")
        layer = self.layer(
            operation,
            "other",
            inputs=(INPUT,),
            input=Tensor(1),
            output=tensor_of(dims),
            operator=LEARNED,
            extra=self.count(self.operands(operation)),
        )
        self.made(operation, layer, dims, None)

    def _joined(self, operation: ModelOperation, values: Sequence[Value]) -> Dims:
        shape = operation.output
        if (axis := operation.attributes.get("channel_axis")) is not None:
            return self._maps(shape, axis)
        word, first = operation.attributes.get("operator"), self.operand(operation, 0)
        if word in COPIES and isinstance(first, Value):
            flat = len(shape) < len(first.shape)  # repeat_interleave without a dimension
            dims = reshaped(first.dims, [math.prod(first.shape)]) if flat else first.dims
            return expanded(dims, shape, inside=word == "repeat_interleave")
        if "axes" in operation.attributes:
            return reduced(values[0].dims, operation.attributes["axes"], shape)
        if operation.verb == "concat" or len(values) == 1:
            return like(values[0].dims, shape)
        return broadcast([value.dims for value in values], shape)

    def _bias(
        self, operation: ModelOperation, operands: Sequence[Value | Constant], extra: int
    ) -> bool:
        """Whether it adds a trained vector right behind a product, which then has a bias."""
        last = self.layers[-1] if self.layers else None
        value = next((v for v in operands if isinstance(v, Value)), None)
        if operation.verb != "add" or last is None or value is None or value.source != last.name:
            return False
        if not last.weighted or last.bias or len(operands) != 2 or extra != last.output.channels:
            return False
        self.layers[-1] = replace(last, bias=True)
        output, shape = next(iter(operation.outputs.items()))
        self.values[output] = replace(value, dims=like(value.dims, shape))
        return True


def _viewed(operation: ModelOperation, dims: Dims, shape: Shape) -> Dims:
    if operation.verb == "transpose":
        return tuple(dims[axis] for axis in operation.attributes["perm"])
    if operation.verb == "select":
        axis = operation.attributes["axis"] % len(dims)
        return dims[:axis] + dims[axis + 1 :]
    if operation.verb == "expand":
        return expanded(dims, shape)
    return reshaped(dims, shape) if operation.verb == "reshape" else like(dims, shape)
