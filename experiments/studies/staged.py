"""A case's plan in stages: where the network is cut, and which accelerators each stage has."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hardware import Array
from planners import (
    BASELINES,
    PLANNERS,
    Objective,
    Plan,
    PlanError,
    Planner,
    Staging,
    load_planner,
    planned_in_stages,
)
from planners.pipeline.balance import balanced
from planners.pipeline.staging import micro_batch, named_cuts, places_of
from planners.plan import Place
from planners.registry import takes_execution
from simulator import Execution, OutOfMemoryError, simulate
from simulator.collectives.algorithms import CollectiveError
from simulator.lowering.layer_times import layer_times
from simulator.search.updates import with_updates
from workloads import Network, partition_graph


def staged_plan(
    planner: str | Planner,
    network: Network,
    array: Array,
    batch: int,
    objective: Objective,
    execution: Execution,
    staging: Staging,
) -> Plan:
    """The plan of a pipeline; each stage is planned by ``planner``.

    ``array`` is as the execution model plans for it. The search judges a stage as a step by
    itself, which is not what the stage adds to a pipeline: it takes the fastest of its own
    pipeline and the other planners'. Raises PlanError for stages that fit neither network
    nor array.
    """
    places = places_of(array, staging.stages)
    firsts = first_layers(network, array, batch, execution, staging, places)
    alone = replace(execution, staging=None)

    def planned_by(one: str | Planner) -> Plan:
        told: dict[str, Any] = {"execution": alone} if takes_execution(load_planner(one)) else {}
        step = (one, network, array, batch, staging, firsts, places, objective)
        return planned_in_stages(*step, **told)

    own = planned_by(planner)
    if load_planner(planner) is not load_planner("search"):
        return own
    plans = [own, *_plans(planned_by, [*PLANNERS, *BASELINES])]
    fastest = min(plans, key=lambda plan: _seconds(network, plan, array, execution))
    return replace(fastest, planner=own.planner)


def _plans(planned_by: Callable[[str], Plan], names: Iterable[str]) -> Iterator[Plan]:
    """Those of planners that can plan this."""
    for name in names:
        with suppress(PlanError):
            yield planned_by(name)


def _seconds(network: Network, plan: Plan, array: Array, execution: Execution) -> float:
    """What a step of a pipeline takes; forever where it cannot be run."""
    try:
        updated = with_updates(network, plan, array, execution)
        return simulate(network, updated, array, execution).iteration_s
    except (PlanError, CollectiveError, OutOfMemoryError):
        return math.inf


def first_layers(
    network: Network,
    array: Array,
    batch: int,
    execution: Execution,
    staging: Staging,
    places: Sequence[Place],
) -> tuple[int, ...]:
    """Where stages begin: as the staging names it, or balanced."""
    graph = partition_graph(network)
    size, stages = micro_batch(batch, staging.micro_batches), staging.stages * staging.virtual
    if staging.virtual < 1:
        raise PlanError(f"{staging.virtual} stages a place: at least one is needed")
    if staging.cuts:
        return named_cuts(graph, staging.cuts, stages)
    if stages == 1:
        return (0,)
    kinds: dict[int, list[float]] = {}
    plain = replace(execution, staging=None, strict_memory=False)
    rows = []
    for k in range(stages):
        place = places[k % len(places)]
        rate = [0.0] * len(graph)
        for number, many in _kinds(array, place):
            if number not in kinds:
                times = layer_times(network, array, size, plain, number)
                kinds[number] = [time.seconds for time in times]
            rate = [r + many / s if s else r for r, s in zip(rate, kinds[number], strict=True)]
        rows.append([1 / r if r else 0.0 for r in rate])
    names = [layer.name for layer in network.layers if layer.weighted]
    weighted = set(names)
    return balanced(rows, [node.name in weighted for node in graph])


def _kinds(array: Array, place: Place) -> list[tuple[int, int]]:
    """Of each kind of a place's accelerators: the number of one in the array, and how many."""
    found, start = [], 0
    for device, _ in array.group.kinds:
        only = replace(array.group, kinds=tuple(k for k in array.group.kinds if k[0] is device))
        end = start + only.size
        many = min(end, place.first + place.count) - max(start, place.first)
        if many > 0:
            found.append((start, many))
        start = end
    return found
