"""Collectives as jobs of the links, by the algorithm's name or by predicted cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import simpy
from numpy.typing import ArrayLike

from hardware import Wires
from simulator.collectives.algorithms import COLLECTIVES, FLAT, CollectiveError
from simulator.collectives.groups import Groups, Members, Rows, groups_of
from simulator.collectives.node_rings import NODE_RINGS, node_rings
from simulator.collectives.offers import (
    NCCL,
    TIERED,
    Jobs,
    Offer,
    Ready,
    Tiers,
    cheapest,
    flat_offer,
    flat_offers,
    in_steps,
    nccl_offer,
)
from simulator.engine.interconnect import Interconnect
from simulator.engine.jobs import Floats
from simulator.engine.picoseconds import PICOSECONDS

OVER_NODES: dict[str, Callable[[Groups, str, float], Tiers | Ready | str]] = {
    **TIERED,
    NODE_RINGS: node_rings,
}
MULTI_NODE = {**OVER_NODES, **NCCL}
ALGORITHMS = (*FLAT, *MULTI_NODE)


def jobs(
    wires: Wires,
    collective: str,
    groups: Members | ArrayLike,
    size_bytes: float,
    algorithm: str = "auto",
) -> Jobs:
    """What the links have to do, one job after the other, for groups that run together.

    ``groups``: cores, groups by members; all groups have equally many and
    share none. ``size_bytes`` is the full tensor's: reduced everywhere
    (all-reduce), in pieces of 1/n (reduce-scatter), gathered from pieces
    (all-gather), sent on in pieces by every member (all-to-all), or the
    first's (broadcast). Raises CollectiveError.
    """
    return chosen(wires, collective, groups, size_bytes, algorithm)[1]


def chosen(
    wires: Wires,
    collective: str,
    groups: Members | ArrayLike,
    size_bytes: float,
    algorithm: str = "auto",
) -> tuple[str, Jobs]:
    """The algorithm (for "auto", the one predicted to be fastest) and its jobs."""
    found = offer(wires, collective, groups, size_bytes, algorithm)
    return found.algorithm, tuple(job.unfolded() for job in found.jobs())


def offer(
    wires: Wires,
    collective: str,
    groups: Groups | Members | ArrayLike,
    size_bytes: float,
    algorithm: str = "auto",
) -> Offer:
    """The algorithm that is named, or the fastest alone (of equals, the first of ALGORITHMS).

    Where ``nccl_offer`` has one, "auto" is that. "auto" and NCCL's own take its steps
    (``in_steps``), others what the wires say. Raises CollectiveError for what does not exist or
    does not apply.
    """
    if collective not in COLLECTIVES:
        raise CollectiveError(f"unknown collective {collective!r}; one of {', '.join(COLLECTIVES)}")
    if algorithm != "auto" and algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise CollectiveError(f"unknown algorithm {algorithm!r}; one of {known}")
    members = groups if isinstance(groups, Groups) else members_of(wires, groups)
    if algorithm == "auto":
        own = nccl_offer(members, collective, size_bytes)
        best = own or cheapest(_every(members, collective, size_bytes))
        return in_steps(members, collective, best)
    found: Offer | str
    if algorithm in MULTI_NODE:
        found = MULTI_NODE[algorithm](members, collective, size_bytes)
    else:
        found = flat_offer(members, collective, size_bytes, FLAT[algorithm])
    if not isinstance(found, str):
        return in_steps(members, collective, found) if algorithm in NCCL else found
    ways = (how(members, collective, size_bytes) for how in MULTI_NODE.values())
    by_nodes = [way for way in ways if not isinstance(way, str)]
    every = [*flat_offers(members, collective, size_bytes), *by_nodes]
    fit = ", ".join(dict.fromkeys(one.algorithm.partition(" ")[0] for one in every))
    raise CollectiveError(
        f"{found}; for this {collective} of {members.size} members use auto, or {fit}"
    )


def offers(wires: Wires, collective: str, size_bytes: float) -> list[Offer]:
    """Every algorithm that applies to all nodes, in the order of ALGORITHMS, then NCCL's own."""
    members = members_of(wires, wires.nodes)
    every = list[Offer](_every(members, collective, size_bytes))
    if not nccl_offer(members, collective, size_bytes):
        return every
    own = (how(members, collective, size_bytes) for how in NCCL.values())
    found = (way for way in own if not isinstance(way, str))
    return [*every, *(in_steps(members, collective, way) for way in found)]


def _every(members: Groups, collective: str, size_bytes: float) -> list[Offer]:
    tiers = (how(members, collective, size_bytes) for how in OVER_NODES.values())
    found = [way for way in tiers if not isinstance(way, str)]
    return [*flat_offers(members, collective, size_bytes), *found]


def members_of(wires: Wires, groups: Members | ArrayLike) -> Groups:
    """Groups that may be asked for several collectives and sizes.

    Raises CollectiveError for cores that do not exist, or are a member twice.
    """
    if not isinstance(groups, Members):
        groups = Rows(np.atleast_2d(np.ascontiguousarray(groups, dtype=np.int64)))
    if isinstance(groups, Rows):
        rows = groups.cores
        if rows.size == 0 or rows.min() < 0 or rows.max() >= wires.cores:
            raise CollectiveError(f"members of groups are cores 0 to {wires.cores - 1}")
    found = groups_of(wires, groups)
    if isinstance(groups, Rows) and len(np.unique(found.rows)) != found.rows.size:
        raise CollectiveError("a core is a member twice")
    return found


def run_alone(wires: Wires, sequence: Jobs) -> tuple[float, Floats]:
    """Run jobs one after the other on SimPy: seconds, and bytes over every link."""
    env = simpy.Environment(initial_time=0)
    links = Interconnect(env, wires.bandwidth)
    for job in sequence:
        env.run(links.submit(job))
    return env.now / PICOSECONDS, links.link_bytes
