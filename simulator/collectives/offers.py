"""Ways to do a collective: which algorithms apply, and how long each takes alone.

An offer is timed on the few links that stand for all (``quotient``). Only the
one that is taken is written out as jobs of all links.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, floor, sqrt

from hardware import Wires
from simulator.collectives.algorithms import FLAT, Algorithm
from simulator.collectives.groups import Groups
from simulator.collectives.kept import KEPT
from simulator.collectives.phases import CollectivePhase
from simulator.collectives.quotient import Quotient
from simulator.collectives.sections import Ends
from simulator.engine.jobs import Job, Load
from simulator.engine.picoseconds import whole_ps

Jobs = tuple[Job, ...]
"""One after the other."""
MOST_DIRECT = 1 << 14
"""Messages up to which "auto" considers sending everything at once, where links are shared."""


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """A phase on wires of known speeds: seconds per byte of every flow, and a step's latency."""

    phase: CollectivePhase
    byte_s: float
    latency_s: float

    def wait_s(self, size_bytes: float) -> float:
        """Seconds besides the bytes of a collective of that size."""
        if self.phase.stages:
            return self._fill_s(size_bytes)
        return self.phase.count * self.latency_s

    def alone_ps(self, size_bytes: float) -> int:
        """What ``Job.alone_ps`` will be of its job."""
        through_s = self.byte_s * (self.phase.share * size_bytes)
        return whole_ps(through_s) + whole_ps(self.wait_s(size_bytes))

    def _fill_s(self, size_bytes: float) -> float:
        """What a pipeline takes besides its bytes, in chunks of the best size (a byte or more).

        The first chunk passes all stages before the last member has it, and every
        chunk and stage costs a latency.
        """
        stages, latency_s = self.phase.stages, self.latency_s
        whole_s = stages * size_bytes * self.byte_s
        best = sqrt(whole_s / latency_s) if latency_s else size_bytes
        return min(
            whole_s / chunks + (chunks + stages) * latency_s
            for chunks in (max(1, floor(min(best, size_bytes))), ceil(min(best, size_bytes)) or 1)
        )


@dataclass(frozen=True, eq=False)
class Offer:
    """A way to do a collective: by which algorithm, in which phases.

    ``sequence`` has the name, the phase and the collective's size of every job.
    """

    wires: Wires
    algorithm: str
    sequence: tuple[tuple[str, Timed, float], ...]

    @cached_property
    def alone_ps(self) -> int:
        """Duration of its jobs one after the other when nobody else uses their links."""
        return sum(timed.alone_ps(size_bytes) for _, timed, size_bytes in self.sequence)

    def jobs(self) -> Jobs:
        """What the links have to do, loads on the few that stand for all."""
        return tuple(
            Job(
                name,
                timed.phase.load,
                timed.phase.share * size_bytes,
                timed.wait_s(size_bytes),
                timed.phase.count,
            )
            for name, timed, size_bytes in self.sequence
        )


def cheapest(offers: Iterable[Offer]) -> Offer:
    """The one that takes least alone, of equals the first."""
    return min(offers, key=lambda offer: offer.alone_ps)


def flat_offers(groups: Groups, collective: str, size_bytes: float) -> list[Offer]:
    """Every algorithm that applies, without the direct one where its pattern takes long to make."""
    key = groups.speeds, groups.key, collective
    ways = KEPT.get("ways", key, lambda: _ways(groups, collective))
    return [_offer(groups, collective, *way, size_bytes) for way in ways]


def flat_offer(
    groups: Groups, collective: str, size_bytes: float, algorithm: Algorithm
) -> Offer | str:
    """What an algorithm takes, or why it does not apply."""
    if (why := algorithm.refusal(collective, groups)) is not None:
        return why
    sequence = _timed(groups, collective, algorithm)
    return _offer(groups, collective, algorithm, sequence, size_bytes)


Way = tuple[Algorithm, tuple[Timed, ...]]


def _ways(groups: Groups, collective: str) -> tuple[Way, ...]:
    shared = groups.wires.topology.kind != "fully_connected" and collective != "all-to-all"
    counted = 1 if groups.wires.topology.levels and groups.alike else groups.count
    many = counted * groups.size**2 > MOST_DIRECT
    return tuple(
        (algorithm, _timed(groups, collective, algorithm))
        for algorithm in FLAT.values()
        if not (algorithm.asked or (algorithm.name == "direct" and shared and many))
        and algorithm.refusal(collective, groups) is None
    )


def _offer(
    groups: Groups,
    collective: str,
    algorithm: Algorithm,
    sequence: tuple[Timed, ...],
    size_bytes: float,
) -> Offer:
    name = f"{collective} {algorithm.name}"
    found = tuple((name, timed, size_bytes) for timed in sequence)
    return Offer(groups.wires, algorithm.name, found)


def _timed(groups: Groups, collective: str, algorithm: Algorithm) -> tuple[Timed, ...]:
    wires = groups.wires
    return tuple(
        Timed(
            phase,
            byte_s(phase.load, wires),
            _latency_s(groups, phase.far),
        )
        for phase in algorithm.pattern(collective, groups)
    )


def _latency_s(groups: Groups, far: Ends) -> float:
    """The longest latency among a few messages: most groups' farthest ones are those of others."""
    key = groups.speeds, *(cores.tobytes() for cores in far)
    return KEPT.get("latency", key, partial(groups.wires.message_latency_s, *far))


def byte_s(load: Load, wires: Wires) -> float:
    """How long a byte of every flow of a load takes when it has the links for itself."""
    on = load.on
    if isinstance(on, Quotient):
        return on.seconds_per_byte(load, wires)
    return load.everywhere().seconds_per_byte(wires.bandwidth)
