"""PipeDream on an array: its dynamic program on a profile that our own cost model makes.

Each stage is on single accelerators that take minibatches in turn, as in
Narayanan et al., SOSP 2019; the cost model is the paper's (``planners.pipeline``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from hardware import Array, wires_of
from planners import Pipeline, Place, Plan, PlanError, Stage, Staging
from planners.cost.objective import TIME, Objective
from planners.pipeline import Level, Paper, Profile, ProfileNode, plan_stages, states_of
from planners.pipeline.staging import cut_into, micro_batch
from simulator.lowering.execution import Execution, usual
from simulator.lowering.layer_times import LayerTime, layer_times, nodes_of
from workloads import Cut, Network, partition_graph

SCHEDULE = "pipedream"


class _Unit(NamedTuple):
    """Layers that are never cut apart: one with weights, and those behind it that have none."""

    first: int
    seconds: tuple[float, float]
    gradient_bytes: float
    crossing_bytes: float


def pipedream(
    network: Network,
    array: Array,
    batch: int,
    objective: Objective = TIME,
    /,
    *,
    execution: Execution | None = None,
) -> Plan:
    """The pipeline with the least time of a minibatch by the paper's formula; exact.

    A batch has as many minibatches as the execution's staging says, or else as
    there are accelerators. Cuts are between consecutive layers of the
    partition graph; what crosses one are all tensors that a later layer reads. Layers
    that share weights are in one stage, unless the staging says who sums their gradients.
    Raises PlanError for an array of several kinds of devices.
    """
    execution = execution or usual(array)
    if len(array.group.kinds) > 1:
        names = ", ".join(device.name for device, _ in array.group.kinds)
        raise PlanError(
            f"pipedream plans for devices of one kind; {array.name!r} has {names}. Use --stages "
            "with another planner"
        )
    staging = execution.staging or Staging(micro_batches=array.group.size)
    if staging.stages > 1 or staging.virtual > 1 or staging.cuts:
        raise PlanError("pipedream chooses stages, cuts and replicas itself: name none of them")
    size = micro_batch(batch, staging.micro_batches)
    plain = replace(execution, staging=None, strict_memory=False)
    times = layer_times(network, array, size, plain)
    units = list(_units(network, times, ties=not staging.tied))
    found = plan_stages(states_of(_profile(network, units)), levels_of(array), Paper())
    firsts, replicas = [], []
    number = {str(unit.first): unit.first for unit in units}
    for stage in found.stages:
        firsts.append(min(number[name] for name in stage.nodes))
        replicas.append(stage.replicas)
    return _plan(network, batch, objective, staging, firsts, replicas)


pipedream.plans_stages = True  # type: ignore[attr-defined]


def levels_of(array: Array) -> list[Level]:
    """The array as PipeDream sees it: so many of what is below, and the links between them."""
    ((device, _),) = array.group.kinds
    if array.group.leaf == "board":
        return [Level(array.group.size, device.network_bytes_per_s)]
    wires, first, cores = wires_of(array), array.first, array.group.size
    found = []
    inside = min(device.cores, cores)
    if inside > 1:
        one, other = range(first, first + 1), range(first + inside - 1, first + inside)
        found.append(Level(inside, wires.injection_bytes_per_s(one, other)))
    if cores > inside:
        found.append(Level(cores // inside, device.network_bytes_per_s))
    return found or [Level(1, device.network_bytes_per_s)]


def _units(network: Network, times: Sequence[LayerTime], *, ties: bool) -> Iterator[_Unit]:
    """In order. ``ties`` hold together a layer, all that use its weights, and what is between."""
    graph = partition_graph(network)
    weighted = {layer.name for layer in network.layers if layer.weighted}
    begins = [v for v, node in enumerate(graph) if node.name in weighted]
    begins[0] = 0
    tied = [(node.tied, v) for v, node in enumerate(graph) if ties and node.tied is not None]
    begins = [first for first in begins if not any(u < first <= v for u, v in tied)]
    last_read = [
        max((w for w, n in enumerate(graph) if v in n.producers), default=v)
        for v in range(len(graph))
    ]
    for first, end in zip(begins, [*begins[1:], len(graph)], strict=True):
        mine = times[first:end]
        crossing = sum(times[v].output_bytes for v in range(end) if last_read[v] >= end)
        yield _Unit(
            first,
            (sum(t.forward_s for t in mine), sum(t.backward_s for t in mine)),
            sum(t.gradient_bytes for t in mine),
            crossing,
        )


def _profile(network: Network, units: Sequence[_Unit]) -> Profile:
    """The units as a chain, named by their first layers' numbers."""
    nodes = tuple(
        ProfileNode(str(unit.first), "", *unit.seconds, unit.crossing_bytes, unit.gradient_bytes)
        for unit in units
    )
    return Profile(network.name, nodes, tuple((i, i + 1) for i in range(len(units) - 1)))


def _plan(
    network: Network,
    batch: int,
    objective: Objective,
    staging: Staging,
    firsts: Sequence[int],
    replicas: Sequence[int],
) -> Plan:
    size, where = batch // staging.micro_batches, 0
    places, stages = [], []
    stage_networks: Cut = cut_into(network, firsts)
    for k, (first, part, many) in enumerate(
        zip(firsts, stage_networks.networks, replicas, strict=True)
    ):
        single = Plan("single", part.name, size, objective.name, nodes_of(part), None)
        places.append(Place(where, many, many))
        stages.append(Stage(first, k, single, staging.recomputes(k)))
        where += many
    pipeline = Pipeline(
        tuple(stages),
        tuple(places),
        staging.schedule or SCHEDULE,
        staging.micro_batches,
        staging.tied,
        staging.vertical_sync,
        staging.batches,
    )
    names = nodes_of(network)
    table = objective.communication
    return Plan("pipedream", network.name, batch, objective.name, names, None, table, pipeline)
