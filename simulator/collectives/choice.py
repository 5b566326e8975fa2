"""Collectives as phases of the flow network, by name or by predicted cost."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import suppress
from math import ceil, floor, sqrt
from typing import Any

import numpy as np
import simpy
from numpy.typing import ArrayLike

from hardware import Wires
from simulator.collectives.algorithms import BUILDERS, COLLECTIVES, CollectiveError, Step, Steps
from simulator.collectives.ring_order import runs
from simulator.engine.interconnect import Interconnect
from simulator.engine.jobs import Floats, Ints, Job, Load
from simulator.engine.picoseconds import PICOSECONDS

Phases = tuple[Job, ...]
ALGORITHMS = (*BUILDERS, "hierarchical")
MOST_DIRECT = 1 << 14
"""Messages up to which "auto" considers sending everything at once, where links are shared."""

MOST_KEPT = 2048
"""Patterns kept for one array's wires; a pattern is some ten to a few hundred kilobytes."""
ROUNDING = 1e-12
"""Of what two halves exchange: smaller pieces are rounding noise."""


def phases(
    wires: Wires,
    collective: str,
    groups: ArrayLike,
    size_bytes: float,
    algorithm: str = "auto",
) -> Phases:
    """What the network has to do, one phase after the other, for groups that run together.

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
    groups: ArrayLike,
    size_bytes: float,
    algorithm: str = "auto",
) -> tuple[str, Phases]:
    """The algorithm (for "auto", the one predicted to be fastest) and its phases."""
    rows = np.atleast_2d(np.ascontiguousarray(groups, dtype=np.int64))
    _check(wires, collective, rows)
    if algorithm == "auto":
        offers = list(_offers(wires, collective, rows, size_bytes))
        with suppress(CollectiveError):
            offers.append(("hierarchical", _hierarchical(wires, collective, rows, size_bytes)))
        return min(offers, key=lambda offer: predicted_ps(wires, offer[1]))
    if algorithm not in ALGORITHMS:
        raise CollectiveError(f"unknown algorithm {algorithm!r}; one of {', '.join(ALGORITHMS)}")
    try:
        if algorithm == "hierarchical":
            return algorithm, _hierarchical(wires, collective, rows, size_bytes)
        return algorithm, _flat(wires, algorithm, collective, rows, size_bytes)
    except CollectiveError as error:
        fit = ", ".join(name for name, _ in _offers(wires, collective, rows, size_bytes))
        message = f"{error}; for this {collective} of {rows.shape[1]} cores use auto, or {fit}"
        raise CollectiveError(message) from None


def predicted_ps(wires: Wires, sequence: Phases) -> int:
    """Duration of phases one after the other when nobody else uses their links."""
    return sum(phase.alone_ps(wires.bandwidth) for phase in sequence)


def run_alone(wires: Wires, sequence: Phases) -> tuple[float, Floats]:
    """Run phases one after the other on SimPy: seconds, and bytes over every link."""
    env = simpy.Environment(initial_time=0)
    links = Interconnect(env, wires.bandwidth)

    def process() -> Generator[simpy.Event, Any, None]:
        for phase in sequence:
            yield links.submit(phase)

    env.run(env.process(process()))
    return env.now / PICOSECONDS, links.link_bytes


def _check(wires: Wires, collective: str, rows: Ints) -> None:
    if collective not in COLLECTIVES:
        raise CollectiveError(f"unknown collective {collective!r}; one of {', '.join(COLLECTIVES)}")
    if rows.size == 0 or rows.min() < 0 or rows.max() >= wires.cores:
        raise CollectiveError(f"members of groups are cores 0 to {wires.cores - 1}")
    if len(np.unique(rows)) != rows.size:
        raise CollectiveError("a core is a member twice")


def _offers(
    wires: Wires, collective: str, rows: Ints, size_bytes: float
) -> Iterator[tuple[str, Phases]]:
    """Every algorithm that applies."""
    for algorithm in _worth_trying(wires, collective, rows):
        try:
            yield algorithm, _flat(wires, algorithm, collective, rows, size_bytes)
        except CollectiveError:
            continue


def _worth_trying(wires: Wires, collective: str, rows: Ints) -> Iterator[str]:
    """Flat algorithms, without the direct one where its pattern takes long to make."""
    shared = wires.topology.kind != "fully_connected" and collective != "all-to-all"
    for algorithm in BUILDERS:
        if algorithm != "direct" or not shared or rows.size * rows.shape[1] <= MOST_DIRECT:
            yield algorithm


def _flat(wires: Wires, algorithm: str, collective: str, rows: Ints, size_bytes: float) -> Phases:
    key = algorithm, collective, rows.shape, rows.tobytes()
    steps = _kept(wires, key, lambda: _steps(wires, algorithm, collective, rows))
    if isinstance(steps, CollectiveError):
        raise steps
    return tuple(_phase(wires, f"{collective} {algorithm}", step, size_bytes) for step in steps)


def _steps(wires: Wires, algorithm: str, collective: str, rows: Ints) -> Steps | CollectiveError:
    """A pattern, or why there is none."""
    try:
        return BUILDERS[algorithm](wires, collective, rows) if rows.shape[1] > 1 else ()
    except CollectiveError as error:
        return error


def _kept(wires: Wires, key: Hashable, make: Callable[[], Any]) -> Any:
    """What was made for a key on these wires before; patterns are made once for all sizes."""
    kept = wires.kept
    if key not in kept:
        if len(kept) >= MOST_KEPT:
            kept.clear()
        kept[key] = make()
    return kept[key]


def _phase(wires: Wires, name: str, step: Step, size_bytes: float) -> Job:
    latency_s = step.count * step.latency_s
    if step.stages:
        latency_s = _fill_s(step, size_bytes, step.load.seconds_per_byte(wires.bandwidth))
    return Job(name, step.load, step.share * size_bytes, latency_s, step.count)


def _fill_s(step: Step, size_bytes: float, byte_s: float) -> float:
    """What a pipeline takes besides its bytes, cut into chunks of the best size (a byte or more).

    The first chunk passes all stages before the last member has it, and every
    chunk and stage costs a latency.
    """
    whole_s = step.stages * size_bytes * byte_s
    best = sqrt(whole_s / step.latency_s) if step.latency_s else size_bytes
    return min(
        whole_s / chunks + (chunks + step.stages) * step.latency_s
        for chunks in (max(1, floor(min(best, size_bytes))), ceil(min(best, size_bytes)) or 1)
    )


def _hierarchical(wires: Wires, collective: str, rows: Ints, size_bytes: float) -> Phases:
    """Inside chips, then between chips of a board, then between boards and kinds.

    Each tier works on the pieces that the one before has left, each with the
    cheapest flat algorithm. Raises CollectiveError where nodes do not have
    equally many members, or there is one tier only.
    """
    if collective == "all-to-all":
        raise CollectiveError("hierarchical does not do all-to-all")
    tiers = _tiers(wires, rows, collective == "broadcast")
    if len(tiers) < 2:
        raise CollectiveError("hierarchical needs members on chips or boards with several each")
    sizes, left = [], size_bytes
    for tier in tiers:
        sizes.append(left)
        left /= 1 if collective == "broadcast" else tier.shape[1]
    order = list(zip(tiers, sizes, strict=True))
    if collective == "all-reduce":
        top, size = order[-1]
        below = order[:-1]
        return (
            *_every(wires, "reduce-scatter", below),
            *_every(wires, "all-reduce", [(top, size)]),
            *_every(wires, "all-gather", below[::-1]),
        )
    return _every(wires, collective, order if collective == "reduce-scatter" else order[::-1])


def _every(wires: Wires, collective: str, tiers: Sequence[tuple[Ints, float]]) -> Phases:
    offers = [
        min(
            (phases for _, phases in _offers(wires, collective, groups, size_bytes)),
            key=lambda phases: predicted_ps(wires, phases),
        )
        for groups, size_bytes in tiers
    ]
    return tuple(phase for sequence in offers for phase in sequence)


def _tiers(wires: Wires, rows: Ints, first_only: bool) -> list[Ints]:
    """Groups of each tier, innermost first; with ``first_only``, one of each node goes on."""
    tiers: list[Ints] = []
    levels = (wires.chip, wires.kind if wires.topology.joins == "chips" else wires.board)
    for of in levels:
        nodes = runs(of, rows)
        if nodes is None:
            raise CollectiveError("hierarchical needs equally many members on every node")
        if nodes.shape[2] > 1:
            tiers.append(nodes.reshape(-1, nodes.shape[2]))
        nodes = nodes[:, :, :1] if first_only else nodes
        rows = np.ascontiguousarray(nodes.transpose(0, 2, 1).reshape(-1, nodes.shape[1]))
    return [*tiers, rows] if rows.shape[1] > 1 else tiers


def swap(
    wires: Wires,
    first_cores: ArrayLike,
    second_cores: ArrayLike,
    to_first: ArrayLike,
    to_second: ArrayLike,
) -> Phases:
    """Two halves send each other bytes at once, evenly from all of a half's cores.

    ``to_first`` and ``to_second`` are the bytes that each core of the half
    receives (or one number for all of them), from cores of the other half as
    they stand opposite each other.
    """
    first = np.ascontiguousarray(first_cores, dtype=np.int64)
    second = np.ascontiguousarray(second_cores, dtype=np.int64)
    if not len(first) or not len(second) or np.intersect1d(first, second).size:
        raise CollectiveError("a swap is between two halves that have cores, and none in common")
    ways = [
        _one_way(wires, source, target, np.broadcast_to(amounts, target.shape))
        for source, target, amounts in ((second, first, to_first), (first, second, to_second))
    ]
    most = max(largest for _, largest, _ in ways)
    load = np.zeros(len(wires.bandwidth))
    for flows, largest, _ in ways:
        load += flows * (largest / most if most else 0.0)
    return (Job("swap", Load.of(load), most, max(latency for _, _, latency in ways)),)


def _one_way(
    wires: Wires, sources: Ints, targets: Ints, amounts: Floats
) -> tuple[Floats, float, float]:
    """Loads of the messages, bytes of the largest one (which is one flow), longest latency."""
    total = float(amounts.sum())
    if total <= 0:
        return np.zeros(len(wires.bandwidth)), 0.0, 0.0
    shares = np.ascontiguousarray(amounts / total)
    key = "swap", sources.tobytes(), targets.tobytes(), shares.tobytes()
    flows, largest, latency_s = _kept(
        wires, key, lambda: _opposite(wires, sources, targets, shares)
    )
    return flows, largest * total, latency_s


def _opposite(
    wires: Wires, sources: Ints, targets: Ints, shares: Floats
) -> tuple[Floats, float, float]:
    """Loads of messages, the largest counted as a flow, its share of all bytes, and latency.

    Both halves are laid out on a line of length one, sources evenly and
    targets by their ``shares``; those that overlap exchange the overlap.
    """
    ends = np.cumsum(shares)
    ends[-1] = 1.0
    starts = np.arange(len(sources)) / len(sources)
    marks = np.union1d(starts, ends[:-1])
    lengths = np.diff(marks, append=1.0)
    marks, lengths = marks[lengths > ROUNDING], lengths[lengths > ROUNDING]
    middles = marks + lengths / 2
    places = np.minimum((middles * len(sources)).astype(np.int64), len(sources) - 1)
    a, b = sources[places], targets[np.searchsorted(ends, middles)]
    load = wires.loads(a, b, lengths / lengths.max())
    return load, float(lengths.max()), wires.message_latency_s(a, b)
