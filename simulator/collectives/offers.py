"""Ways to do a collective, flat or tier by tier: which apply, and how long each takes alone.

On a symmetric array an offer is timed on the links that stand for all (``symmetry``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, inf, log2, sqrt
from typing import Literal, TypeVar

import numpy as np

from simulator.collectives.algorithms import FLAT, Algorithm
from simulator.collectives.cable_rings import reduces, tier_of
from simulator.collectives.cache import cached
from simulator.collectives.groups import Groups
from simulator.collectives.messages import Timed, of_tiers
from simulator.collectives.symmetry import byte_s, summed
from simulator.engine.jobs import Ints, Job
from simulator.engine.picoseconds import whole_ps

AnyOffer = TypeVar("AnyOffer", bound="Offer")
Jobs = tuple[Job, ...]
"""One after the other."""
MOST_DIRECT = 1 << 14
"""Messages up to which "auto" considers sending everything at once, where links are shared."""
ROUNDED_PS = 8
"""Two ways differ by no more if they take the same: each sums a few rounded times."""


@dataclass(frozen=True, eq=False)
class Flat:
    """Groups do it by one algorithm, all members alike, with a tensor of ``size_bytes``."""

    groups: Groups
    collective: str
    how: Algorithm
    timed: tuple[Timed, ...]
    size_bytes: float
    protocol: str = ""

    @property
    def algorithm(self) -> str:  # noqa: D102
        return f"{self.how.name} {self.protocol}".rstrip()

    @property
    def phases(self) -> int:  # noqa: D102
        return len(self.timed)

    @property
    def alone_ps(self) -> int:  # noqa: D102
        return sum([one.alone_ps(self.size_bytes) for one in self.timed])

    @property
    def bytes_s(self) -> float:
        """Seconds of its bytes on the links."""
        return sum(one.byte_s * one.phase.share for one in self.timed) * self.size_bytes

    def jobs(self) -> Jobs:  # noqa: D102
        return tuple(self._job(one, one.phase.share * self.size_bytes) for one in self.timed)

    def _job(self, timed: Timed, flow_bytes: float) -> Job:
        phase, name = timed.phase, f"{self.collective} {self.algorithm}"
        crossing = () if phase.moved == 1 else ((phase.load, phase.moved * flow_bytes),)
        wait_s = timed.wait_s(self.size_bytes)
        return Job(name, phase.load, flow_bytes, wait_s, phase.count, crossing)


def cheapest(offers: Iterable[AnyOffer]) -> AnyOffer:
    """The one that takes least alone, but for rounding; of equals the first."""
    every = list(offers)
    least_ps = min(offer.alone_ps for offer in every)
    return next(offer for offer in every if offer.alone_ps <= least_ps + ROUNDED_PS)


def flat_offers(groups: Groups, collective: str, size_bytes: float) -> list[Flat]:
    """Every algorithm that applies, without the direct one where its pattern takes long to make."""
    counted = 1 if groups.wires.topology.levels and groups.strided else groups.count
    many = counted * groups.size**2 > MOST_DIRECT
    key = groups.wires.key, groups.key, collective, many
    ways = cached("ways", key, lambda: _ways(groups, collective, many=many))
    return [Flat(groups, collective, how, timed, size_bytes, by) for how, timed, by in ways]


def flat_offer(
    groups: Groups, collective: str, size_bytes: float, algorithm: Algorithm
) -> Flat | str:
    """What an algorithm takes, or why it does not apply."""
    if (why := algorithm.refusal(collective, groups)) is not None:
        return why
    ways = _by_protocols(groups, collective, algorithm)
    return cheapest(Flat(groups, collective, how, timed, size_bytes, by) for how, timed, by in ways)


Way = tuple[Algorithm, tuple[Timed, ...], str]
"""By which protocol: "" is that of large messages."""


def _ways(groups: Groups, collective: str, *, many: bool) -> tuple[Way, ...]:
    shared = groups.wires.topology.kind != "fully_connected" and collective != "all-to-all"
    return tuple(
        way
        for algorithm in FLAT.values()
        if not (algorithm.asked or (algorithm.name == "direct" and shared and many))
        and algorithm.refusal(collective, groups) is None
        for way in _by_protocols(groups, collective, algorithm)
    )


RINGS = ("ring", "cable-rings", "pipelined", "cable-chains")
"""NCCL does a broadcast along the chain of its rings, by the same protocols."""


def _by_protocols(groups: Groups, collective: str, algorithm: Algorithm) -> Iterator[Way]:
    """An algorithm as large messages go, and by each protocol that the groups' tier has for it.

    A protocol has a share of the bandwidth. A member copies one piece of n, which links
    do not carry, while it passes the others on.
    """
    wires, pattern = groups.wires, algorithm.pattern(collective, groups)
    made = [(p, byte_s(p.load, wires), wires.message_latency_s(*p.far)) for p in pattern]
    tiers = [() if p.stages else of_tiers(p, wires) for p in pattern]
    tier = tier_of(wires, groups.rows) if wires.topology.levels and made else None
    copy_s = 0.0
    if tier and tier.copy_bytes_per_s and algorithm.copies:
        copy_s = 1 / groups.size / tier.copy_bytes_per_s
    last = len(made) - 1
    timed = (Timed(*one, 0.0, copy_s * (i == last), tiers[i]) for i, one in enumerate(made))
    yield algorithm, tuple(timed), ""
    sends = collective == "all-to-all" or algorithm.name == "binomial"
    kind = "ring" if algorithm.name in RINGS else "direct" if sends else ""
    for by in tier.protocols if tier else ():
        if by.algorithm == kind:
            slower = [
                replace(phase, share=phase.share / by.share, moved=phase.moved * by.share)
                for phase, _, _ in made
            ]
            yield (
                algorithm,
                tuple(
                    Timed(phase, each_s, by.step_s, by.start_s * (i == 0), copy_s * (i == last))
                    for i, (phase, (_, each_s, _)) in enumerate(zip(slower, made, strict=True))
                ),
                by.name,
            )


WITHOUT_TREES = ("reduce-scatter", "all-gather")
"""Collectives for which NCCL has no trees: of many members over nodes they are rings."""
TREE_NODES = 2
"""On more nodes its trees send as much as its rings."""
TREE_CHANNEL = 20e9
"""Most bytes a second of a channel of trees on two nodes: NCCL has 18.5 (Volta) and 23.6 (Ampere)
GB/s. Trees without NVLink SHARP are no faster, however fast the network."""
OF_INSIDE = 0.92
"""Of the bandwidth inside a node, what trees get (src/graph/tuning.cc)."""


def nodes_of(groups: Groups) -> int:
    """How many nodes have a group's members, where GPUs are joined by tiers; else 1."""
    return len(_first_members(groups))


def _first_members(groups: Groups) -> Ints:
    """The first member on each node of the group on most nodes, where GPUs are joined by tiers."""
    wires, rows = groups.wires, groups.rows
    if len(wires.topology.levels) < 2 or wires.topology.joins != "chips":
        return rows[0, :1]
    nodes = wires.units[1][rows]
    members = rows[(np.diff(np.sort(nodes), axis=1) != 0).sum(axis=1).argmax()]
    firsts = np.unique(wires.units[1][members], return_index=True)[1]
    found: Ints = members[np.sort(firsts)]
    return found


def in_steps(groups: Groups, collective: str, found: Offer) -> Offer:
    """The same, which waits for NCCL's steps over several nodes where they take longer.

    As NCCL reckons (src/graph/tuning.cc): of a ring through n members on m nodes m - 1 steps go
    between nodes, n - m inside. With 14 and 3.4 us 256 on 32 take 31 x 14 + 224 x 3.4 = 1,196 us.
    A step between nodes takes no less than a message's latency there. Where that is above the
    14 us, an all-reduce pays the difference on each of the log2(m) levels of its trees, both ways.
    """
    first, steps_s = _first_members(groups), groups.wires.ring_steps_s
    if len(first) < 2 or not steps_s or not (jobs := found.jobs()):
        return found
    (inside_s, between_s), least_s = steps_s, 0.0
    hops_s = groups.wires.message_latencies_s
    if collective in WITHOUT_TREES:
        between = np.maximum(hops_s(first[:-1], first[1:]), between_s)
        least_s = float(between.sum()) + (groups.size - len(first)) * inside_s
    elif collective == "all-reduce":
        for level in range(ceil(log2(len(first)))):
            to = first[1 << level :: 2 << level]
            far_s = float(hops_s(first[:: 2 << level][: len(to)], to).max())
            least_s += 2 * max(far_s - between_s, 0.0)
    rest_s = least_s - sum(job.latency_s for job in jobs)
    if rest_s <= 0:
        return found
    *others, last = jobs
    waiting = replace(last, latency_s=last.latency_s + rest_s)
    alone_ps = found.alone_ps + whole_ps(rest_s)
    return Ready((*others, waiting), alone_ps, found.algorithm, found.phases, in_steps=True)


def nccl_offer(groups: Groups, collective: str, size_bytes: float) -> Ready | None:
    """As NCCL does it over nodes that have several members each; None for anything else.

    It has no tiers, but rings, and trees that on two nodes send half as much between them
    (NVIDIA/nccl, issues 209 and 812).
    """
    if not groups.wires.ring_steps_s:
        return None
    trees = nccl_trees(groups, collective, size_bytes)
    if not isinstance(trees, str) and _prefers_trees(groups, size_bytes):
        return trees
    rings = nccl_rings(groups, collective, size_bytes)
    return None if isinstance(rings, str) else rings


def nccl_rings(groups: Groups, collective: str, size_bytes: float) -> Ready | str:
    """NCCL's rings through all members, one from each member of a node; or why there are none."""
    if collective == "all-to-all":
        return "nccl-rings are not for all-to-all"
    if not 1 < nodes_of(groups) < groups.size:
        return "nccl-rings here are for nodes of several GPUs each"
    return overlapped(groups, collective, size_bytes, by="rings")


def nccl_trees(groups: Groups, collective: str, size_bytes: float) -> Ready | str:
    """NCCL's trees, which are timed on two nodes; or why there are none."""
    if collective != "all-reduce":
        return "nccl-trees are for all-reduce alone"
    if not nodes_of(groups) == TREE_NODES < groups.size:
        return f"nccl-trees here are for {TREE_NODES} nodes of several GPUs each"
    return overlapped(groups, collective, size_bytes, by="trees")


def _prefers_trees(groups: Groups, size_bytes: float) -> bool:
    """Whether NCCL takes trees on two nodes, from what it reckons with (src/graph/tuning.cc).

    Rings get the slower of the bandwidths inside a node and between nodes. Trees get 0.92 of the
    one inside, but at most ``TREE_CHANNEL`` for each network card. So on faster network cards
    rings win. A node whose network is faster than that is assumed to have such cards. Where
    switches sum, trees win (NVLSTree).
    """
    found = hierarchical(groups, "all-reduce", size_bytes)
    if isinstance(found, str) or not size_bytes:
        return False
    between_s, _ = _rings_s(found, groups.size)
    slow = between_s > _of_trees_s(found, groups.size, size_bytes)
    return bool(reduces(found.tiers[0].groups)) or slow


def _rings_s(found: Tiers, n: int) -> tuple[float, float]:
    """Seconds of the bytes of a ring through all n members, between nodes and inside."""
    seconds = [_more(tier, n, "rings") * tier.bytes_s for tier in found.tiers]
    between = [tier.collective == "all-reduce" for tier in found.tiers]
    between_s = sum(s for s, is_between in zip(seconds, between, strict=True) if is_between)
    return between_s, sum(seconds) - between_s


def _of_trees_s(found: Tiers, n: int, size_bytes: float) -> float:
    """What trees of n members take at least on two nodes, however fast the network is."""
    _, inside_s = _rings_s(found, n)
    return max(_moved_bytes(n, size_bytes) / TREE_CHANNEL, inside_s / (OF_INSIDE * (1 - 1 / n)))


def _moved_bytes(n: int, size_bytes: float) -> float:
    """What every member of an all-reduce sends by a ring, of which bus bandwidths are told."""
    return 2 * (1 - 1 / n) * size_bytes


TIER_BY_TIER = "hierarchical"
Tier = tuple[Groups, float]
"""Groups of a tier, and the bytes that it works on."""


@dataclass(frozen=True, eq=False)
class Tiers:
    """Tier by tier, one after the other."""

    tiers: tuple[Flat, ...]
    algorithm: str = TIER_BY_TIER

    @property
    def phases(self) -> int:  # noqa: D102
        return sum(tier.phases for tier in self.tiers)

    @property
    def alone_ps(self) -> int:  # noqa: D102
        return sum([tier.alone_ps for tier in self.tiers])

    def jobs(self) -> Jobs:  # noqa: D102
        return tuple(job for tier in self.tiers for job in tier.jobs())


def hierarchical(groups: Groups, collective: str, size_bytes: float) -> Tiers | str:
    """Each tier works on the pieces that the one before has left, in the cheapest flat way.

    Or why that does not apply: nodes do not have equally many members, or
    there is one tier only.
    """
    if collective == "all-to-all":
        return "hierarchical does not do all-to-all"
    tiers = tiers_of(groups, first_only=collective == "broadcast")
    if tiers is None:
        return "hierarchical needs equally many members on every node"
    if len(tiers) < 2:
        return "hierarchical needs members on chips or boards with several each"
    order, left = [], size_bytes
    for tier in tiers:
        order.append((tier, left))
        left /= 1 if collective == "broadcast" else tier.size
    if collective == "all-reduce":
        below, top = order[:-1], order[-1:]
        offers = [
            *_every("reduce-scatter", below),
            *_every("all-reduce", top),
            *_every("all-gather", below[::-1]),
        ]
    else:
        offers = _every(collective, order if collective == "reduce-scatter" else order[::-1])
    return Tiers(tuple(offers))


def _every(collective: str, tiers: Sequence[Tier]) -> list[Flat]:
    return [cheapest(flat_offers(groups, collective, size)) for groups, size in tiers]


def tiers_of(groups: Groups, *, first_only: bool) -> list[Groups] | None:
    """Groups of each tier, innermost first; with ``first_only``, one of each node goes on.

    None where nodes do not have equally many members.
    """
    tiers: list[Groups] = []
    for level in range(len(groups.wires.units)):
        found = groups.split_by_unit(level, first_only=first_only)
        if found is None:
            return None
        inside, groups = found
        if inside.size > 1:
            tiers.append(inside)
    return [*tiers, groups] if groups.size > 1 else tiers


OVERLAPPED = "hierarchical-overlapped"
Through = Literal["tiers", "rings", "trees"]
MOST_CHUNKS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Ready:
    """Jobs that are made, and what they take alone: all tiers as one, or one in NCCL's steps."""

    made: Jobs
    alone_ps: int
    algorithm: str
    phases: int = 1
    in_steps: bool = False

    def jobs(self) -> Jobs:  # noqa: D102
        return self.made


def overlapped(
    groups: Groups, collective: str, size_bytes: float, by: Through = "tiers"
) -> Ready | str:
    """The tiers of the hierarchical way as a pipeline of equal chunks; or why it does not apply.

    The busiest links are busy all the time but for the first chunk's way to
    them and the last one's from them, which is shorter the more chunks there
    are, while every chunk more costs the latency of the slowest tier again.

    By ``rings`` through all n members, one from each member of a node, all links carry n - 1 of
    n pieces, not k - 1 of the k that their tier joins: of a tensor gathered by 16 GPUs on two
    nodes 15/16 go between them, where a half would do. By ``trees`` all but the outermost do.
    """
    name = OVERLAPPED if by == "tiers" else f"nccl-{by}"
    if len(groups.wires.topology.levels) < 2:
        return f"{name} needs two tiers (topology.levels)"
    if not size_bytes:
        return f"{name} has no bytes to cut into chunks"
    pieces = by == "rings" and collective == "broadcast"
    found = hierarchical(groups, "all-gather" if pieces else collective, size_bytes)
    if isinstance(found, str):
        return found
    found = in_pieces(found) if pieces else found
    more = [_more(tier, inf if pieces else groups.size, by) for tier in found.tiers]
    tiers = [
        (timed, job.fewer(times))
        for times, tier in zip(more, found.tiers, strict=True)
        for timed, job in zip(tier.timed, tier.jobs(), strict=True)
    ]
    together = summed([(job.load, job.flow_bytes / size_bytes) for _, job in tiers])
    busy_s = byte_s(together, groups.wires)
    waits_s = [one.latencies_s(tier.size_bytes) for tier in found.tiers for one in tier.timed]
    bytes_s = [
        timed.byte_s * job.flow_bytes + job.latency_s - wait_s
        for (timed, job), wait_s in zip(tiers, waits_s, strict=True)
    ]
    busiest_s = busy_s * size_bytes
    whole_s = pipelined_s(bytes_s, waits_s, busiest_s)
    if by == "trees" and not reduces(found.tiers[0].groups):
        whole_s += max(_of_trees_s(found, groups.size, size_bytes) - busiest_s, 0.0)
    steps, wait_s = sum(job.steps for _, job in tiers), whole_s - busiest_s
    apart = any(job.crossing for _, job in tiers)
    crossing = tuple(each for _, job in tiers for each in job.crosses) if apart else ()
    job = Job(f"{collective} {name}", together, size_bytes, wait_s, steps, crossing)
    return Ready((job,), whole_ps(busy_s * size_bytes) + whole_ps(wait_s), name)


def in_pieces(found: Tiers) -> Tiers:
    """A broadcast as NCCL's rings do it, from the tiers of an all-gather.

    The rings leave a node through all its network cards, not through the first member's alone:
    eight cards of 25 GB/s send 200. So between nodes each member of a node passes on a piece of
    its own, and inside every piece passes all members, as in an all-gather.
    """
    between, *inside = found.tiers
    return Tiers((*_every("broadcast", [(between.groups, between.size_bytes)]), *inside))


def _more(tier: Flat, n: float, by: Through) -> float:
    """What the links of a tier carry, over what a ring of its members alone would.

    Of a tensor in n pieces; of one that comes from outside no member has any (n is infinite).
    """
    if by == "tiers" or tier.collective == "broadcast":
        return 1.0
    if by == "trees" and tier.collective == "all-reduce":
        return 1.0
    return (1 - 1 / n) / (1 - 1 / tier.groups.size)


def pipelined_s(bytes_s: list[float], waits_s: list[float], busiest_s: float) -> float:
    """Stages of so many seconds of bytes and of waiting, in as many chunks as are best."""
    chunks = _chunks(bytes_s, waits_s, busiest_s)
    return min(_pipeline_s(n, bytes_s, waits_s, busiest_s) for n in chunks)


def _chunks(bytes_s: list[float], waits_s: list[float], busiest_s: float) -> set[int]:
    """How many may be best: where a chunk more costs what it saves."""
    most = max(waits_s)
    best = sqrt(max(sum(bytes_s) - busiest_s, 0.0) / most) if most else MOST_CHUNKS
    return {min(max(round_(best), 1), MOST_CHUNKS) for round_ in (floor, ceil)}


def _pipeline_s(chunks: int, bytes_s: list[float], waits_s: list[float], busiest_s: float) -> float:
    """A flow shop of equal chunks: all stages once, and the slowest for every chunk more.

    Where a tier is passed twice (there and back), its links may be slower together.
    """
    stages = [sent_s / chunks + wait_s for sent_s, wait_s in zip(bytes_s, waits_s, strict=True)]
    return sum(stages) + (chunks - 1) * max(*stages, busiest_s / chunks)


Offer = Flat | Tiers | Ready
"""A way to do a collective: by which algorithm, in how many phases one after the other.

``alone_ps`` is what its ``jobs`` take when nobody else uses their links; these have loads on the
few links that stand for all.
"""

TIERED: dict[str, Callable[[Groups, str, float], Tiers | Ready | str]] = {
    TIER_BY_TIER: hierarchical,
    OVERLAPPED: overlapped,
}
"""Ways that use tiers, by name."""

NCCL: dict[str, Callable[[Groups, str, float], Ready | str]] = {
    "nccl-rings": nccl_rings,
    "nccl-trees": nccl_trees,
}
"""NCCL's ways over nodes, by name: "auto" takes one of them where the stack is NCCL's."""
