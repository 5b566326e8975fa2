"""Passes with their own exchanges in one go, against the same passes line by line."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase as Generate
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.studies.case import Case, plan_of
from experiments.studies.model_options import with_options
from hardware import load_array
from planners import AXES
from planners.order import Kind, Phase
from simulator import Operation, Program, Site, Task, Timeline, Worker, deployed, program_of
from simulator.engine.chaining import Chaining
from simulator.engine.jobs import Job, Load
from simulator.engine.links import EveryLink
from simulator.engine.operations import Action, Itinerary, Part
from simulator.engine.own_links import lasting
from simulator.engine.replay import run
from simulator.engine.stretches import Known, Stretch, Stretches
from tests.simulator.engine.programs import CORE, compute
from tests.simulator.engine.same_run import assert_same_sums
from tests.simulator.engine.test_chains import rows
from workloads import load_network

LINKS = EveryLink(np.array([1e12, 2e12, 4e12]))


def job(link: int, size: float, latency_s: float = 0.0) -> Job:
    return Job("x", Load(np.array([link]), np.ones(1)), size, latency_s)


def carried(name: str, *jobs: Job, level: int = 0) -> Operation:
    return Operation(Kind.SUMS, Phase.FORWARD, name, level, jobs=jobs)


def line_by_line(program: Program) -> Timeline:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chaining, "stretches", lambda *_: None)
        return run(program)


def cut(template: tuple[Task, ...], takes: dict[Operation, int]) -> list[tuple[int, ...]]:
    cutting = Stretches(template, lambda one: one.duration_ps, takes, LINKS)
    return [stretch.lines for stretch in cutting.of(range(len(template)))]


def test_how_long_an_exchange_takes_alone() -> None:
    """5 B at 1 B/ps and 3 ps, then 7 B at 2 B/ps: 5 + 3 + 4 ps; what others touch is left out."""
    x = carried("x", job(0, 5.0, 3e-12), job(1, 7.0))
    mine, theirs, both = carried("mine", job(1, 1.0)), carried("theirs", job(2, 1.0)), carried("y")
    workers = (
        Worker(CORE, (Task(x, (), 1), Task(mine, (), 1), Task(theirs, (), 1), Task(both, (), 2))),
        Worker(CORE, (Task(carried("z", job(2, 1.0)), (), 1), Task(both, (), 2)), first=1),
    )
    program = Program(workers, (Site(0),))
    assert lasting(program, LINKS) == {x: 12, mine: 1}
    sent = Task(carried("replicas", job(1, 1.0)), (), 1, site=0)
    touched = replace(workers[0], template=(*workers[0].template, sent))
    assert lasting(replace(program, workers=(touched, workers[1])), LINKS) == {}
    assert lasting(replace(program, shared_memory=True), LINKS) == {}


def test_where_stretches_end() -> None:
    x, y, z = carried("x", job(0, 5.0)), carried("y", job(0, 50.0)), carried("z", job(1, 5.0))
    takes = {x: 5, y: 50, z: 3}
    a, b, c = (compute(name, 9) for name in "abc")
    whole = (Task(a), Task(x, (0,), 1), Task(b, (0,)), Task(c, (1,)))
    assert cut(whole, takes) == [(0, 1, 2, 3)]
    # y goes on behind b, so that b cannot end it; whoever waits for it can
    assert cut((Task(a), Task(y, (0,), 1), Task(b, (0,))), takes) == [(0,), (1,), (2,)]
    assert cut((Task(a), Task(y, (0,), 1), Task(b, (1,))), takes) == [(0, 1, 2)]
    # two at once on one link are for the links to say, on two links they are not
    assert cut((Task(a), Task(y, (0,), 1), Task(x, (0,), 1), Task(b, (1, 2))), takes)[0] == (0,)
    four = (Task(a), Task(y, (0,), 1), Task(z, (0,), 1), Task(b, (1, 2)))
    assert cut(four, takes) == [(0, 1, 2, 3)]
    # what comes from elsewhere is waited for by the first line, or by one before
    sent = Operation(Kind.SEND, Phase.FORWARD, "s")
    late = (Task(sent), Task(a), Task(b, (0,)), Task(x, (2,), 1), Task(c, (0, 3)))
    assert cut(late, takes) == [(0,), (1,), (2, 3, 4)]
    assert cut((Task(a), Task(x, (0,), 2), Task(b, (1,))), takes) == [(0,), (1,), (2,)]
    # x may take longer than it takes alone: only what a computation has waited for is over
    again = (Task(a), Task(x, (0,), 1), Task(b, (0,)), Task(sent), Task(c), Task(a, (1,)))
    assert cut(again, takes) == [(0, 1, 2), (3,), (4,), (5,)]
    cutting = Stretches(whole, lambda one: one.duration_ps, takes, LINKS)
    assert cutting.of(range(4)) == [Stretch((0, 1, 2, 3), ((), (0,), (0,), (1,)))]


def test_lines_of_those_that_are_alike_are_cut_once() -> None:
    """Whatever links they are on; but not where one takes longer, or two are on one link."""
    known: Known = {}
    alike = EveryLink(np.full(3, 1e12))

    def found(links: tuple[int, int], takes_ps: int = 5) -> list[Stretch]:
        x, y = carried("x", job(links[0], 5.0)), carried("y", job(links[1], 5.0))
        a, b = compute("a", 9), compute("b", 9)
        template = (Task(a), Task(x, (0,), 1), Task(y, (0,), 1), Task(b, (1, 2)))
        takes = {x: takes_ps, y: 3}
        cutting = Stretches(template, lambda one: one.duration_ps, takes, alike, known=known)
        return cutting.of(range(4))

    assert found((0, 1)) is found((1, 2))
    assert len(known) == 1
    assert [one.lines for one in found((0, 1))] == [(0, 1, 2, 3)]
    assert found((0, 0)) != found((0, 1))
    assert found((0, 1), 6) is not found((0, 1))


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Two workers that do the same for some micro-batches, with exchanges on few links.

    Some are of one worker on a link of its own, some on one that both use; sums of the
    last micro-batch are under way while it computes. No line takes no time.
    """
    turns, count = draw(st.integers(1, 5)), draw(st.integers(2, 9))
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
        actions = [Action(parts, 0, turn) for turn in range(turns) for parts in (forward, back)]
        actions[-1] = Action(back | {Part.SUMS}, 0, turns - 1, turns - 1)
        way = Itinerary(tuple(actions), lines)
        above = (number,)
        workers.append(
            Worker(CORE, tuple(tasks), above, first=number, hbm=number, unit="core", itinerary=way)
        )
    return Program(tuple(workers), (Site(0), Site(0)), links=LINKS, hbms=(2e12, 3e12))


@settings(max_examples=100, deadline=None, phases=[Generate.generate])
@given(programs())
def test_a_stretch_is_its_lines_one_by_one(program: Program) -> None:
    together, apart = run(program), line_by_line(program)
    assert rows(together) == rows(apart)
    assert together.makespan_ps == apart.makespan_ps
    assert together.moved == pytest.approx(apart.moved)
    assert together.memory_bytes == apart.memory_bytes


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
    together, apart = run(program), line_by_line(program)
    assert together.iteration_ps == apart.iteration_ps
    assert_same_sums(together, apart)
    assert rows(together) == rows(apart)
    assert together.events <= apart.events
    if axes == "pp=2,tp=4,dp=2":
        assert together.events < 0.7 * apart.events
    if axes == "pp=2,tp=8":  # what is sent in parts is gathered in the passes' own events
        gathers = [
            one for one in program.workers[1].template if " to stage " in one.operation.layer
        ]
        assert [one.operation.kind for one in gathers[:2]] == [Kind.SEND, Kind.BOUNDARY]
        assert together.events < 0.4 * apart.events
