"""Blocks of computations against the same operations one by one."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import Phase as Generate
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.studies.case import Case, plan_of, step_of
from experiments.studies.options import with_options
from hardware import load_array
from planners import AXES
from planners.order import Kind, Phase
from simulator import (
    DEPLOYED,
    Communicator,
    Operation,
    Program,
    Task,
    Timeline,
    Worker,
    deployed,
    program_of,
)
from simulator.analysis.critical_path import critical_path
from simulator.engine import VARIABLE
from simulator.engine.blocks import Block, BlockLog, Timed, blocks_of
from simulator.engine.jobs import Job, Links, Load
from simulator.engine.operations import Instruction, Part, RankProgram
from simulator.engine.replay import run
from tests.simulator.engine.programs import CORE, compute
from tests.simulator.engine.same_run import assert_same_sums
from tests.simulator.lowering.random_pipelines import random_case
from tests.simulator.lowering.slow_pipeline import ends_of
from workloads import load_network


def rows(timeline: Timeline) -> list[str]:
    """Records and who came, with what they waited for; the order of those at once is free."""
    records = list(timeline)

    def what(row: int) -> object:
        return (
            None
            if row < 0
            else (records[row].resource, records[row].layer, records[row].micro_batch)
        )

    causes = [what(row) for row in timeline.columns.cause]
    came = [
        (worker, what(row), what(cause))
        for worker, row, cause in zip(*timeline.participants, strict=True)
    ]
    every = zip(records, causes, strict=True)
    return [*sorted(map(str, every)), *sorted(map(str, came))]


def sent(name: str, level: int = 0) -> Operation:
    return Operation(Kind.SUMS, Phase.FORWARD, name, level, 7)


LINKS = Links(np.array([1e12, 2e12, 4e12]))


def job(link: int, size: float, latency_s: float = 0.0) -> Job:
    return Job("x", Load(np.array([link]), np.ones(1)), size, latency_s)


def carried(name: str, *jobs: Job, level: int = 0) -> Operation:
    return Operation(Kind.SUMS, Phase.FORWARD, name, level, jobs=jobs)


def test_blocks_end_before_what_needs_an_exchange() -> None:
    template = (
        Task(compute("a", 1)),
        Task(compute("b", 1), (0,)),
        Task(sent("x"), (1,), 2),
        Task(compute("c", 1), (1,)),
        Task(compute("d", 1), (3, 2)),
        Task(compute("e", 1), (4,)),
    )
    assert blocks_of(template, range(6)) == [(0, 1), (2,), (3,), (4, 5)]


def test_what_a_line_before_has_waited_for_ends_no_block() -> None:
    template = (
        Task(compute("a", 1)),
        Task(sent("x"), (0,), 2),
        Task(sent("y"), (0,), 2),
        Task(compute("b", 1), (1,)),
        Task(compute("c", 1), (0, 1)),
        Task(compute("d", 1), (2,)),
        Task(compute("e", 1), (1, 2)),
    )
    assert blocks_of(template, range(7)) == [(0,), (1,), (2,), (3, 4), (5, 6)]
    # b does not wait for x where that comes later, so c has to, and a with it cannot go on
    assert blocks_of(template, (3, 1, 0, 4, 6)) == [(3,), (1,), (0,), (4,), (6,)]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Two cores that compute, and exchange now and then, with an HBM each.

    Exchanges are of both, or of one with itself at a site of its own; in some programs
    every line waits for the one before, in some the second core is slow, or exchanges slow both.
    Nothing takes no time: of what ends at once either may be named as waited for.
    """
    count, in_turn, slow = draw(st.integers(1, 12)), draw(st.booleans()), draw(st.booleans())
    contention = draw(st.sampled_from((0.0, 0.5)))
    some = st.lists(st.integers(0, count - 1), max_size=4)
    together, alone = {*draw(some)}, {*draw(some)}
    shared = [sent(f"x{i}") for i in range(count)]
    workers = []
    for number in range(2):
        tasks = []
        for i in range(count):
            before = {draw(st.integers(0, i - 1)) for _ in range(2)} if i else set[int]()
            needs = tuple(sorted(before | {i - 1} if in_turn and i else before))
            if i in together:
                tasks.append(Task(shared[i], needs, 2))
                continue
            if i in alone:
                tasks.append(Task(sent(f"{number} alone {i}", 1), needs, 1))
                continue
            moved = draw(st.sampled_from((0.0, 1.0, 30.0)))
            operation = compute(f"{number}.{i}", draw(st.integers(1, 9)), hbm_bytes=moved)
            tasks.append(Task(operation, needs))
        above, pace = (0, 1 + number), (lambda _: 1.5) if number and slow else None
        workers.append(
            Worker(
                CORE,
                tuple(tasks),
                above,
                first=number,
                unit="core",
                hbm=number,
                pace=pace,
                contention=contention,
            )
        )
    return Program(
        tuple(workers), (Communicator(0), Communicator(1), Communicator(1)), hbms=(2e12, 3e12)
    )


def plainly(run_it: Callable[[], Timeline]) -> Timeline:
    """The same run without blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "blocks")
        return run_it()


@settings(max_examples=40, deadline=None)
@given(programs())
def test_a_block_is_its_operations_one_by_one(program: Program) -> None:
    together, apart = run(program), plainly(lambda: run(program))
    assert rows(together) == rows(apart)
    assert together.makespan_ps == apart.makespan_ps
    assert together.memory_bytes == apart.memory_bytes
    assert together.events <= apart.events
    assert list(together.columns.end) == sorted(together.columns.end)
    assert list(together.participants.row) == sorted(together.participants.row)


@st.composite
def pipelines(draw: st.DrawFn, most: int = 5) -> Program:
    """Two workers that do the same for some micro-batches, with exchanges on few links.

    Some are of one worker on a link of its own, some on one that both use; sums of the
    last micro-batch are under way while it computes. No line takes no time.
    """
    contention = draw(st.sampled_from((0.0, 0.5)))
    micro_batches, count = draw(st.integers(1, most)), draw(st.integers(2, 9))
    workers = []
    for number in range(2):
        tasks: list[Task] = []
        lines: dict[tuple[int, Part], tuple[int, ...]] = {}
        for part in (Part.FORWARD, Part.BACKWARD, Part.WEIGHTS, Part.SUMS):
            first = len(tasks)
            for i in range(count if part is not Part.SUMS else draw(st.integers(0, 2))):
                before = {draw(st.integers(0, len(tasks) - 1)) for _ in range(2)} if tasks else ()
                needs = tuple(sorted(before))
                name = f"{number}{part}{i}"
                if part is Part.SUMS or (needs and draw(st.booleans())):
                    link = draw(st.sampled_from((number, number, 2)))
                    jobs = [job(link, draw(st.integers(1, 30)), 1e-12)]
                    tasks.append(Task(carried(name, *jobs * draw(st.integers(1, 2))), needs, 1))
                else:
                    moved = draw(st.sampled_from((0.0, 1.0, 30.0)))
                    timed = compute(name, draw(st.integers(1, 9)), hbm_bytes=moved)
                    tasks.append(Task(timed, needs))
            lines[0, part] = tuple(range(first, len(tasks)))
        forward, back = frozenset({Part.FORWARD}), frozenset({Part.BACKWARD, Part.WEIGHTS})
        instructions = [
            Instruction(parts, 0, micro_batch)
            for micro_batch in range(micro_batches)
            for parts in (forward, back)
        ]
        instructions[-1] = Instruction(back | {Part.SUMS}, 0, micro_batches - 1, micro_batches - 1)
        way = RankProgram(tuple(instructions), lines)
        above = (number,)
        workers.append(
            Worker(
                CORE,
                tuple(tasks),
                above,
                first=number,
                hbm=number,
                unit="core",
                rank_program=way,
                contention=contention,
            )
        )
    return Program(
        tuple(workers), (Communicator(0), Communicator(0)), links=LINKS, hbms=(2e12, 3e12)
    )


@settings(max_examples=60, deadline=None, phases=[Generate.generate])
@given(pipelines())
def test_a_pipeline_is_its_lines_one_by_one(program: Program) -> None:
    together, apart = run(program), plainly(lambda: run(program))
    assert rows(together) == rows(apart)
    assert together.makespan_ps == apart.makespan_ps
    assert together.moved == pytest.approx(apart.moved)
    assert together.memory_bytes == apart.memory_bytes


@pytest.mark.parametrize("seed", range(24))
def test_random_pipelines(seed: int) -> None:
    """Of all schedules, with replicas, also as the slow implementation has them."""
    case = random_case(seed)
    pipeline = case.plan.pipeline
    assert pipeline is not None
    steps = (case.network, case.plan, case.array, case.execution)
    made = program_of(*steps, batches=pipeline.batches or 1)
    together, apart = run(made), plainly(lambda: run(made))
    assert_same_sums(together, apart)
    assert rows(together) == rows(apart)
    assert together.makespan_ps == ends_of(case.slow)[0]


@pytest.mark.parametrize(
    ("array", "axes", "more"),
    [
        ("h100-cluster", "pp=2,tp=4,dp=2", {}),
        ("h100-cluster", "pp=4,tp=4,sp", {"micro_batch": "1"}),
        ("h100-cluster", "pp=2,tp=8", {"micro_batch": "8"}),
        ("h100-cluster", "pp=2,tp=8,sp", {"recompute": "full", "micro_batch": "1"}),
        ("h100-cluster", "pp=2,tp=2,dp=4", {"update": "gradients"}),
        ("h100-cluster", "pp=2,vp=2,tp=4,dp=2", {"micro_batch": "2"}),
        ("h100-cluster", "pp=2,tp=4,cp=2", {"schedule": "zero-bubble"}),
        ("tpu-v3-8", "pp=2,tp=2,dp=2", {}),
    ],
)
def test_plans_by_axes(array: str, axes: str, more: dict[str, str]) -> None:
    nodes = ["nodes=2"] if array == "h100-cluster" else []
    on = load_array(array, nodes)
    options = {"parallel": axes, "tied": "copies"} | more
    case = Case(
        load_network("llama3-8b:layers=4:seq=64"),
        AXES,
        on,
        32,
        execution=with_options(deployed(on), options),
    )
    program = program_of(case.network, plan_of(case), on, case.execution)
    together, apart = run(program), plainly(lambda: run(program))
    assert together.iteration_ps == apart.iteration_ps
    assert_same_sums(together, apart)
    assert rows(together) == rows(apart)
    assert together.events < apart.events


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble", "pipedream"])
def test_a_pipeline_in_blocks(schedule: str) -> None:
    options = {"stages": "4", "micro_batches": "8", "schedule": schedule}
    case = Case(
        load_network("resnet18"),
        "data_parallel",
        load_array("tpu-v3-8"),
        256,
        execution=with_options(DEPLOYED, options),
    )
    together, apart = step_of(case)[1], plainly(lambda: step_of(case)[1])
    assert together.events < apart.events
    assert rows(together) == rows(apart)
    # which of two records that end at once is on the path is free, how long it is is not
    assert critical_path(together)[-1].end_ps == critical_path(apart)[-1].end_ps


def test_a_block_takes_what_its_operations_take() -> None:
    block = Block(
        [
            Timed(compute("a", 5), 0, 5),
            Timed(compute("b", 3, hbm_bytes=20.0), 1, 3, 10, moved=3),
            Timed(compute("c", 0), 2, 0),
        ]
    )
    assert list(zip(block.begin, block.end, strict=True)) == [
        (0, 5),
        (5, 15),  # 20 B at 2 TB/s are 10 ps
        (15, 15),
        (5, 15),  # the 20 B
    ]
    assert (block.count, block.duration_ps, block.hbm_bytes) == (3, 15, 20.0)
    assert (block.numbers, block.after) == ([0, 1, 2, 3], [-1, 0, 1, 0])
    assert block.moved == [False, False, False, True]


def test_lines_of_blocks_are_on_cores_and_memories() -> None:
    operations = [
        Timed(compute("a", 5, hbm_bytes=2.0), 0, 5, 2, moved=2),
        Timed(compute("b", 1), 1, 1),
    ]
    log, block = BlockLog(), Block(operations)
    log.write(block, (20, 21), 0, 0, 99, 0)
    found = log.unroll()
    assert found.resource.tolist() == [20, 20, 21]
    assert found.moved.tolist() == [0, 0, 1]


def test_sums_of_one_stage_go_behind_those_of_another() -> None:
    """Though those are on a link that is nobody's own."""
    sums = carried("g0", job(2, 99.0)), carried("g1", job(0, 3.0))
    tasks = (
        Task(compute("a", 1)),
        Task(sums[0], (0,), 1),
        Task(compute("w", 1)),
        Task(sums[1], (2,), 1),
        Task(compute("u", 1), (3,)),
    )
    lines = {
        (0, Part.WEIGHTS): (0,),
        (0, Part.SUMS): (1,),
        (1, Part.WEIGHTS): (2,),
        (1, Part.SUMS): (3,),
        (1, Part.UPDATE): (4,),
    }
    every = frozenset({Part.WEIGHTS, Part.SUMS, Part.UPDATE})
    itinerary = RankProgram((Instruction(every, 0, 0), Instruction(every, 1, 0)), lines)
    first = Worker(CORE, tasks, (0,), unit="core", rank_program=itinerary)
    other = Worker(CORE, (Task(carried("o", job(2, 1.0)), (), 1),), (0,), first=1, unit="core")
    found = run(Program((first, other), (Communicator(0),), links=LINKS))
    ends = {record.layer: record.end_ps for record in found}
    assert ends["g1"] == ends["g0"] + 3


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), min_size=1, max_size=6))
def test_blocks_are_unrolled_line_by_line(written: list[tuple[int, int]]) -> None:
    """Against a loop; between two of them numbers are left for others."""
    every = [Block([Timed(compute("a", 0), i, i + k) for i in range(k + 1)]) for k in range(3)]
    log, expected, first = BlockLog(), list[tuple[int, ...]](), 0
    for micro_batch, (which, start) in enumerate(written):
        block = every[which]
        log.write(block, (20, 21), micro_batch, start, 99, first)
        for i in range(len(block.numbers)):
            begin, end = start + block.begin[i], start + block.end[i]
            expected.append((first + i, i, micro_batch, begin, end, first + i - 1 if i else 99))
        first += len(block.numbers) + micro_batch
    found = log.unroll()
    lines = (column.tolist() for column in (found.number, *found.said))
    assert list(zip(*lines, strict=True)) == expected
    assert log.lines == len(expected)
    assert len(log) == len(written)
