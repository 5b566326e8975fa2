"""Measured stages on the engine, against closed forms."""

import pytest

from planners import Pipeline, Place, Plan, Stage
from planners.pipeline.profile import ProfileNode
from simulator import PICOSECONDS
from simulator.engine.replay import run
from simulator.lowering.pipeline.profiled import MeasuredStage, profiled
from simulator.lowering.pipeline.steady import in_the_long_run

FORWARD, BACKWARD = 0.010, 0.020


def pipeline(replicas: tuple[int, ...], schedule: str, micro_batches: int = 1) -> Pipeline:
    firsts = [sum(replicas[:k]) for k in range(len(replicas))]
    stages = tuple(
        Stage(k, k, Plan("measured", "", 1, "time", (f"layer{k}",), None))
        for k in range(len(replicas))
    )
    places = tuple(Place(first, many, many) for first, many in zip(firsts, replicas, strict=True))
    return Pipeline(stages, places, schedule, micro_batches)


def layer(name: str, forward_s: float, backward_s: float, parameter_bytes: float) -> ProfileNode:
    return ProfileNode(name, "", forward_s, backward_s, 0.0, parameter_bytes)


def stages(count: int, sent: float = 0.0, weights: float = 0.0) -> list[MeasuredStage]:
    return [
        MeasuredStage((layer(f"layer{k}", FORWARD, BACKWARD, weights),), sent) for k in range(count)
    ]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("count", "many"), [(1, 1), (2, 5), (4, 8)])
def test_flushing(schedule: str, count: int, many: int) -> None:
    timeline = run(profiled(stages(count), pipeline((1,) * count, schedule, many), 1e9))
    whole = (many + count - 1) * (FORWARD + BACKWARD)
    assert timeline.makespan_ps == pytest.approx(whole * PICOSECONDS, abs=200)


def test_the_slowest_stage_sets_the_rhythm() -> None:
    of = pipeline((1, 1, 1), "pipedream")
    measured = stages(3)
    measured[1] = MeasuredStage((layer("layer1", 0.03, 0.05, 0.0),))
    done = in_the_long_run(
        of, lambda batches: profiled(measured, of, 1e9, batches), whole_batch=False
    )
    assert done.iteration_ps == pytest.approx(0.08 * PICOSECONDS, abs=200)


def test_replicas_sum_in_a_ring() -> None:
    """Two replicas: forward, backward, then 2 * 1/2 * 100 MB at 1 GB/s: 0.13 s for two."""
    of = pipeline((2,), "pipedream")
    measured = stages(1, weights=1e8)
    done = in_the_long_run(
        of, lambda batches: profiled(measured, of, 1e9, batches), whole_batch=False
    )
    assert done.iteration_ps == pytest.approx(0.13 / 2 * PICOSECONDS, abs=200)


def test_sends_take_their_bytes() -> None:
    """One micro-batch through two stages: two sends of 5 ms between the passes."""
    timeline = run(profiled(stages(2, sent=5e6), pipeline((1, 1), "1f1b"), 1e9))
    whole = 2 * (FORWARD + BACKWARD) + 2 * 0.005
    assert timeline.makespan_ps == pytest.approx(whole * PICOSECONDS, abs=200)


def test_buckets_go_while_backward_goes_on() -> None:
    """Two layers of 100 MB: the first exchange is hidden behind the second's backward."""
    layers = tuple(layer(f"layer{i}", 0.0, 0.2, 1e8) for i in range(2))
    single = Plan("measured", "", 1, "time", ("layer0", "layer1"), None)
    of = Pipeline((Stage(0, 0, single),), (Place(0, 2, 2),), "1f1b", 2)
    timeline = run(profiled([MeasuredStage(layers)], of, 1e9))
    assert timeline.makespan_ps == pytest.approx((0.4 + 0.1) * PICOSECONDS, abs=200)
