"""Graphs of the max-load problem, and the reader for their files.

The format is dnn-partitioning's (Tarnawski et al., NeurIPS 2020): a JSON object with
``nodes`` (``id``, ``fpgaLatency`` and ``cpuLatency`` in ms, ``isBackwardNode``,
``colorClass``, ``size`` in bytes, ``supportedOnFpga``), ``edges`` (``sourceId``,
``destId``, ``cost`` in ms: the source's output from a device to memory or back, alike
for all edges of one source), ``maxSizePerFPGA``, ``maxFPGAs`` and ``maxCPUs``. "FPGA"
is any accelerator there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from hardware.reader import Table, checked, number, parse_json, read_text, whole
from planners.errors import PlanError
from planners.pipeline.masks import topological

MOST_NODES = 5_000
MOST_EDGES = 100_000
MOST_BYTES = 32 << 20
MOST_DEVICES = 1024
LARGEST = 1e18


@dataclass(frozen=True, slots=True)
class LoadNode:
    """An operator: seconds on an accelerator and on a CPU, and bytes that it keeps there.

    Nodes of one ``colour`` go to one device. ``output_s`` is what a device is busy with
    for the node's output, if it comes from elsewhere or goes elsewhere.
    """

    name: str
    accelerator_s: float
    cpu_s: float
    output_s: float
    backward: bool
    colour: int
    bytes: float
    on_accelerator: bool


@dataclass(frozen=True, slots=True)
class LoadGraph:
    """Operators, edges as pairs of positions, and the devices that the file speaks of."""

    name: str
    nodes: tuple[LoadNode, ...]
    edges: tuple[tuple[int, int], ...]
    accelerators: int
    cpus: int
    memory_bytes: float

    def __post_init__(self) -> None:
        order = topological(len(self.nodes), self.edges)
        if len(order) < len(self.nodes):
            stuck = self.nodes[min(set(range(len(self.nodes))) - set(order))].name
            raise PlanError(f"{self.name}: the edges form a cycle through or before {stuck!r}")
        for source, target in self.edges:
            if self.nodes[source].backward and not self.nodes[target].backward:
                raise PlanError(
                    f"{self.name}: an edge from backward node {self.nodes[source].name!r} to "
                    f"forward node {self.nodes[target].name!r}; a step's passes do not go that way"
                )

    @property
    def one_device_s(self) -> float:
        """Seconds of everything on one accelerator."""
        return math.fsum(node.accelerator_s for node in self.nodes)


Amount = Annotated[float, number(0, LARGEST)]
Id = Annotated[int, whole(0, 1 << 53)]
Devices = Annotated[int, whole(0, MOST_DEVICES)]
YesNo = Annotated[bool, Field(strict=False)]
"""true, false, 1 or 0."""


class FileTable(Table):
    """An object of a program's JSON file, of which there may be more than is read."""

    model_config = ConfigDict(extra="ignore")


class NodeTable(FileTable):
    """A node; its latencies are milliseconds."""

    key: Id = Field(alias="id")
    accelerator_ms: Amount = Field(alias="fpgaLatency")
    cpu_ms: Amount = Field(alias="cpuLatency")
    backward: YesNo = Field(alias="isBackwardNode")
    colour: Id | None = Field(default=None, alias="colorClass")
    size: Amount = 0.0
    on_accelerator: YesNo = Field(alias="supportedOnFpga")


class EdgeTable(FileTable):
    """An edge; its cost is milliseconds."""

    source: Id = Field(alias="sourceId")
    target: Id = Field(alias="destId")
    cost_ms: Amount = Field(alias="cost")


class GraphTable(FileTable):
    """A file of dnn-partitioning's."""

    nodes: list[NodeTable] = Field(min_length=1, max_length=MOST_NODES)
    edges: list[EdgeTable] = Field(max_length=MOST_EDGES)
    accelerators: Devices = Field(alias="maxFPGAs")
    cpus: Devices = Field(alias="maxCPUs")
    memory: Amount = Field(alias="maxSizePerFPGA")


def read_load_graph(path: str | Path) -> LoadGraph:
    """Return the graph in a file; raises PlanError with the file, the node or edge, and the key."""
    text = read_text(path, PlanError, "a graph", MOST_BYTES)
    table = checked(GraphTable, parse_json(text, path, PlanError), path, PlanError)
    index = positions([node.key for node in table.nodes], f"{path}: nodes")
    pairs, cost = [], dict[int, float]()
    for i, edge in enumerate(table.edges):
        where = f"{path}: edges.{i}"
        for key, end in (("sourceId", edge.source), ("destId", edge.target)):
            if end not in index:
                raise PlanError(f"{where}.{key}: {end}: no node has this id")
        source = index[edge.source]
        if abs(cost.setdefault(source, edge.cost_ms) - edge.cost_ms) > 1e-6:
            raise PlanError(
                f"{where}.cost: {edge.cost_ms:g} ms, but another edge of node {edge.source} "
                f"has {cost[source]:g}; it is its output's, alike for all"
            )
        pairs.append((source, index[edge.target]))
    return LoadGraph(
        str(path),
        tuple(_node(node, cost.get(i, 0.0) / 1e3) for i, node in enumerate(table.nodes)),
        tuple(dict.fromkeys(pairs)),
        table.accelerators,
        table.cpus,
        table.memory,
    )


def positions(ids: list[int], where: str) -> dict[int, int]:
    """Return the position of each node by its id; raises PlanError for one that is there twice."""
    found: dict[int, int] = {}
    for i, key in enumerate(ids):
        if found.setdefault(key, i) != i:
            raise PlanError(f"{where}.{i}.id: {key} is there twice")
    return found


def _node(node: NodeTable, output_s: float) -> LoadNode:
    return LoadNode(
        str(node.key),
        node.accelerator_ms / 1e3,
        node.cpu_ms / 1e3,
        output_s,
        node.backward,
        # A node without a colour has one of its own, which no node of a file has.
        -1 - node.key if node.colour is None else node.colour,
        node.size,
        node.on_accelerator,
    )
