"""Exchanges that one worker makes with itself on links that nobody else ever uses.

A stage of a pipeline stands for many devices, which exchange with one another what they
compute in parts: on wires that no other stage, and no send, goes over. How long that takes
is then known beforehand, unless the worker has more than one such exchange under way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from planners.order import Kind
from simulator.engine.jobs import Job
from simulator.engine.links import Links
from simulator.engine.operations import Operation, Program, Task
from simulator.engine.picoseconds import whole_ps

_NOBODY, _SEVERAL = -1, -2


def of_one(task: Task) -> bool:
    """Whether a line is an exchange of which one worker is all parties."""
    return task.parties == 1 and task.site is None and task.operation.kind is not Kind.SEND


def lasting(program: Program, links: Links) -> Mapping[Operation, int]:
    """How many picoseconds each exchange of one worker takes, alone on ``links`` of its own.

    Those that share a link with a send, or with another worker, are left out: how long
    they take depends on what else is under way.
    """
    if program.shared_memory:
        return {}
    user = np.full(len(links.bandwidth), _NOBODY, dtype=np.int64)
    mine: dict[Operation, int] = {}
    for worker, operation, own in _exchanges(program):
        if own and operation not in mine:
            mine[operation] = worker
        for job in operation.jobs:
            crossed = links.carry(job).load.links
            used = user[crossed]
            free = own & ((used == _NOBODY) | (used == worker))
            user[crossed] = np.where(free, worker, _SEVERAL)
    return {
        operation: _duration_ps(operation, links)
        for operation, worker in mine.items()
        if all((user[links.carry(job).load.links] == worker).all() for job in operation.jobs)
    }


def _exchanges(program: Program) -> Iterator[tuple[int, Operation, bool]]:
    """Whatever goes over links, of which worker, and whether that is all of its parties."""
    for worker, one in enumerate(program.workers):
        routes = one.itinerary.routes if one.itinerary else {}
        for task in one.template:
            ways = routes.get(task.operation)
            for operation in [way.operation for way in ways] if ways else [task.operation]:
                if operation.jobs or task.parties:
                    yield worker, operation, of_one(task)


def _duration_ps(operation: Operation, links: Links) -> int:
    """Its jobs one after the other, or else what it says itself."""
    if not operation.jobs:
        return operation.duration_ps
    return sum(sum(parts_ps(links.carry(job), links)) for job in operation.jobs)


def parts_ps(job: Job, links: Links) -> tuple[int, int]:
    """How long a job (as ``links`` carry it) holds its links, and its latency behind that."""
    load = job.load
    if len(load.links) == 0 or job.flow_bytes <= 0:
        return 0, whole_ps(job.latency_s)
    rate = float((links.bandwidth[load.links] / load.flows).min())
    return whole_ps(job.flow_bytes / rate), whole_ps(job.latency_s)
