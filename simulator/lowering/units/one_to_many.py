"""One source, many readers: links that everybody of a domain hears, and a mesh of unicasts.

On a broadcast link what is sent once is read by all: bytes / bandwidth, whatever the
number of readers (SPACX's photonic links, Li et al., HPCA 2022). There is one link
between the domains and one inside each; each link's bandwidth is shared out among
classes of traffic for good, as its wavelengths are. A multicast to readers in domains 2
and 5 holds the link between domains (once) and the links inside 2 and 5 (once each):

    100 B, 10 B/s between domains and 4 B/s inside, all of it this class's: 25 s

A mesh has links between neighbours alone. There a source sends to each reader by itself,
so that the first link of the way carries its readers times the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import simpy

from simulator.engine.interconnect import Interconnect
from simulator.engine.jobs import Floats, Job, Load
from simulator.engine.picoseconds import PICOSECONDS

SOURCE = -1
"""The memory, or global buffer, outside all domains: at node 0's corner of a mesh."""


class Broadcast:
    """A link between domains and one inside each of them, shared out among classes.

    ``domains`` are nodes by domain; ``shares`` the part of every link's bandwidth (B/s) that a
    class has, all together at most 1. Links are numbered by class; of each the one
    between domains comes first, then those inside, in their order.
    """

    def __init__(
        self,
        domains: Sequence[Sequence[int]],
        between_bytes_per_s: float,
        inside_bytes_per_s: float,
        shares: Mapping[str, float],
    ) -> None:
        rates = [between_bytes_per_s, *[inside_bytes_per_s] * len(domains)]
        inside = {node: 1 + d for d, domain in enumerate(domains) for node in domain}
        self._link = {SOURCE: 0, **inside}
        self._kinds = list(shares)
        self.bandwidth = np.outer([*shares.values()], rates).ravel()

    def flows(self, kind: str, source: int, readers: Sequence[int]) -> Floats:
        """Every link once, however many hear it: inside all domains that take part."""
        found = np.zeros((len(self._kinds), len(self.bandwidth) // len(self._kinds)))
        links = {self._link[node] for node in (source, *readers)}
        if set(readers) - {source}:
            found[self._kinds.index(kind), [*links, *[0] * (len(links) > 1)]] = 1.0
        return found.ravel()


class Mesh:
    """Rows by columns of nodes, a link each way between neighbours, routed along a row first.

    The SOURCE has a link each way to node 0, of the same bandwidth. Each reader is sent to by
    itself.
    """

    def __init__(self, rows: int, columns: int, bytes_per_s: float) -> None:
        self._columns, nodes = columns, rows * columns
        steps = [(n, n + 1) for n in range(nodes) if (n + 1) % columns]
        steps += [(n, n + columns) for n in range(nodes - columns)]
        steps.append((SOURCE, 0))
        both = sorted([*steps, *((b, a) for a, b in steps)])
        self._link = {ends: number for number, ends in enumerate(both)}
        self.bandwidth = np.full(len(both), float(bytes_per_s))

    def flows(self, kind: str, source: int, readers: Sequence[int]) -> Floats:
        """A flow to each reader on every link of its way, whatever the class of traffic."""
        del kind
        found = np.zeros(len(self.bandwidth))
        for reader in readers:
            for ends in pairwise(self._way(source, reader)):
                found[self._link[ends]] += 1
        return found

    def _way(self, source: int, reader: int) -> list[int]:
        here, target = max(source, 0), max(reader, 0)
        corner = here - here % self._columns + target % self._columns
        along = range(here, corner, 1 if corner > here else -1)
        across = range(corner, target, self._columns if target > corner else -self._columns)
        begin, end = ([SOURCE] * (node == SOURCE and source != reader) for node in (source, reader))
        return [*begin, *along, *across, target, *end]


Medium = Broadcast | Mesh
"""Links with their ``bandwidth`` (B/s), and the flows that a byte to each reader puts on them."""


class Transfer(NamedTuple):
    """``size_bytes`` from a source to each of its readers, of a class of traffic.

    Several such go together in ``alike``, as each chiplet's part of a tensor: pairs of source
    and readers that move as many bytes at one rate.
    """

    kind: str
    size_bytes: float
    alike: tuple[tuple[int, tuple[int, ...]], ...]


def job_of(medium: Medium, transfer: Transfer) -> Job:
    """A transfer's job: the flows of all that is alike together."""
    flows = sum(medium.flows(transfer.kind, *ends) for ends in transfer.alike)
    return Job("multicast", Load.of(np.asarray(flows)), transfer.size_bytes, 0.0)


def run_together(medium: Medium, jobs: Sequence[Job]) -> tuple[float, Floats]:
    """Run jobs at once on SimPy: seconds until the last is over, and bytes over every link."""
    env = simpy.Environment(initial_time=0)
    links = Interconnect(env, medium.bandwidth)
    env.run(env.all_of([links.submit(job) for job in jobs]))
    return env.now / PICOSECONDS, links.link_bytes
