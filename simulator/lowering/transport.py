"""Requests on the wires: what the network does for them, everywhere at once."""

from __future__ import annotations

import numpy as np

from hardware import Wires
from simulator.collectives.cache import cached
from simulator.collectives.choice import offer
from simulator.collectives.offers import Jobs, cheapest
from simulator.collectives.swaps import swap
from simulator.lowering.requests import Request


def carried(request: Request, wires: Wires, algorithm: str) -> tuple[Jobs, tuple[float, float]]:
    """The jobs for all copies of a request's part, and the bytes that one copy's halves get.

    A collective's bytes are those of one that moves no more than it must,
    half of them each half's.
    """
    copies = request.part.copies
    if request.collective == "swap":
        first, second = (half.at(copies).rows().ravel() for half in request.groups)
        amounts = [np.tile(bytes_, copies.count) for bytes_ in request.bytes]
        to_first, to_second = (float(bytes_.sum()) for bytes_ in request.bytes)
        return swap(wires, first, second, *amounts), (to_first, to_second)
    groups, size = request.groups[0], float(request.bytes[0])
    n = groups.size
    laps = 2 if request.collective == "all-reduce" else 1
    half = laps * size * (n - 1) / n * (groups.count * n) / 2
    ways = [groups.at(copies), *([request.padded.at(copies)] if request.padded else [])]
    # there is one way to do an all-to-all: the algorithm that is named is for the others
    by = "auto" if request.collective == "all-to-all" else algorithm

    def jobs() -> Jobs:
        """The cheaper way, where cores that hold nothing may stand between the others."""
        return cheapest(offer(wires, request.collective, way, size, by) for way in ways).jobs()

    key = wires.key, *(way.key for way in ways), request.collective, size, by
    return cached("jobs", key, jobs), (half, half)
