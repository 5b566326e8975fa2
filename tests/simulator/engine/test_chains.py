"""Chains of computations against the same operations one by one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.studies.case import Case, step_of
from experiments.studies.model_options import with_options
from hardware import load_array
from planners.order import Kind, Phase
from simulator import DEPLOYED, Operation, Program, Site, Task, Timeline, Worker
from simulator.analysis.critical_path import critical_path
from simulator.engine.chaining import Chaining
from simulator.engine.chains import ON_CORES, ON_MEMORY, Chain, Chains, runs_of
from simulator.engine.jobs import Job, Load
from simulator.engine.replay import run
from tests.simulator.engine.programs import CORE, compute
from workloads import load_network


def rows(timeline: Timeline) -> list[str]:
    """Records and who came, with what they waited for; the order of those at once is free."""
    records = list(timeline)

    def what(row: int) -> object:
        return None if row < 0 else (records[row].resource, records[row].layer, records[row].turn)

    causes = [what(row) for row in timeline.columns.cause]
    came = [
        (worker, what(row), what(cause)) for worker, row, cause in zip(*timeline.joins, strict=True)
    ]
    every = zip(records, causes, strict=True)
    return [*sorted(map(str, every)), *sorted(map(str, came))]


def sent(name: str, level: int = 0) -> Operation:
    return Operation(Kind.SUMS, Phase.FORWARD, name, level, 7)


def test_runs_end_before_what_needs_an_exchange() -> None:
    template = (
        Task(compute("a", 1)),
        Task(compute("b", 1), (0,)),
        Task(sent("x"), (1,), 2),
        Task(compute("c", 1), (1,)),
        Task(compute("d", 1), (3, 2)),
        Task(compute("e", 1), (4,)),
    )
    assert runs_of(template, range(6)) == [(0, 1), (2,), (3,), (4, 5)]


def test_what_a_line_before_has_waited_for_ends_no_run() -> None:
    template = (
        Task(compute("a", 1)),
        Task(sent("x"), (0,), 2),
        Task(sent("y"), (0,), 2),
        Task(compute("b", 1), (1,)),
        Task(compute("c", 1), (0, 1)),
        Task(compute("d", 1), (2,)),
        Task(compute("e", 1), (1, 2)),
    )
    assert runs_of(template, range(7)) == [(0,), (1,), (2,), (3, 4), (5, 6)]
    # b does not wait for x where that comes later, so c has to, and a with it cannot go on
    assert runs_of(template, (3, 1, 0, 4, 6)) == [(3,), (1,), (0,), (4,), (6,)]


def test_exchanges_with_nobody_else_go_with_what_is_in_turn() -> None:
    def template(*needs: tuple[int, ...], parties: int = 1) -> tuple[Task, ...]:
        kinds = compute("a", 1), sent("x"), compute("b", 1), sent("y")
        of = 0, parties, 0, parties
        return tuple(Task(kinds[i], needs[i], of[i]) for i in range(4))

    in_turn = ((), (0,), (1,), (2,))
    assert runs_of(template(*in_turn), range(4)) == [(0, 1, 2, 3)]
    assert runs_of(template(*in_turn), range(3)) == [(0,), (1,), (2,)]  # not all of it
    assert runs_of(template(*in_turn, parties=2), range(4)) == [(0,), (1,), (2,), (3,)]
    # b goes on while x does
    assert runs_of(template((), (0,), (0,), (2,)), range(4)) == [(0,), (1,), (2,), (3,)]
    wired = replace(sent("x"), jobs=(Job("x", Load(np.array([0]), np.ones(1)), 1.0, 0.0),))
    carried = [
        task._replace(operation=wired) if task.parties else task for task in template(*in_turn)
    ]
    assert runs_of(carried, range(4)) == [(0,), (1,), (2,), (3,)]
    elsewhere = [task._replace(site=1) if task.parties else task for task in template(*in_turn)]
    assert runs_of(elsewhere, range(4)) == [(0,), (1,), (2,), (3,)]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Two cores that compute, and exchange now and then, with an HBM each.

    Exchanges are of both, or of one with itself at a site of its own; in some programs
    every line waits for the one before, in some the second core is slow.
    Nothing takes no time: of what ends at once either may be named as waited for.
    """
    count, in_turn, slow = draw(st.integers(1, 12)), draw(st.booleans()), draw(st.booleans())
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
            Worker(CORE, tuple(tasks), above, first=number, unit="core", hbm=number, pace=pace)
        )
    return Program(tuple(workers), (Site(0), Site(1), Site(1)), hbms=(2e12, 3e12))


@settings(max_examples=60, deadline=None)
@given(programs())
def test_a_chain_is_its_operations_one_by_one(program: Program) -> None:
    together = run(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chaining, "chain", lambda *_: None)
        apart = run(program)
    assert rows(together) == rows(apart)
    assert together.makespan_ps == apart.makespan_ps
    assert together.memory_bytes == apart.memory_bytes
    assert together.events <= apart.events
    assert list(together.columns.end) == sorted(together.columns.end)
    assert list(together.joins.row) == sorted(together.joins.row)


@pytest.mark.parametrize("schedule", ["1f1b", "zero-bubble", "pipedream"])
def test_a_pipeline_in_chains(schedule: str) -> None:
    options = {"stages": "4", "micro_batches": "8", "schedule": schedule}
    case = Case(
        load_network("resnet18"),
        "data_parallel",
        load_array("tpu-v3-8"),
        256,
        execution=with_options(DEPLOYED, options),
    )
    _, together = step_of(case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chaining, "chain", lambda *_: None)
        _, apart = step_of(case)
    assert together.events < apart.events
    assert rows(together) == rows(apart)
    # which of two records that end at once is on the path is free, how long it is is not
    assert critical_path(together)[-1].end_ps == critical_path(apart)[-1].end_ps


def test_a_chain_takes_what_its_operations_take() -> None:
    operations = [compute("a", 5), compute("b", 3, hbm_bytes=20.0), compute("c", 0)]
    chain = Chain(operations, (0, 1, 2), 2e12, {operations[1]: 3})
    assert list(zip(chain.begin, chain.end, strict=True)) == [
        (0, 5),
        (5, 15),  # 20 B at 2 TB/s are 10 ps
        (15, 15),
        (5, 15),  # the 20 B
    ]
    assert (chain.duration_ps, chain.hbm_bytes) == (15, 20.0)
    assert (list(chain.numbers), list(chain.after)) == ([0, 1, 2, 3], [-1, 0, 1, 0])
    assert (chain.computes, chain.on) == ([0, 1, 2], [*[ON_CORES] * 3, ON_MEMORY])


def test_exchanges_of_a_chain_are_on_the_links_of_their_levels() -> None:
    chain = Chain([compute("a", 5), sent("x", 1), sent("y", 0)], (0, 1, 2), links=(7, 8))
    assert (chain.computes, chain.on) == ([0], [ON_CORES, 8, 7])
    assert chain.duration_ps == 19


def test_lines_of_chains_are_on_cores_memories_and_links() -> None:
    operations = [compute("a", 5, hbm_bytes=2.0), sent("x", 1)]
    chains, chain = Chains(), Chain(operations, (0, 1), 1e12, {operations[0]: 2}, links=(7, 8))
    chains.write(chain, (3, 20, 21), 0, 0, 99, 0)
    found = chains.unroll()
    assert found.resource.tolist() == [20, 8, 21]
    assert (found.met.tolist(), found.moved.tolist()) == ([0, 1, 0], [0, 0, 1])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50)), min_size=1, max_size=6))
def test_chains_are_unrolled_line_by_line(written: list[tuple[int, int]]) -> None:
    """Against a loop; between two of them numbers are left for others."""
    every = [Chain([compute("a", i + k) for i in range(k + 1)], range(k + 1)) for k in range(3)]
    chains, expected, first = Chains(), list[tuple[int, ...]](), 0
    for turn, (which, start) in enumerate(written):
        chain = every[which]
        chains.write(chain, (turn, 20, 21), turn, start, 99, first)
        for i in range(len(chain.numbers)):
            begin, end = start + chain.begin[i], start + chain.end[i]
            expected.append((first + i, i, turn, begin, end, first + i - 1 if i else 99))
        first += len(chain.numbers) + turn
    found = chains.unroll()
    lines = (column.tolist() for column in (found.number, *found.said))
    assert list(zip(*lines, strict=True)) == expected
    assert found.worker.tolist() == [turn for _, _, turn, *_ in expected]
    assert chains.lines == len(expected)
    assert len(chains) == len(written)
