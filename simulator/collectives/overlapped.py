"""Tiers at work at once: a collective in chunks, each a tier behind the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, sqrt

from simulator.collectives.groups import Groups
from simulator.collectives.hierarchical import hierarchical
from simulator.collectives.offers import Jobs
from simulator.collectives.symmetry import byte_s, summed
from simulator.engine.jobs import Job
from simulator.engine.picoseconds import whole_ps

NAME = "hierarchical-overlapped"
MOST_CHUNKS = 64


@dataclass(frozen=True, slots=True, eq=False)
class AtOnce:
    """All tiers as one job, and what it takes alone."""

    job: Job
    alone_ps: int
    algorithm: str = NAME
    phases: int = 1

    def jobs(self) -> Jobs:  # noqa: D102
        return (self.job,)


def overlapped(groups: Groups, collective: str, size_bytes: float) -> AtOnce | str:
    """The tiers of the hierarchical way as a pipeline of equal chunks; or why it does not apply.

    The busiest links are busy all the time but for the first chunk's way to
    them and the last one's from them, which is shorter the more chunks there
    are, while every chunk more costs the latency of the slowest tier again.
    """
    if not groups.wires.topology.levels:
        return f"{NAME} needs tiers (topology.levels)"
    found = hierarchical(groups, collective, size_bytes)
    if isinstance(found, str):
        return found
    tiers = [one for tier in found.tiers for one in zip(tier.timed, tier.jobs(), strict=True)]
    together = summed([(job.load, job.flow_bytes / size_bytes) for _, job in tiers])
    busy_s = byte_s(together, groups.wires)
    bytes_s = [timed.byte_s * job.flow_bytes for timed, job in tiers]
    waits_s = [job.latency_s for _, job in tiers]
    busiest_s = busy_s * size_bytes
    chunks = _chunks(bytes_s, waits_s, busiest_s)
    whole_s = min(_pipeline_s(n, bytes_s, waits_s, busiest_s) for n in chunks)
    steps, wait_s = sum(job.steps for _, job in tiers), whole_s - busiest_s
    job = Job(f"{collective} {NAME}", together, size_bytes, wait_s, steps)
    return AtOnce(job, whole_ps(busy_s * size_bytes) + whole_ps(wait_s))


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
