"""An exported torch program in neutral terms: one walk over its nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.export.graph_signature import InputKind

from workloads.importers.neutral import Constant, Model, ModelOperation, Shape
from workloads.importers.torch import operators
from workloads.tensors import NetworkError

_NEVER_READ = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Reader:
    """Operations and constants so far; a node's tensor is named after the node."""

    def __init__(self, title: str, program: torch.export.ExportedProgram) -> None:
        self.title = title
        self.program = program
        self.constants: dict[str, Constant] = {}
        self.operations: list[ModelOperation] = []

    def model(self) -> Model:
        """The whole program; raises NetworkError naming the node."""
        inputs: dict[str, Shape] = {}
        whole = set()
        specs = {spec.arg.name: spec for spec in self.program.graph_signature.input_specs}
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                spec, value = specs[node.name], node.meta.get("val")
                if not isinstance(value, torch.Tensor):
                    continue
                if spec.kind is not InputKind.USER_INPUT:
                    self._constant(node.name, spec, value)
                else:
                    inputs[node.name] = tuple(int(n) for n in value.shape)
                    if value.dtype in _NEVER_READ:
                        whole.add(node.name)
            elif node.op == "call_function":
                self._call(node)
        batch = next((shape[0] for shape in inputs.values() if shape), 1)
        return Model(
            self.title,
            self.title,
            inputs,
            self.constants,
            tuple(self.operations),
            batch,
            frozenset(whole),
            f"PyTorch module {self.title}",
        )

    def _constant(self, name: str, spec: Any, value: torch.Tensor) -> None:
        shape = tuple(int(n) for n in value.shape)
        trained = {}
        if spec.kind is InputKind.PARAMETER:
            trained = {spec.target: math.prod(shape)}
        self.constants[name] = Constant(shape, trained)

    def _call(self, node: torch.fx.Node) -> None:
        outputs = shapes_of(node.name, node.meta.get("val"))
        if not outputs:
            return
        try:
            module, constants = self.module(node), self.constants
            self.operations += operators.translate(node, outputs, module, constants)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            problem = f"{type(error).__name__}: {error}"[:300]
            raise NetworkError(
                f"{self.title}, node {node.name!r}: {node.target} is not read ({problem})"
            ) from None

    def module(self, node: torch.fx.Node) -> str:
        """The module that a node belongs to."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        return str(stack[-1][0]).removeprefix("L['self']").lstrip(".") if stack else ""


def shapes_of(name: str, value: Any) -> Mapping[str, Shape]:
    """The tensors a node makes by name; the parts of a tuple are numbered."""
    if isinstance(value, torch.Tensor):
        return {name: tuple(int(n) for n in value.shape)}
    if isinstance(value, (tuple, list)):
        parts = [shapes_of(f"{name}.{i}", part) for i, part in enumerate(value)]
        return {key: shape for part in parts for key, shape in part.items()}
    return {}
