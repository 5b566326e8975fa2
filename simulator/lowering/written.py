"""Steps that are written already, timed again for arrays that differ in speeds alone.

Who does what, in which order and after what, and how much is exchanged do not
depend on bandwidths, latencies or peaks: a sweep of these, or a what-if, keeps
the program and makes its operations anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from hardware import Device
from planners import Plan, Split, Update
from planners.order import Phase
from planners.partition import Shard
from simulator.collectives.symmetry import links_of
from simulator.engine.links import Links
from simulator.engine.operations import Operation, Program, Worker
from simulator.lowering.rules import Exchange, Rules

MOST_TASKS = 400_000
"""Of all programs that are kept in one process, about 200 bytes each."""

Made = tuple[int, Phase, Shard, Device, float]
"""Of which node, phase, shard and device a product is, and what part of its weights is updated."""


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """A program, and what each of its operations is of."""

    program: Program
    devices: tuple[Device, ...]
    products: dict[Operation, Made]
    exchanges: dict[Operation, Exchange]

    @property
    def tasks(self) -> int:
        """Lines of all its workers' templates."""
        return sum(len(worker.template) for worker in self.program.workers)

    def without_wires(self) -> Written:
        """To be kept: the wires of an array that nobody asks for any more can go."""
        return replace(self, program=replace(self.program, wires=None, links=None))

    def again(self, rules: Rules) -> Program:
        """The same by rules whose speeds may be others."""
        device = dict(zip(self.devices, devices_of(rules), strict=True))
        made = {operation: rules.carry(what) for operation, what in self.exchanges.items()}
        for operation, (v, phase, shard, of, updated) in self.products.items():
            product = rules.product(v, phase, shard, device[of], updated)
            if product is not None:
                made[operation] = product
        workers = tuple(_worker(worker, device, made) for worker in self.program.workers)
        hbms = [rules.hbm_bytes_per_s(worker.device) for worker in workers]
        return replace(
            self.program,
            workers=workers,
            wires=rules.wires,
            links=followed(rules, made.values()),
            hbms=tuple(bandwidth for bandwidth in hbms if bandwidth is not None),
        )


def _worker(
    worker: Worker, device: dict[Device, Device], made: dict[Operation, Operation]
) -> Worker:
    tasks = tuple(task._replace(operation=made[task.operation]) for task in worker.template)
    return replace(worker, device=device[worker.device], template=tasks)


def followed(rules: Rules, operations: Iterable[Operation]) -> Links | None:
    """Folded, links that all jobs load alike are one."""
    if rules.wires is None or not rules.folded:
        return None
    return links_of(rules.wires, (job.load for operation in operations for job in operation.jobs))


class Kept:
    """The last written steps by what they depend on, up to so many lines together."""

    def __init__(self, most_tasks: int = MOST_TASKS) -> None:
        self._most_tasks = most_tasks
        self._found: OrderedDict[Hashable, Written] = OrderedDict()
        self._tasks = 0
        self.puts = 0
        """How many steps were written."""

    def get(self, key: Hashable) -> Written | None:
        """What was written for this key, if it still is there."""
        if key in self._found:
            self._found.move_to_end(key)
        return self._found.get(key)

    def put(self, key: Hashable, written: Written) -> None:
        """Keep it, and forget those that were asked for least lately."""
        self.puts += 1
        if (before := self._found.pop(key, None)) is not None:
            self._tasks -= before.tasks
        self._found[key] = written
        self._tasks += written.tasks
        while self._tasks > self._most_tasks:
            self._tasks -= self._found.popitem(last=False)[1].tasks

    def clear(self) -> None:
        """Forget everything."""
        self._found.clear()
        self._tasks = 0


def devices_of(rules: Rules) -> tuple[Device, ...]:
    """The devices of the array, by kind."""
    return tuple(device for device, _ in rules.array.group.kinds)


def apart_from_speeds(devices: Sequence[Device]) -> Hashable:
    """What else there is to devices, and which of them are the same."""
    same = tuple(devices.index(device) for device in devices)
    return same, tuple(
        replace(
            device,
            chip_peak_flops_per_s=1.0,
            chip_attention_flops_per_s=None,
            chip_vector_flops_per_s=None,
            hbm_bytes_per_s=1.0,
            network_bytes_per_s=1.0,
            network_latency_s=0.0,
            links=device.links and replace(device.links, bytes_per_s=1.0, latency_s=0.0),
        )
        for device in devices
    )


def splits_of(plan: Plan) -> bytes:
    """What a plan does, whatever it expects of it.

    Equal for plans that split and update alike and in one order, with buckets of one size.
    """
    known: dict[int, bytes] = {}

    def digest(split: Split | None) -> bytes:
        if split is None:
            return b""
        if id(split) not in known:
            found = blake2b(digest_size=20)
            found.update(bytes(partition.type for partition in split.partitions))
            found.update(np.array([partition.share for partition in split.partitions]).tobytes())
            found.update(b"idle" if split.idle else b"")
            for half in split.halves:
                found.update(b"/" + digest(half))
            known[id(split)] = found.digest()
        return known[id(split)]

    updates = bytes(map([*Update].index, plan.updates))
    ordered = f"{plan.bucket_bytes!r} {plan.update_order}"
    return digest(plan.root) + updates + ordered.encode()
