"""Collectives once more, slow and obvious: every message of every group, on its own route.

No copies, no quotients, nothing kept: the oracle of ``simulator.collectives``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import ceil, floor, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from hardware import Wires
from simulator.collectives.offers import MOST_DIRECT, Jobs
from simulator.collectives.ring_order import boxes, in_ring_order, runs
from simulator.engine.jobs import Floats, Ints, Job, Load

Late = float | list[tuple[slice, float]]
"""Seconds, or of a single step those of messages on some links."""
Step = tuple[Load, float, Late, int, int]
"""Load, share of the bytes, latency, how many alike steps, and stages of a pipeline."""
REDUCES = ("all-reduce", "reduce-scatter", "all-gather")


class NotThisWayError(Exception):
    pass


def sent(wires: Wires, sources: Ints, targets: Ints, share: float, count: int = 1) -> Step:
    load = Load.of(wires.loads(sources, targets))
    late = (
        wires.message_latency_s(sources, targets) if count > 1 else lates(wires, sources, targets)
    )
    return load, share, late, count, 0


def lates(wires: Wires, sources: Ints, targets: Ints) -> list[tuple[slice, float]]:
    a, b = (each.ravel() for each in np.broadcast_arrays(sources, targets))
    return [
        (subnet.links, wires.message_latency_s(a[some], b[some]))
        for subnet, some in wires.by_subnet(a, b)
    ]


def only(applies: bool) -> None:
    if not applies:
        raise NotThisWayError


def there_and_back(collective: str, scatter: list[Step]) -> list[Step]:
    there = [] if collective == "all-gather" else scatter
    return there + ([] if collective == "reduce-scatter" else scatter[::-1])


def ring(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    only(collective in REDUCES)
    laps, n = 2 if collective == "all-reduce" else 1, groups.shape[1]
    members = in_ring_order(wires, groups)
    return [sent(wires, members, np.roll(members, -1, 1), laps * (n - 1) / n, laps * (n - 1))]


def ring_two_way(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    only(collective in REDUCES)
    laps, n = 2 if collective == "all-reduce" else 1, groups.shape[1]
    members = in_ring_order(wires, groups)
    sources = np.concatenate([members, members])
    targets = np.concatenate([np.roll(members, -1, 1), np.roll(members, 1, 1)])
    return [sent(wires, sources, targets, laps * (n - 1) / n / 2, laps * (n - 1))]


def partners(groups: Ints) -> list[Ints]:
    n = groups.shape[1]
    only(n & (n - 1) == 0)
    return [groups[:, np.arange(n) ^ (1 << k)] for k in range(n.bit_length() - 1)]


def recursive_doubling(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    only(collective == "all-reduce")
    return [sent(wires, groups, others, 1.0) for others in partners(groups)]


def halving_doubling(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    only(collective in REDUCES)
    found = enumerate(partners(groups))
    return there_and_back(
        collective, [sent(wires, groups, others, 0.5 ** (k + 1)) for k, others in found]
    )


def torus_one_way(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    only(collective in REDUCES)
    members = boxes(wires, groups)
    if members is None:
        raise NotThisWayError
    scatter, pieces = [], 1
    for axis, n in list(enumerate(members.shape))[1:]:
        following = np.roll(members, -1, axis)
        scatter.append(sent(wires, members, following, (n - 1) / n / pieces, n - 1))
        pieces *= n
    return there_and_back(collective, scatter)


def torus(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    only(collective in REDUCES)
    members = boxes(wires, groups)
    if members is None:
        raise NotThisWayError
    sides, ways = members.shape[1:], []
    for axis in range(1, members.ndim):
        both = np.concatenate([members, members])
        others = np.concatenate([np.roll(members, -1, axis), np.roll(members, 1, axis)])
        ways.append((wires.loads(both, others), wires.message_latency_s(both, others)))
    turns = [turned(ways, sides, turn) for turn in range(len(sides))]
    return there_and_back(collective, turns)


def turned(ways: list[tuple[Floats, float]], sides: tuple[int, ...], turn: int) -> Step:
    dimensions, weights = len(sides), []
    for part in range(dimensions):
        axis = (part + turn) % dimensions
        pieces = prod(sides[(part + earlier) % dimensions] for earlier in range(turn))
        even = min(sides) == 1 or len(set(sides)) == 1
        rates = [1.0 if even else side / (side - 1) * (2 if side > 2 else 1) for side in sides]
        share = rates[part] / sum(rates)
        weights.append((sides[axis] - 1) / sides[axis] / pieces * share / 2)
    load = np.zeros_like(ways[0][0])
    for part, weight in enumerate(weights):
        load += ways[(part + turn) % dimensions][0] * (weight / max(weights))
    latency_s = max(latency_s for _, latency_s in ways)
    return Load.of(load), max(weights), latency_s, max(sides) - 1, 0


def direct(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    only(collective != "broadcast")
    n = groups.shape[1]
    others = groups[:, (np.arange(n) + np.arange(1, n)[:, np.newaxis]) % n]
    load, _, *rest = sent(
        wires, np.broadcast_to(groups[:, np.newaxis], others.shape), others, 1 / n
    )
    firsts = np.broadcast_to(groups[:, :1], groups[:, 1:].shape)
    most = min(max(float(wires.loads(firsts, groups[:, 1:]).max()), 1.0), n - 1)
    step = (Load(load.links, load.flows / most), most / n, *rest)
    return [step, step] if collective == "all-reduce" else [step]


def binomial(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    only(collective == "broadcast")
    steps, n = [], groups.shape[1]
    for k in reversed(range((n - 1).bit_length())):
        sources = np.arange(0, n - (1 << k), 2 << k)
        steps.append(sent(wires, groups[:, sources], groups[:, sources + (1 << k)], 1.0))
    return steps


def pipelined(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    only(collective == "broadcast")
    ring_, n = in_ring_order(wires, groups), groups.shape[1]
    start = np.argmax(ring_ == groups[:, :1], axis=1)[:, np.newaxis]
    chain = np.take_along_axis(ring_, (start + np.arange(n)) % n, 1)
    return [(*sent(wires, chain[:, :-1], chain[:, 1:], 1.0)[:4], n - 2)]


def scatter_gather(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    """Messages one by one: who has coordinates besides the first only where a part has been."""
    only(collective == "broadcast")
    members = boxes(wires, groups)
    if members is None:
        others = groups[:, 1:]
        firsts = np.broadcast_to(groups[:, :1], others.shape)
        if wires.loads(firsts, others).max(initial=0.0) > 1:
            raise NotThisWayError
        pieces = sent(wires, firsts, others, 1 / groups.shape[1])
        return [pieces, *direct(wires, "all-gather", groups)]
    sides, rows, steps = members.shape[1:], members.reshape(len(members), -1), []
    root = [int(at[0]) for at in np.nonzero(members[0] == groups[0, 0])]
    even = min(sides) == 1 or len(set(sides)) == 1
    rates = [1.0 if even else side / (side - 1) * (2 if side > 2 else 1) for side in sides]
    for turn in range(len(sides)):
        parts, latency_s = list[tuple[Floats, float]](), 0.0
        for part in range(len(sides)):
            axes = [(part + t) % len(sides) for t in range(turn + 1)]
            messages = np.zeros(len(wires.bandwidth))  # counted whole, so without rounding
            for place in product(*map(range, sides)):
                at_root = [c == there for c, there in zip(place, root, strict=True)]
                if not at_root[axes[-1]] and all(
                    at_root[a] for a in range(len(sides)) if a not in axes
                ):
                    start = tuple(root[a] if a == axes[-1] else c for a, c in enumerate(place))
                    a, b = (rows[:, np.ravel_multi_index(one, sides)] for one in (start, place))
                    messages += wires.loads(a, b)
                    latency_s = max(latency_s, wires.message_latency_s(a, b))
            if sides[axes[-1]] > 1:
                pieces = prod(sides[axis] for axis in axes)
                parts.append((messages, rates[part] / sum(rates) / pieces))
        most = max(share for _, share in parts)
        load = sum((messages * (share / most) for messages, share in parts), np.zeros(1))
        steps.append((Load.of(load), most, latency_s, 1, 0))
    return steps + torus(wires, "all-gather", groups)


def wired(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    """Ways that need cables or a switch that sums have tests of their own."""
    del collective, groups
    only(any(tier.reduces or tier.cables for tier in wires.topology.levels))
    raise NotImplementedError


def unicast(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    only(collective == "broadcast" and len(groups) == 1)
    return [sent(wires, np.repeat(groups[:, 0], groups.shape[1] - 1), groups[0, 1:], 1.0)]


def multicast(wires: Wires, collective: str, groups: Ints) -> list[Step]:
    """Reader by reader, the links of its own way, each link once whoever uses it."""
    only(collective == "broadcast" and len(groups) == 1)
    first, used = groups[:, :1].ravel(), set[int]()
    for reader in groups[0, 1:]:
        target = np.array([reader])
        used |= set(np.flatnonzero(wires.loads(first, target)).tolist())
    flows = np.zeros(len(wires.bandwidth))
    flows[sorted(used)] = 1.0
    return [(Load.of(flows), 1.0, lates(wires, first, groups[0, 1:]), 1, 0)]


FLAT: dict[str, Callable[[Wires, str, Ints], list[Step]]] = {
    "ring": ring,
    "ring-two-way": ring_two_way,
    "recursive-doubling": recursive_doubling,
    "halving-doubling": halving_doubling,
    "torus-one-way": torus_one_way,
    "torus": torus,
    "direct": direct,
    "cable-rings": wired,
    "cable-chains": wired,
    "in-switch": wired,
    "binomial": binomial,
    "pipelined": pipelined,
    "scatter-gather": scatter_gather,
    "unicast": unicast,
    "multicast": multicast,
}
ASKED = ("unicast", "multicast")
"""By name alone."""


def job(wires: Wires, name: str, step: Step, size: float) -> Job:
    load, share, late, count, stages = step
    latency_s = late if isinstance(late, float) else max((each for _, each in late), default=0.0)
    wait_s = count * latency_s
    if not isinstance(late, float) and not stages and len(late) > 1:
        byte_s = load.flows / wires.bandwidth[load.links]
        each_s = []
        for links, own_s in late:
            there = (load.links >= links.start) & (load.links < links.stop)
            slower_s = byte_s[there].max(initial=0.0) - byte_s.max()
            each_s.append(slower_s * (share * size) + own_s)
        wait_s = max(each_s)
    if stages:
        whole_s = stages * size * load.seconds_per_byte(wires.bandwidth)
        best = sqrt(whole_s / latency_s) if latency_s else size
        wait_s = min(
            whole_s / chunks + (chunks + stages) * latency_s
            for chunks in (max(1, floor(min(best, size))), ceil(min(best, size)) or 1)
        )
    return Job(name, load, share * size, wait_s, count)


def flat(wires: Wires, collective: str, rows: Ints, size: float, algorithm: str) -> list[Job]:
    steps = FLAT[algorithm](wires, collective, rows) if rows.shape[1] > 1 else []
    return [job(wires, f"{collective} {algorithm}", step, size) for step in steps]


def alone_ps(wires: Wires, jobs: list[Job]) -> int:
    return sum(one.alone_ps(wires.bandwidth) for one in jobs)


def offers(wires: Wires, collective: str, rows: Ints, size: float) -> dict[str, list[Job]]:
    shared = wires.topology.kind != "fully_connected" and collective != "all-to-all"
    found = {}
    for algorithm in (name for name in FLAT if name not in ASKED):
        if algorithm != "direct" or not shared or rows.size * rows.shape[1] <= MOST_DIRECT:
            try:
                found[algorithm] = flat(wires, collective, rows, size, algorithm)
            except NotThisWayError:
                continue
    return found


def best(wires: Wires, found: dict[str, list[Job]]) -> str:
    return min(found, key=lambda name: alone_ps(wires, found[name]))


def tier(wires: Wires, collective: str, groups: Ints, size: float) -> list[Job]:
    found = offers(wires, collective, groups, size)
    return found[best(wires, found)]


def hierarchical(wires: Wires, collective: str, rows: Ints, size: float) -> list[Job]:
    only(collective != "all-to-all")
    found = tiers(wires, rows, collective == "broadcast")
    only(len(found) > 1)
    sizes = []
    for groups in found:
        sizes.append(size)
        size /= 1 if collective == "broadcast" else groups.shape[1]
    order = list(zip(found, sizes, strict=True))
    plan = [(collective, *one) for one in order]
    if collective in ("all-gather", "broadcast"):
        plan = plan[::-1]
    if collective == "all-reduce":
        plan = [("reduce-scatter", *one) for one in order[:-1]] + plan[-1:]
        plan += [("all-gather", *one) for one in order[-2::-1]]
    return [one for name, groups, size in plan for one in tier(wires, name, groups, size)]


def tiers(wires: Wires, rows: Ints, first_only: bool) -> list[Ints]:
    found = []
    for of in (wires.chip, wires.kind if wires.topology.joins == "chips" else wires.board):
        nodes = runs(of, rows)
        if nodes is None:
            raise NotThisWayError
        if nodes.shape[2] > 1:
            found.append(nodes.reshape(-1, nodes.shape[2]))
        nodes = nodes[:, :, :1] if first_only else nodes
        rows = np.ascontiguousarray(nodes.transpose(0, 2, 1).reshape(-1, nodes.shape[1]))
    return [*found, rows] if rows.shape[1] > 1 else found


def jobs(
    wires: Wires, collective: str, rows: Ints, size: float, algorithm: str
) -> tuple[str, list[Job]] | None:
    """The algorithm and its jobs; None where it does not apply."""
    try:
        if algorithm == "hierarchical-overlapped":  # for tiers (test_overlapped)
            return None
        if algorithm == "hierarchical":
            return algorithm, hierarchical(wires, collective, rows, size)
        if algorithm != "auto":
            return algorithm, flat(wires, collective, rows, size, algorithm)
    except NotThisWayError:
        return None
    found = offers(wires, collective, rows, size)
    with suppress(NotThisWayError):
        found["hierarchical"] = hierarchical(wires, collective, rows, size)
    name = best(wires, found)
    return name, found[name]


def swap(
    wires: Wires, first: Ints, second: Ints, to_first: Floats, to_second: Floats
) -> tuple[Floats, float, float]:
    """Flows on every link, bytes of a flow, and latency of two halves that exchange."""
    ways = [
        one_way(wires, source, target, amounts)
        for source, target, amounts in ((second, first, to_first), (first, second, to_second))
    ]
    most = max(largest for _, largest, _ in ways)
    flows: NDArray[np.float64] = np.zeros(len(wires.bandwidth))
    for load, largest, _ in ways:
        flows += load * (largest / most if most else 0.0)
    return flows, most, max(latency_s for _, _, latency_s in ways)


def one_way(
    wires: Wires, sources: Ints, targets: Ints, amounts: Floats
) -> tuple[Floats, float, float]:
    """Both halves on a line of length one: those opposite each other exchange the overlap."""
    total = float(amounts.sum())
    if total <= 0:
        return np.zeros(len(wires.bandwidth)), 0.0, 0.0
    ends = np.cumsum(amounts / total)
    ends[-1] = 1.0
    starts = np.arange(len(sources)) / len(sources)
    marks = np.union1d(starts, ends[:-1])
    lengths = np.diff(marks, append=1.0)
    marks, lengths = marks[lengths > 1e-12], lengths[lengths > 1e-12]
    middles = marks + lengths / 2
    places = np.minimum((middles * len(sources)).astype(np.int64), len(sources) - 1)
    a, b = sources[places], targets[np.searchsorted(ends, middles)]
    load = wires.loads(a, b, lengths / lengths.max())
    return load, float(lengths.max()) * total, wires.message_latency_s(a, b)


def same(job: Job, other: Job) -> bool:
    """Bit for bit."""
    return (
        (job.name, job.flow_bytes, job.latency_s, job.steps)
        == (other.name, other.flow_bytes, other.latency_s, other.steps)
        and job.load.links.tolist() == other.load.links.tolist()
        and job.load.flows.tolist() == other.load.flows.tolist()
    )


def predicted_ps(wires: Wires, sequence: Jobs) -> int:
    """Duration of jobs one after the other when nobody else uses their links."""
    every = (replace(job, load=job.load.unfolded()) for job in sequence)
    return sum(job.alone_ps(wires.bandwidth) for job in every)
