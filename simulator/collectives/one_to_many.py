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

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import simpy

from simulator.collectives.algorithms import CollectiveError
from simulator.engine.interconnect import Interconnect
from simulator.engine.jobs import Floats, Job, Load
from simulator.engine.picoseconds import PICOSECONDS

SOURCE = -1
"""The memory, or global buffer, outside all domains: at node 0's corner of a mesh."""


class Medium(ABC):
    """Links with their ``bandwidth`` (B/s) and the ``latency_s`` of anything sent on them."""

    bandwidth: Floats
    latency_s: float

    @abstractmethod
    def load(self, kind: str, source: int, readers: Sequence[int]) -> Load:
        """The flows that one byte to each of the readers puts on the links.

        ``kind`` is the class of traffic, ``source`` a node or SOURCE, and a reader may
        be SOURCE, too. Raises CollectiveError for nodes or classes that there are not.
        """


class Broadcast(Medium):
    """A link between domains and one inside each of them, shared out among classes.

    ``domains`` are nodes by domain; ``shares`` the part of every link's bandwidth that a
    class has, all together at most 1. Links are numbered by class; of each the one
    between domains comes first, then those inside, in their order.
    """

    def __init__(
        self,
        domains: Sequence[Sequence[int]],
        between_bytes_per_s: float,
        inside_bytes_per_s: float,
        shares: Mapping[str, float],
        latency_s: float = 0.0,
    ) -> None:
        nodes = [node for domain in domains for node in domain]
        if not nodes or len(set(nodes)) < len(nodes) or min(nodes) < 0:
            raise CollectiveError("domains have nodes from 0 on, each of them once")
        if not shares or min(shares.values()) <= 0 or sum(shares.values()) > 1 + 1e-9:
            raise CollectiveError(f"shares {dict(shares)}: each above 0, together at most 1")
        if min(between_bytes_per_s, inside_bytes_per_s) <= 0 or latency_s < 0:
            raise CollectiveError("links need a bandwidth above 0 and no negative latency")
        self._domain = {node: d for d, domain in enumerate(domains) for node in domain}
        self._kinds = {kind: place for place, kind in enumerate(shares)}
        self._each = 1 + len(domains)
        rates = np.array([between_bytes_per_s, *[inside_bytes_per_s] * len(domains)])
        self.bandwidth = np.concatenate([rates * share for share in shares.values()])
        self.latency_s = latency_s

    def load(self, kind: str, source: int, readers: Sequence[int]) -> Load:
        """Every link once, however many hear it: inside all domains that take part."""
        if kind not in self._kinds:
            raise CollectiveError(f"class {kind!r}: one of {', '.join(self._kinds)}")
        if unknown := {source, *readers} - self._domain.keys() - {SOURCE}:
            raise CollectiveError(f"node {min(unknown)}: in no domain")
        ends = {self._domain.get(node, SOURCE) for node in (source, *readers)}
        first = self._kinds[kind] * self._each
        links = {first + 1 + domain for domain in ends if domain != SOURCE}
        if len(ends) > 1:
            links.add(first)
        if not set(readers) - {source}:
            links = set()
        return Load(np.array(sorted(links), dtype=np.int64), np.ones(len(links)))


class Mesh(Medium):
    """Rows by columns of nodes, a link each way between neighbours, routed along a row first.

    ``kind`` means nothing here. The SOURCE has a link each way to node 0, of the same
    bandwidth. Each reader is sent to by itself.
    """

    def __init__(self, rows: int, columns: int, bytes_per_s: float, latency_s: float = 0.0) -> None:
        if min(rows, columns) < 1 or bytes_per_s <= 0 or latency_s < 0:
            raise CollectiveError("a mesh has at least one node, and links with a bandwidth")
        self._columns, self._nodes = columns, rows * columns
        steps = [(n, n + 1) for n in range(self._nodes) if (n + 1) % columns]
        steps += [(n, n + columns) for n in range(self._nodes - columns)]
        steps.append((SOURCE, 0))
        both = sorted([*steps, *((b, a) for a, b in steps)])
        self._link = {ends: number for number, ends in enumerate(both)}
        self.bandwidth = np.full(len(both), float(bytes_per_s))
        self.latency_s = latency_s

    def load(self, kind: str, source: int, readers: Sequence[int]) -> Load:
        """A flow to each reader on every link of its way."""
        del kind
        flows = np.zeros(len(self.bandwidth))
        for reader in readers:
            for node in (source, reader):
                if not SOURCE <= node < self._nodes:
                    raise CollectiveError(f"node {node}: the mesh has {self._nodes}")
            for ends in self._way(source, reader):
                flows[self._link[ends]] += 1
        return Load.of(flows)

    def _way(self, source: int, reader: int) -> list[tuple[int, int]]:
        nodes = [source]
        if source == SOURCE != reader:
            nodes.append(0)
        target = 0 if reader == SOURCE else reader
        while nodes[-1] != target and nodes[-1] != reader:
            here = nodes[-1]
            across = target % self._columns - here % self._columns
            if across:
                nodes.append(here + (1 if across > 0 else -1))
            else:
                nodes.append(here + (self._columns if target > here else -self._columns))
        if reader == SOURCE != source:
            nodes.append(SOURCE)
        return list(pairwise(nodes))


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
    flows = np.zeros(len(medium.bandwidth))
    for source, readers in transfer.alike:
        load = medium.load(transfer.kind, source, readers)
        flows[load.links] += load.flows
    return Job("multicast", Load.of(flows), transfer.size_bytes, medium.latency_s)


def run_together(medium: Medium, jobs: Sequence[Job]) -> tuple[float, Floats]:
    """Run jobs at once on SimPy: seconds until the last is over, and bytes over every link."""
    env = simpy.Environment(initial_time=0)
    links = Interconnect(env, medium.bandwidth)
    ends: list[int] = []

    def process(job: Job) -> Generator[simpy.Event, Any, None]:
        yield links.submit(job)
        ends.append(int(env.now))

    for job in jobs:
        env.process(process(job))
    env.run()
    return max(ends, default=0) / PICOSECONDS, links.link_bytes
