"""How much of a month trains: devices fail, and a run goes on from its last checkpoint.

The devices of a run fail as a Poisson process, each once in ``mtbf_s`` on average, so all together
once in M = mtbf_s / devices. A failure takes the run back to the last checkpoint that is safe. It
restarts once there is a device in place of the failed one, which comes back as a spare after its
repair. Devices outside the run do not fail.

A checkpoint after each ``interval`` t stops the run for ``stall_s`` C and is safe ``write_s`` w
later: 0 where writing it is what stops the run. An attempt of x seconds, of which the restart
takes R, leaves floor((x - R - w) / (t + C)) intervals behind. x is exponential, so in the mean

    share = (1 - B) t / M e^(-(R + w + t + C) / M) / (1 - e^(-(t + C) / M))

With w = B = 0 it is that of J. T. Daly (FGCS 22, 2006). B is the share of time without a spare:
Erlang's loss formula of ``spares`` + 1 servers and repair / M erlangs, however repairs vary. The
share is largest at t = M (1 + W(-e^(-1 - C / M))), W being Lambert's function, whatever R, w, B.
J. W. Young (CACM 17, 1974) has sqrt(2 C M) for C << M, Daly a series for C < 2 M.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, expm1, sqrt
from typing import Any

import numpy as np
import simpy

MONTH_S = 30 * 86_400.0
MOST_FAILURES = 200_000
"""In all simulated months: with more failures fewer months are simulated, ``FEWEST`` at least."""
FEWEST = 30
"""If so many have too many failures, a part of each is simulated, which begins with all spares."""
MOST_OF_RUNS = 1_000_000
"""Failures in all simulations of a run with some work to do."""
ROUNDING = 1e-6
"""Of an interval: less of it than this is left by rounding, and is none."""


@dataclass(frozen=True, slots=True)
class Failures:
    """What a run of so many devices loses time to; times in seconds.

    ``spares`` None: there is always one.
    """

    devices: int
    mtbf_s: float
    stall_s: float
    restart_s: float
    write_s: float = 0.0
    spares: int | None = None
    repair_s: float = 0.0

    @property
    def mean_s(self) -> float:
        """Mean time between failures of the run, M."""
        return self.mtbf_s / self.devices

    @property
    def young_s(self) -> float:
        """Young's interval."""
        return sqrt(2 * self.stall_s * self.mean_s)

    @property
    def daly_s(self) -> float:
        """Daly's interval."""
        x = self.stall_s / (2 * self.mean_s)
        return self.young_s * (1 + sqrt(x) / 3 + x / 9) - self.stall_s if x < 1 else self.mean_s

    @property
    def best_s(self) -> float:
        """The interval with the largest share of the closed form (no shorter than a write).

        Its u = t / M solves u = 1 - e^(-u - C / M), by Newton's method from above.
        """
        cost, u, before = self.stall_s / self.mean_s, 1.0, 2.0
        while 0 < u < before:
            before = u
            u -= (u + expm1(-u - cost)) / -expm1(-u - cost)
        return max(before * self.mean_s, self.write_s - self.stall_s)

    @property
    def without_spare(self) -> float:
        """The share of time in which a device is missing, B."""
        if self.spares is None:
            return 0.0
        erlangs, blocked = self.repair_s / self.mean_s, 1.0
        for servers in range(1, self.spares + 2):
            blocked = erlangs * blocked / (servers + erlangs * blocked)
        return blocked

    def share(self, interval_s: float) -> float:
        """The useful share of a long run, by the closed form."""
        mean, cycle = self.mean_s, interval_s + self.stall_s
        lasting = exp(-(self.restart_s + cycle + self.write_s) / mean)
        return (1 - self.without_spare) * interval_s / mean * lasting / -expm1(-cycle / mean)


@dataclass(frozen=True, slots=True)
class Spent:
    """Shares of simulated time, which with what is ``lost`` are 1; failures of a month."""

    useful: float
    stalled: float
    restarting: float
    waiting: float
    failures: float
    error: float | None
    """Standard error of ``useful``; None of a single month."""
    days: float
    """Simulated, each time."""
    repeats: int
    """How many times."""

    @property
    def lost(self) -> float:
        """Trained, or begun, and then trained again."""
        return 1 - self.useful - self.stalled - self.restarting - self.waiting


@lru_cache(maxsize=64)
def simulated(of: Failures, interval_s: float, repeats: int, seed: int) -> Spent:
    """The means of so many months, or fewer, each with draws of its own: of (seed, number)."""
    repeats = min(repeats, max(FEWEST, int(MOST_FAILURES * of.mean_s / MONTH_S)))
    until_s = MONTH_S * min(1.0, MOST_FAILURES * of.mean_s / (MONTH_S * repeats))
    months = [_Month(of, interval_s, seed, number).run(until_s) for number in range(repeats)]
    means = np.mean(months, axis=0)
    error = None
    if repeats > 1:
        error = float(np.std(months, axis=0, ddof=1)[0]) / until_s / sqrt(repeats)
    failures = float(means[4]) * MONTH_S / until_s
    useful, stalled, restarting, waiting = (float(seconds) / until_s for seconds in means[:4])
    return Spent(useful, stalled, restarting, waiting, failures, error, until_s / 86_400, repeats)


def lasting(
    of: Failures, interval_s: float, work_s: float, repeats: int, seed: int, until_s: float
) -> tuple[float, float] | None:
    """Mean seconds of a run with ``work_s`` to do, and for how many of them nothing computes.

    None where that is longer than ``until_s``, or takes more than MOST_OF_RUNS failures to tell.
    """
    left_s = min(until_s * repeats, MOST_OF_RUNS * of.mean_s)
    took_s = idle_s = 0.0
    for number in range(repeats):
        one = _Month(of, interval_s, seed, number, work_s).lasting(left_s - took_s)
        if one is None:
            return None
        took_s, idle_s = took_s + one[0], idle_s + one[1]
    return took_s / repeats, idle_s / repeats


class _Month:
    """One simulated month: a process that trains and fails, and one for each repair.

    With ``work_s`` the run ends when so many seconds are trained.
    """

    def __init__(
        self, of: Failures, interval_s: float, seed: int, number: int, work_s: float | None = None
    ) -> None:
        self._of, self._interval_s, self._work_s = of, interval_s, work_s
        self._rng = np.random.default_rng((seed, number))
        self._env = env = simpy.Environment()
        self._spares = None if of.spares is None else simpy.Container(env, init=of.spares)
        self._safe_s = self._restart_s = self._began = 0.0
        self._waits: float | None = None  # since when a device is waited for
        self._spent = dict.fromkeys(("stalled", "restarting", "waiting", "failures"), 0.0)

    def run(self, until_s: float) -> tuple[float, ...]:
        """Seconds of use, of stalls, of restarts, of waiting for devices; failures."""
        self._env.process(self._fail())
        self._env.run(until_s)
        if self._waits is None:
            useful_s, _ = self._trained(until_s)
        else:
            useful_s = self._safe_s
            self._spent["waiting"] += until_s - self._waits
        return useful_s, *self._spent.values()

    def lasting(self, until_s: float) -> tuple[float, float] | None:
        """Seconds until the work is done, and those of stalls, restarts and waiting."""
        done = self._env.process(self._fail())
        self._env.run(done | self._env.timeout(until_s))
        if not done.triggered:
            return None
        self._trained(self._env.now)
        spent = self._spent
        return self._env.now, spent["stalled"] + spent["restarting"] + spent["waiting"]

    def _fail(self) -> Generator[Any, Any, None]:
        """Train until a device fails, wait for another one, restart."""
        env = self._env
        while True:
            self._began = env.now
            fails_s = self._rng.exponential(self._of.mean_s)
            if self._work_s is not None and (ends_s := self._ends_s(self._work_s)) <= fails_s:
                yield env.timeout(ends_s)
                return
            yield env.timeout(fails_s)
            _, self._safe_s = self._trained(env.now)
            self._spent["failures"] += 1
            if self._spares is not None:
                env.process(self._repair(self._spares))
                self._waits = env.now
                yield self._spares.get(1)
                self._spent["waiting"] += env.now - self._waits
                self._waits = None
            self._restart_s = self._of.restart_s

    def _repair(self, spares: simpy.Container) -> Generator[Any, Any, None]:
        yield self._env.timeout(self._of.repair_s)
        yield spares.put(1)

    def _ends_s(self, work_s: float) -> float:
        """How long an attempt takes to do the rest of the work; no checkpoint is behind it."""
        left_s = work_s - self._safe_s
        checkpoints = max(0, ceil(left_s / self._interval_s - ROUNDING) - 1)
        return self._restart_s + left_s + checkpoints * self._of.stall_s

    def _trained(self, until_s: float) -> tuple[float, float]:
        """Seconds that are trained when an attempt ends, and those of them that are safe."""
        of, interval_s = self._of, self._interval_s
        took_s = until_s - self._began
        restarting_s = min(took_s, self._restart_s)
        cycle_s, left_s = interval_s + of.stall_s, took_s - restarting_s
        whole, part_s = divmod(left_s, cycle_s)
        written = max(0.0, (left_s - of.write_s) // cycle_s)
        self._spent["restarting"] += restarting_s
        self._spent["stalled"] += whole * of.stall_s + max(0.0, part_s - interval_s)
        done_s = self._safe_s + whole * interval_s + min(part_s, interval_s)
        return done_s, self._safe_s + written * interval_s
