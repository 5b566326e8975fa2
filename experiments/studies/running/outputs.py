"""What is kept of a case's run: numbers that tables, pictures and sentences are made of."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Annotated, Any

from experiments.studies.case import Case, step_of
from experiments.studies.occupancy import occupancy
from experiments.studies.step_numbers import layout_of, uncharged
from hardware import Array, Device
from hardware.reader import Error, Table, Text, checked, number, whole
from planners import Plan
from simulator import DeviceMemory, Timeline, overflow, shares
from simulator.analysis.exposed_communication import computing_by_kind


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
    group = replace(array.group, kinds=(fastest,))
    return Array(name, "", group, topology=topology, execution=array.execution, stack=array.stack)


def slow_share(timeline: Timeline, array: Array) -> float | None:
    """Fraction of all FLOPs done by the slowest kind of device; None if there is one kind."""
    if len(array.group.kinds) == 1:
        return None
    slowest = min((device for device, _ in array.group.kinds), key=_speed)
    work = timeline.flops_by_device()
    total = math.fsum(work.values())
    return work.get(slowest, 0.0) / total if total else 0.0


def _speed(device: Device) -> tuple[float, float]:
    """Devices in order of their peaks; those of one peak, of their links."""
    return device.peak_flops_per_s, device.network_bytes_per_s


Outputs = dict[str, Any]
"""By name, as JSON has it: seconds, shares of the step, bytes, joules; ``memory`` is a list."""

Measure = Annotated[float, number(0, 1e300)]
Counted = Annotated[int, whole(0, 1 << 62)]


class KeptMemory(Table):
    """A device's memory as a store has it (``DeviceMemory``)."""

    device: Text
    peak_bytes: Measure
    capacity_bytes: Measure
    operator: Text
    cores: Counted
    cores_over: Counted
    by_class: list[Measure]
    reserve_bytes: Measure


class KeptOutputs(Table):
    """The outputs of a case as a store has them; the last three of the deployed model alone."""

    iteration_s: Measure
    computing: Measure
    communicating: Measure
    waiting: Measure
    computing_by_kind: list[Measure]
    exact: bool
    plan_gap: float | None
    layout: bool | None
    bucket_bytes: Measure | None
    slow_share: Measure | None
    uneven: bool
    energy_j: Measure | None
    traffic_bytes: Measure
    memory: list[KeptMemory]
    reason: None = None
    out_of_memory: bool = False
    peak_memory_bytes: Measure | None = None
    cores_over_memory: Counted = 0
    idle_cores: Counted = 0
    uncharged_s: Measure | None = None


class KeptRefusal(Table):
    """Why a case has no step (``studies.fits.fit.run_choice``)."""

    iteration_s: None
    reason: str
    out_of_memory: bool
    memory: list[KeptMemory]


def check_kept(outputs: Any, where: str, error: Error) -> None:
    """Raise an error, with every fault, for what is not a case's outputs."""
    refused = isinstance(outputs, dict) and outputs.get("reason") is not None
    checked(KeptRefusal if refused else KeptOutputs, outputs, where, error)


NAMES = tuple(KeptOutputs.model_fields)
"""Every name that outputs may have."""


REFUSED = "refused"
"""In place of all others, why there is no step: said to who asked, and not kept."""


def refusal(reason: str) -> Outputs:
    """The outputs of a case that is not run, in the form of all commands."""
    return {
        "iteration_s": None,
        "reason": reason,
        "out_of_memory": False,
        "memory": [],
        REFUSED: reason,
    }


def run_case(case: Case) -> Outputs:
    """Plan and simulate; times in seconds, shares of an average core's step.

    ``slow_share`` and ``uneven`` are about unlike devices. ``uncharged_s`` is what the
    published model leaves out.
    ``peak_memory_bytes`` is None in the published execution model, which has no
    memory, and ``energy_j`` where a device's spec has no energies. The deployed
    model adds the cores that overflow their memory, and those that are idle.
    ``plan_gap`` is 0 for an exact plan, and None where nothing is known. ``layout`` says
    which lower bound covers the plan (``step_numbers.layout_of``), ``bucket_bytes`` of which
    size the plan has its buckets (None: it does not say).
    """
    plan, timeline = step_of(case)
    gaps = plan.gap_fields()
    exact = gaps["exact"]
    return {
        "iteration_s": timeline.iteration_s,
        **shares(timeline)._asdict(),
        "computing_by_kind": computing_by_kind(timeline, case.array),
        "exact": exact,
        "plan_gap": 0.0 if exact else gaps["gap"],
        "layout": layout_of(case, plan),
        "bucket_bytes": plan.bucket_bytes,
        "slow_share": slow_share(timeline, case.array),
        "uncharged_s": uncharged(case, plan, timeline.iteration_s),
        "uneven": is_uneven(plan, case.array),
        "peak_memory_bytes": None,
        "energy_j": timeline.energy_j,
        "traffic_bytes": timeline.traffic_bytes,
        **occupancy(timeline),
        "memory": [asdict(device) | {"by_class": [*device.by_class]} for device in timeline.memory],
    }


def overflow_of(case: Case, outputs: Outputs) -> str | None:
    """What of a case that was run does not fit in memory (see ``simulator.overflow``)."""
    memory = [DeviceMemory(**device) for device in outputs["memory"]]
    return overflow(case.network.name, case.planner_name, case.array.name, memory)
