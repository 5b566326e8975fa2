"""What repeats itself is followed once, and the run is the same in every record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from hardware import Array, Device, Group
from hardware.topology import Topology
from planners.pipeline.staging import Staging
from simulator import DEPLOYED, Program, program_of, run
from simulator.engine.operations import Action, Part
from simulator.engine.rhythm import _in_order, _repeats, _shortened
from simulator.lowering.schedules.registry import SCHEDULES
from simulator.lowering.schedules.schedule import (
    BACKWARD,
    ERRORS,
    FORWARD,
    WEIGHTS,
    Pass,
    Rank,
    Schedule,
)
from tests.simulator.engine.same_run import assert_same_run
from tests.simulator.lowering.pipelines_by_hand import Times, pipeline_of, program
from tests.simulator.lowering.random_pipelines import longer, random_case
from tests.simulator.lowering.slow_pipeline import ends_of
from tests.simulator.lowering.test_pipelines_deployed import staged
from workloads import load_network


def followed(made: Program) -> int:
    """Turns that were simulated of a run that is the same as one in which all were."""
    short, whole = run(made), run(made, folded=False)
    assert_same_run(short, whole)
    assert whole.rows.repeat is None
    assert (short.rows.repeat is None) == (short.rows.followed is short.rows)
    return short.rows.followed.turns


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(k, k + 12), id=str(k), marks=[] if k < 48 else [pytest.mark.slow])
        for k in range(0, 480, 12)
    ],
)
def test_random_pipelines(seeds: range) -> None:
    """Also as the slow implementation has them, which follows every micro-batch."""
    fewer = 0
    for seed in seeds:
        case = longer(random_case(seed), 10)
        pipeline = case.plan.pipeline
        assert pipeline is not None
        steps = (case.network, case.plan, case.array, case.execution)
        made = program_of(*steps, batches=pipeline.batches or 1)
        few = followed(made)
        assert run(made).makespan_ps == ends_of(case.slow)[0]
        fewer += few < run(made).rows.turns
    assert fewer >= 6, "of twelve, of which two are GPipe's"


@pytest.mark.parametrize(
    ("name", "planner", "staging", "topology", "most"),
    [
        ("vgg16", "data_parallel", Staging(4, 64, "1f1b"), "torus", 40),
        ("resnet18", "data_parallel", Staging(2, 32, "interleaved", 2), "fully_connected", 24),
        ("alexnet", "owt", Staging(2, 64, "zero-bubble"), "switch", 24),
        (
            "alexnet",
            "hypar",
            Staging(2, 2, "pipedream", batches=30, vertical_sync=True),
            "ring",
            24,
        ),
        ("resnet18", "data_parallel", Staging(4, 64, "1f1b", recompute="all"), "tree", 40),
        ("resnet18", "data_parallel", Staging(2, 4, "2bw", batches=12), "ring", 36),
        ("alexnet", "data_parallel", Staging(1, 64, "1f1b"), "ring", 8),
    ],
    ids=str,
)
@pytest.mark.parametrize("overlap", [True, False])
def test_on_wires(
    name: str, planner: str, staging: Staging, topology: str, most: int, overlap: bool
) -> None:
    """Where links are shared by sends and sums, and memories are followed."""
    board = Device("board", 1, 1, 1e13, 1e12, 1e11, 1e10, network_latency_s=1e-6)
    array = Array("eight", "", Group(((board, 8),)), topology=Topology(topology))
    execution = replace(DEPLOYED, overlap=overlap)
    plan = staged(name, planner, array, execution, staging)
    network = load_network(name)
    made = program_of(network, plan, array, execution, batches=staging.batches or 1)
    assert followed(made) <= most


def test_accumulated_gradients_need_a_handful() -> None:
    made = program(pipeline_of("1f1b", 1, 2000, [1]), [Times(3, 5, 7)], [])
    assert followed(made) <= 6
    assert run(made).makespan_ps == 2000 * 15


def test_the_rhythm_may_take_several_turns() -> None:
    """A send of 8 holds two stages up for longer than one micro-batch."""
    times = [Times(2, 1, 1), Times(1, 1, 1), Times(1, 1, 1)]
    made = program(pipeline_of("1f1b", 3, 300, [1, 1, 1]), times, [8, 3])
    repeat = run(made).rows.repeat
    assert repeat is not None
    assert repeat.turns > 1
    assert followed(made) < 30


def test_a_state_that_was_seen_lately_need_not_come_a_third_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = [Times(2, 1, 1), Times(1, 1, 1), Times(1, 1, 1)]
    made = program(pipeline_of("1f1b", 3, 300, [1, 1, 1]), times, [8, 3])
    early, whole = run(made), run(made, folded=False)
    monkeypatch.setattr("simulator.engine.rhythm.RECENT", 0)
    late = run(made)
    repeats = [one.rows.repeat for one in (early, late)]
    assert repeats[0] is not None
    assert repeats[1] is not None
    assert repeats[0].turns == repeats[1].turns
    assert repeats[0].end_ps == repeats[1].end_ps - repeats[1].span_ps
    assert early.makespan_ps == late.makespan_ps == whole.makespan_ps


@pytest.mark.parametrize("replicas", [(2, 1), (1, 3), (2, 3), (4, 2)])
def test_replicas_take_turns(replicas: tuple[int, ...]) -> None:
    pipeline = pipeline_of("1f1b", 2, 120, replicas)
    made = program(pipeline, [Times(5, 4, 3), Times(2, 2, 2)], [1])
    repeat = run(made).rows.repeat
    assert repeat is not None
    assert all(repeat.turns % many == 0 for many in replicas)
    assert followed(made) < 60


def late_change(rank: Rank) -> Iterator[Pass]:
    """One at a time; from the hundredth on two at a time."""
    for number in range(100):
        yield Pass(FORWARD, number)
        yield Pass(BACKWARD, number)
    for number in range(100, rank.micro_batches, 2):
        for parts in (FORWARD, BACKWARD):
            yield Pass(parts, number)
            yield Pass(parts, number + 1)


def test_scripts_that_change_are_followed_where_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's state repeats, but what is still to be done does not."""
    monkeypatch.setitem(SCHEDULES, "late", Schedule("late", late_change, "changes its mind"))
    pipeline = pipeline_of("late", 2, 140, [1, 1])
    made = program(pipeline, [Times(5, 4, 3), Times(2, 2, 2)], [1])
    assert 40 <= followed(made) < 60


def left_over(rank: Rank) -> Iterator[Pass]:
    """Gradients of weights of every second micro-batch are computed in the end."""
    for number in range(rank.micro_batches):
        yield Pass(FORWARD, number)
        yield Pass(ERRORS, number)
        if number % 2:
            yield Pass(WEIGHTS, number)
    for number in range(0, rank.micro_batches, 2):
        yield Pass(WEIGHTS, number)


def test_what_is_left_for_later_does_not_come_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last gradient of weights does not say which others are done."""
    monkeypatch.setitem(SCHEDULES, "left", Schedule("left", left_over, "leaves some over"))
    pipeline = pipeline_of("left", 2, 64, [1, 1])
    assert followed(program(pipeline, [Times(5, 4, 3), Times(2, 2, 2)], [1])) == 64


def test_gpipe_is_followed_whole() -> None:
    """More and more micro-batches are in flight, then fewer and fewer: nothing comes again."""
    made = program(pipeline_of("gpipe", 2, 64, [1, 1]), [Times(1, 1, 1)] * 2, [1])
    assert followed(made) == 64


def test_a_pace_of_its_own_is_followed_whole() -> None:
    made = program(pipeline_of("1f1b", 2, 64, [1, 1]), [Times(9, 1, 1)] * 2, [1])
    slow = replace(made.workers[0], pace=lambda turn: 1 + (turn == 50))
    assert followed(replace(made, workers=(slow, *made.workers[1:]))) == 64


def test_memories_that_are_shared_are_followed_whole() -> None:
    made = program(pipeline_of("1f1b", 2, 64, [1, 1]), [Times(9, 1, 1)] * 2, [1])
    assert followed(replace(made, shared_memory=True)) == 64


def actions(*names: str) -> tuple[Action, ...]:
    parts = {"F": FORWARD, "B": BACKWARD, "U": frozenset({Part.UPDATE})}
    return tuple(Action(parts[name[0]], 0, int(name[1:])) for name in names)


def test_how_often_a_script_goes_on() -> None:
    script = actions(*["F0", "F1", "B0", "F2", "B1", "F3", "B2", "F4", "B3", "B4", "U4"])
    assert _repeats(script, 2, 4, 1, -1) == 2, "B1 F3, then B2 F4; B3 goes on, but F5 is missing"
    assert _repeats(script, 2, 4, 1, 1) == 1
    assert _repeats(script, 2, 4, 1, 0) == 0, "at most as often as others do"
    assert _repeats(script, 3, 4, 1, -1) == 0
    assert _repeats(script, 2, 4, 2, -1) == 0, "not two turns later"


def test_what_is_left_of_a_script_has_earlier_turns() -> None:
    script = actions(*["F0", "F1", "B0", "F2", "B1", "F3", "B2", "F4", "B3", "B4", "U4"])
    found = _shortened(script, 2, 4, 1, 2)
    assert found[:-1] == actions(*["F0", "F1", "B0", "F2", "B1", "B2", "U2"])[:-1]
    assert found[-1].turn == 2
    sums = Action(frozenset({Part.WEIGHTS, Part.SUMS}), 0, 9, 9)
    assert _shortened((*script, sums), 2, 4, 1, 2)[-1] == sums._replace(turn=7, round=7)


def test_turns_that_leave_some_out_do_not_say_what_was_before() -> None:
    assert _in_order(actions("F0", "F1", "B0", "F2"))
    assert _in_order(actions("F0", "F3", "B0", "F6", "B3"))
    assert not _in_order(actions("F0", "F1", "F3"))
    assert not _in_order(actions("F1", "F0"))
