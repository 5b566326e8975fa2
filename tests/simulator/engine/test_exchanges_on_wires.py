"""Exchanges whose jobs the interconnect carries, and what a timeline sums up of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Wires
from planners.order import Kind, Phase
from simulator import Communicator, Machine, Operation, Program
from simulator.engine.jobs import Job, Load
from tests.simulator.engine.programs import compute, cores, exchange, log
from tests.simulator.slow_network import PS, Transfer, finish_times
from tests.wiring import nodes

BYTES_PER_PS = 10**12
"""A byte each picosecond, in B/s."""


def wired(count: int) -> Program:
    """Cores on a ring whose links carry a byte each picosecond, one way."""
    wires = nodes(count, "ring", bytes_per_s=float(BYTES_PER_PS), two_way=False)
    return replace(under_one_split(cores(count)), wires=wires)


def under_one_split(program: Program) -> Program:
    return replace(program, workers=tuple(replace(w, communicators=(0,)) for w in program.workers))


def ring_links(program: Program) -> list[int]:
    """Links of the ring, not of HBMs."""
    assert isinstance(program.wires, Wires)
    return [i for i, name in enumerate(program.wires.names) if "hbm" not in name.lower()]


def job(links: list[int], flow_bytes: float, latency_s: float = 0.0) -> Job:
    return Job("job", Load(np.array(links), np.ones(len(links))), flow_bytes, latency_s)


def carried(name: str, *jobs: Job) -> Operation:
    return replace(exchange(name, 0), jobs=jobs)


def test_jobs_of_one_exchange_are_carried_one_after_the_other() -> None:
    """10 B, then 5 B and their latency of 7 ps, then 3 B: 25 ps, though no two share a link."""
    program = wired(4)
    first, second, third, _ = ring_links(program)
    machine = Machine(program)
    three = carried("three", job([first], 10), job([second], 5, 7e-12), job([third], 3))
    for worker in (0, 1):
        machine.meet(worker, three, 2)
    timeline = machine.run()
    assert log(timeline) == [("link0.0", "three", 0, 0, 25)]
    assert [timeline.link_bytes[i] for i in (first, second, third)] == [10, 5, 3]


def test_exchanges_under_way_at_once_share_what_they_both_cross() -> None:
    """The second comes after 10 of 40 B: 30 B at half the rate; then its last 10 B alone."""
    program = wired(2)
    (shared, *_), machine = ring_links(program), Machine(wired(2))
    machine.meet(0, carried("first", job([shared], 40)), 1)
    before = machine.compute(1, compute("before", 10))
    machine.meet(1, carried("second", job([shared], 40)), 1, after=[before])
    ends = {row[1]: row[3:] for row in log(machine.run())}
    assert ends == {"before": (0, 10), "first": (0, 70), "second": (10, 80)}


Drawn = list[tuple[int, int, set[int]]]
"""When it begins at the earliest [ps], bytes, and which links it crosses."""
DRAWN = st.tuples(st.integers(0, 50), st.integers(1, 60), st.sets(st.integers(0, 2), min_size=1))


@given(st.lists(DRAWN, max_size=6))
def test_exchanges_end_when_the_slow_network_says(drawn: Drawn) -> None:
    program = wired(4)
    links = ring_links(program)
    machine = Machine(program)
    transfers = []
    for number, (arrival, size, crosses) in enumerate(drawn):
        chosen = sorted(links[i] for i in crosses)
        worker = number % 4
        waited = machine.compute(worker, compute(f"wait{number}", arrival))
        machine.meet(worker, carried(f"{number}", job(chosen, size)), 1, after=[waited])
    waits: dict[str, int] = {}
    found: dict[str, int] = {}
    for _, layer, _, _, end in log(machine.run()):
        (waits if layer.startswith("wait") else found)[layer.removeprefix("wait")] = end
    for number, (_, size, crosses) in enumerate(drawn):
        chosen = sorted(links[i] for i in crosses)
        transfers.append(Transfer(waits[f"{number}"], size, {i: Fraction(1) for i in chosen}))
    bandwidth = [BYTES_PER_PS] * (max(links) + 1)
    wanted = finish_times(transfers, bandwidth)
    assert [found[f"{number}"] for number in range(len(drawn))] == wanted
    assert PS == BYTES_PER_PS


@pytest.mark.parametrize("copies", [1, 3])
def test_totals_count_every_core_and_split_that_one_stands_for(copies: int) -> None:
    """Two workers, each ``copies`` cores: what they compute, hold each other up for, and send."""
    program = replace(under_one_split(cores(2)), communicators=(Communicator(0, copies),))
    workers = tuple(replace(w, multiplicity=copies) for w in program.workers)
    program = replace(program, workers=workers)
    machine = Machine(program)
    work, meet = compute("work", 10, flops=4.0), exchange("meet", 5)
    for worker in (0, 1):
        done = machine.compute(worker, work)
        machine.meet(worker, meet, 2, after=[done])
    timeline = machine.run()
    totals = timeline.totals()
    computed, met = totals[Phase.FORWARD, Kind.COMPUTE], totals[Phase.FORWARD, Kind.SUMS]
    assert (computed.operations, computed.core_ps, computed.flops) == (
        2 * copies,
        2 * copies * 10,
        2 * copies * 4.0,
    )
    assert (met.operations, met.core_ps, met.bytes) == (copies, 5 * 2 * copies, copies * 8.0)
    assert timeline.traffic_bytes == copies * 8.0
    assert timeline.cores == 2 * copies


def test_whoever_computes_nothing_is_idle_with_all_it_stands_for() -> None:
    program = cores(3)
    many = (1, 4, 8)
    workers = tuple(replace(w, multiplicity=m) for w, m in zip(program.workers, many, strict=True))
    machine = Machine(replace(program, workers=workers))
    machine.compute(1, compute("work", 1))
    timeline = machine.run()
    assert timeline.cores == 13
    assert timeline.idle_cores == 9
