"""Random programs of computations and exchanges, against a pass that needs no events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from simulator import Communicator, Machine, Operation, Program, Task, Timeline, Worker
from simulator.analysis.critical_path import critical_path
from simulator.engine.machine import Process
from simulator.engine.records import NO_ROW
from simulator.engine.replay import replay
from tests.simulator.engine.programs import CORE, compute, exchange
from tests.simulator.slow_engine import Item, times

Slow = list[list[int]]


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Item], int, Slow]:
    """Items of up to five workers, turns, and how much slower each worker is in each."""
    count, micro_batches = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    items: list[Item] = []
    for place in range(draw(st.integers(1, 14))):
        together = count > 1 and draw(st.booleans())
        size = draw(st.integers(2, count)) if together else 1
        workers = tuple(sorted(draw(st.permutations(range(count)))[:size]))
        needs = tuple(
            tuple(sorted(draw(st.sets(st.sampled_from(mine))))) if mine else ()
            for worker in workers
            for mine in [[i for i, item in enumerate(items) if worker in item.workers]]
        )
        duration = draw(st.integers(0, 9))
        items.append(Item(f"{place}", workers, duration, needs, together))
    slow = [[draw(st.integers(1, 3)) for _ in range(micro_batches)] for _ in range(count)]
    return items, micro_batches, slow


def written(items: Sequence[Item], slow: Slow) -> Program:
    """The same as templates: every worker's own lines, which name its own earlier ones."""
    operations: list[Operation] = [
        (exchange if item.exchange else compute)(item.name, item.duration) for item in items
    ]

    def pace_of(worker: int) -> Callable[[int], float]:
        return lambda micro_batch: slow[worker][micro_batch]

    workers = []
    for worker in range(len(slow)):
        line: dict[int, int] = {}
        template = []
        for place, item in enumerate(items):
            if worker in item.workers:
                mine = item.needs[item.workers.index(worker)]
                parties = len(item.workers) if item.exchange else 0
                template.append(Task(operations[place], tuple(line[i] for i in mine), parties))
                line[place] = len(line)
        workers.append(
            Worker(CORE, tuple(template), (0,), first=worker, unit="core", pace=pace_of(worker))
        )
    return Program(tuple(workers), (Communicator(0),))


def played(program: Program, micro_batches: int) -> Timeline:
    machine = Machine(program)

    def control(worker: int) -> Process:
        for micro_batch in range(micro_batches):
            yield from replay(machine, worker, micro_batch)

    for worker in range(len(program.workers)):
        machine.process(control(worker), worker)
    return machine.run()


@given(programs())
def test_everything_happens_when_the_slow_reference_says(
    case: tuple[list[Item], int, Slow],
) -> None:
    items, micro_batches, slow = case
    timeline = played(written(items, slow), micro_batches)
    wanted = {
        (
            "link0.0" if items[place].exchange else f"core{items[place].workers[0]}.core",
            items[place].name,
            micro_batch,
            start,
            end,
        )
        for (micro_batch, place), (start, end) in times(items, micro_batches, slow).items()
    }
    records = [(r.resource, r.layer, r.micro_batch, r.start_ps, r.end_ps) for r in timeline]
    assert set(records) == wanted
    assert len(records) == len(wanted)


@given(programs())
def test_everything_begins_when_its_cause_ends(case: tuple[list[Item], int, Slow]) -> None:
    items, micro_batches, slow = case
    timeline = played(written(items, slow), micro_batches)
    _, _, _, starts, ends, causes = timeline.columns
    for start, cause in zip(starts, causes, strict=True):
        assert start == (0 if cause == NO_ROW else ends[cause])
    path = critical_path(timeline)
    assert sum(segment.duration_ps for segment in path) == timeline.iteration_ps


@given(programs())
def test_whoever_is_slower_in_nothing_delays_nobody(case: tuple[list[Item], int, Slow]) -> None:
    """Times never fall when something takes longer: no schedule of ours profits from delay."""
    items, micro_batches, slow = case
    before = played(written(items, slow), micro_batches).iteration_ps
    longer = [replace(item, duration=item.duration + 1) for item in items]
    assert played(written(longer, slow), micro_batches).iteration_ps >= before
    worse = [[pace + 1 for pace in paces] for paces in slow]
    assert played(written(items, worse), micro_batches).iteration_ps >= before
