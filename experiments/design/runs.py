"""Designs end to end on the engine: one for all cores, or one for each place of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from math import fsum, inf
from operator import itemgetter
from typing import Any

import numpy as np

from experiments.design.judge import Aim, Limits, worth
from experiments.design.space import Design, Space
from experiments.output import UsageError
from experiments.studies.case import Case
from hardware import Array, Device, SpecError, Units, wires_of
from planners import Place, Plan
from simulator import simulate
from simulator.lowering.units.cores import Site

Choice = tuple[Design, ...]
"""One design for all, one for each place, or none: the base design."""


@dataclass(frozen=True, slots=True)
class Ran:
    """A choice on the engine: seconds of each network's step, and what it is worth.

    ``area_mm2`` and ``power_w`` are a chip's, in the mean over all that have been designed.
    """

    designs: Choice
    seconds: tuple[float, ...]
    value: float
    area_mm2: float
    power_w: float
    estimated: float

    @property
    def design(self) -> Design | None:
        """That of all chips; None for the base, and where places have their own."""
        return self.designs[0] if len(self.designs) == 1 else None


def units_of(array: Array) -> Units:
    """The units that are designed; raises UsageError unless all devices are alike, with units."""
    if len(array.group.kinds) > 1:
        raise UsageError(f"{array.name}: its devices are unlike; a design is for one kind of them")
    device = array.group.kinds[0][0]
    if device.units is None:
        raise UsageError(
            f"{array.name}: {device.name} has no [units] to design; take --array wham-1, or a "
            "device whose spec describes them (as tpu-v2-units)"
        )
    return device.units


def limits_of(array: Array) -> Limits:
    """What a chip of the base design has: its area and power."""
    units, (device, _) = units_of(array), array.group.kinds[0]
    reached = device.roofline.memory_efficiency * device.hbm_bytes_per_s
    free = Limits(inf, inf, device.cores_per_chip, reached)
    return free._replace(area_mm2=free.area(units), power_w=free.power(units))


def with_units(array: Array, units: Sequence[Units], places: Sequence[Place] = ()) -> Array:
    """The array with other units in every core, or each place's (by core) with its own.

    Places are whole boards. What belongs to none stays as it was.
    """
    (device, count), *_ = array.group.kinds
    if len(units) == 1:
        kinds = [(_with(device, units[0]), count)]
    else:
        kinds, end = [], 0
        for place, own in sorted(zip(places, units, strict=True), key=lambda p: p[0].first):
            kinds.append((device, place.first // device.cores - end))
            kinds.append((_with(device, own), place.count // device.cores))
            end = (place.first + place.count) // device.cores
        kinds.append((device, count - end))
    alike = groupby(((one, many) for one, many in kinds if many), key=itemgetter(0))
    joined = tuple((one, sum(many for _, many in some)) for one, some in alike)
    return replace(array, group=replace(array.group, kinds=joined))


def _with(device: Device, units: Units) -> Device:
    peak = device.cores_per_chip * units.flops_per_s
    return replace(device, units=units, chip_peak_flops_per_s=peak)


def places_of(plans: Sequence[Plan], array: Array) -> tuple[Place, ...]:
    """Places that can have designs of their own: those of all plans, each of whole boards.

    None where there is one, where networks have unlike ones, or boards are shared.
    """
    found = {plan.pipeline.places if plan.pipeline else () for plan in plans}
    cores = array.group.kinds[0][0].cores
    if len(found) > 1 or len(places := next(iter(found))) < 2:
        return ()
    whole = all(not (place.first % cores or place.count % cores) for place in places)
    return places if whole else ()


def check_wires(array: Array) -> None:
    """Raise UsageError where places of unlike designs would have other wires than alike ones.

    Most topologies join each kind of device by itself.
    """
    (device, count), *_ = array.group.kinds
    halves = (device, count - count // 2), (replace(device, name=f"{device.name}'"), count // 2)
    try:
        wires = wires_of(replace(array, group=replace(array.group, kinds=halves))).bandwidth
    except SpecError:
        wires = np.zeros(0)
    if not np.array_equal(wires, wires_of(array).bandwidth):
        topology = array.topology
        raise UsageError(
            f"{array.name}: a {topology.kind} of {topology.joins} joins unlike devices otherwise "
            "than alike ones, so that a design for each stage has other wires than one for all; "
            f"leave out --stages, or take --array wham-1 --set devices.0.count={array.group.size}"
        )


@dataclass
class Runs:
    """Runs of choices, each once; ``ranks`` are the places that have designs of their own."""

    cases: Sequence[Case]
    plans: Sequence[Plan]
    sites: Sequence[Sequence[Site]]
    space: Space
    limits: Limits
    aim: Aim
    units: Units
    """Of the base design."""

    def __post_init__(self) -> None:
        self.ranks = places_of(self.plans, self.cases[0].array)
        if self.ranks:
            check_wires(self.cases[0].array)
        self._known: dict[Choice, Ran] = {}
        self._before = [self._estimate_s(some, [self.units]) for some in self.sites]
        pairs = zip(self.sites, self._before, strict=True)
        self.slowest_s = {site: before for some, before in pairs for site in some}
        """Of each core what the slowest of its network takes in the base design."""
        self.base = self.ran(())

    def ran(self, designs: Choice) -> Ran:
        """A choice's steps; its value is relative to the base's."""
        if designs not in self._known:
            units = [self.space.units(design) for design in designs] or [self.units]
            seconds = tuple(
                simulate(
                    case.network, plan, with_units(case.array, units, self.ranks), case.execution
                ).iteration_s
                for case, plan in zip(self.cases, self.plans, strict=True)
            )
            area = self._mean(self.limits.area, units)
            power = self._mean(self.limits.power, units)
            estimated = [self._estimate_s(some, units) for some in self.sites]
            known = self.base if designs else Ran((), seconds, 1.0, area, power, 1.0)
            value, by_estimate = (
                worth(self.aim, (before, known.area_mm2, known.power_w), (after, area, power))
                for before, after in ((known.seconds, seconds), (self._before, estimated))
            )
            self._known[designs] = Ran(designs, seconds, value, area, power, by_estimate)
        return self._known[designs]

    def _mean(self, of: Callable[[Units], float], units: Sequence[Units]) -> float:
        weights = [place.count for place in self.ranks] if len(units) > 1 else [1]
        pairs = zip(weights, units, strict=True)
        return fsum(many * of(own) for many, own in pairs) / sum(weights)

    def _estimate_s(self, some: Sequence[Site], units: Sequence[Units]) -> float:
        """The slowest core of a network: what a long pipeline takes for each micro-batch."""
        return max(
            site.step.estimate_s(units[site.stage % len(self.ranks) if len(units) > 1 else 0])
            for site in some
        )


def fields_of(ran: Ran, cases: Sequence[Case]) -> dict[str, Any]:
    """A choice as JSON has it."""
    return {
        "designs": [asdict(design) for design in ran.designs],
        "value": ran.value,
        "estimated_value": ran.estimated,
        "area_mm2": ran.area_mm2,
        "power_w": ran.power_w,
        "networks": {
            case.network.name: {"iteration_s": seconds, "samples_per_s": case.batch / seconds}
            for case, seconds in zip(cases, ran.seconds, strict=True)
        },
    }
