"""Graphs of the max-load problem, and the reader for their files.

The format is dnn-partitioning's (Tarnawski et al., NeurIPS 2020): a JSON object with
``nodes`` (``id``, ``fpgaLatency`` and ``cpuLatency`` in ms, ``isBackwardNode``,
``colorClass``, ``size`` in bytes, ``supportedOnFpga``), ``edges`` (``sourceId``,
``destId``, ``cost`` in ms: the source's output from a device to memory or back, alike
for all edges of one source), ``maxSizePerFPGA``, ``maxFPGAs`` and ``maxCPUs``. "FPGA"
is any accelerator there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planners.errors import PlanError
from planners.pipeline.masks import topological
from planners.pipeline.profile import read_text

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


def read_load_graph(path: str | Path) -> LoadGraph:
    """The graph in a file; raises PlanError with the file, the node or edge, and the key."""
    data = read_json(path)
    nodes = _list(path, data, "nodes", MOST_NODES)
    edges = _list(path, data, "edges", MOST_EDGES)
    if not nodes:
        raise PlanError(f"{path}: nodes is empty; there is nothing to place")
    found, index = [], dict[int, int]()
    for i, node in enumerate(nodes):
        where = f"{path}: nodes[{i}]"
        key = whole(where, node, "id", 1 << 53)
        if key in index:
            raise PlanError(f"{where}: id {key} is there twice")
        index[key] = i
        found.append((where, key, node))
    pairs, cost = [], dict[int, float]()
    for i, edge in enumerate(edges):
        where = f"{path}: edges[{i}]"
        ends = []
        for name in ("sourceId", "destId"):
            if (end := whole(where, edge, name, 1 << 53)) not in index:
                raise PlanError(f"{where}: {name} {end}: no node has this id")
            ends.append(index[end])
        seconds = number(where, edge, "cost") / 1e3
        if abs(cost.setdefault(ends[0], seconds) - seconds) > 1e-9:
            raise PlanError(
                f"{where}: cost {seconds * 1e3:g} ms, but another edge of node {edge['sourceId']} "
                f"has {cost[ends[0]] * 1e3:g}; it is its output's, alike for all"
            )
        pairs.append((ends[0], ends[1]))
    return LoadGraph(
        str(path),
        tuple(_node(*each, cost.get(i, 0.0)) for i, each in enumerate(found)),
        tuple(dict.fromkeys(pairs)),
        whole(str(path), data, "maxFPGAs", MOST_DEVICES),
        whole(str(path), data, "maxCPUs", MOST_DEVICES),
        number(str(path), data, "maxSizePerFPGA"),
    )


def read_json(path: str | Path) -> Mapping[str, Any]:
    """A file's JSON object; raises PlanError with the place of what is wrong."""
    text = read_text(path, MOST_BYTES)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise PlanError(f"{path}:{error.lineno}: not JSON: {error.msg}; cut off?") from None
    except (RecursionError, ValueError):
        raise PlanError(
            f"{path}: not JSON that can be read: nested or with numbers too long"
        ) from None
    if not isinstance(data, dict):
        raise PlanError(f"{path}: JSON, but no object {{...}} with nodes and edges")
    return data


def _node(where: str, key: int, node: Mapping[str, Any], output_s: float) -> LoadNode:
    return LoadNode(
        str(key),
        number(where, node, "fpgaLatency") / 1e3,
        number(where, node, "cpuLatency") / 1e3,
        output_s,
        _yes(where, node, "isBackwardNode"),
        # A node without a colour has one of its own, which no node of a file has.
        whole(where, node, "colorClass", 1 << 53) if "colorClass" in node else -1 - key,
        number(where, node, "size") if "size" in node else 0.0,
        _yes(where, node, "supportedOnFpga"),
    )


def _list(path: str | Path, data: Mapping[str, Any], key: str, most: int) -> list[Any]:
    items = data.get(key)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise PlanError(f"{path}: {key} is missing, or no list of objects")
    if len(items) > most:
        raise PlanError(f"{path}: {len(items)} {key}; at most {most} are read")
    return items


def number(where: str, data: Mapping[str, Any], key: str) -> float:
    """A number from zero on."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
        raise PlanError(f"{where}: {key} {_shown(data, key)}; a number 0...{LARGEST:g} is needed")
    return float(value)


def whole(where: str, data: Mapping[str, Any], key: str, most: int) -> int:
    """A whole number from zero on."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise PlanError(f"{where}: {key} {_shown(data, key)}; a whole number 0...{most} is needed")
    return value


def _yes(where: str, data: Mapping[str, Any], key: str) -> bool:
    if data.get(key) not in (0, 1):  # true and false as well
        raise PlanError(f"{where}: {key} {_shown(data, key)}; true, false, 1 or 0 is needed")
    return bool(data[key])


def _shown(data: Mapping[str, Any], key: str) -> str:
    return f"is {str(data[key])[:40]!r}" if key in data else "is missing"
