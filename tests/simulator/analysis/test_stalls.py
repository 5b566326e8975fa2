"""What cores compute and wait for, against two other ways to count it."""

from collections import Counter

from hypothesis import given, settings

from simulator import Operation, Timeline
from simulator.analysis.stalls import core_steps
from tests.strategies import timelines


@settings(max_examples=40, deadline=None)
@given(timelines())
def test_every_core_spends_the_whole_step(timeline: Timeline) -> None:
    cores = 0
    for step in core_steps(timeline):
        computing = sum(ps for _, ps in step.computed)
        waits = [ps for wait in step.waits for ps in (wait.exposed, wait.waiting)]
        assert min([0, *waits]) == 0
        assert computing + sum(waits) == timeline.iteration_ps
        cores += step.cores
    assert cores == timeline.cores


@settings(max_examples=40, deadline=None)
@given(timelines("published"))
def test_published_each_exchange_is_exposed_as_long_as_its_link_is_busy(timeline: Timeline) -> None:
    spent: Counter[Operation] = Counter()
    for step in core_steps(timeline):
        for operation, ps in step.computed:
            spent[operation] += ps * step.cores
        for wait in step.waits:
            if wait.exchange:
                spent[wait.exchange] += wait.exposed * step.cores
    totals: Counter[tuple[str, str]] = Counter()
    for operation, ps in spent.items():
        totals[operation.phase, operation.kind] += ps
    assert {key: total.core_ps for key, total in timeline.totals().items() if total.core_ps} == {
        key: ps for key, ps in totals.items() if ps
    }


@settings(max_examples=25, deadline=None)
@given(timelines("deployed"))
def test_a_core_waits_for_exchanges_of_its_own(timeline: Timeline) -> None:
    for step in core_steps(timeline):
        own = {id(task.operation) for task in step.worker.template}
        *_, last = [None, *step.waits]
        for wait in step.waits:
            if wait.exchange is None:
                assert wait is last
            else:
                assert id(wait.exchange) in own
                assert wait.exchange.level >= 0
