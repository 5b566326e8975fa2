"""Bubbles of schedules against closed forms, exactly: equal stages and links that take no time.

All forms follow from one path. A stage takes f forward and b backward a micro-batch,
ideal are m (f + b). The first micro-batch needs (p - 1) f to reach the last rank, which
from then on has no gap; the errors of the last one need (p - 1) b to come back to the first.
So GPipe and 1F1B take m (f + b) + (p - 1) (f + b). Interleaved, a rank has v chunks of f
and b each, and only the first chunk's way there and back is idle: v m (f + b) +
(p - 1) (f + b).

Zero bubble (ZB-H1) sends errors b_in back at once and does gradients b_w later. The last
rank owes p - 1 of them while errors go back: when it computes those of the last micro-batch
it has done m - p of its m gradients (none where m < p). That is at (p - 1) f + m (f + b_in)
+ max(m - p, 0) b_w; then (p - 1) b_in to the first rank, which ends with one b_w. Less
the ideal m (f + b_in + b_w) the bubble is

    (p - 1) (f + b_in) - (min(p, m) - 1) b_w

where no other path is longer: a rank's own work, from when the first micro-batch
reaches it, is at least (p - 1) f on the last rank, and at least (p - 1) b_in on the first
when the pipe is full (m >= p). Both are within the form where b_w <= b_in and b_w <= f.
Beyond that, for m >= p, the bubble is p - 1 times the largest of f, b_in, f + b_in - b_w.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hardware import Array, Device, Group
from planners import planned_in_stages
from planners.pipeline.staging import Staging, places_of
from simulator import run, simulate
from tests.simulator.lowering.pipelines_by_hand import Times, pipeline_of, program
from workloads import Builder, Network

SAMPLE = (1, 2, 3, 4, 7, 8, 16), (1, 2, 3, 5, 8, 14, 16, 48, 64)
EVERY = range(1, 17), range(1, 65)
TIMES = Times(70, 110, 60)


def sizes(everything: bool) -> Iterator[tuple[int, int]]:
    ranks, batches = EVERY if everything else SAMPLE
    for p in ranks:
        for m in batches:
            if everything or p * m <= 300:
                yield p, m


def bubble(schedule: str, p: int, m: int, times: Times, v: int = 1) -> int:
    pipeline = pipeline_of(schedule, p * v, m, [1] * p)
    made = run(program(pipeline, [times] * (p * v), [0] * (p * v - 1)))
    return made.makespan_ps - v * m * (times.forward + times.errors + times.weights)


@pytest.mark.parametrize(
    "everything", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["sample", "every"]
)
@pytest.mark.parametrize(
    ("schedule", "v"),
    [("gpipe", 1), ("1f1b", 1), ("interleaved", 1), ("interleaved", 2), ("interleaved", 3)],
)
def test_flushing_schedules(schedule: str, v: int, everything: bool) -> None:
    both = TIMES.forward + TIMES.errors + TIMES.weights
    for p, m in sizes(everything):
        if schedule != "interleaved" or (m % p == 0 and v * m * p <= (9999 if everything else 130)):
            assert bubble(schedule, p, m, TIMES, v) == (p - 1) * both, (p, m)


@pytest.mark.parametrize(
    "everything", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["sample", "every"]
)
@pytest.mark.parametrize(
    "times", [TIMES, Times(10, 10, 10), Times(10, 25, 3), Times(30, 10, 10)], ids=str
)
def test_zero_bubble_where_gradients_are_the_shortest(times: Times, everything: bool) -> None:
    f, b_in, b_w = times.forward, times.errors, times.weights
    assert b_w <= min(f, b_in)
    for p, m in sizes(everything):
        if everything or p * m <= 130:
            wanted = (p - 1) * (f + b_in) - (min(p, m) - 1) * b_w
            assert bubble("zero-bubble", p, m, times) == wanted, (p, m)


@pytest.mark.parametrize("times", [Times(10, 12, 11), Times(5, 10, 9), Times(20, 10, 15)], ids=str)
def test_zero_bubble_beyond(times: Times) -> None:
    f, b_in, b_w = times.forward, times.errors, times.weights
    for p, m in ((2, 2), (3, 5), (4, 4), (6, 13), (8, 16)):
        wanted = (p - 1) * max(f, b_in, f + b_in - b_w)
        assert bubble("zero-bubble", p, m, times) == wanted > (p - 1) * (f + b_in - b_w)


def test_zero_bubble_is_less_than_1f1b_and_interleaving_less_by_v() -> None:
    plain = bubble("1f1b", 4, 8, Times(10, 10, 10))
    assert (plain, bubble("zero-bubble", 4, 8, Times(10, 10, 10))) == (90, 30)
    chunk = bubble("interleaved", 4, 8, Times(5, 5, 5), 2)
    assert chunk * 2 == plain


def chain(layers: int) -> Network:
    net = Builder("chain", 64, 1)
    net.flatten("flat")
    for i in range(layers):
        net.fc(f"fc{i}", 64)
    return net.build()


FAST = Device("fast", 1, 1, 1e9, 1e9, 1e9, 1e21)
"""With links on which a send takes one picosecond, the least there is."""


@pytest.mark.parametrize(
    ("schedule", "p", "m", "v"),
    [
        ("gpipe", 4, 6, 1),
        ("gpipe", 2, 3, 2),
        ("1f1b", 1, 5, 1),
        ("1f1b", 5, 9, 1),
        ("1f1b", 8, 3, 1),
        ("interleaved", 4, 8, 2),
        ("interleaved", 3, 6, 3),
        ("zero-bubble", 6, 9, 1),
        ("zero-bubble", 6, 4, 1),
    ],
)
def test_planned_pipelines_have_them_too(schedule: str, p: int, m: int, v: int) -> None:
    """Of real layers; each send adds a picosecond to a path, and no path has many."""
    network, array = chain(p * v), Array("fast", "", Group(((FAST, p),)))
    staging = Staging(p, m, schedule, v)
    plan = planned_in_stages(
        "data_parallel", network, array, 8 * m, staging, range(p * v), places_of(array, p)
    )
    # 8 samples, 64 inputs and outputs: 2 * 64 - 1 or 2 * 8 - 1 FLOPs an element, 1e9 a second
    f = b_in = 8 * 64 * 127 * 1000
    b_w = 64 * 64 * 15 * 1000
    found = simulate(network, plan, array).iteration_ps - v * m * (f + b_in + b_w)
    wanted = (p - 1) * (f + b_in + b_w)
    if schedule == "zero-bubble":
        wanted = (p - 1) * (f + b_in) - (min(p, m) - 1) * b_w
    assert 0 <= found - wanted <= 4 * (p * v + m)
