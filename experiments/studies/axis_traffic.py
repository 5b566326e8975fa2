"""What is exposed along each named axis of a plan by axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from experiments.studies.difference import core_ps
from planners.axes.node_types import experts
from planners.order import Kind, Phase
from simulator import PICOSECONDS
from workloads import Node, partition_graph

if TYPE_CHECKING:
    from experiments.studies.case import Case
    from planners import Axes
    from simulator import Operation, Timeline

AXES = ("tp", "cp", "ep", "dp", "pp")


def axis_fields(case: Case, timeline: Timeline) -> dict[str, Any]:
    """By axis the seconds that an average core waits for its exchanges; {} without axes.

    Sends between stages are pp's; gradients and new weights dp's (cp shares them: its
    devices have the same weights); keys and values are cp's, tokens on their way to
    experts and back ep's; all else is within a layer, tp's (with sp).
    """
    staging = case.execution.staging
    if staging is None or staging.parallel is None:
        return {}
    nodes = {node.name: node for node in partition_graph(case.network)}
    exposed = Counter[str]()
    for operation, ps in core_ps(timeline):
        if operation.kind != Kind.COMPUTE:
            exposed[axis_of(operation, nodes, staging.parallel)] += ps
    seconds = timeline.cores * PICOSECONDS
    return {"exposed_by_axis_s": {axis: exposed[axis] / seconds for axis in AXES if exposed[axis]}}


def axis_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of a table: what is exposed along each axis; none without axes."""
    for axis, seconds in result.get("exposed_by_axis_s", {}).items():
        yield f"exposed along {axis}", f"{seconds:.9f} s a core"


def axis_of(operation: Operation, nodes: Mapping[str, Node], axes: Axes) -> str:
    """The axis that an exchange of such a plan is along."""
    if operation.kind == Kind.SEND:
        return "pp"
    if operation.kind == Kind.BOUNDARY and operation.phase != Phase.UPDATE:
        return _of_boundary(operation, nodes, axes)
    if operation.kind == Kind.WEIGHTS or operation.phase in (Phase.GRADIENT, Phase.UPDATE):
        node = nodes.get(operation.layer)
        return "cp" if node is not None and node.operand else "dp"
    return "tp"


def _of_boundary(operation: Operation, nodes: Mapping[str, Node], axes: Axes) -> str:
    """Between two layers: one of them routes tokens or is an expert, or attends to all."""
    ends = [nodes[name] for name in operation.layer.split(" to ") if name in nodes]
    if axes.ep > 1 and any(node.routes or experts(node) for node in ends):
        return "ep"
    return "cp" if axes.cp > 1 and any(node.operand for node in ends) else "tp"
