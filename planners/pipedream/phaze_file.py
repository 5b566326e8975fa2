"""Reader for the inputs of Phaze's placement program: layers with stashes apart from edges.

A JSON object with ``nodes`` and ``edges``, both objects by tensor-parallel width, of which
"1" is read: nodes have ``id``, ``parameterSize``, ``activationSize`` (bytes),
``optimalLatencyFw`` and ``optimalLatencyBw`` (seconds); edges ``sourceId``, ``destId`` and
``communicationCost`` (bytes). What the file says of devices and training is not read.
Source of the format: Solver/device_placement of msr-fiddle/phaze.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from hardware.reader import checked, parse_json, read_text, whole
from planners.errors import PlanError
from planners.pipedream.load_graph import MOST_BYTES, MOST_EDGES, Amount, FileTable, positions
from planners.pipedream.order import topological
from planners.pipedream.phaze import MOST_LAYERS, PhazeLayers

Id = Annotated[int, whole(-(1 << 52), 1 << 52)]
"""Ids of what is outside the repeated layers are negative."""


class NodeTable(FileTable):
    """A layer: seconds and bytes."""

    key: Id = Field(alias="id")
    forward_s: Amount = Field(alias="optimalLatencyFw")
    backward_s: Amount = Field(alias="optimalLatencyBw")
    parameter_bytes: Amount = Field(alias="parameterSize")
    activation_bytes: Amount = Field(alias="activationSize")


class EdgeTable(FileTable):
    """What a layer sends another."""

    source: Id = Field(alias="sourceId")
    target: Id = Field(alias="destId")
    size: Amount = Field(alias="communicationCost")


class NodesTable(FileTable):
    """Layers on one device each: "1" is the only tensor-parallel width that is planned."""

    one: list[NodeTable] = Field(alias="1", min_length=1, max_length=MOST_LAYERS)


class EdgesTable(FileTable):
    """Edges between layers on one device each."""

    one: list[EdgeTable] = Field(alias="1", max_length=MOST_EDGES)


class PhazeTable(FileTable):
    """A file of Phaze's."""

    nodes: NodesTable
    edges: EdgesTable


def read_phaze(path: str | Path) -> PhazeLayers:
    """Return the layers in a file, in topological order.

    Raises PlanError with the file, the place in it and the key.
    """
    text = read_text(path, PlanError, "Phaze's", MOST_BYTES)
    table = checked(PhazeTable, parse_json(text, path, PlanError), path, PlanError)
    nodes, edges = table.nodes.one, table.edges.one
    place = positions([node.key for node in nodes], f"{path}: nodes.1")
    for i, edge in enumerate(edges):
        if not {edge.source, edge.target} <= place.keys():
            where = f"{path}: edges.1.{i}"
            raise PlanError(f"{where}: {edge.source} to {edge.target}: no node has such an id")
    pairs = [(place[edge.source], place[edge.target], edge.size) for edge in edges]
    order = topological(len(nodes), ((a, b) for a, b, _ in pairs))
    if len(order) < len(nodes):
        raise PlanError(f"{path}: the edges form a cycle; layers need an order")
    at = {old: new for new, old in enumerate(order)}
    layers = [nodes[v] for v in order]
    return PhazeLayers(
        str(path),
        tuple(str(node.key) for node in layers),
        tuple(node.forward_s for node in layers),
        tuple(node.backward_s for node in layers),
        tuple(node.parameter_bytes for node in layers),
        tuple(node.activation_bytes for node in layers),
        tuple((at[a], at[b], size) for a, b, size in pairs),
    )
