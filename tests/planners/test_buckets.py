"""A plan may say how many bytes of gradients travel together."""

import json
from dataclasses import replace
from typing import Any

import pytest

from hardware import load_array
from planners import PLANNERS, TIME, Pipeline, Place, Plan, PlanError, Stage
from planners.buckets import bucket_words
from workloads import load_network

PLAN = PLANNERS["data_parallel"](load_network("lenet"), load_array("tpu-v3-8"), 64, TIME)


@pytest.mark.parametrize("size", [0.0, 1e6])
def test_it_is_read_again(size: float) -> None:
    plan = replace(PLAN, bucket_bytes=size)
    data = json.loads(json.dumps(plan.to_json()))
    assert data["bucket_bytes"] == size
    assert Plan.from_json(data) == plan


def test_what_is_not_said_is_not_written_down() -> None:
    assert "bucket_bytes" not in PLAN.to_json()
    assert Plan.from_json(PLAN.to_json()).bucket_bytes is None


@pytest.mark.parametrize("size", [-1.0, float("inf"), float("nan"), "many", [1]])
def test_what_is_no_size_is_refused(size: Any) -> None:
    with pytest.raises(PlanError):
        Plan.from_json(PLAN.to_json() | {"bucket_bytes": size})


def test_of_a_pipeline_its_stages_say_it() -> None:
    stages = (Stage(0, 0, replace(PLAN, bucket_bytes=1e6)),)
    piped = replace(PLAN, root=None, pipeline=Pipeline(stages, (Place(0, 8),), "gpipe", 1))
    assert Plan.from_json(piped.to_json()) == piped
    with pytest.raises(PlanError, match="in the plans of its stages"):
        replace(piped, bucket_bytes=1e6)


def test_in_words() -> None:
    assert bucket_words(0.0) == "each gradient by itself"
    assert bucket_words(25e6) == "gradients in buckets of 25 MB"
