"""Stages on devices of their own: what is written is read, and like devices are plain axes."""

import warnings
from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.pictures.pipeline_plot import rows_of
from hardware import load_array, wires_of
from planners import Axes, PlanError
from planners.axes.stage_devices import (
    Replicas,
    on_devices,
    places_on,
    stage_devices,
    stage_layers,
)
from simulator import Execution
from simulator.lowering.pipeline.transfers import DeployedBetween

ARRAY = """
kind = "array"
execution = "deployed"
precision = "fp16"
optimizer = "adam"
[[devices]]
device = "v100-16"
count = 8
[[devices]]
device = "t4"
count = 4
[topology]
joins = "chips"
[[topology.levels]]
kind = "switch"
members = 4
bandwidth = "16 GB/s"
latency = "5 us"
[[topology.levels]]
kind = "switch"
bandwidth = "10 Gbit/s"
latency = "20 us"
"""


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    path = tmp_path / "mixed.toml"
    path.write_text(ARRAY)
    return str(path)


def step(array: str, **options: Any) -> accelarray.StepResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return accelarray.simulate(
            "gpt2:layers=6:seq=128", "axes", array, 24, micro_batch=1, **options
        )


def test_stages_are_read() -> None:
    assert stage_devices("v100:1x4; t4:2x2+v100:1x2") == (
        (Replicas("v100", 1, 4),),
        (Replicas("t4", 2, 2), Replicas("v100", 1, 2)),
    )
    assert stage_layers("7;7;6;10") == (7, 7, 6, 10)


@pytest.mark.parametrize("text", ["", "v100", "v100:0x1", "v100:1x0", "v100:1x1;", "v100:1x1+"])
def test_what_is_no_stage_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="stage-hw"):
        stage_devices(text)


def test_axes_that_say_otherwise_are_refused() -> None:
    with pytest.raises(PlanError, match="stage-hw says pp=2"):
        on_devices(Axes(tp=2), stage_devices("v100:1x4;t4:1x4"))


def test_like_stages_in_order_are_plain_axes(mixed: str) -> None:
    named = step(mixed, stage_hw="v100:1x4;v100:1x4;t4:1x4")
    assert named.iteration_s == step(mixed, parallel="pp=3,dp=4").iteration_s


def test_replicas_of_like_stages_share_experts_out(mixed: str) -> None:
    """As the same axes do; replicas that are planned by themselves do not."""
    name = "mixtral-8x7b:layers=3:seq=64:hidden=512:ffn=512"

    def seconds(**options: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return accelarray.simulate(
                name, "axes", mixed, 16, micro_batch=1, **options
            ).iteration_s

    named = seconds(parallel="ep=2", stage_hw="v100:1x4;v100:1x4;t4:1x4")
    assert named == seconds(parallel="pp=3,dp=4,ep=2")
    with pytest.raises(PlanError, match="as many alike replicas"):
        seconds(parallel="ep=2", stage_hw="v100:1x4;t4:2x2")


def test_layers_are_counted_with_what_stands_beside_the_blocks(mixed: str) -> None:
    two = {"stage_hw": "v100:1x4;t4:1x4"}
    assert (
        step(mixed, **two, stage_layers="4;2").iteration_s
        == step(mixed, **two, stage_layers="5;3").iteration_s
        < step(mixed, **two, stage_layers="2;4").iteration_s  # T4 are slower
    )


@pytest.mark.parametrize("fault", ["v100:1x4;t4:1x8", "a100:1x4", "v100:1x4;v100:1x5"])
def test_devices_that_are_not_there_are_refused(mixed: str, fault: str) -> None:
    with pytest.raises(PlanError, match="stage-hw"):
        step(mixed, stage_hw=fault)


def test_unlike_replicas_take_the_slower_ones_time(mixed: str) -> None:
    """Of one stage with a replica of each kind, each has half of the micro-batches."""
    both = step(mixed, stage_hw="v100:1x1+t4:1x1").iteration_s
    alone = step(mixed, stage_hw="t4:1x2").iteration_s
    assert both >= 0.95 * alone


def test_a_plan_with_unlike_replicas_reads_back(mixed: str) -> None:
    made = step(mixed, stage_hw="v100:2x2;v100:1x1+t4:2x1").plan
    plan = made.plan if hasattr(made, "plan") else made
    assert accelarray.Plan.from_json(plan.to_json()) == plan


def test_replicas_apart_exchange_as_ways_of_one_plan_do(mixed: str) -> None:
    """Two and two replicas of a kind are planned each by itself, four together: as long."""
    apart = step(mixed, stage_hw="v100:1x2+v100:1x2")
    together = step(mixed, stage_hw="v100:1x4")
    assert apart.iteration_s == pytest.approx(together.iteration_s, rel=0.02)


def test_zero_of_replicas_apart_is_refused(mixed: str) -> None:
    with pytest.raises(PlanError, match="update their weights whole"):
        step(mixed, stage_hw="v100:1x2+t4:1x2", zero=1)
    assert step(mixed, stage_hw="v100:1x4;t4:1x4", zero=1).iteration_s > 0


def test_tied_weights_of_unlike_numbers_of_replicas(mixed: str) -> None:
    assert step(mixed, stage_hw="v100:1x4;t4:2x2").iteration_s > 0
    with pytest.raises(PlanError, match="must be a multiple"):
        step(mixed, stage_hw="v100:1x2;t4:1x3")


def test_sequence_parallelism_over_unlike_widths(mixed: str) -> None:
    found = step(mixed, parallel="sp", stage_hw="v100:2x2;v100:4x1;t4:2x2")
    assert found.iteration_s > 0


def test_a_plan_shows_each_unlike_replica(mixed: str) -> None:
    made = accelarray.plan(
        "gpt2:layers=6:seq=128", "axes", mixed, 24, micro_batch=1, stage_hw="v100:2x1+t4:2x1"
    )
    text = made.summary()
    assert "stage 0, replica 1:" in text
    assert "0-1, 8-9" in text


def test_replicas_of_unlike_width_sum_each_gradient_once(mixed: str) -> None:
    """Of widths 2 and 4 there are four sums of a quarter, two at a time."""
    array = accelarray.array(mixed)
    between = DeployedBetween(array, Execution("deployed"), 0)
    wide, narrow = array.part(0, 4), array.part(8, 2)
    one = between.sums([wide, narrow], 1e6, "fc")
    other = between.sums([narrow, wide], 2e6, "fc")  # the whole is as large
    assert sum(one.received) == sum(other.received) == pytest.approx(2 * 4e6)
    assert len(one.jobs) % 2 == 0
    alike = between.sums([wide, array.part(4, 4)], 1e6, "fc")
    assert sum(alike.received) == pytest.approx(2 * 4e6)


def test_tied_weights_load_each_replica_alike(mixed: str) -> None:
    """Of four owners two and two sum with each of two users: no user's links carry more."""
    moved = step(mixed, stage_hw="v100:1x4;t4:2x2").timeline.link_bytes
    *_, users, network = wires_of(accelarray.array(mixed)).subnets
    of_users = moved[users.links].reshape(2, 4)
    assert of_users[:, :2].min() > 0
    assert of_users[:, :2].tolist() == of_users[:, 2:].tolist()
    up, down = moved[network.links].reshape(2, 3)
    assert (up[0], up[2]) == pytest.approx((down[2], down[0]))


def test_explain_plan_and_chart_name_the_kind_of_each_stage(mixed: str) -> None:
    """Of the kinds alone there is no such step, which is no error."""
    found = step(mixed, stage_hw="v100:1x4;t4:1x4", stage_layers="4;2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = "\n".join(map(str, found.explain().tables()))
    assert "t4) is the slowest" in said
    assert "v100-16" in found.planned().summary().split("stage 0:")[0]
    assert found.plan.pipeline is not None
    labels = [row.label for row in rows_of(found.plan, found.timeline)]
    assert [label.split(":")[0] for label in labels] == ["0, v100-16", "1, t4"]


def test_of_boards_cores_are_counted(tmp_path: Path) -> None:
    """A board of either TPU has four chips of two cores; stages take the next free ones."""
    path = tmp_path / "boards.toml"
    path.write_text(
        'kind = "array"\n[[devices]]\ndevice = "tpu-v2"\ncount = 2\n'
        '[[devices]]\ndevice = "tpu-v3"\ncount = 1\n'
        '[topology]\nkind = "torus"\njoins = "chips"\n'
    )
    array = Execution("deployed").planned(load_array(str(path)))
    stages = stage_devices("tpu-v3:2x2;tpu-v2:1x16;tpu-v3:1x4")
    places = places_on(array, stages)
    assert [(place.first, place.count) for place in places] == [(16, 4), (0, 16), (20, 4)]
    kinds = [array.part(place.first, place.count).group.kinds for place in places]
    assert [device.name for ((device, _),) in kinds] == ["tpu-v3", "tpu-v2", "tpu-v3"]
    with pytest.raises(PlanError, match="has 8 cores of tpu-v3"):
        places_on(array, stage_devices("tpu-v3:1x9"))
