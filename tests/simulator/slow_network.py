"""The flow network once more, slow and obvious: exact fractions, all recomputed at every event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

PS = 10**12


@dataclass(frozen=True)
class Transfer:
    """Arrival [ps], bytes of a flow, flows per link, latency [ps]."""

    arrival: int
    flow_bytes: int
    crosses: Mapping[int, Fraction]
    latency: int = 0


def fair(crosses: Sequence[Mapping[int, Fraction]], bandwidth: Sequence[int]) -> list[Fraction]:
    """Raise all rates together; who crosses a link that fills up stays where it is."""
    rates: dict[int, Fraction] = {}
    while len(rates) < len(crosses):
        limits = {}
        for link, capacity in enumerate(bandwidth):
            held = sum(c.get(link, 0) * rates[i] for i, c in enumerate(crosses) if i in rates)
            growing = sum(c.get(link, 0) for i, c in enumerate(crosses) if i not in rates)
            if growing:
                limits[link] = (Fraction(capacity) - held) / growing
        level = min(limits.values())
        full = {link for link, limit in limits.items() if limit == level}
        rates |= {i: level for i, c in enumerate(crosses) if i not in rates and full & c.keys()}
    return [rates[i] for i in range(len(crosses))]


def finish_times(transfers: Sequence[Transfer], bandwidth: Sequence[int]) -> list[int]:
    """When each transfer's bytes and latency are over [ps]; bytes are through at whole ones."""
    left = {i: Fraction(t.flow_bytes) for i, t in enumerate(transfers)}
    done: dict[int, int] = {}
    now = 0
    while len(done) < len(transfers):
        active = [i for i in left if i not in done and transfers[i].arrival <= now]
        rates = dict(
            zip(active, fair([transfers[i].crosses for i in active], bandwidth), strict=True)
        )
        ends = [now + ceil(left[i] * PS / rates[i]) for i in active]
        arrivals = [t.arrival for t in transfers if t.arrival > now]
        later = min(ends + arrivals)
        for i in active:
            left[i] -= rates[i] * (later - now) / PS
            if left[i] <= 0:
                done[i] = later
        now = later
    return [done[i] + t.latency for i, t in enumerate(transfers)]
