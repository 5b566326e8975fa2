"""Who sends to whom in a group at once, what links then carry, phases made of that, their times."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, inf, sqrt
from typing import NamedTuple

import numpy as np

from hardware import Wires
from hardware.interconnect.cables import Cables
from hardware.interconnect.torus import Grid
from simulator.collectives.symmetry import summed, tier_byte_s
from simulator.engine.jobs import Ints, Load
from simulator.engine.picoseconds import whole_ps

Ends = tuple[Ints, Ints]
"""Sources and targets."""


def following(members: Ints, axis: int, *, both_ways: bool) -> Ends:
    """Every member sends to the next along an axis, the last to the first; or to both sides."""
    sources, targets = [members], [np.roll(members, -1, axis)]
    if both_ways:
        sources, targets = [members, members], [targets[0], np.roll(members, 1, axis)]
    return np.concatenate(sources).ravel(), np.concatenate(targets).ravel()


class Carried(NamedTuple):
    """What messages load: a flow of each on every link of its route.

    ``far`` are ends (cores) of messages of which one has the longest latency, however
    long a hop or a port's latency is.
    """

    load: Load
    far: Ends


def farthest(wires: Wires, sources: Ints, targets: Ints) -> Ends:
    """A few of some messages between cores, of which one has the longest latency of all.

    On a grid and on cables those with the most hops have it; elsewhere it depends on the
    kind of device that sends.
    """
    found = [np.zeros(0, dtype=np.int64)]
    for subnet, chosen in wires.by_subnet(sources, targets):
        a, b = sources[chosen], targets[chosen]
        if isinstance(subnet.fabric, Grid | Cables):
            hops = subnet.fabric.hops(subnet.node[a], subnet.node[b])
            found.append(chosen[[int(hops.argmax())]])
        else:
            found.append(chosen[np.unique(wires.kind[a], return_index=True)[1]])
    far = np.concatenate(found)
    return sources[far], targets[far]


def add(parts: list[tuple[Carried, float]]) -> Carried:
    """Several at once, by weights."""
    sources, targets = (
        np.concatenate(side) for side in zip(*(c.far for c, _ in parts), strict=True)
    )
    return Carried(summed([(c.load, weight) for c, weight in parts]), (sources, targets))


@dataclass(frozen=True, slots=True, eq=False)
class CollectivePhase:
    """Alike steps in a row: ``share`` of a collective's bytes per flow, over all of them.

    ``far`` are ends of messages of which one has the longest latency, and that
    is one of the ``count`` steps'. A pipelined phase is cut into chunks, which
    pass ``stages`` more members after the first. Where flows get only a part of their links'
    bandwidth, ``share`` is what they could have moved meanwhile, ``moved`` the part that they do.
    Raises ValueError for numbers that are none of these.
    """

    load: Load
    far: Ends
    share: float
    count: int = 1
    stages: int = 0
    moved: float = 1.0

    def __post_init__(self) -> None:
        for name in ("share", "count", "stages", "moved"):
            if not 0 <= (number := getattr(self, name)) < inf:
                raise ValueError(f"a phase's {name} is {number}: must be finite, 0 or more")

    @property
    def nbytes(self) -> int:
        """Of its arrays."""
        return self.load.nbytes + 2 * self.far[0].nbytes


Pattern = tuple[CollectivePhase, ...]
"""What a collective is, one phase after the other."""


def phase_of(
    carried: Carried, share: float, count: int = 1, bandwidth_share: float = 1.0
) -> CollectivePhase:
    """So many alike steps in which flows move a share of the bytes, all together.

    Flows get ``bandwidth_share`` of their links' bandwidth.
    """
    busy = share / bandwidth_share
    return CollectivePhase(carried.load, carried.far, busy, count, moved=bandwidth_share)


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """A phase on wires of known speeds: seconds per byte of every flow, and a step's latency.

    ``start_s`` comes once, and ``copy_s`` for each byte of the tensor: links idle meanwhile.
    Where messages of one step take several ``tiers``, each has its own bytes and latency: those on
    a slow tier are on their way while others wait.
    """

    phase: CollectivePhase
    byte_s: float
    latency_s: float
    start_s: float = 0.0
    copy_s: float = 0.0
    tiers: tuple[tuple[float, float], ...] = ()

    def latencies_s(self, size_bytes: float) -> float:
        """Seconds besides all bytes of a collective of that size."""
        if self.phase.stages:
            return self.start_s + self._fill_s(size_bytes)
        if self.tiers:
            moved = self.phase.share * size_bytes
            each_s = ((byte_s - self.byte_s) * moved + late_s for byte_s, late_s in self.tiers)
            return self.start_s + max(each_s)
        return self.start_s + self.phase.count * self.latency_s

    def wait_s(self, size_bytes: float) -> float:
        """Seconds besides the bytes on links."""
        return self.latencies_s(size_bytes) + self.copy_s * size_bytes

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
        whole_s = stages * size_bytes * self.phase.share * self.byte_s
        best = sqrt(whole_s / latency_s) if latency_s else size_bytes
        return min(
            whole_s / chunks + (chunks + stages) * latency_s
            for chunks in (max(1, floor(min(best, size_bytes))), ceil(min(best, size_bytes)) or 1)
        )


def of_tiers(phase: CollectivePhase, wires: Wires) -> tuple[tuple[float, float], ...]:
    """Seconds per byte and latency of each tier that messages of a step take.

    Empty where all take one tier, and where there are several steps: pieces go round, and wait
    wherever they come.
    """
    found = []
    for subnet, some in wires.by_subnet(*phase.far) if phase.count == 1 else ():
        ends = (side[some] for side in phase.far)
        latency_s = wires.message_latency_s(*ends)
        found.append((tier_byte_s(phase.load, wires, subnet.links), latency_s))
    return tuple(found) if len(found) > 1 else ()
