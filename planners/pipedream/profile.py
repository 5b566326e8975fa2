"""A profile: what each layer takes on one device, and which layer feeds which."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from planners.errors import PlanError
from planners.pipedream.order import topological

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
