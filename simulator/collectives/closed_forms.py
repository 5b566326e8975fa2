"""What collectives take by formula, where a formula is exact (docs/explanation/collectives.md)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

import numpy as np
from numpy.typing import ArrayLike

from hardware import Wires
from hardware.interconnect.one_hop import FullyConnected, Switch
from hardware.interconnect.routing import Subnet
from hardware.interconnect.torus import Grid
from hardware.interconnect.tree import Tree
from simulator.collectives.ring_order import boxes
from simulator.engine.jobs import Ints

_LAPS = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where groups are: "row" (a whole one), "torus" (a whole one), "switch", "full"."""

    kind: str
    n: int
    bytes_per_s: float
    latency_s: float
    sides: tuple[int, ...] = ()
    two_way: bool = True


def closed_form(
    wires: Wires, collective: str, groups: ArrayLike, size_bytes: float, algorithm: str
) -> float | None:
    """Seconds, or None where no formula is exact.

    Groups (of cores, by members) must have one core per node, and be whole
    rings, whole rows or columns of a torus, a whole torus, or any nodes of a
    switch, of a full connection or of a tree with a factor of two or more.
    """
    place = _place(wires, np.atleast_2d(np.asarray(groups, dtype=np.int64)))
    if place is None:
        return None
    if place.n == 1:
        return 0.0
    byte_s, latency_s, n = size_bytes / place.bytes_per_s, place.latency_s, place.n
    coefficients = _coefficients(place, collective, algorithm, n)
    if coefficients is None:
        return None
    return coefficients[0] * byte_s + coefficients[1] * latency_s


def _coefficients(
    place: _Place, collective: str, algorithm: str, n: int
) -> tuple[float, float] | None:
    """How often S/B and the latency of a hop are counted."""
    laps = _LAPS.get(collective)
    if algorithm == "ring" and laps and place.kind != "torus":
        return laps * (n - 1) / n, laps * (n - 1)
    if algorithm == "ring-two-way" and laps and place.kind in ("row", "full") and place.two_way:
        lanes = 2 if n > 2 else 1  # a ring of two has one cable
        return laps * (n - 1) / n / lanes, laps * (n - 1)
    if place.kind in ("row", "torus"):
        return _on_torus(place, laps, algorithm) if laps else None
    return _anywhere(place, collective, laps, algorithm)


def _on_torus(place: _Place, laps: int, algorithm: str) -> tuple[float, float] | None:
    n, sides = place.n, place.sides
    if algorithm == "torus-one-way":
        return laps * (n - 1) / n, laps * sum(side - 1 for side in sides)
    if algorithm != "torus" or not place.two_way or min(sides) < 3 or len(sides) > 2:
        return None
    if len(sides) == 1:
        return laps * (n - 1) / n / 2, laps * (n - 1)
    most = max(sides)
    return laps * (most - 1) * (n - 1) / (2 * most * (2 * n - sum(sides))), laps * 2 * (most - 1)


def _anywhere(
    place: _Place, collective: str, laps: int | None, algorithm: str
) -> tuple[float, float] | None:
    """Where every node reaches every other at its own bandwidth."""
    n, rounds = place.n, log2(place.n)
    pieces = 1 / n if place.kind == "full" else (n - 1) / n
    if algorithm == "direct" and (laps or collective == "all-to-all"):
        return (laps or 1) * pieces, laps or 1
    if collective == "broadcast":
        ports = {"unicast": 1 if place.kind == "full" else n - 1, "multicast": 1}
        if algorithm == "binomial":
            return ceil(rounds), ceil(rounds)
        if algorithm == "scatter-gather" and place.kind == "full":
            return 2 / n, 2
        return (ports[algorithm], 1) if algorithm in ports else None
    if n & (n - 1):
        return None
    if algorithm == "recursive-doubling" and collective == "all-reduce":
        return rounds, rounds
    if algorithm == "halving-doubling" and laps:
        return laps * (n - 1) / n, laps * rounds
    return None


def _place(wires: Wires, groups: Ints) -> _Place | None:
    """What the groups are of their fabric, if it is anything a formula knows."""
    n = groups.shape[1]
    if n == 1:
        return _Place("switch", 1, 1.0, 0.0)
    found = list(wires.by_subnet(np.repeat(groups[:, 0], n - 1), groups[:, 1:].ravel()))
    if len(found) != 1 or len(found[0][1]) != groups.size - len(groups):
        return None
    subnet, fabric = found[0][0], found[0][0].fabric
    if len(np.unique(subnet.node[groups])) < groups.size or _meet_inside(wires, subnet, groups):
        return None
    bandwidth, latency_s = _alike(subnet)
    if bandwidth is None or latency_s is None or (subnet.tier and subnet.tier.protocols):
        return None
    if isinstance(fabric, Grid):
        return _on_grid(wires, fabric, groups, bandwidth, latency_s)
    if isinstance(fabric, FullyConnected):
        return _Place("full", n, bandwidth, latency_s)
    if isinstance(fabric, Switch) or (isinstance(fabric, Tree) and wires.topology.factor >= 2):
        return _Place("switch", n, bandwidth, latency_s)
    return None


def _meet_inside(wires: Wires, subnet: Subnet, groups: Ints) -> bool:
    """Whether any two members have a nearer way to each other than this subnet."""
    for nearer in wires.subnets[: wires.subnets.index(subnet)]:
        regions = np.sort(nearer.region[groups], axis=1)
        if ((np.diff(regions, axis=1) == 0) & (regions[:, 1:] >= 0)).any():
            return True
    return False


def _alike(subnet: Subnet) -> tuple[float | None, float | None]:
    """The bandwidth of every node and the latency of every hop, or None where they differ."""
    fabric = subnet.fabric
    ports = fabric.ports if isinstance(fabric, Tree) else fabric.bandwidth
    if isinstance(fabric, Grid):
        hops = fabric.latency_s
    else:
        nodes = np.unique(subnet.node[subnet.region >= 0])
        hops = fabric.latencies(nodes, np.roll(nodes, 1))
    return (
        float(ports[0]) if ports.min() == ports.max() else None,
        float(hops[0]) if hops.min() == hops.max() else None,
    )


def _on_grid(
    wires: Wires, grid: Grid, groups: Ints, bytes_per_s: float, latency_s: float
) -> _Place | None:
    members = boxes(wires, groups)
    if members is None:
        return None
    sides = members.shape[1:]
    whole = sorted(side for side in grid.shape if side > 1)
    closed = grid.wrap or max(sides) == 2
    n = groups.shape[1]
    if closed and len(sides) == 1 and _is_row(wires, grid, groups):
        return _Place("row", n, bytes_per_s, latency_s, sides, grid.two_way)
    if closed and sorted(sides) == whole:
        return _Place("torus", n, bytes_per_s, latency_s, sides, grid.two_way)
    return None


def _is_row(wires: Wires, grid: Grid, groups: Ints) -> bool:
    """Whether the members fill the one dimension in which they differ."""
    subnet = next(subnet for subnet in wires.subnets if subnet.fabric is grid)
    at = grid.coordinates[subnet.node[groups[0]] % grid.size]
    (axis,) = np.flatnonzero(np.ptp(at, axis=0))
    return len(at) == grid.shape[axis]
