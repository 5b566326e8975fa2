"""The same step on a changed array: what twice as fast parts bring, and what ``--set`` changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.explain.path import paths_of
from experiments.explain.reasons import SAME, Facts, why_nothing
from experiments.studies.case import Case, plan_of, simulated, step_of
from hardware import Array, Device, SpecError, load_array
from planners import Plan, PlanError, Split
from simulator import Timeline

KNOBS = {"links": "network.bandwidth", "HBM": "hbm.bandwidth", "cores": "chip.peak"}
"""What is made twice as fast, and the key of the spec that says so."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A step with ``what`` twice as fast, under the same plan and planned anew (seconds).

    ``reason`` says why neither changes anything, where that is so.
    """

    what: str
    same_plan_s: float
    replanned_s: float
    reason: str | None


@dataclass(frozen=True, slots=True)
class Setting:
    """A value of ``--set``, and the step without it (None where there is none: see ``reason``)."""

    assignment: str
    unchanged_s: float | None
    reason: str | None


def doubled(array: Array, what: str) -> Array:
    """The array with links, HBM or cores twice as fast everywhere."""

    def faster(device: Device) -> Device:
        if what == "HBM":
            return replace(device, hbm_bytes_per_s=2 * device.hbm_bytes_per_s)
        if what == "cores":
            units = device.units and replace(device.units, clock_hz=2 * device.units.clock_hz)
            peak = 2 * device.chip_peak_flops_per_s
            return replace(device, chip_peak_flops_per_s=peak, units=units)
        links = device.links and replace(device.links, bytes_per_s=2 * device.links.bytes_per_s)
        return replace(device, links=links, network_bytes_per_s=2 * device.network_bytes_per_s)

    kinds = tuple((faster(device), count) for device, count in array.group.kinds)
    topology = array.topology
    if what == "links" and topology.bytes_per_s is not None:
        topology = replace(topology, bytes_per_s=2 * topology.bytes_per_s)
    if what == "links":
        levels = (replace(tier, bytes_per_s=2 * tier.bytes_per_s) for tier in topology.levels)
        topology = replace(topology, levels=tuple(levels))
    return replace(array, group=replace(array.group, kinds=kinds), topology=topology)


def turn(what: str, case: Case, plan: Plan, base: Timeline, facts: Facts) -> Knob:
    """Make ``what`` twice as fast."""
    changed = replace(case, array=doubled(case.array, what))
    same = simulated(changed, plan)
    again, replanned = _replanned(changed, plan, same)
    reason = None
    if _as_long(same, base) and _as_long(replanned, base):
        reason = why_nothing(KNOBS[what], facts, Facts(changed, facts.bounds))
        if not alike(again, plan):
            reason += "; the planner chooses otherwise, and gains nothing"
    return Knob(what, same.iteration_s, replanned.iteration_s, reason)


def _replanned(case: Case, plan: Plan, same: Timeline) -> tuple[Plan, Timeline]:
    """The planner's new plan and its step; what is known already where the plan is the same."""
    again = plan_of(case)
    return again, same if alike(again, plan) else simulated(case, again)


def alike(first: Plan, second: Plan) -> bool:
    """Whether two plans split the same way, whatever they expect of it."""

    def same(a: Split | None, b: Split | None) -> bool:
        if a is None or b is None:
            return a is b
        halves = zip(a.halves, b.halves, strict=False)
        return (
            a.partitions == b.partitions
            and len(a.halves) == len(b.halves)
            and all(same(*pair) for pair in halves)
        )

    if first.pipeline is None or second.pipeline is None:
        return first.pipeline is second.pipeline and same(first.root, second.root)
    one, other = first.pipeline, second.pipeline
    return (one.places, one.schedule, one.micro_batches, one.firsts) == (
        other.places,
        other.schedule,
        other.micro_batches,
        other.firsts,
    ) and all(same(a.plan.root, b.plan.root) for a, b in zip(one.stages, other.stages, strict=True))


def without(number: int, name: str, changes: Sequence[str], case: Case, base: Timeline) -> Setting:
    """What one of ``--set``'s ``changes`` did: the step with all others but not this one."""
    assignment = changes[number]
    others = [*changes[:number], *changes[number + 1 :]]
    try:
        before = replace(case, array=load_array(name, others))
    except SpecError as error:
        return Setting(assignment, None, f"without it there is no array: {error}")
    try:
        timeline = step_of(before)[1]
    except PlanError as error:  # a plan made for the changed array, or one that is too deep
        return Setting(assignment, None, f"without it there is no plan: {error}")
    reason = None
    if _as_long(timeline, base):
        paths = paths_of(timeline)
        bounds = {bound: paths.share(ps) for bound, ps in paths.by_bound().items()}
        key = assignment.partition("=")[0].strip()
        reason = why_nothing(key, Facts(before, bounds), Facts(case, bounds))
    return Setting(assignment, timeline.iteration_s, reason)


def _as_long(first: Timeline, second: Timeline) -> bool:
    return abs(first.iteration_ps - second.iteration_ps) <= SAME * second.iteration_ps
