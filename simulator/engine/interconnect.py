"""Links shared max-min fairly among jobs, and HBMs: the flow network on SimPy."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import simpy
from numpy.typing import ArrayLike

from simulator.engine.jobs import Floats, Job, Load
from simulator.engine.operations import Operation, Program
from simulator.engine.picoseconds import PICOSECONDS, whole_ps


def fair_rates(loads: Sequence[Load], capacity: Floats, first: int = 0) -> Floats:
    """Max-min fair rate of every job's flows on links of that capacity (progressive filling).

    Links are numbered from ``first`` on. All rates grow alike until a link is
    full; its jobs keep their rate, and what is left is shared by the others.
    Links of 6 and 10 B/s; job A has two flows on the first and one on the
    second, B one on the first, C one on the second:

        first has room for 6 / 3 = 2, second for 10 / 2 = 5     A and B stop at 2
        second has 10 - 2 = 8 left for C alone                  C stops at 8
    """
    links = np.concatenate([load.links for load in loads]) - first
    flows = np.concatenate([load.flows for load in loads])
    job = np.repeat(np.arange(len(loads)), [len(load.links) for load in loads])
    rates = np.zeros(len(loads))
    grows = np.ones(len(loads), dtype=np.bool_)
    free = capacity
    room = np.empty(len(capacity))
    while True:
        moving = grows[job]
        demand = np.bincount(links[moving], flows[moving], minlength=len(capacity))
        room.fill(np.inf)
        np.divide(free, demand, out=room, where=demand > 0)
        level = float(room.min())
        full = room <= level * (1 + 1e-12)
        stops = np.zeros(len(loads), dtype=np.bool_)
        stops[job[full[links] & moving]] = True
        rates[stops] = level
        grows &= ~stops
        if not grows.any():
            return rates
        held = stops[job]
        used = np.bincount(links[held], flows[held] * level, minlength=len(capacity))
        free = np.maximum(free - used, 0.0)


MOST_BITS = 1 << 28
"""Of links of loads that a region keeps."""
_LAST = simpy.events.EventPriority(2)
"""Priority of an event that comes after all others of its instant."""


class Moved(simpy.Event):
    """The end of a job."""


@dataclass(slots=True)
class _Running:
    """A job under way: ``left_bytes`` of each of its flows at ``settled_ps``.

    It ``shares`` some link with another one, or did until one of them came or went; without a
    rate it waits to be given one.
    """

    job: Job
    done: Moved
    left_bytes: float
    links: int
    """A bit for each of its region's links that it holds."""
    rate: float = 0.0
    end_ps: int = 0
    settled_ps: int = 0
    shares: bool = False


class _Route(NamedTuple):
    """What a load is on a region's links: a bit for each of them, and its rate (B/s) alone."""

    links: int
    rate: float


class Region:
    """Links (B/s each) that jobs may hold together; ``first`` is the number of its first link.

    A job that has its links for itself changes nobody's rate when it comes or goes.
    """

    def __init__(self, env: simpy.Environment, bandwidth: Floats, first: int) -> None:
        self._env = env
        self._bandwidth = bandwidth
        self.first = first
        self._running: list[_Running] = []
        """In the order in which they came."""
        self.next: simpy.Event | None = None
        self._routes: dict[Load, _Route] = {}
        self._at_ps = 0
        self._often: Counter[Job] = Counter()

    def submit(self, job: Job) -> Moved:
        """Begin now (see ``Interconnect.submit``)."""
        done = Moved(self._env)
        if len(job.load.links) == 0 or job.flow_bytes <= 0:
            self._finish(job, done)
            return done
        now, (links, rate) = int(self._env.now), self._route(job.load)
        running = _Running(job, done, job.flow_bytes, links, settled_ps=now)
        met = [one for one in self._running if one.links & links]
        self._running.append(running)
        if met:
            for one in (*met, running):
                one.shares = True
            self._wake(now)
        else:
            self._give(running, rate, now)
            self._wake(running.end_ps)
        return done

    @property
    def link_bytes(self) -> Floats:
        """Bytes that have crossed each link."""
        found = np.zeros(len(self._bandwidth))
        for job, times in self._often.items():
            for load, size in job.crosses:
                found[load.links - self.first] += times * size * load.flows
        return found

    def _route(self, load: Load) -> _Route:
        found = self._routes.get(load)
        if found is None:
            if len(self._routes) * len(self._bandwidth) > MOST_BITS:
                self._routes.clear()
            links, held = load.links - self.first, np.zeros(len(self._bandwidth), dtype=np.bool_)
            held[links] = True
            bits = int.from_bytes(np.packbits(held, bitorder="little").tobytes(), "little")
            rate = float((self._bandwidth[links] / load.flows).min())
            found = self._routes[load] = _Route(bits, rate)
        return found

    def _wake(self, at_ps: int) -> None:
        """Look again then, if not before; a later appointment is forgotten."""
        if self.next is not None and self._at_ps <= at_ps:
            return
        self._at_ps = at_ps
        event = self.next = self._env.event()
        event._ok, event._value = True, None
        event.callbacks.append(self._look)
        self._env.schedule(event, _LAST, at_ps - int(self._env.now))

    def _look(self, event: simpy.Event) -> None:
        """Let finished jobs go, share links anew among those whom that concerns, and go on."""
        if event is not self.next:
            return
        now = int(self._env.now)
        finished = [r for r in self._running if r.rate and r.end_ps <= now]
        for running in finished:
            self._finish(running.job, running.done)
        if finished:
            self._running = [r for r in self._running if not r.rate or r.end_ps > now]
        self._share(self._concerned(finished))
        self.next = None
        if self._running:
            self._wake(min(running.end_ps for running in self._running))

    def _concerned(self, finished: Sequence[_Running]) -> list[_Running]:
        """Who may get another rate: if one who shares comes or goes all who share.

        Of jobs A and B on one link and C on another, C goes on as it did when B ends.
        """
        left = any(running.shares for running in finished)
        if not left and all(running.rate for running in self._running):
            return []
        found = [running for running in self._running if running.shares]
        if left:
            once = twice = 0
            for running in self._running:
                once, twice = once | running.links, twice | once & running.links
            for running in found:
                running.shares = bool(running.links & twice)
        return found

    def _share(self, concerned: Sequence[_Running]) -> None:
        """Give some jobs their rates from now on; nobody else is on their links."""
        if not concerned:
            return
        now = int(self._env.now)
        for running in concerned:
            if passed_ps := (now - running.settled_ps if running.rate else 0):
                moved = running.rate * passed_ps / PICOSECONDS
                running.left_bytes = max(running.left_bytes - moved, 0.0)
            running.settled_ps = now
        for running, rate in zip(concerned, self._rates(concerned), strict=True):
            self._give(running, rate, now)

    def _give(self, running: _Running, rate: float, now: int) -> None:
        """Let a job go on at a rate until its bytes are through, if nobody comes meanwhile."""
        running.rate = rate
        running.end_ps = now + whole_ps(running.left_bytes / rate)

    def _rates(self, concerned: Sequence[_Running]) -> list[float]:
        loads = [running.job.load for running in concerned]
        if len(loads) == 1:
            return [self._route(loads[0]).rate]
        if len(self._bandwidth) == 1:
            return [float(self._bandwidth[0] / sum(load.flows[0] for load in loads))] * len(loads)
        rates: list[float] = fair_rates(loads, self._bandwidth, self.first).tolist()
        return rates

    def _finish(self, job: Job, done: Moved) -> None:
        """Its bytes are through."""
        self._often[job] += 1
        done._ok, done._value = True, job
        self._env.schedule(done, delay=whole_ps(job.latency_s))


class Interconnect:
    """Links (B/s each) that jobs hold together, each job every link of its load at once.

    Rates are max-min fair per flow: all rates grow alike until a link is
    full, its jobs keep that rate, the others grow on. They change when a job
    comes or goes, at whole picoseconds; a job's bytes are through at the next
    whole one. Its latency comes after its bytes and holds no link.

    Links are numbered through all ``regions``, and the links of a job are all
    of one region: what goes on in another does not concern it. So the wires
    between cores are one region, and each HBM is a region of one link.

    Cancelled wake-ups stay in SimPy's queue: a run ends with its last event, not at the
    time that the environment's clock shows in the end.
    """

    def __init__(self, env: simpy.Environment, *regions: ArrayLike) -> None:
        self._regions: list[Region] = []
        self._starts: list[int] = []
        for bandwidth in regions:
            first = self._starts[-1] + len(self._regions[-1].link_bytes) if self._regions else 0
            self._starts.append(first)
            values = np.asarray(bandwidth, dtype=np.float64)
            self._regions.append(Region(env, values, first))

    @property
    def link_bytes(self) -> Floats:
        """Bytes that have crossed every link."""
        parts = [region.link_bytes for region in self._regions]
        return np.concatenate(parts) if parts else np.zeros(0)

    def submit(self, job: Job) -> Moved:
        """Begin now; the event (value: the job) fires when its bytes and latency are over."""
        return self._region(job).submit(job)

    def _region(self, job: Job) -> Region:
        links = job.load.links
        place = bisect_right(self._starts, int(links[0])) - 1 if len(links) else 0
        return self._regions[place]


class Memories:
    """The memory links of a program, which follow ``first`` others on the interconnect.

    Nobody but its one worker uses an HBM of its own, and that, unless it has several
    units, one operation after the other: when its bytes are through is known as soon as they begin.
    """

    def __init__(
        self, env: simpy.Environment, program: Program, interconnect: Interconnect, first: int
    ) -> None:
        self._env = env
        self._interconnect = interconnect
        self._first = first
        self._bandwidth = program.hbms
        self._own_bytes = [0.0] * len(program.hbms)
        self._jobs: dict[tuple[int, float], Job] = {}
        self._traffic: dict[Operation, Operation] = {}
        users = Counter(worker.hbm for worker in program.workers)
        at_once = {worker.hbm for worker in program.workers if worker.units}
        self._own = [
            users[number] == 1 and number not in at_once for number in range(len(program.hbms))
        ]

    def traffic(self, operation: Operation) -> Operation:
        """What a memory does for an operation, as one operation however often."""
        found = self._traffic.get(operation)
        if found is None:
            found = self._traffic[operation] = operation.traffic()
        return found

    def is_own(self, hbm: int | None) -> bool:
        """Whether nobody but one worker uses it; none is nobody's."""
        return hbm is None or self._own[hbm]

    def crossed(self, hbm: int, size_bytes: float) -> None:
        """Count bytes that are known to go through one of a worker's own."""
        self._own_bytes[hbm] += size_bytes

    def cross(self, hbm: int, size_bytes: float) -> tuple[simpy.Event, int | None]:
        """Begin now; the event of the end, and picoseconds until then where that is known."""
        if self._own[hbm]:
            self._own_bytes[hbm] += size_bytes
            through_ps = whole_ps(size_bytes / self._bandwidth[hbm])
            return self._env.timeout(through_ps), through_ps
        job = self._jobs.get((hbm, size_bytes))
        if job is None:
            load = Load(np.array([self._first + hbm]), np.ones(1))
            job = self._jobs[hbm, size_bytes] = Job("hbm", load, size_bytes, 0.0)
        return self._interconnect.submit(job), None

    @property
    def bytes(self) -> tuple[float, ...]:
        """Bytes that have crossed each of them."""
        shared = self._interconnect.link_bytes[self._first :]
        return tuple((shared + self._own_bytes).tolist())
