"""Pipelines as they are asked for, their places, and plans with stages as files."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import load_array
from planners import Pipeline, Place, Plan, PlanError, Stage, planned_in_stages
from planners.pipeline.staging import Staging, micro_batch, places_of
from planners.plan.plan import check_places
from simulator import simulate
from tests.effort import calls
from tests.strategies import arrays
from workloads import load_network, partition_graph


@settings(max_examples=40, deadline=None)
@given(arrays(9, 3), st.integers(1, 30))
def test_places_are_the_whole_array_evenly(array: Any, stages: int) -> None:
    size = array.group.size
    if stages > size:
        with pytest.raises(PlanError, match=f"{stages} stages on 'random', which has {size} acc"):
            places_of(array, stages)
        return
    places = places_of(array, stages)
    taken = [number for p in places for number in range(p.first, p.first + p.count)]
    assert taken == list(range(size))
    counts = [place.count for place in places]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] - counts[-1] in (0, 1)


def test_no_stages_at_all() -> None:
    with pytest.raises(PlanError, match="0 stages: at least one"):
        places_of(load_array("accpar-homogeneous"), 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(0, 400))
def test_micro_batches_divide_the_batch_or_the_nearest_is_named(batch: int, many: int) -> None:
    if many and batch % many == 0:
        assert micro_batch(batch, many) * many == batch
        return
    with pytest.raises(PlanError, match=f"{many} micro-batches do not divide") as raised:
        micro_batch(batch, many)
    best = int(str(raised.value).split("take ")[1].split(",")[0])
    divisors = [n for n in range(1, batch + 1) if batch % n == 0]
    near = min(abs(n - many) for n in divisors if n <= max(4 * many, 4))
    assert batch % best == 0
    assert abs(best - many) == near


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([Place(0, 2), Place(1, 2)], "have an accelerator in common"),
        ([Place(0, 4), Place(8, 4), Place(11, 1)], "have an accelerator in common"),
        ([Place(0, 5, 2)], "replicas 2 do not divide its 5 accelerators"),
        ([Place(0, 0)], "first is at least 0, the others at least 1"),
        ([Place(-1, 2)], "first is at least 0, the others at least 1"),
        ([Place(4, 4, 2, ((4, 2), (-3, 2)))], "first is at least 0, the others at least 1"),
        ([Place(0, 2, 0)], "first is at least 0, the others at least 1"),
        ([Place(0, 10**8, 10**8)], "at most 1,048,576 replicas"),
    ],
)
def test_places_that_cannot_be(places: list[Place], words: str) -> None:
    with pytest.raises(PlanError, match=words):
        check_places(places)


def test_places_in_any_order_with_gaps() -> None:
    check_places([Place(8, 4, 2), Place(0, 3), Place(3, 5)])
    assert (Place(8, 4, 2).each, Place(0, 3).each) == (2, 3)


ARRAY = load_array("accpar-homogeneous", ["devices.0.count=8"])


def staged(stages: int = 4, **more: Any) -> Plan:
    network = load_network("alexnet")
    staging = Staging(stages, 4, **more)
    each = len(partition_graph(network)) // (stages * staging.virtual)
    firsts = [k * each for k in range(stages * staging.virtual)]
    places = places_of(ARRAY, stages)
    return planned_in_stages("hypar", network, ARRAY, 64, staging, firsts, places)


@pytest.mark.parametrize(
    "plan",
    [
        staged(),
        staged(2, schedule="pipedream", vertical_sync=True, batches=8),
        staged(2, virtual=2, recompute="0,3"),
        staged(4, schedule="zero-bubble", recompute="all"),
    ],
    ids=["plain", "pipedream", "interleaved", "zero-bubble"],
)
def test_json_round_trip(plan: Plan) -> None:
    text = json.dumps(plan.to_json())
    again = Plan.from_json(json.loads(text))
    assert again == plan
    assert json.dumps(again.to_json()) == text


@pytest.mark.parametrize("schedule", ["", "pipedream"])
def test_an_array_is_asked_for_its_size_before_replicas_are_counted(schedule: str) -> None:
    plan = staged(schedule=schedule)
    assert plan.pipeline is not None
    places = tuple(Place(k << 19, 1 << 19, 1 << 19) for k in range(4))
    large = replace(plan, pipeline=replace(plan.pipeline, places=places))

    def refused() -> None:
        with pytest.raises(PlanError, match="the stages need 2097152 accelerators"):
            simulate(load_network("alexnet"), large, ARRAY)

    assert calls(refused) < 10_000


def test_a_plan_with_replicas_and_copies_too() -> None:
    plan = staged()
    assert plan.pipeline is not None
    places = tuple(replace(place, replicas=2) for place in plan.pipeline.places)
    changed = replace(plan, pipeline=replace(plan.pipeline, places=places, tied="copies"))
    assert Plan.from_json(json.loads(json.dumps(changed.to_json()))) == changed


def test_each_stage_is_planned_for_its_own_place_and_micro_batch() -> None:
    plan = staged(4, recompute="1")
    assert plan.pipeline is not None
    assert plan.batch == 64
    assert [stage.plan.batch for stage in plan.pipeline.stages] == [16] * 4
    assert [stage.recompute for stage in plan.pipeline.stages] == [False, True, False, False]
    names = [name for stage in plan.pipeline.stages for name in stage.plan.nodes]
    assert tuple(names) == plan.nodes
    assert [len(list(stage.plan.splits())) for stage in plan.pipeline.stages] == [1] * 4
    assert plan.levels() is None
    assert len(list(plan.splits())) == 4


BAD: list[tuple[str, Any]] = [
    ("micro_batches", 0),
    ("micro_batches", -4),
    ("micro_batches", 2**20 + 1),
    ("micro_batches", 3),
    ("micro_batches", "many"),
    ("stages", []),
    ("stages", 7),
    ("stages", [{}]),
    ("places", []),
    ("places", None),
    ("places", [{"first": 0, "count": 8}]),
    ("places", [{"first": 0, "count": 4}] * 4),
    ("places", [{"first": 0, "count": 2**70}, {"first": 1, "count": 1}]),
    ("tied", "somebody"),
    ("schedule", None),
    ("batches", "x"),
]


@pytest.mark.parametrize("batches", [-1, 2**20 + 1])
def test_batches_are_bounded_in_python_too(batches: int) -> None:
    pipeline = staged().pipeline
    assert pipeline
    with pytest.raises(PlanError, match=rf"{batches} batches; 0 \(enough\) to 1,048,576"):
        replace(pipeline, batches=batches)


@pytest.mark.parametrize(("key", "value"), BAD, ids=str)
def test_malformed_pipelines_are_refused(key: str, value: Any) -> None:
    data = staged().to_json()
    data["pipeline"] = {**data["pipeline"], key: value}
    if (key, value) == ("schedule", None):
        del data["pipeline"]["schedule"]
    with pytest.raises(PlanError):
        Plan.from_json(data)


@pytest.mark.parametrize(
    "change",
    [
        lambda stages: stages[1].update(first=0),
        lambda stages: stages[1].update(first=2.5e400),
        lambda stages: stages[1].update(place=0),
        lambda stages: stages[1]["plan"].update(batch=17),
        lambda stages: stages[1]["plan"].update(layers=["conv9"]),
        lambda stages: stages[1].update(plan=staged().to_json()),
        lambda stages: stages.pop(),
        lambda stages: stages.reverse(),
        lambda stages: stages.append(stages[-1]),
    ],
    ids=range(9),
)
def test_stages_that_do_not_fit_are_refused(change: Any) -> None:
    data = json.loads(json.dumps(staged().to_json()))
    change(data["pipeline"]["stages"])
    with pytest.raises(PlanError):
        Plan.from_json(data)


def test_stages_in_stages_are_refused_before_anybody_follows_them() -> None:
    data = staged().to_json()
    for _ in range(3):
        inner = json.loads(json.dumps(data))
        data["pipeline"]["stages"][0]["plan"] = inner
    with pytest.raises(PlanError, match=r"stages\.0\.plan\.pipeline: .*: must not be there"):
        Plan.from_json(data)


def test_a_pipeline_says_what_it_is() -> None:
    assert str(Staging()) == "1 stage, 1f1b, 1 micro-batch"
    assert str(Staging(micro_batch=2)) == "1 stage, 1f1b, micro-batches of 2"
    words = str(Staging(4, 8, "", 2, "all", "copies", True, 16, ("a", "b")))
    assert words == (
        "4 stages, 2 a place, interleaved, 8 micro-batches, recompute stages:all, tied copies, "
        "vertical sync, 16 batches, cuts a b"
    )


def test_no_stage_has_a_pipeline_of_no_plan() -> None:
    plan = staged().pipeline
    assert plan is not None
    with pytest.raises(PlanError, match="every place has as many"):
        Pipeline((*plan.stages[:2], replace(plan.stages[2], place=0)), plan.places[:2], "1f1b", 1)
    with pytest.raises(PlanError, match="place k modulo"):
        Pipeline((Stage(0, 1, plan.stages[0].plan),), plan.places[:1], "1f1b", 1)


@pytest.mark.parametrize(
    ("asked", "again"), [("1", [1]), ("00", [0]), ("02, 3", [2, 3]), ("0,all", [0, 1, 2, 3])]
)
def test_what_is_computed_again_is_what_is_printed(asked: str, again: list[int]) -> None:
    staging = Staging(4, recompute=asked)
    staging.check_recompute()
    assert [stage for stage in range(4) if staging.recomputes(stage)] == again
