"""Requests on the wires: what the network does for them, everywhere at once."""

from __future__ import annotations

import numpy as np

from hardware import Wires
from simulator.collectives.choice import phases, predicted_ps, swap
from simulator.engine.jobs import Job
from simulator.lowering.placement import Cores
from simulator.lowering.reshard import Request

Jobs = tuple[Job, ...]
"""One after the other."""


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
    jobs = _collective(request, groups, wires, algorithm)
    if request.padded is not None:
        padded = _collective(request, request.padded, wires, algorithm)
        jobs = min(jobs, padded, key=lambda way: predicted_ps(wires, way))
    n = groups.shape[1]
    laps = 2 if request.collective == "all-reduce" else 1
    half = laps * size * (n - 1) / n * groups.size / 2
    return jobs, (half, half)


def _collective(request: Request, groups: Cores, wires: Wires, algorithm: str) -> Jobs:
    everywhere = np.add.outer(request.part.firsts, groups).reshape(-1, groups.shape[1])
    if request.collective == "all-to-all":  # there is one way: what is named is for the others
        algorithm = "auto"
    return phases(wires, request.collective, everywhere, float(request.bytes[0]), algorithm)
