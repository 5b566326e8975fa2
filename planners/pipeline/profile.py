"""A profile: what each layer takes on one device, and which layer feeds which."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from pathlib import Path

from hardware.reader import read_text
from planners.errors import PlanError
from planners.pipeline.masks import topological

MOST_NODES = 2_000
MOST_EDGES = 100_000
LARGEST = 1e18
"""Of seconds and of bytes: sums of such numbers stay finite."""


@dataclass(frozen=True, slots=True)
class ProfileNode:
    """One layer: seconds of its two passes, bytes of its output and of its parameters."""

    name: str
    description: str
    forward_s: float
    backward_s: float
    activation_bytes: float
    parameter_bytes: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Layers in any order, and edges as pairs of their positions: (0, 2) is nodes[0] to nodes[2].

    Raises PlanError for a number that is negative or not finite, a name used twice,
    an edge from or to no node, a cycle, no node, or more than MOST_NODES and
    MOST_EDGES of them. An edge given twice is one edge.
    """

    name: str
    nodes: tuple[ProfileNode, ...]
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        count = len(self.nodes)
        if not 1 <= count <= MOST_NODES or len(self.edges) > MOST_EDGES:
            raise PlanError(
                f"{self.name}: {count} nodes and {len(self.edges)} edges; "
                f"a profile has 1...{MOST_NODES} and at most {MOST_EDGES}"
            )
        names = [node.name for node in self.nodes]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise PlanError(f"{self.name}: node {twice!r} is there twice; names must differ")
        for node in self.nodes:
            _check(self.name, node)
        for edge in self.edges:
            if not all(0 <= end < count for end in edge):
                raise PlanError(f"{self.name}: edge {edge}: there are nodes 0...{count - 1}")
        object.__setattr__(self, "edges", tuple(dict.fromkeys(self.edges)))
        order = topological(count, self.edges)
        if len(order) < count:
            stuck = names[min(set(range(count)) - set(order))]
            raise PlanError(f"{self.name}: the edges form a cycle through or before {stuck!r}")

    @property
    def single_s(self) -> float:
        """Seconds of one minibatch on one device."""
        return math.fsum(node.forward_s + node.backward_s for node in self.nodes)


def _check(profile: str, node: ProfileNode) -> None:
    for field in fields(node)[2:]:
        value = getattr(node, field.name)
        if not 0 <= value <= LARGEST:  # false for NaN as well
            raise PlanError(
                f"{profile}: node {node.name!r}: {field.name} {value!r} must be within "
                f"0...{LARGEST:g}"
            )


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
    items = [item.partition("=")[::2] for item in parts[2].split(", ")]
    found = dict(items)
    if len(found) < len(items):
        raise PlanError(f"{where}: {parts[0]}: a value is given twice; a node is like {_EXAMPLE}")
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
