"""The same step on a changed array: what twice as fast parts bring, and what ``--set`` changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from warnings import catch_warnings, simplefilter

import numpy as np

from experiments.explain.paths import paths_of
from experiments.notices import AccelarrayWarning
from experiments.output import UsageError
from experiments.studies.case import Case, in_any_memory, plan_of, simulated, step_beside
from experiments.studies.unread import precision_of
from hardware import Array, Device, SpecError, wires_of
from hardware.device import ChipLinks
from hardware.interconnect.fabric import at_share
from hardware.topology import Tier
from planners import Plan, PlanError
from simulator import Timeline
from simulator.search.judge import splits_of

Asked = Callable[[Sequence[str]], Case]
"""From changes of the array's spec to the step with these, all else as it was asked for."""

SAME = 1e-3
"""Steps whose lengths differ by less than this fraction count as equally long."""
SLIGHT = 2 * SAME
"""Of the critical path; what is no larger cannot change it by more than SAME when halved."""

BOUND_OF = {
    "core": "FLOPs",
    "hbm": "HBM",
    "element": "HBM",
    "formats": "HBM",
    "overhead": "overhead",
    "port": "links",
    "wires": "links",
    "latency": "latency",
}
"""Topic to what time of the critical path it would change."""
WORDS = {
    "FLOPs": "compute limited by FLOPs",
    "HBM": "compute limited by HBM bandwidth",
    "overhead": "kernel overhead",
    "links": "communication of bytes",
    "latency": "communication latency",
}
"""What a part of the critical path is, in words."""


def topic_of(key: str) -> str:
    """What a key of a spec is about; "" for what nothing special is known of."""
    if key.startswith("devices.") and key.count(".") > 1:
        key = key.split(".", 2)[2]
    return _TOPICS.get(key, _TOPICS.get(key.partition(".")[0], ""))


_KEYS_OF = {
    "": "chip.cores",
    "core": "chip units chip.peak arithmetic.compute roofline.matrix_efficiency",
    "hbm": "hbm.bandwidth roofline.memory_efficiency",
    "capacity": "hbm.capacity",
    "port": "network.bandwidth",
    "wires": "topology links",
    "latency": "network.latency links.latency topology.latency",
    "overhead": "roofline.overhead",
    "padding": "roofline.pad_matrix_unit roofline.tile",
    "formats": "arithmetic",
    "element": "arithmetic.element",
    "fused": "arithmetic.fused",
    "energy": "energy",
    "price": "price",
    "power": "power",
}
"""Topic to keys, and tables of which all other keys are about it."""
_TOPICS = {key: topic for topic, keys in _KEYS_OF.items() for key in keys.split()}


NO_TIME = {
    "energy": "energies count joules, not time",
    "price": "prices count dollars, not time",
    "power": "powers count joules, not time",
}
"""Topics that change no step."""


def why_nothing(key: str, before: Case, after: Array, bounds: Mapping[str, float]) -> str:
    """One sentence: why a step on the array with ``key`` changed (``after``) is as long as before.

    ``bounds`` are fractions of the critical path before (BOUNDS).
    """
    topic, ignores = topic_of(key), before.execution.ignores
    arrays = before.array, after
    if arrays[0].group.kinds == arrays[1].group.kinds and arrays[0].topology == arrays[1].topology:
        values = [{s.key: s.value for s in array.settings}.get(key) for array in arrays]
        if "chip.peak" in key and values[0] != values[1]:
            compute = precision_of(arrays[1])
            return f"products are in another format: change chip.peak_by_format.{compute}"
        return "it is what the spec says anyway"
    if topic in NO_TIME:
        return NO_TIME[topic]
    for ignored in ("roofline" if "roofline." in key else topic, topic):
        if ignored in ignores:
            return ignores[ignored]
    if topic == "capacity":
        return "hbm.capacity matters only for whether the plan fits"
    if "wires" not in ignores and topic in ("port", "wires", "latency"):
        reason = _unused(key, topic, *arrays)
        if reason:
            return reason
    if topic == "padding":
        topic = "hbm" if key.endswith("tile") else "core"
    if topic not in BOUND_OF:
        return "what it changes takes little or none of the step"
    bound = "links" if topic == "element" and "formats" in ignores else BOUND_OF[topic]
    rooflines = [device.roofline for device, _ in after.group.kinds]
    hosts = any(one.host_s or one.host_layer_s for one in rooflines)
    alone = before.execution.planned(before.array).group.size == 1
    if bound == "links" and alone:
        return "nothing is exchanged by one device"
    return _not_on_the_path(bound, bounds, hosts=hosts and bound in ("FLOPs", "HBM"))


def _unused(key: str, topic: str, first: Array, second: Array) -> str | None:
    """Why no wire is another one, if none is."""
    before, after = wires_of(first), wires_of(second)
    if len(before.bandwidth) != len(after.bandwidth):
        return None
    latency = topic == "latency"
    pair = (before.latency_s, after.latency_s) if latency else (before.bandwidth, after.bandwidth)
    if not np.array_equal(*pair) or before.names != after.names:
        return None
    what = "latency" if latency else "bandwidth"
    topology = second.topology
    if "topology." not in key and getattr(topology, "latency_s" if latency else "bytes_per_s"):
        return f"topology.{what} of this array stands in its place"
    if "network." in key and topology.joins == "chips":
        return "chips are joined to chips here: no message crosses a board's network port"
    return f"no link of a {topology.kind} of {topology.joins} has another {what} through it"


def _not_on_the_path(bound: str, bounds: Mapping[str, float], *, hosts: bool) -> str:
    share = bounds[bound]
    if bound == "links" and share + bounds["latency"] == 0:
        return "compute hides all communication: none is on the critical path"
    largest = max(bounds, key=bounds.__getitem__)
    if share <= SLIGHT:
        much = f"{share:.2%}" if share else "no part"
        return (
            f"{much} of the critical path is {WORDS[bound]}; "
            f"{bounds[largest]:.1%} is {WORDS[largest]}"
        )
    limited = f"{share:.1%} of the critical path is {WORDS[bound]}, but"
    if hosts:
        return f"{limited} hosts need as long to start the operators (host, host_layer)"
    return f"{limited} not what this changes: the rest takes as long"


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


def sped_up(array: Array, what: str, times: float = 2.0) -> Array:
    """The array with links, HBM or cores ``times`` as fast everywhere."""

    def faster(device: Device) -> Device:
        if what == "HBM":
            return replace(device, hbm_bytes_per_s=times * device.hbm_bytes_per_s)
        if what == "cores":
            units = device.units and replace(device.units, clock_hz=times * device.units.clock_hz)
            return replace(device.computing(times), units=units)
        network = device.network_bytes_per_s, device.network_latency_s, device.network_half_bytes
        bytes_per_s, latency_s = at_share(times, *network)
        return replace(
            device,
            links=device.links and _faster(device.links, times),
            network_bytes_per_s=bytes_per_s,
            network_latency_s=latency_s,
        )

    topology = array.topology
    if what == "links" and topology.bytes_per_s is not None:
        topology = replace(topology, bytes_per_s=times * topology.bytes_per_s)
    if what == "links":
        levels = tuple(_faster(tier, times) for tier in topology.levels)
        topology = replace(topology, levels=levels)
    return replace(array.with_devices(faster), topology=topology)


Links = TypeVar("Links", Tier, ChipLinks)


def _faster(links: Links, times: float) -> Links:
    own = links.bytes_per_s, links.latency_s, links.half_bytes
    bytes_per_s, latency_s = at_share(times, *own)
    return replace(links, bytes_per_s=bytes_per_s, latency_s=latency_s)


def turn(what: str, case: Case, plan: Plan, base: Timeline, bounds: Mapping[str, float]) -> Knob:
    """Make ``what`` twice as fast; ``bounds`` are fractions of the step's critical path."""
    changed = replace(case, array=sped_up(case.array, what))
    again, changed = plan_of(changed), in_any_memory(changed)
    same = simulated(changed, plan)
    replanned = same if alike(again, plan) else simulated(changed, again)
    reason = None
    if _as_long(same, base) and _as_long(replanned, base):
        reason = why_nothing(KNOBS[what], case, changed.array, bounds)
        if not alike(again, plan):
            reason += "; the planner chooses another plan, which is not faster"
    elif same.iteration_s > base.iteration_s and any(d.units for d, _ in case.array.group.kinds):
        reason = "list scheduling puts units' work in order, which is not always the best one"
    return Knob(what, same.iteration_s, replanned.iteration_s, reason)


def alike(first: Plan, second: Plan) -> bool:
    """Whether two plans split and update the same way, whatever they expect of it."""
    return _does(first) == _does(second)


def _does(plan: Plan) -> tuple[Any, ...]:
    if (of := plan.pipeline) is None:
        return (splits_of(plan),)
    plans = (one for stage in of.stages for one in stage.plans or (stage.plan,))
    return of.places, of.schedule, of.micro_batches, of.firsts, [*map(splits_of, plans)]


def without(
    number: int, changes: Sequence[str], asked: Asked, case: Case, base: Timeline
) -> Setting:
    """What one of ``--set``'s ``changes`` did: the step with all others but not this one."""
    assignment = changes[number]
    others = [*changes[:number], *changes[number + 1 :]]
    try:
        with catch_warnings():  # what there is to know of the changed step was said already
            simplefilter("ignore", AccelarrayWarning)
            before = asked(others)
    except SpecError as error:
        return Setting(assignment, None, f"without it there is no array: {error}")
    except UsageError as error:
        return Setting(assignment, None, f"without it there is no step: {error}")
    try:
        timeline = step_beside(before)[1]
    except PlanError as error:  # a plan made for the changed array, or one that is too deep
        return Setting(assignment, None, f"without it there is no plan: {error}")
    reason = None
    if _as_long(timeline, base):
        paths = paths_of(timeline)
        bounds = {bound: paths.share(ps) for bound, ps in paths.by_bound().items()}
        key = assignment.partition("=")[0].strip()
        reason = why_nothing(key, before, case.array, bounds)
    return Setting(assignment, timeline.iteration_s, reason)


def _as_long(first: Timeline, second: Timeline) -> bool:
    return abs(first.iteration_ps - second.iteration_ps) <= SAME * second.iteration_ps
