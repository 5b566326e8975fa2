"""Chains of computations against the same operations one by one."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.studies.case import Case, step_of
from experiments.studies.model_options import with_options
from hardware import load_array
from planners.order import Kind, Phase
from simulator import DEPLOYED, Machine, Operation, Program, Site, Task, Timeline, Worker
from simulator.analysis.critical_path import critical_path
from simulator.engine.chains import Chain, runs_of
from simulator.engine.replay import run
from tests.simulator.engine.programs import CORE, compute
from workloads import load_network


def rows(timeline: Timeline) -> list[tuple[object, ...]]:
    """Records with what they waited for, by content; the order of those at once is free."""
    records = list(timeline)

    def what(row: int) -> object:
        return None if row < 0 else (records[row].resource, records[row].layer, records[row].turn)

    causes = [what(row) for row in timeline.columns.cause]
    return sorted(zip(map(str, records), map(str, causes), strict=True))


def sent(name: str) -> Operation:
    return Operation(Kind.SUMS, Phase.FORWARD, name, 0, 7)


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


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Two cores that compute, and exchange now and then, with an HBM each.

    Nothing takes no time: of what ends at once either may be named as waited for.
    """
    count = draw(st.integers(1, 12))
    exchanges = {draw(st.integers(0, count - 1)) for _ in range(draw(st.integers(0, 3)))}
    shared = [sent(f"x{i}") for i in range(count)]
    workers = []
    for number in range(2):
        tasks = []
        for i in range(count):
            needs = tuple({draw(st.integers(0, i - 1)) for _ in range(2)}) if i else ()
            if i in exchanges:
                tasks.append(Task(shared[i], tuple(sorted(needs)), 2))
                continue
            moved = draw(st.sampled_from((0.0, 1.0, 30.0)))
            operation = compute(f"{number}.{i}", draw(st.integers(1, 9)), hbm_bytes=moved)
            tasks.append(Task(operation, tuple(sorted(needs))))
        workers.append(Worker(CORE, tuple(tasks), (0,), first=number, unit="core", hbm=number))
    return Program(tuple(workers), (Site(0),), hbms=(2e12, 3e12))


@settings(max_examples=60, deadline=None)
@given(programs())
def test_a_chain_is_its_operations_one_by_one(program: Program) -> None:
    together = run(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Machine, "chain", lambda *_: None)
        apart = run(program)
    assert rows(together) == rows(apart)
    assert together.makespan_ps == apart.makespan_ps
    assert together.memory_bytes == apart.memory_bytes
    assert together.events <= apart.events
    assert list(together.columns.end) == sorted(together.columns.end)


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
        patch.setattr(Machine, "chain", lambda *_: None)
        _, apart = step_of(case)
    assert together.events < apart.events
    assert rows(together) == rows(apart)
    # which of two records that end at once is on the path is free, how long it is is not
    assert critical_path(together)[-1].end_ps == critical_path(apart)[-1].end_ps


def test_a_chain_takes_what_its_operations_take() -> None:
    operations = [compute("a", 5), compute("b", 3, hbm_bytes=20.0), compute("c", 0)]
    chain = Chain(operations, (0, 1, 2), 2e12, (3, 4, 5))
    assert chain.offsets == (0, 5, 15, 15)  # 20 B at 2 TB/s are 10 ps
    assert (chain.duration_ps, chain.hbm_bytes) == (15, 20.0)
