"""Which links and units are busiest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from experiments.pictures.resources import BOARD, labels, sites
from hardware import Device
from simulator import Timeline

DIGITS = 6
"""Links whose bytes agree to so many are alike."""


@dataclass(frozen=True, slots=True)
class LinkUse:
    """``count`` links that carry alike, called after the first; ``bytes`` are one's.

    ``utilisation`` is the fraction of what it could carry in the step. Published, a link
    is a split's: ``bytes`` go both ways, ``utilisation`` is the time it is busy, and no
    bandwidth is given.
    """

    name: str
    count: int
    bytes: float
    bytes_per_s: float | None
    utilisation: float


@dataclass(frozen=True, slots=True)
class UnitUse:
    """All cores, or slices of HBM, of one device: how long they are busy, as fractions of the step.

    ``of_peak`` is what they do (FLOPs, bytes) over what they could in the step.
    """

    device: str
    unit: str
    count: int
    busy: float
    busiest: float
    of_peak: float


def links(timeline: Timeline) -> list[LinkUse]:
    """Links that carry something, the busiest first; alike ones once."""
    found = _of_wires(timeline) if timeline.moved else _of_splits(timeline)
    return sorted(found, key=lambda link: -link.utilisation)


def _of_wires(timeline: Timeline) -> Iterator[LinkUse]:
    wires = timeline.program.wires
    if wires is None or not timeline.iteration_ps:
        return
    moved = timeline.link_bytes
    (used,) = moved.nonzero()
    both = np.stack([moved[used], wires.bandwidth[used]])
    _, first, count = np.unique(both, axis=1, return_index=True, return_counts=True)
    alike: dict[tuple[str, float], tuple[int, int]] = {}
    for link, many in sorted(zip(used[first].tolist(), count.tolist(), strict=True)):
        key = f"{moved[link]:.{DIGITS}g}", float(wires.bandwidth[link])
        before, others = alike.get(key, (link, 0))
        alike[key] = before, others + many
    for (_, bandwidth), (link, many) in alike.items():
        share = float(moved[link]) / bandwidth / timeline.iteration_s
        yield LinkUse(wires.names[link], many, float(moved[link]), bandwidth, share)


def _of_splits(timeline: Timeline) -> Iterator[LinkUse]:
    everything = sites(timeline)
    names = labels(everything, timeline, folded=True)
    busy = np.zeros(len(timeline.resources), dtype=np.int64)
    resource, operation, _, start, end, _ = map(np.asarray, timeline.columns)
    np.add.at(busy, resource, end - start)
    amounts = np.array([op.bytes for op in timeline.operations])
    moved = np.bincount(resource, amounts[operation], minlength=len(busy))
    for site in everything:
        number = site.resources[0]
        if site.level != BOARD and moved[number]:
            share = int(busy[number]) / timeline.iteration_ps if timeline.iteration_ps else 0.0
            yield LinkUse(
                names[site.name], site.multiplicity, float(moved[number]), None, float(share)
            )


def units(timeline: Timeline) -> list[UnitUse]:
    """Cores and memories of every device, the busiest first."""
    resource, operation, _, start, end, _ = map(np.asarray, timeline.columns)
    size = len(timeline.resources)
    busy = np.zeros(size, dtype=np.int64)
    np.add.at(busy, resource, end - start)
    operations = timeline.operations
    done = {
        "core": np.bincount(
            resource, np.array([op.flops for op in operations])[operation], minlength=size
        ),
        "hbm": np.bincount(
            resource, np.array([op.bytes for op in operations])[operation], minlength=size
        ),
    }
    found: dict[tuple[Device, str], list[int]] = {}
    for i, unit in enumerate(timeline.resources):
        if unit.device is not None:
            found.setdefault((unit.device, unit.kind), []).append(i)
    step = max(1, timeline.iteration_ps)
    uses = []
    for (device, kind), members in found.items():
        many = [timeline.resources[i].multiplicity for i in members]
        weighted = sum(int(busy[i]) * n for i, n in zip(members, many, strict=True))
        amount = math.fsum(done[kind][i] * n for i, n in zip(members, many, strict=True))
        count = sum(many)
        rate = _rate(timeline.program.workers[0].unit, device, kind)
        uses.append(
            UnitUse(
                device.name,
                kind,
                count,
                weighted / (step * count),
                max(int(busy[i]) for i in members) / step,
                amount / (rate * count * timeline.iteration_s) if timeline.iteration_ps else 0.0,
            )
        )
    used = [use for use in uses if use.unit == "core" or use.busiest]
    return sorted(used, key=lambda use: -use.busy)


def _rate(unit: str, device: Device, kind: str) -> float:
    """Peak FLOP/s of one core, or B/s of what one resource has of the HBM."""
    if kind == "core":
        return device.chip_peak_flops_per_s / device.cores_per_chip
    return device.hbm_bytes_per_s / (device.cores_per_chip if unit == "core" else 1)
