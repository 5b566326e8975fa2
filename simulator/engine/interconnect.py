"""Links shared max-min fairly among jobs: the flow network on SimPy."""

from __future__ import annotations

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
    phase: Job
    done: simpy.Event
    left_bytes: float
    rate: float = 0.0
    end_ps: int = 0


class Network:
    """Links (B/s each) that jobs hold together, each job every link of its load at once.

    Rates are max-min fair per flow: all rates grow alike until a link is
    full, its jobs keep that rate, the others grow on. They change when a job
    comes or goes, at whole picoseconds; a job's bytes are through at the next
    whole one. Its latency comes after its bytes and holds no link. Forgotten
    appointments stay in the queue: take a run's end from its events, not from
    the clock of an emptied environment.
    """

    def __init__(self, env: simpy.Environment, bandwidth: ArrayLike) -> None:
        self._env = env
        self._bandwidth = np.asarray(bandwidth, dtype=np.float64)
        self._jobs: list[_Running] = []
        self._settled_ps = 0
        self._next: simpy.Event | None = None
        self.link_bytes = np.zeros(len(self._bandwidth))

    def submit(self, phase: Job) -> simpy.Event:
        """Begin now; the event (value: the phase) fires when its bytes and latency are over."""
        done = self._env.event()
        job = _Running(phase, done, phase.flow_bytes)
        if len(phase.load.links) == 0 or phase.flow_bytes <= 0:
            self._finish(job)
            return done
        self._jobs.append(job)
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
        for job in self._jobs:
            if job.rate and job.end_ps <= now:
                self._finish(job)
        self._jobs = [job for job in self._jobs if not job.rate or job.end_ps > now]
        if not self._jobs:
            self._next = None
            return
        rates = fair_rates([job.phase.load for job in self._jobs], self._bandwidth)
        for job, rate in zip(self._jobs, rates.tolist(), strict=True):
            job.rate = rate
            job.end_ps = now + whole_ps(job.left_bytes / rate)
        self._wake(min(job.end_ps for job in self._jobs) - now)

    def _settle(self) -> None:
        """Move the bytes of the time since the last look."""
        now = int(self._env.now)
        if passed_ps := now - self._settled_ps:
            for job in self._jobs:
                job.left_bytes = max(job.left_bytes - job.rate * passed_ps / PICOSECONDS, 0.0)
            self._settled_ps = now

    def _finish(self, job: _Running) -> None:
        phase, done = job.phase, job.done
        self.link_bytes[phase.load.links] += phase.flow_bytes * phase.load.flows
        done._ok, done._value = True, phase
        self._env.schedule(done, delay=whole_ps(phase.latency_s))


def fair_rates(loads: Sequence[Load], capacity: Floats) -> Floats:
    """Max-min fair rate of every job's flows on links of that capacity (progressive filling)."""
    links = np.concatenate([load.links for load in loads])
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
