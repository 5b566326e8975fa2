"""Whether two timelines of a program are one: every record, and everything counted from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import numpy as np
import pytest

from simulator import Operation, Timeline, shares
from simulator.analysis.critical_path import critical_path
from simulator.analysis.period import micro_batch_ends
from simulator.analysis.stages import passes, stage_uses
from simulator.analysis.stalls import core_steps


def assert_same_run(one: Timeline, other: Timeline) -> None:
    """Records in one order with one cause each, to the picosecond; then what is made of them."""
    names = [[_name(op) for op in timeline.operations] for timeline in (one, other)]
    for name in ("resource", "micro_batch", "start", "end", "cause"):
        assert np.array_equal(getattr(one.columns, name), getattr(other.columns, name)), name
    assert [names[0][i] for i in one.columns.operation] == [
        names[1][i] for i in other.columns.operation
    ]
    for mine, theirs, name in zip(
        one.participants, other.participants, one.participants._fields, strict=True
    ):
        assert np.array_equal(mine, theirs), name
    assert one.makespan_ps == other.makespan_ps
    assert len(one) == len(other)
    assert one.micro_batches == other.micro_batches
    assert_same_sums(one, other)


def assert_same_sums(one: Timeline, other: Timeline) -> None:
    """What is added up from what was followed alone, and what is read from all records."""
    ours, theirs = one.totals(), other.totals()
    assert ours.keys() == theirs.keys()
    for key, total in theirs.items():
        assert ours[key].operations == total.operations, key
        assert ours[key].core_ps == total.core_ps, key
        assert ours[key].bytes == pytest.approx(total.bytes)
    assert one.flops_by_device() == pytest.approx(other.flops_by_device())
    assert one.traffic_bytes == pytest.approx(other.traffic_bytes)
    assert one.moved == pytest.approx(other.moved)
    assert one.memory_bytes == pytest.approx(other.memory_bytes)
    assert one.idle_cores == other.idle_cores
    assert shares(one) == shares(other)
    spent = [
        [(step.computing, step.exposed, step.cores) for step in core_steps(run)]
        for run in (one, other)
    ]
    assert spent[0] == spent[1]
    assert stage_uses(one) == stage_uses(other)
    assert _spent(one) == _spent(other)
    assert micro_batch_ends(one) == micro_batch_ends(other)
    last = len(one.program.workers) - 1
    assert list(passes(one, last)) == list(passes(other, last))
    path = [[(_name(s.operation), s.start_ps) for s in critical_path(t)] for t in (one, other)]
    assert path[0] == path[1]


def _name(operation: Operation) -> Hashable:
    """A memory's operations are made anew in each run."""
    return (
        operation.kind,
        operation.phase,
        operation.layer,
        operation.received,
        operation.duration_ps,
    )


def _spent(timeline: Timeline) -> list[tuple[Counter[Hashable], Counter[Hashable]]]:
    """Per worker, picoseconds by what was computed, and by what was waited for."""
    found = []
    for step in core_steps(timeline):
        waits: Counter[Hashable] = Counter()
        for wait in step.waits:
            exchange = _name(wait.exchange) if wait.exchange else None
            waits["exposed", exchange] += wait.exposed
            waits["waiting", exchange] += wait.waiting
        computed: Counter[Hashable] = Counter()
        for operation, ps in step.computed:
            computed[_name(operation)] += ps
        found.append((+computed, +waits))
    return found
