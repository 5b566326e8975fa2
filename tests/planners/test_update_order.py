"""A plan may say in which order weights are updated."""

import json
from dataclasses import replace

import pytest

from hardware import load_array
from planners import PLANNERS, TIME, Pipeline, Place, Plan, PlanError, Stage
from planners.updates import UPDATE_ORDERS, update_order_words
from workloads import load_network

PLAN = PLANNERS["data_parallel"](load_network("lenet"), load_array("tpu-v3-8"), 64, TIME)


@pytest.mark.parametrize("order", UPDATE_ORDERS)
def test_it_is_read_again(order: str) -> None:
    plan = replace(PLAN, update_order=order)
    data = json.loads(json.dumps(plan.to_json()))
    assert data["update_order"] == order
    assert Plan.from_json(data) == plan


def test_what_is_not_said_is_not_written_down() -> None:
    assert "update_order" not in PLAN.to_json()
    assert not Plan.from_json(PLAN.to_json()).update_order


def test_another_word_is_refused() -> None:
    with pytest.raises(PlanError, match="'soon' is none of layers, arrival"):
        Plan.from_json(PLAN.to_json() | {"update_order": "soon"})


def test_of_a_pipeline_its_stages_say_it() -> None:
    stages = (Stage(0, 0, replace(PLAN, update_order="arrival")),)
    piped = replace(PLAN, root=None, pipeline=Pipeline(stages, (Place(0, 8),), "gpipe", 1))
    assert Plan.from_json(piped.to_json()) == piped
    with pytest.raises(PlanError, match="in the plans of its stages"):
        replace(piped, update_order="arrival")


def test_in_words() -> None:
    assert update_order_words("arrival") == "updates as gradients arrive"
    assert update_order_words("layers") == "updates in the layers' order"
