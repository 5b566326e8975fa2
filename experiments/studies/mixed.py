"""Arrays of unlike devices: what the slowest kind does, and the fastest kind alone."""

from __future__ import annotations

import math
from dataclasses import replace

from hardware import Array, Device, Group
from planners import Plan
from simulator import Timeline


def is_uneven(plan: Plan, array: Array) -> bool:
    """Whether a plan gives unlike devices shares that do not follow their number."""
    if len(array.group.kinds) == 1 or plan.root is None:
        return False
    even = array.group.halves()[0].size / array.group.size
    return any(partition.share != even for partition in plan.root.partitions)


def fastest_alone(array: Array) -> Array:
    """The array's fastest kind of device alone."""
    fastest = max(array.group.kinds, key=lambda kind: _speed(kind[0]))
    name = f"{array.name}, {fastest[0].name} alone"
    topology = replace(array.topology, shape=())
    return Array(name, "", Group((fastest,)), topology=topology)


def slow_share(timeline: Timeline, array: Array) -> float | None:
    """Fraction of all FLOPs done by the slowest kind of device; None if there is one kind."""
    if len(array.group.kinds) == 1:
        return None
    slowest = min((device for device, _ in array.group.kinds), key=_speed)
    work = timeline.flops_by_device()
    total = math.fsum(work.values())
    return work[slowest] / total if total else 0.0


def _speed(device: Device) -> tuple[float, float]:
    """Devices in order of their peaks; those of one peak, of their links."""
    return device.peak_flops_per_s, device.network_bytes_per_s
