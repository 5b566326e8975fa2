"""Steps against a list scheduler: everything begins when what it needs is there, and no later.

It knows of a program what each line needs, how long operations take, and that a
worker's cores compute in the order in which that is written; not in which order
lines are come to. Exchanges are given random durations, so that none shares a link.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, by_core
from planners import Plan, Split
from planners.order import Kind, Phase
from planners.partition import II, III, I, Partition, PartitionType
from simulator import Execution, Operation, Program, Record, Task, program_of, simulate
from simulator.engine.replay import run
from tests.simulator.lowering.test_whole_shards import boards, chain
from tests.strategies import arrays, networks, plans
from workloads import Network

Line = tuple[int, int]
"""A worker, and which line of its template."""


def scheduled(program: Program) -> dict[Line, tuple[int, int]]:
    """Start and end of every line, line by line until all are known."""
    templates = [worker.template for worker in program.workers]
    met: dict[tuple[int, int], list[Line]] = defaultdict(list)
    known: dict[Line, tuple[int, int]] = {}
    waiting: list[Line] = []
    for w, worker in enumerate(program.workers):
        for i, task in enumerate(worker.template):
            waiting.append((w, i))
            if task.parties:
                site = worker.communicators[task.operation.level]
                met[id(task.operation), site].append((w, i))

    def before(line: Line) -> list[Line]:
        """What must be over: for an exchange, of all who take part."""
        w, i = line
        task = templates[w][i]
        if task.parties:
            together = met[
                id(task.operation), program.workers[w].communicators[task.operation.level]
            ]
            return [(other, j) for other, k in together for j in templates[other][k].needs]
        previous = [j for j in range(i) if not templates[w][j].parties][-1:]
        return [(w, j) for j in (*task.needs, *previous)]

    while waiting:
        left = []
        for line in waiting:
            needed = before(line)
            if all(other in known for other in needed):
                start = max((known[other][1] for other in needed), default=0)
                known[line] = start, start + templates[line[0]][line[1]].operation.duration_ps
            else:
                left.append(line)
        assert len(left) < len(waiting), "nothing can go on"
        waiting = left
    return known


def with_durations(program: Program, seed: int) -> Program:
    """The same program, whose exchanges take so long and load no links."""
    random = np.random.default_rng(seed)
    made: dict[Operation, Operation] = {}

    def other(task: Task) -> Task:
        operation = task.operation
        if operation not in made:
            longest = 3 * 10**6 if task.parties else 10**6
            made[operation] = replace(
                operation, jobs=(), hbm_bytes=0.0, duration_ps=int(random.integers(1, longest))
            )
        return task._replace(operation=made[operation])

    workers = tuple(
        replace(worker, template=tuple(map(other, worker.template))) for worker in program.workers
    )
    return replace(program, workers=workers)


@st.composite
def steps(draw: st.DrawFn) -> tuple[Network, Plan, Array, Execution]:
    network, array = draw(networks(6)), draw(arrays(3, 2))
    execution = Execution("deployed", bucket_bytes=draw(st.sampled_from((0.0, 100.0, 1e9))))
    return network, draw(plans(network, by_core(array), 24)), array, execution


@settings(max_examples=60, deadline=None)
@given(steps(), st.integers(0, 2**32))
def test_everything_begins_when_what_it_needs_is_there(
    case: tuple[Network, Plan, Array, Execution], seed: int
) -> None:
    network, plan, array, execution = case
    program = with_durations(program_of(network, plan, array, execution), seed)
    wanted = scheduled(program)
    timeline = run(program)
    assert timeline.iteration_ps == max((end for _, end in wanted.values()), default=0)
    spans = sorted(
        {(str(program.workers[w].template[i].operation), *span) for (w, i), span in wanted.items()}
    )
    columns, ops = timeline.columns, timeline.operations
    rows = zip(columns.operation, columns.start, columns.end, strict=True)
    assert spans == sorted({(str(ops[index]), start, end) for index, start, end in rows})


def by_hand(*types: tuple[PartitionType, ...]) -> Plan:
    """Four boards and as many layers as there are types for each of two levels."""
    names = tuple(f"fc{i}" for i in range(len(types[0])))
    split: Split | None = None
    for level in reversed(types):
        split = Split(tuple(Partition(kind, 0.5) for kind in level), 0.0, (split,))
    return Plan("by hand", chain(len(names), 32).name, 8, "time", names, split)


def records(plan: Plan, bucket_bytes: float) -> Callable[[Kind, Phase], list[Record]]:
    execution = Execution("deployed", bucket_bytes=bucket_bytes)
    timeline = simulate(chain(len(plan.nodes), 32), plan, boards(4), execution)
    return lambda kind, phase: [r for r in timeline if (r.kind, r.phase) == (kind, phase)]


def test_a_bucket_that_takes_no_more_does_not_wait_for_the_next_layer() -> None:
    """The last layer is summed by all, the one before in halves: two buckets."""
    of = records(by_hand((I, I, I), (I, II, I)), 1e9)
    ends = {r.layer: r.end_ps for r in of(Kind.COMPUTE, Phase.GRADIENT)}
    first, *_ = of(Kind.SUMS, Phase.GRADIENT)
    assert (first.layer, first.start_ps) == ("fc2", ends["fc2"])
    assert ends["fc1"] > ends["fc2"]


@pytest.mark.parametrize(
    ("bucket", "wanted"),
    [(0.5, ["fc2", "fc1", "fc0"]), (0.51, ["fc2 and 1 more", "fc0"]), (1.01, ["fc2 and 2 more"])],
)
def test_a_bucket_is_full_by_what_a_core_sends(bucket: float, wanted: list[str]) -> None:
    """Of layers split by inputs inside the halves a core has half of the gradient."""
    gradient = 4.0 * 32 * 32
    of = records(by_hand((I, I, I), (II, II, II)), bucket * gradient)
    assert [r.layer for r in of(Kind.SUMS, Phase.GRADIENT)] == wanted


def test_layers_cut_by_columns_and_by_rows_share_a_bucket() -> None:
    """At the inner level neither leaves sums of weights; at the outer one two sum them."""
    of = records(by_hand((I, I, I), (II, III, II)), 1e9)
    assert [r.layer for r in of(Kind.SUMS, Phase.GRADIENT)] == ["fc2 and 2 more"]
