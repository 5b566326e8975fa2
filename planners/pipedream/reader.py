"""Reader for the profiles of PipeDream's profiler, ``graph.txt``.

A line for each layer, then or in between a line for each edge, which begins with a tab::

    node1 -- Input -- forward_compute_time=0.0, backward_compute_time=0.0, \
activation_size=9.0, parameter_size=0.0
    node2 -- LSTM -- forward_compute_time=1.5, backward_compute_time=3.0, \
activation_size=[64.0; 8.0], parameter_size=32.0
    <tab>node1 -- node2

Times are milliseconds, sizes bytes; a list is summed. Nodes come in any order.
Source of the format: github.com/msr-fiddle/pipedream, graph/graph.py.
"""

from __future__ import annotations

import re
from pathlib import Path

from hardware.reader import read_text
from planners.errors import PlanError
from planners.pipedream.profile import Profile, ProfileNode

MOST_BYTES = 4 << 20
_KEYS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
_NUMBER = re.compile(r"[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?")
_EXAMPLE = f"'node1 -- ReLU -- {', '.join(f'{key}=1.0' for key in _KEYS)}'"


def read_profile(path: str | Path) -> Profile:
    """The profile in a file, whole; raises PlanError with ``file:line`` and what is wrong."""
    nodes: list[ProfileNode] = []
    pairs: list[tuple[str, str, str]] = []
    for number, line in enumerate(
        read_text(path, PlanError, "a profile", MOST_BYTES).split("\n"), 1
    ):
        where = f"{path}:{number}"
        if line.startswith("\t"):
            pairs.append((where, *_edge(where, line)))
        elif line.strip():
            nodes.append(_node(where, line))
    if not nodes:
        raise PlanError(f"{path}: no node; a line is like {_EXAMPLE}")
    index = {node.name: i for i, node in enumerate(nodes)}
    for where, *ends in pairs:
        if unknown := next((end for end in ends if end not in index), None):
            raise PlanError(f"{where}: no node is called {unknown!r}")
    edges = tuple((index[source], index[target]) for _, source, target in pairs)
    return Profile(str(path), tuple(nodes), edges)


def _edge(where: str, line: str) -> tuple[str, str]:
    parts = line.strip().split(" -- ")
    if len(parts) != 2:
        raise PlanError(f"{where}: an edge is a tab and 'node1 -- node2', found {line.strip()!r}")
    return parts[0], parts[1]


def _node(where: str, line: str) -> ProfileNode:
    parts = line.strip().split(" -- ")
    if len(parts) not in (3, 4):  # a fourth says a stage that somebody has chosen
        raise PlanError(f"{where}: a node is like {_EXAMPLE}, found {line.strip()[:60]!r}")
    found = dict(item.partition("=")[::2] for item in parts[2].split(", "))
    if missing := next((key for key in _KEYS if key not in found), None):
        raise PlanError(f"{where}: {parts[0]}: {missing} is missing; a node is like {_EXAMPLE}")
    forward, backward, activation, parameter = (_sum(where, key, found[key]) for key in _KEYS)
    return ProfileNode(parts[0], parts[1], forward / 1e3, backward / 1e3, activation, parameter)


def _sum(where: str, key: str, text: str) -> float:
    """1.5, or the sum of "[1; 2]"."""
    items = text[1:-1].split("; ") if text[:1] == "[" and text[-1:] == "]" else [text]
    if not all(_NUMBER.fullmatch(item) for item in items):
        raise PlanError(
            f"{where}: {key}={text[:40]!r} is not a number from zero on, or a list '[1.0; 2.0]'"
        )
    return sum(map(float, items))


def planned_part(profile: Profile) -> tuple[Profile, tuple[str, ...]]:
    """What of a profile PipeDream's optimizer plans, and the names of the nodes it leaves out.

    Sources whose description begins with "Input" hold no work of the network (reading
    a batch: VGG-16 loses 17.97 ms); then sinks "__getitem__" that nothing uses.
    Source: main() of optimizer/optimizer_graph_hierarchical.py.
    """
    keep = set(range(len(profile.nodes)))
    for end, prefix in ((1, "Input"), (0, "__getitem__")):
        inner = {edge[end] for edge in profile.edges if keep.issuperset(edge)}
        keep -= {v for v in keep - inner if profile.nodes[v].description.startswith(prefix)}
    if not keep:
        raise PlanError(f"{profile.name}: nothing but inputs; there is no layer to plan")
    place = {old: new for new, old in enumerate(sorted(keep))}
    edges = tuple((place[a], place[b]) for a, b in profile.edges if keep.issuperset((a, b)))
    nodes = tuple(profile.nodes[v] for v in place)
    left_out = tuple(node.name for v, node in enumerate(profile.nodes) if v not in keep)
    return Profile(profile.name, nodes, edges), left_out
