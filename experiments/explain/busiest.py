"""Which links, by kind and singly, and which units are busiest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.pictures.lanes import BOARD, Site, labels, sites
from hardware import Device, Wires
from simulator import Timeline
from simulator.analysis.intervals import covered_ps
from simulator.engine.jobs import Ints

DIGITS = 6
"""Links whose bytes agree to so many are alike."""


@dataclass(frozen=True, slots=True)
class LinkUse:
    """``count`` links of a kind that carry alike, called after the first; ``bytes`` are one's.

    ``utilisation`` is the fraction of what it could carry in the step. Published, a link
    is a split's: ``bytes`` go both ways, ``utilisation`` is the time it is busy, and no
    bandwidth is given.
    """

    name: str
    count: int
    bytes: float
    bytes_per_s: float | None
    utilisation: float
    kind: str


@dataclass(frozen=True, slots=True)
class LinkKind:
    """All ``count`` links of one kind, those included that carry nothing: ``bytes`` over all.

    ``utilisation`` is what they carry over what they could in the step together,
    ``busiest`` that of the busiest one; published, the time that they are busy.
    """

    kind: str
    count: int
    used: int
    bytes: float
    utilisation: float
    busiest: float


@dataclass(frozen=True, slots=True)
class UnitUse:
    """All cores, or slices of HBM, of one device: how long they are busy, as fractions of the step.

    Where cores have several units these are there, by name, in place of them. ``of_peak`` is
    what they do (FLOPs, bytes) over what they could in the step; None of vector units.
    """

    device: str
    unit: str
    count: int
    busy: float
    busiest: float
    of_peak: float | None


def links(timeline: Timeline) -> list[LinkUse]:
    """Links that carry something, the busiest first; alike ones once."""
    if timeline.moved:
        found = list(_of_wires(timeline))
    else:
        everything = sites(timeline)
        names = labels(everything, timeline, folded=True)
        found = [
            LinkUse(names[site.name], site.multiplicity, moved, None, busy, f"level {site.level}")
            for site, moved, busy in _splits(timeline, everything)
            if moved
        ]
    return sorted(found, key=lambda link: -link.utilisation)


def _of_wires(timeline: Timeline) -> Iterator[LinkUse]:
    wires = timeline.program.wires
    if not isinstance(wires, Wires) or not timeline.makespan_ps:
        return
    moved = timeline.link_bytes
    for subnet in wires.subnets:
        alike: dict[tuple[str, float], list[int]] = {}
        for link in (subnet.links.start + moved[subnet.links].nonzero()[0]).tolist():
            key = f"{moved[link]:.{DIGITS}g}", float(wires.bandwidth[link])
            alike.setdefault(key, []).append(link)
        for (_, bandwidth), (link, *others) in alike.items():
            amount, name = float(moved[link]), wires.names[link]
            share = amount / bandwidth / timeline.makespan_s
            yield LinkUse(name, 1 + len(others), amount, bandwidth, share, subnet.joins)


def _splits(timeline: Timeline, everything: Sequence[Site]) -> Iterator[tuple[Site, float, float]]:
    """Every split's link with the bytes of one, and the fraction of the step that it is busy."""
    busy = np.zeros(len(timeline.resources), dtype=np.int64)
    resource, operation, _, start, end, _ = map(np.asarray, timeline.columns)
    np.add.at(busy, resource, end - start)
    amounts = np.array([op.bytes for op in timeline.operations])
    moved = np.bincount(resource, amounts[operation], minlength=len(busy))
    for site in everything:
        number = site.resources[0]
        if site.level > BOARD:
            share = int(busy[number]) / timeline.makespan_ps if timeline.makespan_ps else 0.0
            yield site, float(moved[number]), share


def link_kinds(timeline: Timeline) -> list[LinkKind]:
    """HBM, links inside boards, between boards, of each tier; published, of each level."""
    wires = timeline.program.wires
    if not isinstance(wires, Wires) or not timeline.moved:
        return _levels(timeline)
    moved, step_s = timeline.link_bytes, timeline.makespan_s
    found: dict[str, list[slice]] = {}
    for subnet in wires.subnets:
        found.setdefault(subnet.joins, []).append(subnet.links)
    kinds = []
    for kind, where in found.items():
        loads = np.concatenate([moved[links] for links in where])
        could = np.concatenate([wires.bandwidth[links] for links in where]) * step_s
        if loads.any():
            shares = float(loads.sum() / could.sum()), float((loads / could).max())
            used = int(np.count_nonzero(loads))
            kinds.append(LinkKind(kind, len(loads), used, float(loads.sum()), *shares))
    return sorted(kinds, key=lambda kind: -kind.busiest)


def _levels(timeline: Timeline) -> list[LinkKind]:
    found: dict[int, list[tuple[int, float, float]]] = {}
    for site, moved, busy in _splits(timeline, sites(timeline)):
        found.setdefault(site.level, []).append((site.multiplicity, moved, busy))
    kinds = []
    for level, alike in sorted(found.items()):
        count = sum(many for many, _, _ in alike)
        moved = math.fsum(many * amount for many, amount, _ in alike)
        mean = math.fsum(many * busy for many, _, busy in alike) / count
        used = sum(many for many, amount, _ in alike if amount)
        if used:
            busiest = max(busy for _, _, busy in alike)
            kinds.append(LinkKind(f"level {level}", count, used, moved, mean, busiest))
    return kinds


def units(timeline: Timeline) -> list[UnitUse]:
    """Cores and memories of every device, the busiest first."""
    resource, operation, _, start, end, _ = map(np.asarray, timeline.columns)
    size, operations = len(timeline.resources), timeline.operations
    busy = _busy(size, resource, start, end)
    flops, moved = (
        np.bincount(resource, np.array(amounts)[operation], minlength=size)
        for amounts in ([op.flops for op in operations], [op.bytes for op in operations])
    )
    of_units = {
        i
        for worker_resources in timeline.all_resources.workers
        if worker_resources.units
        for i in worker_resources.cores
    }
    found: dict[tuple[Device, str], list[int]] = {}
    for i, unit in enumerate(timeline.resources):
        if isinstance(unit.device, Device) and i not in of_units:
            kind = unit.name.rpartition(".")[2] if unit.kind == "unit" else unit.kind
            found.setdefault((unit.device, kind), []).append(i)
    step, step_s = max(1, timeline.makespan_ps), timeline.makespan_s
    uses = []
    for (device, kind), members in found.items():
        many = [timeline.resources[i].multiplicity for i in members]
        weighted = sum(int(busy[i]) * n for i, n in zip(members, many, strict=True))
        done = moved if kind == "hbm" else flops
        amount = math.fsum(done[i] * n for i, n in zip(members, many, strict=True))
        count = sum(many)
        rate = _rate(timeline.program.workers[0].unit, device, kind)
        of_peak = amount / (rate * count * step_s) if rate and step_s else None
        busiest = max(int(busy[i]) for i in members) / step
        mean = weighted / (step * count)
        uses.append(UnitUse(device.name, kind, count, mean, busiest, of_peak))
    used = [use for use in uses if use.unit != "hbm" or use.busiest]
    return sorted(used, key=lambda use: -use.busy)


def _busy(size: int, resource: Ints, start: Ints, end: Ints) -> Ints:
    """Picoseconds in which each resource does something, several things at once counted once."""
    order = np.argsort(resource, kind="stable")
    ends = np.searchsorted(resource[order], np.arange(size), side="right")
    rows = np.split(order, ends[:-1])
    return np.array([covered_ps(start[mine], end[mine]) for mine in rows], dtype=np.int64)


def _rate(unit: str, device: Device, kind: str) -> float:
    """Peak FLOP/s of one core, or B/s of what one resource has of the HBM."""
    if kind == "core":
        return device.chip_peak_flops_per_s / device.cores_per_chip
    if kind != "hbm" and device.units is not None:
        matrix = dict(zip(device.units.names, device.units.matrix, strict=False)).get(kind)
        return 2 * device.units.clock_hz * matrix.macs_per_cycle if matrix else 0.0
    return device.hbm_bytes_per_s / (device.cores_per_chip if unit == "core" else 1)
