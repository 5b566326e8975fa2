"""Weights updated as gradients arrive, or in the layers' order once all are there."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hardware import Array, Stack, load_array
from planners import PLANNERS, TIME, Plan, Split
from planners.order import Kind, Phase
from planners.partition import II, III, I
from planners.plan.updates import Update
from simulator import DEPLOYED, Execution, Timeline, simulate
from simulator.lowering.execution import deployed
from simulator.search.candidates import split_of
from simulator.search.states import filled
from tests.simulator.search.cases import BATCHES, EXECUTIONS, chains, like_cores
from workloads import Network, load_network, partition_graph

NETWORK, ARRAY = load_network("alexnet"), load_array("tpu-v3-8")
PLAN = PLANNERS["data_parallel"](NETWORK, DEPLOYED.planned(ARRAY), 64, TIME)


def step(plan: Plan = PLAN, execution: Execution = DEPLOYED) -> Timeline:
    return simulate(NETWORK, plan, ARRAY, execution)


def updates(timeline: Timeline) -> list[str]:
    """Layers in the order in which a core updates them."""
    mine = [r for r in timeline if (r.kind, r.phase) == (Kind.COMPUTE, Phase.UPDATE)]
    return list(dict.fromkeys(r.layer for r in sorted(mine, key=lambda r: r.start_ps)))


@pytest.mark.parametrize("order", ["layers", "arrival"])
def test_planned_or_asked_for_is_the_same(order: str) -> None:
    other = {"layers": "arrival", "arrival": "layers"}[order]
    planned = step(replace(PLAN, update_order=order))
    asked = step(PLAN, replace(DEPLOYED, update_order=order))
    last_word = step(replace(PLAN, update_order=other), replace(DEPLOYED, update_order=order))
    assert planned.iteration_s == asked.iteration_s == last_word.iteration_s
    assert step().iteration_s == step(replace(PLAN, update_order="layers")).iteration_s
    assert step().iteration_s > step(replace(PLAN, update_order="arrival")).iteration_s


def test_updates_in_parts_come_as_gradients_arrive_unless_it_is_said_otherwise() -> None:
    parts = replace(PLAN, updates=(Update.SHARDED,) * len(PLAN.nodes))
    usual_s = step(parts).iteration_s
    assert usual_s == step(replace(parts, update_order="arrival")).iteration_s
    assert usual_s < step(replace(parts, update_order="layers")).iteration_s


def test_a_stack_says_it_of_every_plan() -> None:
    """Optimizers that are called are the usual; a stack may say that its do not wait."""
    assert deployed(ARRAY).update_order == ""
    assert deployed(replace(ARRAY, stack=Stack("s"))).update_order == "layers"
    stack = Stack("s", update_order="arrival")
    assert deployed(replace(ARRAY, stack=stack)).update_order == "arrival"


def test_what_is_not_exchanged_comes_first() -> None:
    """Two cores: layers that are cut by channels have their whole gradients at once."""
    array = load_array("tpu-v3-8", ["devices.0.chips=1", "topology.shape=[1, 1]"])
    plan = PLANNERS["owt"](NETWORK, DEPLOYED.planned(array), 64, TIME)
    timeline = simulate(NETWORK, replace(plan, update_order="arrival"), array, DEPLOYED)
    assert updates(timeline) == [
        *("fc8", "fc7", "fc6"),  # of OWT these are cut by channels
        *("conv5", "conv4", "conv3", "conv2", "conv1"),
    ]
    turned = replace(plan, root=_turned(plan), update_order="arrival")
    assert updates(simulate(NETWORK, turned, array, DEPLOYED)) == [
        *("conv5", "conv4", "conv3", "conv2", "conv1"),
        *("fc8", "fc7", "fc6"),
    ]


def _turned(plan: Plan) -> Split:
    """Each layer has the type that its opposite had: convolutions are cut by channels."""
    assert plan.root is not None
    by_samples, by_channels = plan.root.partitions[0], plan.root.partitions[-1]
    turned = [by_samples if p == by_channels else by_channels for p in plan.root.partitions]
    return replace(plan.root, partitions=tuple(turned))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Network, Plan, Array, Execution]:
    """Like cores, each with a part of every layer."""
    execution, network = replace(draw(EXECUTIONS), update_order=""), draw(chains())
    array = execution.planned(draw(like_cores()))
    batch, graph = draw(BATCHES), partition_graph(network)
    every = [*product((I, II, III), repeat=array.group.size.bit_length() - 1)]
    full = [[one for one in every if filled(node, batch, one)] for node in graph]
    assume(all(full))
    types = tuple(draw(st.sampled_from(some)) for some in full)
    plan = replace(Plan.blank("search", network, batch, TIME), root=split_of(types))
    return network, plan, array, execution


@settings(max_examples=60, deadline=None)
@given(layouts())
def test_no_step_of_alike_cores_is_longer_as_gradients_arrive(
    case: tuple[Network, Plan, Array, Execution],
) -> None:
    network, plan, array, execution = case
    layers_ps, arrival_ps = (
        simulate(network, replace(plan, update_order=order), array, execution).iteration_ps
        for order in ("layers", "arrival")
    )
    assert arrival_ps <= layers_ps
