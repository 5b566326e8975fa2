"""Requests on the wires: what the network does for them, everywhere at once."""

from __future__ import annotations

import numpy as np

from hardware import Wires
from simulator.collectives.choice import offer
from simulator.collectives.kept import KEPT, digest, speeds
from simulator.collectives.offers import Jobs, cheapest
from simulator.collectives.swaps import swap
from simulator.lowering.requests import Request


def carried(request: Request, wires: Wires, algorithm: str) -> tuple[Jobs, tuple[float, float]]:
    """The jobs for all copies of a request's part, and the bytes that one copy's halves get.

    A collective's bytes are those of one that moves no more than it must,
    half of them each half's.
    """
    firsts = request.part.firsts
    if request.collective == "swap":
        first, second = (np.add.outer(firsts, cores).ravel() for cores in request.groups)
        amounts = [np.tile(bytes_, len(firsts)) for bytes_ in request.bytes]
        to_first, to_second = (float(bytes_.sum()) for bytes_ in request.bytes)
        return swap(wires, first, second, *amounts), (to_first, to_second)
    groups, size = request.groups[0], float(request.bytes[0])
    n = groups.shape[1]
    laps = 2 if request.collective == "all-reduce" else 1
    half = laps * size * (n - 1) / n * groups.size / 2
    rows = [groups] if request.padded is None else [groups, request.padded]
    key = speeds(wires.array), digest(firsts, *rows), request.collective, size, algorithm
    return KEPT.get("jobs", key, lambda: _collective(request, wires, algorithm)), (half, half)


def _collective(request: Request, wires: Wires, algorithm: str) -> Jobs:
    """The cheaper way, where cores that hold nothing may stand between the others."""
    rows = [request.groups[0]] if request.padded is None else [request.groups[0], request.padded]
    if request.collective == "all-to-all":  # there is one way: what is named is for the others
        algorithm = "auto"
    offers = [
        offer(
            wires,
            request.collective,
            np.add.outer(request.part.firsts, groups).reshape(-1, groups.shape[1]),
            float(request.bytes[0]),
            algorithm,
        )
        for groups in rows
    ]
    return cheapest(offers).jobs()
