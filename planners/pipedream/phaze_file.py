"""Reader for the inputs of Phaze's placement program: layers with stashes apart from edges.

A JSON object with ``nodes`` and ``edges``, both objects by tensor-parallel width, of which
"1" is read: nodes have ``id``, ``parameterSize``, ``activationSize`` (bytes),
``optimalLatencyFw`` and ``optimalLatencyBw`` (seconds); edges ``sourceId``, ``destId`` and
``communicationCost`` (bytes). What the file says of devices and training is not read.
Source of the format: Solver/device_placement of msr-fiddle/phaze.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from planners.errors import PlanError
from planners.pipedream.load_graph import number, read_json, whole
from planners.pipedream.order import topological
from planners.pipedream.phaze import MOST_LAYERS, PhazeLayers

MOST_EDGES = 100_000
_KEYS = ("optimalLatencyFw", "optimalLatencyBw", "parameterSize", "activationSize")


def read_phaze(path: str | Path) -> PhazeLayers:
    """The layers in a file, in topological order; raises PlanError with the place and the key."""
    data = read_json(path)
    nodes, edges = _one_wide(path, data, "nodes"), _one_wide(path, data, "edges")
    if not 1 <= len(nodes) <= MOST_LAYERS or len(edges) > MOST_EDGES:
        raise PlanError(f"{path}: {len(nodes)} nodes; 1...{MOST_LAYERS} are planned")
    place, values = dict[int, int](), []
    for i, node in enumerate(nodes):
        where = f"{path}: nodes.1[{i}]"
        # Ids of what is outside the repeated layers are negative.
        shifted = {"id": node["id"] + (1 << 52)} if _whole(node.get("id")) else {}
        key = whole(where, shifted, "id", 1 << 53) - (1 << 52)
        if key in place:
            raise PlanError(f"{where}: id {key} is there twice")
        place[key] = i
        values.append((str(key), *(number(where, node, name) for name in _KEYS)))
    found = []
    for i, edge in enumerate(edges):
        where = f"{path}: edges.1[{i}]"
        source, target = edge.get("sourceId"), edge.get("destId")
        if not (_whole(source) and _whole(target) and {source, target} <= place.keys()):
            raise PlanError(f"{where}: sourceId {source!r}, destId {target!r}: ids of nodes needed")
        size = number(where, edge, "communicationCost")
        found.append((place[source], place[target], size))
    order = topological(len(values), ((a, b) for a, b, _ in found))
    if len(order) < len(values):
        raise PlanError(f"{path}: the edges form a cycle; layers need an order")
    at = {old: new for new, old in enumerate(order)}
    names, forward, backward, parameters, activations = zip(
        *(values[v] for v in order), strict=True
    )
    moved = tuple((at[a], at[b], size) for a, b, size in found)
    return PhazeLayers(str(path), names, forward, backward, parameters, activations, moved)


def _whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 52


def _one_wide(path: str | Path, data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    widths = data.get(key)
    items = widths.get("1") if isinstance(widths, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise PlanError(
            f'{path}: {key} must be {{"1": [{{...}}, ...]}}: layers on one device each, '
            f"the only tensor-parallel width that is planned"
        )
    return items
