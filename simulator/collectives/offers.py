"""Ways to do a collective: which algorithms apply, and how long each takes alone.

On a symmetric array an offer is timed on the links that stand for all (``symmetry``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, floor, sqrt
from typing import Protocol, TypeVar

from simulator.collectives.algorithms import FLAT, Algorithm
from simulator.collectives.cache import cached
from simulator.collectives.groups import Groups
from simulator.collectives.messages import CollectivePhase
from simulator.collectives.symmetry import byte_s
from simulator.engine.jobs import Job
from simulator.engine.picoseconds import whole_ps

AnyOffer = TypeVar("AnyOffer", bound="Offer")
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


class Offer(Protocol):
    """A way to do a collective: by which algorithm, in how many phases one after the other.

    ``alone_ps`` is what its jobs take when nobody else uses their links.
    """

    @property
    def algorithm(self) -> str: ...  # noqa: D102

    @property
    def phases(self) -> int: ...  # noqa: D102

    @property
    def alone_ps(self) -> int: ...  # noqa: D102

    def jobs(self) -> Jobs:
        """What the links have to do, loads on the few that stand for all."""


@dataclass(frozen=True, eq=False)
class Flat:
    """Groups do it by one algorithm, all members alike, with a tensor of ``size_bytes``."""

    groups: Groups
    collective: str
    how: Algorithm
    timed: tuple[Timed, ...]
    size_bytes: float

    @property
    def algorithm(self) -> str:  # noqa: D102
        return self.how.name

    @property
    def phases(self) -> int:  # noqa: D102
        return len(self.timed)

    @cached_property
    def alone_ps(self) -> int:  # noqa: D102
        return sum([one.alone_ps(self.size_bytes) for one in self.timed])

    def jobs(self) -> Jobs:  # noqa: D102
        name, size = f"{self.collective} {self.algorithm}", self.size_bytes
        pattern = self.how.pattern(self.collective, self.groups)
        return tuple(
            Job(name, phase.load, phase.share * size, timed.wait_s(size), phase.count)
            for phase, timed in zip(pattern, self.timed, strict=True)
        )


def cheapest(offers: Iterable[AnyOffer]) -> AnyOffer:
    """The one that takes least alone, of equals the first."""
    return min(offers, key=lambda offer: offer.alone_ps)


def flat_offers(groups: Groups, collective: str, size_bytes: float) -> list[Flat]:
    """Every algorithm that applies, without the direct one where its pattern takes long to make."""
    counted = 1 if groups.wires.topology.levels and groups.strided else groups.count
    many = counted * groups.size**2 > MOST_DIRECT
    key = groups.wires.key, groups.key, collective, many
    ways = cached("ways", key, partial(_ways, groups, collective, many=many))
    return [Flat(groups, collective, *way, size_bytes) for way in ways]


def flat_offer(
    groups: Groups, collective: str, size_bytes: float, algorithm: Algorithm
) -> Flat | str:
    """What an algorithm takes, or why it does not apply."""
    if (why := algorithm.refusal(collective, groups)) is not None:
        return why
    timed = _timed(groups, collective, algorithm)
    return Flat(groups, collective, algorithm, timed, size_bytes)


Way = tuple[Algorithm, tuple[Timed, ...]]


def _ways(groups: Groups, collective: str, *, many: bool) -> tuple[Way, ...]:
    shared = groups.wires.topology.kind != "fully_connected" and collective != "all-to-all"
    return tuple(
        (algorithm, _timed(groups, collective, algorithm))
        for algorithm in FLAT.values()
        if not (algorithm.asked or (algorithm.name == "direct" and shared and many))
        and algorithm.refusal(collective, groups) is None
    )


def _timed(groups: Groups, collective: str, algorithm: Algorithm) -> tuple[Timed, ...]:
    wires = groups.wires
    return tuple(
        Timed(
            phase,
            byte_s(phase.load, wires),
            wires.message_latency_s(*phase.far),
        )
        for phase in algorithm.pattern(collective, groups)
    )
