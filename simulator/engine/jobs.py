"""What the links are asked to carry: jobs, and the load that a job puts on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.engine.picoseconds import whole_ps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Numbering(Protocol):
    """Another numbering of links than the wires' own, where one stands for many."""

    def everywhere(self, load: Load) -> Load:
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

    def everywhere(self) -> Load:
        """The same by the wires' own numbers."""
        return self if self.on is None else self.on.everywhere(self)

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
    latencies are those of all of its ``steps``.
    """

    name: str
    load: Load
    flow_bytes: float
    latency_s: float
    steps: int = 1

    @property
    def nbytes(self) -> int:
        """Of its load's arrays."""
        return self.load.nbytes

    def alone_ps(self, bandwidth: Floats) -> int:
        """Duration on links (B/s) that nobody else uses."""
        through_s = self.load.seconds_per_byte(bandwidth) * self.flow_bytes
        return whole_ps(through_s) + whole_ps(self.latency_s)


def ints(kept: Sequence[int]) -> Ints:
    """As an array; a column of the right type is not copied."""
    return np.asarray(kept, dtype=np.int64)


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The values that there are, ascending: ``np.unique`` without the numpy.ma that it loads.

    That takes 10 ms, a thirtieth of a short command.
    """
    ascending = np.sort(values, axis=None)
    new = np.ones(ascending.size, dtype=bool)
    np.not_equal(ascending[1:], ascending[:-1], out=new[1:])
    return ascending[new]
