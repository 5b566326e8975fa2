"""Participants of received tensors: nothing is sent on before what it is made of is there."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hardware import Array, Device, Group
from planners import planned_in_stages
from planners.pipeline.staging import Staging, places_of
from simulator import DEPLOYED, PUBLISHED, Execution, Timeline, simulate
from workloads import Builder, Network

MICRO = 3
FAST = Device("fast", 1, 1, 1e12, 1e9, 1e12, 1e6)
"""With links that are slow beside it, so that everything waits for them."""


def ran(
    network: Network, firsts: Sequence[int], execution: Execution, schedule: str = "1f1b"
) -> Timeline:
    array = Array("fast", "", Group(((FAST, len(firsts)),)))
    places = places_of(array, len(firsts))
    staging = Staging(len(firsts), MICRO, schedule)
    plan = planned_in_stages(
        "data_parallel", network, execution.planned(array), 4 * MICRO, staging, firsts, places
    )
    return simulate(network, plan, array, execution)


def behind(timeline: Timeline, later: str, phase: str, *earlier: str) -> None:
    """A send begins when others have ended, for every micro-batch."""
    spans = {
        (r.layer, r.phase, r.micro_batch): (r.start_ps, r.end_ps)
        for r in timeline
        if r.kind == "send"
    }
    for micro_batch in range(MICRO):
        starts = spans[later, phase, micro_batch][0]
        for name in earlier:
            assert starts >= spans[name, phase, micro_batch][1] > 0, (later, name, micro_batch)


EXECUTIONS = [PUBLISHED, DEPLOYED, replace(DEPLOYED, overlap=False)]


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero-bubble"])
def test_a_stage_that_begins_with_a_join(execution: Execution, schedule: str) -> None:
    """Stage 1 adds two tensors of stage 0, and stage 2 needs their sum beside what it made."""
    net = Builder("begins", 32, 1)
    net.flatten("flat")
    net.fc("a", 32)
    net.fc("b", 32)
    net.add("sum", "a", "b")
    net.fc("c", 2, after="sum")  # whose errors are back long before those of the sum
    net.concat("both", "c", "sum")
    net.fc("d", 32, after="both")
    timeline = ran(net.build(), (0, 2, 4), execution, schedule)
    behind(timeline, "sum to stage 2", "forward", "a to stage 1", "b to stage 1")
    for name in ("a to stage 1", "b to stage 1"):
        behind(timeline, name, "backward", "sum to stage 2", "c to stage 2")


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_stage_that_ends_with_a_join(execution: Execution) -> None:
    """Its second operand comes later than the first, from which a layer is computed before."""
    net = Builder("ends", 32, 1)
    net.flatten("flat")
    net.fc("a", 32)
    net.fc("b", 32)
    net.fc("c", 32, after="a")
    net.add("sum", "c", "b")
    net.fc("d", 32, after="sum")
    timeline = ran(net.build(), (0, 2, 4), execution)
    behind(timeline, "sum to stage 2", "forward", "a to stage 1", "b to stage 1")
    behind(timeline, "b to stage 1", "backward", "sum to stage 2")


def test_what_is_ready_does_not_wait_for_what_comes() -> None:
    """a is sent on when it is there, whatever a later layer of its stage receives."""
    net = Builder("ready", 32, 1)
    net.flatten("flat")
    net.fc("z", 32)
    net.fc("a", 32, after="z")
    net.fc("b", 32, after="a")
    net.add("sum", "b", "z")
    net.fc("c", 32, after="sum")
    net.add("both", "c", "a")
    net.fc("d", 32, after="both")
    timeline = ran(net.build(), (0, 1, 5), PUBLISHED)
    made = {r.micro_batch: r.end_ps for r in timeline if (r.layer, r.phase) == ("a", "forward")}
    sent = {
        r.micro_batch: r.start_ps
        for r in timeline
        if (r.layer, r.phase, r.kind) == ("a to stage 2", "forward", "send")
    }
    assert sent[0] == made[0]
