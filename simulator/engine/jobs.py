"""What links are asked to carry: jobs, the loads that they put on links, and the links."""

from __future__ import annotations

from array import array as column
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.engine.picoseconds import whole_ps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Numbering(Protocol):
    """Another numbering of links than the wires' own, where one stands for many."""

    def unfolded(self, load: Load) -> Load:
        """The load of all links that those of a load stand for."""


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Which links a job's flows cross, ascending, and how many of its flows cross each.

    Links are numbered as the wires have them, or as ``on`` does.
    """

    links: Ints
    flows: Floats
    on: Numbering | None = None

    @staticmethod
    def of(flows: Floats, on: Numbering | None = None) -> Load:
        """From a vector over all links; less than 1e-12 of the largest is nothing."""
        links = np.flatnonzero(flows > 1e-12 * flows.max(initial=0.0))
        return Load(links, flows[links], on)

    def unfolded(self) -> Load:
        """The same by the wires' own numbers."""
        return self if self.on is None else self.on.unfolded(self)

    @property
    def nbytes(self) -> int:
        """Of its two arrays."""
        return self.links.nbytes + self.flows.nbytes

    def seconds_per_byte(self, bandwidth: Floats) -> float:
        """How long a byte of every flow takes when the job has the links for itself."""
        return float((self.flows / bandwidth[self.links]).max(initial=0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A job of the network: flows that progress at one rate until each has moved its bytes.

    Steps of a collective that are alike are one phase, whose bytes and
    latencies are those of all of its ``steps``. ``flow_bytes`` are those that take time. Where
    others cross the links (protocols send flags beside data; some traffic takes no time),
    ``crossing`` has their loads and the bytes of each flow.
    """

    name: str
    load: Load
    flow_bytes: float
    latency_s: float
    steps: int = 1
    crossing: tuple[tuple[Load, float], ...] = ()

    @property
    def nbytes(self) -> int:
        """Of its loads' arrays."""
        others = (load for load, _ in self.crossing if load is not self.load)
        return self.load.nbytes + sum(load.nbytes for load in others)

    @property
    def crosses(self) -> tuple[tuple[Load, float], ...]:
        """Loads, and the bytes that each of their flows moves."""
        return self.crossing or ((self.load, self.flow_bytes),)

    def unfolded(self) -> Job:
        """The same by the wires' own numbers."""
        crossing = tuple((load.unfolded(), size) for load, size in self.crossing)
        return replace(self, load=self.load.unfolded(), crossing=crossing)

    def fewer(self, share: float) -> Job:
        """The same of a share of the bytes."""
        crossing = tuple((load, share * size) for load, size in self.crossing)
        return replace(self, flow_bytes=share * self.flow_bytes, crossing=crossing)

    def alone_ps(self, bandwidth: Floats) -> int:
        """Duration on links (B/s) that nobody else uses."""
        through_s = self.load.seconds_per_byte(bandwidth) * self.flow_bytes
        return whole_ps(through_s) + whole_ps(self.latency_s)


def ints(kept: Sequence[int]) -> Ints:
    """As an array; a column of the right type is not copied."""
    return np.asarray(kept, dtype=np.int64)


def as_kept(kept: column[int]) -> Ints:
    """A column as an array of its own type, not copied: millions of records take half of it."""
    return np.asarray(kept)


class Links:
    """Links that jobs share, with their ``bandwidth`` (B/s)."""

    def __init__(self, bandwidth: Floats) -> None:
        self.bandwidth = bandwidth
        self._jobs: dict[Job, Job] = {}

    def carry(self, job: Job) -> Job:
        """A job with its load on these links."""
        if job not in self._jobs:
            self._jobs[job] = job.unfolded()
        return self._jobs[job]
