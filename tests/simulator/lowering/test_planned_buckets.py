"""Buckets as a plan has them are those of a run that is asked for them, which has the last word."""

from dataclasses import replace

import pytest

from hardware import Stack, load_array
from planners import PLANNERS, TIME, Pipeline, Place, Stage
from simulator import DEPLOYED, Timeline, simulate
from simulator.lowering.execution import BUCKET_BYTES, deployed
from workloads import load_network

NETWORK, ARRAY = load_network("alexnet"), load_array("tpu-v3-8")
PLAN = PLANNERS["data_parallel"](NETWORK, DEPLOYED.planned(ARRAY), 64, TIME)
SIZES = (0.0, 1e6, BUCKET_BYTES, 1e9)


def seconds(planned: float | None, asked: float | None) -> float:
    plan, execution = replace(PLAN, bucket_bytes=planned), replace(DEPLOYED, bucket_bytes=asked)
    return simulate(NETWORK, plan, ARRAY, execution).iteration_s


@pytest.mark.parametrize("size", SIZES)
def test_planned_or_asked_for_is_the_same(size: float) -> None:
    assert seconds(size, None) == seconds(None, size) == seconds(1e5, size)
    assert len({seconds(None, one) for one in SIZES}) > 2


def test_else_there_are_25_mib() -> None:
    assert seconds(None, None) == seconds(None, BUCKET_BYTES) == seconds(BUCKET_BYTES, None)


def test_a_stack_that_says_so_is_asked_for() -> None:
    assert deployed(ARRAY).bucket_of(1e6) == 1e6
    habit = deployed(replace(ARRAY, stack=Stack("s", bucket_bytes=4e6)))
    assert habit.bucket_of(1e6) == habit.bucket_of() == 4e6


def test_a_stage_has_its_own() -> None:
    """Two replicas of four cores: their own sums, and those of the replicas, go in its buckets."""
    array = DEPLOYED.planned(ARRAY)
    own = PLANNERS["data_parallel"](NETWORK, array.part(0, 4), 32, TIME)

    def run(planned: float | None, asked: float | None) -> Timeline:
        stage = Stage(0, 0, replace(own, bucket_bytes=planned))
        piped = Pipeline((stage,), (Place(0, 8, replicas=2),), "gpipe", 2)
        plan = replace(PLAN, root=None, pipeline=piped)
        return simulate(NETWORK, plan, ARRAY, replace(DEPLOYED, bucket_bytes=asked))

    one, other = run(1e6, None), run(None, 1e6)
    assert one.iteration_s == other.iteration_s
    assert one.iteration_s != run(None, None).iteration_s
