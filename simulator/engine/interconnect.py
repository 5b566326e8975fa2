"""Links shared max-min fairly among jobs: the flow network on SimPy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import ArrayLike

from simulator.engine.jobs import Floats, Job, Load
from simulator.engine.picoseconds import PICOSECONDS, whole_ps

_LAST = simpy.events.EventPriority(2)
"""Priority of an event that comes after all others of its instant."""


@dataclass(slots=True)
class _Running:
    job: Job
    done: simpy.Event
    left_bytes: float
    rate: float = 0.0
    end_ps: int = 0


class _Region:
    """Links (B/s each) that jobs may hold together; ``first`` is the number of its first link."""

    def __init__(self, env: simpy.Environment, bandwidth: Floats, first: int) -> None:
        self._env = env
        self._bandwidth = bandwidth
        self._first = first
        self._running: list[_Running] = []
        self._settled_ps = 0
        self._next: simpy.Event | None = None
        self.link_bytes = np.zeros(len(bandwidth))

    def submit(self, job: Job) -> simpy.Event:
        done = self._env.event()
        running = _Running(job, done, job.flow_bytes)
        if len(job.load.links) == 0 or job.flow_bytes <= 0:
            self._finish(running)
            return done
        if len(self._bandwidth) == 1:  # one link: who shares it is known at once
            self._settle()
            self._running.append(running)
            self._share()
        else:
            self._running.append(running)
            self._wake(0)
        return done

    def _wake(self, delay_ps: int) -> None:
        """Look again then; an earlier appointment is forgotten."""
        event = self._next = simpy.Event(self._env)
        event._ok, event._value = True, None
        event.callbacks.append(self._look)
        self._env.schedule(event, _LAST, delay_ps)

    def _look(self, event: simpy.Event) -> None:
        """Let finished jobs go, and share the links anew among the others."""
        if event is not self._next:
            return
        self._settle()
        now = int(self._env.now)
        for running in self._running:
            if running.rate and running.end_ps <= now:
                self._finish(running)
        self._running = [r for r in self._running if not r.rate or r.end_ps > now]
        self._next = None
        if self._running:
            self._share()

    def _share(self) -> None:
        """Give every job its rate from now on."""
        now = int(self._env.now)
        for running, rate in zip(self._running, self._rates(), strict=True):
            running.rate = rate
            running.end_ps = now + whole_ps(running.left_bytes / rate)
        self._wake(min(running.end_ps for running in self._running) - now)

    def _rates(self) -> list[float]:
        loads = [running.job.load for running in self._running]
        if len(loads) == 1:
            links, flows = loads[0].links, loads[0].flows
            return [float((self._bandwidth[links - self._first] / flows).min())]
        if len(self._bandwidth) == 1:
            return [float(self._bandwidth[0] / sum(load.flows[0] for load in loads))] * len(loads)
        rates: list[float] = fair_rates(loads, self._bandwidth, self._first).tolist()
        return rates

    def _settle(self) -> None:
        """Move the bytes of the time since the last look."""
        now = int(self._env.now)
        if passed_ps := now - self._settled_ps:
            for running in self._running:
                moved = running.rate * passed_ps / PICOSECONDS
                running.left_bytes = max(running.left_bytes - moved, 0.0)
            self._settled_ps = now

    def _finish(self, running: _Running) -> None:
        job, done = running.job, running.done
        self.link_bytes[job.load.links - self._first] += job.flow_bytes * job.load.flows
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

    def submit(self, job: Job) -> simpy.Event:
        """Begin now; the event (value: the job) fires when its bytes and latency are over."""
        links = job.load.links
        place = bisect_right(self._starts, int(links[0])) - 1 if len(links) else 0
        return self._regions[place].submit(job)


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
