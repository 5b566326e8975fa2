"""Links shared max-min fairly among jobs: the flow network on SimPy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import ArrayLike

from simulator.engine.cores import Done
from simulator.engine.fair import fair_rates
from simulator.engine.jobs import Floats, Job
from simulator.engine.picoseconds import PICOSECONDS, whole_ps

_LAST = simpy.events.EventPriority(2)
"""Priority of an event that comes after all others of its instant."""


class Moved(simpy.Event):
    """The end of a ``job``, which is carried for ``of``."""

    job: Job
    of: Done | None = None

    def known(self, turn: int, now_ps: int) -> Hashable:
        """Which job for whom (see ``Done.known``)."""
        return self.job, self.of and self.of.known(turn, now_ps)


class Appointment(simpy.Event):
    """When a ``region`` of links looks again who is through, unless that is forgotten."""

    region: _Region

    def known(self, turn: int, now_ps: int) -> Hashable:
        """Whose it is, if it is still wanted (see ``Done.known``)."""
        del turn, now_ps
        return self.region.first if self.region.next is self else None


@dataclass(slots=True)
class _Running:
    """A job under way: ``left_bytes`` of each of its flows at ``settled_ps``.

    It ``shares`` some link with another one, or has all of its links for itself.
    """

    job: Job
    done: Moved
    left_bytes: float
    rate: float = 0.0
    end_ps: int = 0
    settled_ps: int = 0
    number: int = 0
    shares: bool = False


class _Region:
    """Links (B/s each) that jobs may hold together; ``first`` is the number of its first link.

    A job that has its links for itself changes nobody's rate when it comes or goes.
    """

    def __init__(self, env: simpy.Environment, bandwidth: Floats, first: int) -> None:
        self._env = env
        self._bandwidth = bandwidth
        self.first = first
        self._running: list[_Running] = []
        self.next: Appointment | None = None
        self._at_ps = 0
        self._users = np.zeros(len(bandwidth), dtype=np.int64)
        self._numbers = np.zeros(len(bandwidth), dtype=np.int64)
        """Per link the sum of its jobs' numbers: where there is one, whose it is."""
        self._alone: dict[int, _Running] = {}
        """By number, those who share no link."""
        self._last = 0
        self.link_bytes = np.zeros(len(bandwidth))

    def submit(self, job: Job) -> Moved:
        done = Moved(self._env)
        done.job = job
        running = _Running(job, done, job.flow_bytes)
        if len(job.load.links) == 0 or job.flow_bytes <= 0:
            self._finish(running)
            return done
        self._running.append(running)
        if len(self._bandwidth) == 1:  # one link: who shares it is known at once
            self._share(self._running)
            self._wake_next()
            return done
        self._take(running)
        if running.shares:
            self._wake(0)
        else:
            self._share([running])
            if self.next is None or running.end_ps < self._at_ps:
                self._wake(running.end_ps - int(self._env.now))
        return done

    def crossed(self, job: Job, times: int = 1) -> None:
        """Count what a job moves over its links."""
        self.link_bytes[job.load.links - self.first] += times * job.flow_bytes * job.load.flows

    def known(self, turn: int, now_ps: int) -> tuple[Hashable, ...]:
        """What is under way, and how far it is (see ``Done.known``)."""
        return tuple(
            [
                (
                    running.done.known(turn, now_ps),
                    running.left_bytes,
                    running.rate,
                    running.end_ps - now_ps,
                    running.settled_ps - now_ps,
                    running.shares,
                )
                for running in self._running
            ]
        )

    def _wake(self, delay_ps: int) -> None:
        """Look again then; an earlier appointment is forgotten."""
        self._at_ps = int(self._env.now) + delay_ps
        event = self.next = Appointment(self._env)
        event.region = self
        event._ok, event._value = True, None
        event.callbacks.append(self._look)
        self._env.schedule(event, _LAST, delay_ps)

    def _wake_next(self) -> None:
        """Look again when the next job is through."""
        self.next = None
        if self._running:
            now = int(self._env.now)
            self._wake(min(running.end_ps for running in self._running) - now)

    def _look(self, event: simpy.Event) -> None:
        """Let finished jobs go, and share the links anew among those whom that concerns."""
        if event is not self.next:
            return
        now = int(self._env.now)
        finished = [r for r in self._running if r.rate and r.end_ps <= now]
        for running in finished:
            self._finish(running)
        if finished:
            self._running = [r for r in self._running if not r.rate or r.end_ps > now]
        if len(self._bandwidth) == 1:
            self._share(self._running)
        else:
            self._share(self._concerned(finished))
        self._wake_next()

    def _take(self, running: _Running) -> None:
        """Put a job on its links; whoever was alone on one of them shares it now."""
        links = running.job.load.links - self.first
        self._last += 1
        running.number = self._last
        before = self._users[links]
        running.shares = bool(before.any())
        if running.shares:
            for number in set(self._numbers[links[before == 1]].tolist()):
                if number in self._alone:
                    self._alone.pop(number).shares = True
        else:
            self._alone[running.number] = running
        self._users[links] += 1
        self._numbers[links] += running.number

    def _leave(self, running: _Running) -> None:
        links = running.job.load.links - self.first
        self._users[links] -= 1
        self._numbers[links] -= running.number
        self._alone.pop(running.number, None)

    def _concerned(self, finished: Sequence[_Running]) -> list[_Running]:
        """Who may get another rate: who is new; if one who shares comes or goes all who share.

        Of jobs A and B on one link and C on another, C goes on as it did when B ends.
        """
        for running in finished:
            self._leave(running)
        new = [running for running in self._running if not running.rate]
        left = any(running.shares for running in finished)
        if not left and not any(running.shares for running in new):
            return new
        found = [running for running in self._running if running.shares or not running.rate]
        if left:
            for running in found:
                links = running.job.load.links - self.first
                if running.shares and not (self._users[links] > 1).any():
                    running.shares = False
                    self._alone[running.number] = running
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
            running.rate = rate
            running.end_ps = now + whole_ps(running.left_bytes / rate)

    def _rates(self, concerned: Sequence[_Running]) -> list[float]:
        loads = [running.job.load for running in concerned]
        if len(loads) == 1:
            links, flows = loads[0].links, loads[0].flows
            return [float((self._bandwidth[links - self.first] / flows).min())]
        if len(self._bandwidth) == 1:
            return [float(self._bandwidth[0] / sum(load.flows[0] for load in loads))] * len(loads)
        rates: list[float] = fair_rates(loads, self._bandwidth, self.first).tolist()
        return rates

    def _finish(self, running: _Running) -> None:
        job, done = running.job, running.done
        self.crossed(job)
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
    between cores are one region, and each HBM is a region of one link, unless
    transfers are to hold both (then they are one).

    Forgotten appointments stay in the queue: take a run's end from its events,
    not from the clock of an emptied environment.
    """

    def __init__(self, env: simpy.Environment, *regions: ArrayLike) -> None:
        self._regions: list[_Region] = []
        self._starts: list[int] = []
        for bandwidth in regions:
            first = self._starts[-1] + len(self._regions[-1].link_bytes) if self._regions else 0
            self._starts.append(first)
            values = np.asarray(bandwidth, dtype=np.float64)
            self._regions.append(_Region(env, values, first))

    @property
    def link_bytes(self) -> Floats:
        """Bytes that have crossed every link."""
        parts = [region.link_bytes for region in self._regions]
        return np.concatenate(parts) if parts else np.zeros(0)

    def known(self, turn: int, now_ps: int) -> Hashable:
        """What is on each region's links (see ``Done.known``)."""
        return tuple([known for one in self._regions if (known := one.known(turn, now_ps))])

    def submit(self, job: Job) -> Moved:
        """Begin now; the event (value: the job) fires when its bytes and latency are over."""
        return self._region(job).submit(job)

    def crossed(self, job: Job, times: int) -> None:
        """Count a job that is known to have had its links for itself, so many times."""
        self._region(job).crossed(job, times)

    def _region(self, job: Job) -> _Region:
        links = job.load.links
        place = bisect_right(self._starts, int(links[0])) - 1 if len(links) else 0
        return self._regions[place]
