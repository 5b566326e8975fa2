"""Steps whose micro-batches repeat, against the same with every micro-batch followed."""

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import Phase as Generate
from hypothesis import given, settings

from experiments.studies.case import Case, plan_of
from experiments.studies.options import with_options
from hardware import load_array
from planners import AXES
from planners.order import Kind, Phase
from simulator import Communicator, Operation, Program, Task, Worker, deployed, program_of
from simulator.engine import VARIABLE
from simulator.engine.errors import DeadlockError, SimulationError
from simulator.engine.operations import SEND, Instruction, Part, RankProgram, Sent
from simulator.engine.records import Columns
from simulator.engine.repeats import _rhythm
from simulator.engine.replay import run
from tests.simulator.engine.programs import CORE, compute
from tests.simulator.engine.same_run import assert_same_run
from tests.simulator.engine.test_blocks import pipelines, rows
from tests.simulator.lowering.random_pipelines import longer, random_case
from tests.simulator.lowering.slow_pipeline import ends_of
from workloads import load_network

FLUSHING = [seed for seed in range(48) if seed % 6 in (1, 2, 3)]
"""1F1B, interleaved and zero-bubble schedules."""


def of_random(seed: int, times: int) -> tuple[Program, int]:
    """A random pipeline with more micro-batches; when it ends by the slow implementation."""
    case = longer(random_case(seed), times)
    return program_of(case.network, case.plan, case.array, case.execution), ends_of(case.slow)[0]


@pytest.mark.parametrize("seed", FLUSHING)
def test_random_pipelines(seed: int) -> None:
    """As the slow implementation has them, and record by record as without repeats."""
    program, ends_ps = of_random(seed, 12)
    found = run(program)
    assert found.makespan_ps == ends_ps
    assert_same_run(found, run(program, repeat=False))


def test_most_of_them_repeat() -> None:
    saved = Counter[bool]()
    for seed in FLUSHING:
        program, _ = of_random(seed, 12)
        saved[run(program).events < 0.8 * run(program, repeat=False).events] += 1
    assert saved[True] > 2 * saved[False]


@settings(max_examples=60, deadline=None, phases=[Generate.generate])
@given(pipelines(most=40))
def test_two_workers_on_few_links(program: Program) -> None:
    """Whatever their rhythm is, and whether there is one."""
    found, every = run(program), run(program, repeat=False)
    assert rows(found) == rows(every)
    assert found.makespan_ps == every.makespan_ps
    assert found.moved == pytest.approx(every.moved)
    assert found.memory_bytes == pytest.approx(every.memory_bytes)


@pytest.mark.parametrize(
    ("axes", "more"),
    [
        ("pp=4,tp=2,dp=2", {}),
        ("pp=2,vp=2,tp=4,dp=2,sp", {}),
        ("pp=4,tp=4", {"schedule": "zero-bubble", "recompute": "full"}),
        ("dp=8,tp=2", {"update": "weights"}),
    ],
)
def test_plans_by_axes(axes: str, more: dict[str, str]) -> None:
    on = load_array("h100-cluster", ["nodes=2"])
    options = {"parallel": axes, "tied": "copies", "micro_batch": "1"} | more
    network = load_network("llama3-8b:layers=4:seq=64")
    execution = with_options(deployed(on), options)
    case = Case(network, AXES, on, 256, execution=execution)
    program = program_of(network, plan_of(case), on, execution)
    found, every = run(program), run(program, repeat=False)
    assert found.events < 0.7 * every.events
    assert_same_run(found, every)


def two_stages(times: tuple[int, int], micro_batches: int, send_ps: int = 1) -> Program:
    """Two workers in 1F1B: what each computes of a micro-batch, there and back, and its send."""
    sends = [Operation(SEND, Phase.FORWARD, f"s{i}", duration_ps=send_ps, level=0) for i in (0, 1)]
    forward, back = frozenset({Part.FORWARD}), frozenset({Part.BACKWARD})
    ahead = [Instruction(forward, 0, n) for n in range(micro_batches)]
    behind = [Instruction(back, 0, n) for n in range(micro_batches)]
    second = [one for pair in zip(ahead, behind, strict=True) for one in pair]
    pairs = zip(ahead[1:], behind, strict=False)
    first = [ahead[0], *(one for pair in pairs for one in pair), behind[-1]]
    templates = [
        (
            Task(compute("f0", times[0])),
            Task(sends[0], (0,), 1, communicator=0),
            Task(sends[1]),
            Task(compute("b0", times[0]), (2,)),
        ),
        (
            Task(sends[0]),
            Task(compute("f1", times[1]), (0,)),
            Task(compute("b1", times[1]), (1,)),
            Task(sends[1], (2,), 1, communicator=0),
        ),
    ]
    workers = [
        Worker(
            CORE,
            template,
            first=number,
            unit="core",
            rank_program=RankProgram(
                tuple(second if number else first),
                {(0, Part.FORWARD): (0, 1), (0, Part.BACKWARD): (2, 3)},
                {op: (Sent(op, 0),) for op in sends},
                rank=number,
                versions=dict.fromkeys(range(micro_batches), 0),
            ),
        )
        for number, template in enumerate(templates)
    ]
    return Program(tuple(workers), (Communicator(0, name="between"),))


def test_by_hand() -> None:
    """A micro-batch takes what the slower of two stages computes, 2 x 7 ps.

    First and last the other computes 2 x 3 more, and what it sends takes 1 each way.
    """
    program = two_stages((3, 7), 100)
    found = run(program)
    assert found.makespan_ps == 100 * 14 + 2 * (3 + 1)
    assert found.events < 0.2 * run(program, repeat=False).events
    assert_same_run(found, run(program, repeat=False))


@pytest.mark.parametrize("late", [60, 99])
def test_a_micro_batch_that_takes_longer_is_not_passed_over(late: int) -> None:
    program = two_stages((3, 7), 100)
    first, second = program.workers
    slow = replace(second, pace=lambda n: 2.0 if n == late else 1.0)
    assert run(replace(program, workers=(first, slow))).makespan_ps == 100 * 14 + 8 + 14


def test_what_has_begun_long_before_is_not_passed_over() -> None:
    """Beside the micro-batches something goes on that the last one waits for."""
    program = two_stages((3, 7), 100)
    first, second = program.workers
    long = Operation(Kind.SUMS, Phase.FORWARD, "long", duration_ps=5000, level=0)
    way = second.rank_program
    assert way is not None
    begin = Instruction(frozenset({Part.NEW_WEIGHTS}), 0, 0)
    lines = {**way.lines, (0, Part.NEW_WEIGHTS): (4,), (0, Part.UPDATE): (5,)}
    last = Instruction(frozenset({Part.NEW_WEIGHTS, Part.UPDATE}), 0, 99)
    template = (
        *second.template,
        Task(long, (), 1, communicator=0),
        Task(compute("end", 1), (4,)),
    )
    way = replace(way, instructions=(begin, *way.instructions, last), lines=lines)
    workers = (first, replace(second, template=template, rank_program=way))
    asked = replace(program, workers=workers)
    assert_same_run(run(asked), run(asked, repeat=False))


def with_route(program: Program, *, every: int) -> Program:
    """The first stage's sends take another way, which takes longer, every so many micro-batches."""
    first, second = program.workers
    usual = next(iter(routes_of(first)))
    slow = replace(usual, layer="slow", duration_ps=50)
    ways = (*[Sent(usual, 0)] * (every - 1), Sent(slow, 0))

    def rerouted(worker: Worker) -> Worker:
        way = worker.rank_program
        assert way is not None
        return replace(worker, rank_program=replace(way, routes={**way.routes, usual: ways}))

    return replace(program, workers=(rerouted(first), rerouted(second)))


def routes_of(worker: Worker) -> Mapping[Operation, tuple[Sent, ...]]:
    assert worker.rank_program is not None
    return worker.rank_program.routes


@pytest.mark.parametrize("every", [2, 3, 20])
def test_ways_that_are_seldom_taken_are_not_passed_over(every: int) -> None:
    program = with_route(two_stages((3, 7), 200), every=every)
    assert_same_run(run(program), run(program, repeat=False))


@pytest.mark.parametrize("micro_batches", [1000, 20_000])
def test_a_run_beyond_all_times_is_refused(micro_batches: int) -> None:
    """What is followed of it is not: of 1,000 the sum is too long, of 20,000 what is copied."""
    program = two_stages((3 * 66 * 10**13, 7 * 66 * 10**13), micro_batches)
    with pytest.raises(SimulationError, match="more than 106 days"):
        run(program)


def test_who_waits_for_ever_does_so_when_all_is_done() -> None:
    """The last micro-batch is never sent: the error has the time without repeats."""
    program = two_stages((3, 7), 100)
    first, second = program.workers
    way = first.rank_program
    assert way is not None
    unsent = replace(way, instructions=tuple(i for i in way.instructions if str(i) != "F99"))
    asked = replace(program, workers=(replace(first, rank_program=unsent), second))
    said = []
    for repeat in (True, False):
        with pytest.raises(DeadlockError) as error:
            run(asked, repeat=repeat)
        said.append(str(error.value))
    assert said[0] == said[1]


def columns(*periods: tuple[tuple[int, ...], ...]) -> Columns:
    """Records of periods, a line each."""
    return Columns(*(array("q", values) for values in zip(*sum(periods, ()), strict=True)))


def period(turn: int) -> tuple[tuple[int, ...], ...]:
    """Resource, operation, micro-batch, start, end and cause of two records."""
    return (
        (0, 5, turn, 10 * turn, 10 * turn + 4, 2 * turn - 1),
        (1, 6, turn, 10 * turn + 4, 10 * turn + 9, 2 * turn),
    )


def test_three_periods_are_a_rhythm() -> None:
    three = [period(turn) for turn in (1, 2, 3)]
    found = _rhythm(columns(*three), 1)
    assert found is not None
    assert (found.begin, found.end, found.span_ps) == (4, 6, 10)
    assert _rhythm(columns(*three[:2]), 1) is None


@pytest.mark.parametrize("field", range(6))
@pytest.mark.parametrize("turn", range(3))
def test_what_differs_in_anything_is_none(turn: int, field: int) -> None:
    three = [period(turn) for turn in (1, 2, 3)]
    first, second = three[turn]
    other = tuple(value + (place == field) for place, value in enumerate(second))
    three[turn] = (first, other)
    assert _rhythm(columns(*three), 1) is None


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    program = two_stages((3, 7), 100)
    monkeypatch.setenv(VARIABLE, "repeats")
    assert run(program).events == run(program, repeat=False).events


def test_few_micro_batches_are_followed() -> None:
    program = two_stages((3, 7), 5)
    assert run(program).events == run(program, repeat=False).events
