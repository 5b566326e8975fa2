"""A plan by named axes: stages of blocks, and the types of each axis at its levels."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hardware import Array, Group
from planners.axes.degrees import AXES, Axes, order_of
from planners.axes.node_types import Types, check_groups, experts, types_along
from planners.axes.stage_devices import (
    Replicas,
    first_nodes_of,
    on_devices,
    places_on,
    replicas_apart,
    stage_devices,
)
from planners.cost.objective import TIME, Objective
from planners.errors import PlanError
from planners.partition import Partition, PartitionType
from planners.pipeline.staging import Staging, cut_into, micro_batch, named_cuts, plan_of_stages
from planners.plan import COPIES, Place, Plan
from planners.plan.split import Split
from workloads import Network, partition_graph
from workloads.stages import first_alike

Ways = tuple[tuple[str, int], ...]
"""Axes of the devices of a replica of a stage with how many ways each splits, outermost first."""


def axes(
    network: Network,
    array: Array,
    batch: int,
    objective: Objective = TIME,
    /,
    *,
    execution: Any = None,
) -> Plan:
    """Named axes as --parallel says, as Megatron splits transformers; without any, samples."""
    staging = getattr(execution, "staging", None) or Staging()
    update = getattr(execution, "update", "")
    if update not in ("", "replicated", "auto") and replicas_apart(staging):
        raise PlanError(
            f"update={update}: replicas that differ by stage or by device (--stage-hw) "
            "update their weights whole; leave --zero and --update out"
        )
    return planned_by_axes(network, array, batch, staging.parallel or Axes(), staging, objective)


axes.plans_stages = True  # type: ignore[attr-defined]
axes.reads_axes = True  # type: ignore[attr-defined]


def planned_by_axes(
    network: Network,
    array: Array,
    batch: int,
    axes: Axes,
    staging: Staging = Staging(),  # noqa: B008  (a frozen value)
    objective: Objective = TIME,
) -> Plan:
    """The plan that splits a network along named axes.

    ``array`` is as the execution model plans for it (``execution.planned``). Of the
    ``staging`` count the micro-batches (``micro_batch`` samples of each replica, or
    their number; without both one sample each where there are stages, else the whole
    batch), schedule, cuts, devices and layers of stages, recompute and ties. The objective prices
    the result and decides nothing. Raises PlanError for axes that fit neither network nor array.
    """
    return _Planning(network, array, axes, staging, objective).plan(batch)


class _Planning:
    def __init__(
        self, network: Network, array: Array, axes: Axes, staging: Staging, objective: Objective
    ) -> None:
        if staging.stages > 1 or staging.virtual > 1:
            raise PlanError("stages, and those at a place, are axes: say pp=… and vp=… instead")
        self._network = network
        self._array = array
        self._objective = objective
        self._graph = partition_graph(network)
        self._order = order_of(staging.axis_order)
        stages = stage_devices(staging.stage_hw) if staging.stage_hw else ()
        if not any(map(experts, self._graph)):
            axes = replace(axes, etp=0)  # there is nothing that it says
        self._axes = axes = on_devices(axes, stages) or axes.on(array.group.size, array.name)
        self._staging = replace(staging, stages=axes.pp, virtual=axes.vp)
        self._staging.check_recompute()
        for tp in {one.tp for stage in stages for one in stage} or {axes.tp}:
            if tp > 1:
                check_groups(self._graph, "tp", tp)
        if axes.ep > 1:
            check_groups(self._graph, "ep", axes.ep)
        self._ways = _ways(axes, self._order)
        self._apart = bool(stages) and axes.dp == 1
        """Whether each replica of a stage is planned by itself."""
        self._places = self._placed(stages)
        self._known: dict[Hashable, Plan] = {}

    def plan(self, batch: int) -> Plan:
        """Stages, or one plan for all layers."""
        many = self._micro_batches(batch)
        names = tuple(node.name for node in self._graph)
        made = Plan(AXES, self._network.name, batch, self._objective.name, names, None)
        everywhere = self._places[0].count == self._array.group.size
        whole = not self._apart and everywhere and not self._staging.recompute
        if many == self._axes.pp * self._axes.vp == 1 and whole:
            return self._split(made, self._network, self._array)
        found = cut_into(self._network, self._firsts())
        size, alike = micro_batch(batch, many), first_alike(found)

        def planned(k: int, network: Network, part: Array) -> Plan:
            names = tuple(node.name for node in partition_graph(network))
            own = Plan(AXES, network.name, size, made.objective, names, None)
            return self._split(own, network, part, alike[k])

        staging = replace(self._staging, tied=self._staging.tied or (COPIES if found.ties else ""))
        return plan_of_stages(made, found, self._array, self._places, staging, many, planned)

    def _micro_batches(self, batch: int) -> int:
        """Of all replicas of the stages, which take them in turn."""
        samples, asked = self._staging.samples(self._axes.pp), self._staging.micro_batches
        dp, replicas = self._axes.dp, 1
        if self._apart:
            dp = replicas = math.lcm(*(len(place.round) for place in self._places))
        if samples is None:
            micro_batch(batch, asked * replicas)  # as many for each
            return asked * replicas
        if batch % (samples * dp) and self._apart:
            raise PlanError(
                f"micro-batch={samples}: the stages' replicas take {dp} micro-batches in a round; "
                f"a batch of {batch} is no multiple of {samples * dp} samples; take a batch of "
                f"{-(-batch // (samples * dp)) * samples * dp}"
                + (", or other micro-batches" if batch % dp == 0 else "")
            )
        if batch % (samples * dp):
            raise PlanError(
                f"micro-batch={samples} with dp={dp}: a batch of {batch} is no multiple of "
                f"{samples * dp} samples; take a batch that is, or other micro-batches"
            )
        each = batch // (samples * dp)
        if asked > 1 and asked != each:
            raise PlanError(
                f"micro-batch={samples} and micro-batches={asked}: a batch of {batch} has {each} "
                f"with dp={dp}; say one of the two"
            )
        return each * replicas

    def _firsts(self) -> Sequence[int]:
        """The first node of each stage, as named, or else of as many blocks each."""
        stages, cuts = self._axes.pp * self._axes.vp, self._staging.cuts
        layers = self._staging.stage_layers
        if cuts and layers:
            raise PlanError("cuts and stage-layers: both say where stages begin; leave one out")
        if cuts:
            return named_cuts(self._graph, cuts, stages)
        if layers:
            return first_nodes_of(self._graph, layers, stages)
        from planners.axes.stage_cuts import usual_first_nodes

        return usual_first_nodes(self._network, stages)

    def _placed(self, stages: Sequence[Sequence[Replicas]]) -> tuple[Place, ...]:
        """Each stage's devices: as many each, in the array's order, unless ``stages`` says which.

        Replicas that are alike, as many in each stage, are ways of dp in one plan.
        """
        if not stages:
            each = self._array.group.size // self._axes.pp
            return tuple(Place(k * each, each) for k in range(self._axes.pp))
        found = places_on(self._array, stages, self._axes.cp)
        if self._apart:
            return tuple(found)
        if any(place.parts for place in found):
            raise PlanError("stage-hw: the devices of a stage are no neighbours in the array")
        return tuple(replace(place, replicas=1) for place in found)

    def _split(self, plan: Plan, network: Network, array: Array, like: int = 0) -> Plan:
        """The plan with the splits of its layers, priced; stages ``like`` one share theirs."""
        from planners.hierarchy.fixed_types import (
            priced,  # and NumPy, which lists of planners do without
        )

        graph = partition_graph(network)
        sort = array.group, like
        if sort not in self._known:
            how = {"by_positions": self._axes.sp, "experts_whole": self._axes.over_tp}
            ways = self._ways
            if self._apart:  # some are of unlike widths
                own = replace(self._axes, tp=array.group.size // self._axes.cp)
                ways = _ways(own, self._order)
            types = {axis: types_along(axis, graph, **how) for axis, _ in ways}
            together = _together(array, ways)
            group = replace(array.group, together=together)
            made = replace(plan, root=_tree(group, ways, types), together=together)
            self._known[sort] = priced(network, replace(array, group=group), made, self._objective)
        known = self._known[sort]
        return replace(plan, root=known.root, together=known.together)


def _ways(axes: Axes, order: Sequence[str]) -> Ways:
    """The axes of a stage's devices, outermost first."""
    ways = list[tuple[str, int]]()
    for axis in reversed(order[:-1]):
        many = getattr(axes, axis)
        if axis == "dp" and axes.ep_of_dp > 1:
            ways += [("dp", many // axes.ep_of_dp), ("ep", axes.ep_of_dp)]
        else:
            ways.append((axis, many))
    return tuple((axis, many) for axis, many in ways if many > 1)


def _together(array: Array, ways: Ways) -> tuple[int, ...]:
    """Sizes of groups that halving must not cut, the largest first: of inner axes, and nodes.

    Of 24 devices with dp 3 and tp 8 the halves would be 12, and cut a group of 8 in two. 100
    nodes of 8 would be halved down to 25 devices. Those are no whole nodes, so that no two groups
    are alike. Where all numbers are powers of two, and devices of one kind, halves cut none
    anyway.
    """
    if len(array.group.kinds) == 1 and all(not many & (many - 1) for _, many in ways):
        return ()
    numbers = [many for _, many in ways]
    inner = {math.prod(numbers[place:]) for place in range(1, len(numbers))}
    nodes = {size for size in array.node_sizes if all(min(size % n, n % size) == 0 for n in inner)}
    return tuple(sorted({1, *inner, *nodes}, reverse=True))


def _tree(group: Group, ways: Ways, types: Mapping[str, Types]) -> Split | None:
    """The splits of a group, the first axis at the top; halves that are alike are one.

    Raises PlanError where the array's halves would part what an inner axis splits.
    """
    if not ways:
        return None
    (axis, many), *inner = ways
    sides = group.halves()
    each = group.size // many
    counts = [side.size // each for side in sides]
    if any(side.size % each for side in sides):
        within = " and ".join(f"{name}={n}" for name, n in inner)
        raise PlanError(
            f"{axis}={many}: an array is split by halves, and those of {group.size} accelerators "
            f"({sides[0].size} and {sides[1].size}) would part {each} of {within}; take numbers "
            "that divide both halves"
        )
    share = counts[0] / many
    kept = {type_: Partition(type_, share) for type_ in PartitionType}
    below = [
        _tree(side, tuple((a, n) for a, n in ((axis, count), *inner) if n > 1), types)
        for side, count in zip(sides, counts, strict=True)
    ]
    halves = (below[0],) if sides[0] == sides[1] else tuple(below)
    return Split(tuple(kept[one] for one in types[axis]), 0.0, halves)
