"""A node of torch.export's graph: its arguments, and the names of its tensors."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from workloads.importers.neutral import Constant, ModelOperation, Shape


@dataclass(frozen=True, slots=True)
class Call:
    """A node of the graph on its way to an operation."""

    node: torch.fx.Node
    kind: str
    module: str
    outputs: Mapping[str, Shape]
    name: str
    constants: dict[str, Constant]
    """Those so far: a translation may add to them."""

    def arg(self, at: int, key: str, default: Any = None) -> Any:
        """An argument by place or by name."""
        args, kwargs = self.node.args, self.node.kwargs
        return args[at] if at < len(args) else kwargs.get(key, default)

    def shape(self, at: int) -> Shape:
        """The shape of an argument that is a tensor."""
        value = self.node.args[at]
        assert isinstance(value, torch.fx.Node)  # noqa: S101  (torch's own signatures)
        return tuple(int(n) for n in value.meta["val"].shape)

    def operation(self, verb: str, *inputs: Any, **attributes: Any) -> ModelOperation:
        """The operation of this name; arguments that are no tensors count as left out."""
        names = tuple(tensor_name(value) for value in inputs)
        return ModelOperation(
            self.name, verb, names, self.outputs, {"module": self.module, **attributes}
        )

    def all_inputs(self) -> tuple[str, ...]:
        """The names of all tensors among the arguments, in lists too."""
        values = [*self.node.args, *self.node.kwargs.values()]
        return tuple(name for value in values for name in _tensor_names(value))


def tensor_name(value: Any) -> str:
    """The name of the tensor that an argument is; "" for anything else."""
    if not isinstance(value, torch.fx.Node):
        return ""
    if value.target is operator.getitem:
        return f"{tensor_name_of(value.args[0])}.{value.args[1]}"
    return value.name if isinstance(value.meta.get("val"), torch.Tensor) else ""


def tensor_name_of(value: Any) -> str:
    """The prefix of the names of a tuple's tensors."""
    return value.name if isinstance(value, torch.fx.Node) else ""


def _tensor_names(value: Any) -> Iterator[str]:
    if isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensor_names(part)
    elif name := tensor_name(value):
        yield name
