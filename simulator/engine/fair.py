"""Rates of jobs that share links: max-min fair."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.engine.jobs import Floats, Load


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
