"""An exported torch program in neutral terms: one walk over its nodes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from workloads.importers.neutral import Constant, Model, ModelOperation, Shape
from workloads.importers.torch import operators
from workloads.tensors import NetworkError

_NEVER_READ = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

_BLOCKS = frozenset({"wrap_with_autocast", "wrap_with_set_grad_enabled"})
_NO_GRADIENT = "accelarray_no_gradient"
"""Of a node, the block without gradients that it was in."""


class Reader:
    """Operations and constants so far; a node's tensor is named after the node.

    ``notes`` say what of the module is not followed.
    """

    def __init__(
        self, title: str, program: torch.export.ExportedProgram, notes: tuple[str, ...] = ()
    ) -> None:
        self.title = title
        self.program = program
        _inline(program.graph_module)
        self.constants: dict[str, Constant] = {}
        self.operations: list[ModelOperation] = []
        self._notes = list(notes)
        self._views: dict[str, torch.fx.Node] = {}
        """Of views, and of what was changed in place, the tensor whose memory they share."""
        self._changed: set[str] = set()
        """Results of operators that work in place."""
        self._written: dict[str, str] = {}
        """Of tensors into which something was written their names from then on."""
        self._blocks = set[str]()
        self._computed: set[str] = set()
        """Tensors that depend on an input."""

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
                    self._computed.add(node.name)
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
            tuple(self._notes),
        )

    def _constant(self, name: str, spec: Any, value: torch.Tensor) -> None:
        shape = tuple(int(n) for n in value.shape)
        trained = {}
        if spec.kind is InputKind.PARAMETER:
            trained = {spec.target: math.prod(shape)}
        self.constants[name] = Constant(shape, trained)

    def _call(self, node: torch.fx.Node) -> None:
        try:
            outputs = shapes_of(node.name, node.meta.get("val"))
        except GuardOnDataDependentSymNode as error:
            where = f"{self.title}, node {node.name!r}"
            raise NetworkError(f"{where}: its shape depends on values ({error.cond})") from None
        if not outputs:
            return
        try:
            if self._is_written_back(node):
                return
            base = self._written_into(node)
            if node.target is torch.ops.aten.copy_.default:
                made = [self._operation(node, "copy", node.args[1:2], outputs)]
            else:
                made = operators.translate(node, outputs, self.module(node), self.constants)
            if base is not None:
                made.append(self._write(base, node))
            now = self._written
            for one in made:
                reads = tuple(now.get(name, name) for name in one.inputs)
                self.operations.append(replace(one, inputs=reads))
                if self._computed & {*reads}:
                    self._computed |= {*one.outputs}
                    self._note_block(node)
            if base is not None:
                now[base.name] = next(iter(made[-1].outputs))
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            problem = f"{type(error).__name__}: {error}"[:300]
            raise NetworkError(
                f"{self.title}, node {node.name!r}: {node.target} is not read ({problem})"
            ) from None

    def _note_block(self, node: torch.fx.Node) -> None:
        if (block := node.meta.get(_NO_GRADIENT)) and block not in self._blocks:
            self._blocks.add(block)
            self._notes.append(f"{node.name}: gradients go through no_grad here")

    def _written_into(self, node: torch.fx.Node) -> torch.fx.Node | None:
        """The tensor into a view of which a node writes, where it is read again; else None."""
        schema = getattr(node.target, "_schema", None)
        if schema is None or not schema.arguments or not node.args:
            return None
        of, into = node.args[0], schema.arguments[0].alias_info
        if not isinstance(of, torch.fx.Node) or into is None:
            return None
        if node.target is torch.ops.aten.detach.default and of.name in self._computed:
            self._notes.append(f"{node.name}: gradients go through detach here")
        self._views[node.name] = of
        if not into.is_write:
            return None
        self._changed.add(node.name)
        if not (above := [*self._above(of)]):
            return None
        found = next((one for one in above if self._read_behind(one, node)), None)
        others = (one for one in self.program.graph.nodes if one not in (of, found))
        same = (one for one in others if [one, *self._above(one)][-1] is above[-1])
        if any(self._read_behind(one, node) for one in same):
            self._notes.append(f"{node.name}: what it writes is not followed into other views")
        return found

    def _above(self, node: torch.fx.Node) -> Iterator[torch.fx.Node]:
        """The tensors that a view is a view of, up to the one that has the memory."""
        while (above := self._views.get(node.name)) is not None:
            yield above
            node = above

    def _read_behind(self, node: torch.fx.Node, write: torch.fx.Node) -> bool:
        order = self._order
        return order[node] < order[write] and any(order[one] > order[write] for one in node.users)

    @cached_property
    def _order(self) -> Mapping[torch.fx.Node, int]:
        return {node: number for number, node in enumerate(self.program.graph.nodes)}

    def _is_written_back(self, node: torch.fx.Node) -> bool:
        """Whether a node copies what was changed in place to where it is: ``x[0] += 1``."""
        if node.target is not torch.ops.aten.copy_.default or node.users:
            return False
        into, what = node.args[:2]
        if not isinstance(into, torch.fx.Node) or not isinstance(what, torch.fx.Node):
            return False
        return what.name in self._changed and [*self._above(into)][-1:] == [*self._above(what)][-1:]

    def _write(self, base: torch.fx.Node, node: torch.fx.Node) -> ModelOperation:
        """The base with what a node has written into a part of it; a constant one is filled."""
        fills = self._written.get(base.name, base.name) in self.constants
        outputs = shapes_of(f"{node.name}.whole", base.meta["val"])
        return self._operation(node, "fill" if fills else "write", (base, node), outputs)

    def _operation(
        self, node: torch.fx.Node, operator: str, of: Iterable[Any], outputs: Mapping[str, Shape]
    ) -> ModelOperation:
        name = f"{self.module(node)}.{node.name}".lstrip(".")
        inputs = tuple(filter(None, map(operators.tensor_name, of)))
        return ModelOperation(name, "other", inputs, outputs, {"operator": operator})

    def module(self, node: torch.fx.Node) -> str:
        """The module that a node belongs to."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        return str(stack[-1][0]).removeprefix("L['self']").lstrip(".") if stack else ""


def _inline(module: torch.fx.GraphModule) -> None:
    """What is done under autocast or no_grad becomes a part of the graph around it."""
    graph = module.graph
    for node in [one for one in graph.nodes if str(one.target) in _BLOCKS]:
        at = next(i for i, one in enumerate(node.args) if getattr(one, "op", "") == "get_attr")
        body = getattr(module, node.args[at].target)
        _inline(body)
        reads = [one for one in body.graph.nodes if one.op == "placeholder"]
        for one in body.graph.nodes:
            one.meta |= {_NO_GRADIENT: node.name} if node.args[0] is False else {}
        with graph.inserting_before(node):
            made = graph.graph_copy(body.graph, dict(zip(reads, node.args[at + 1 :], strict=True)))
        for user in [*node.users]:  # each takes one of what the block makes
            user.replace_all_uses_with(made[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)


def shapes_of(name: str, value: Any) -> Mapping[str, Shape]:
    """The tensors a node makes by name; the parts of a tuple are numbered."""
    if isinstance(value, torch.Tensor):
        return {name: tuple(int(n) for n in value.shape)}
    if isinstance(value, (tuple, list)):
        parts = [shapes_of(f"{name}.{i}", part) for i, part in enumerate(value)]
        return {key: shape for part in parts for key, shape in part.items()}
    return {}
