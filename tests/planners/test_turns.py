"""Replicas of a stage that take unlike numbers of micro-batches in their turn."""

import math
import warnings
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelarray
from planners import PlanError
from planners.axes.stage_devices import Replicas, places_on, stage_devices
from planners.plan import Place
from planners.plan.plan import check_places
from tests.planners.test_stage_devices import ARRAY

BATCH = 24


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("turns") / "mixed.toml"
    path.write_text(ARRAY)
    return str(path)


def step(array: str, hw: str, batch: int = BATCH, **options: Any) -> accelarray.StepResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = "gpt2:layers=6:seq=128"
        return accelarray.simulate(
            network, "axes", array, batch, micro_batch=1, stage_hw=hw, **options
        )


def test_turns_are_read_and_reduced(mixed: str) -> None:
    assert stage_devices("v100:1x2@4+t4:1x1@2")[0] == (
        Replicas("v100", 1, 2, 4),
        Replicas("t4", 1, 1, 2),
    )
    array = accelarray.array(mixed)
    (place,) = places_on(array, stage_devices("v100:1x2@4+t4:1x1@2"))
    assert place.turns == (2, 2, 1)
    (alike,) = places_on(array, stage_devices("v100:1x4@3"))
    assert alike == Place(0, 4, 4)


@pytest.mark.parametrize("text", ["v100:1x1@0", "v100:1x1@65", "v100:1x1@", "v100:1x1@1.5"])
def test_what_are_no_turns_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="stage-hw"):
        stage_devices(text)
    with pytest.raises(PlanError, match="turns"):
        check_places([Place(0, 2, 2, turns=(1, 0))])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_a_round_is_fair(turns: list[int]) -> None:
    """Each replica has its turns, and of each beginning of the round about its part."""
    found = Place(0, len(turns), len(turns), turns=tuple(turns)).round
    assert Counter(found) == Counter(dict(enumerate(turns)))
    for end in range(1, len(found) + 1):
        for replica, many in enumerate(turns):
            part = end * many / len(found)
            assert abs(found[:end].count(replica) - part) <= 1 + len(turns) / 2


def test_one_stage_takes_what_its_busiest_replica_takes(mixed: str) -> None:
    """Of 12 micro-batches; what is summed and updated behind them takes as long for all turns."""
    alone = {
        kind: [step(mixed, f"{kind}:1x1", n, overlap="none").iteration_s for n in (3, 6)]
        for kind in ("v100", "t4")
    }
    fast_s, slow_s = ((six - three) / 3 for three, six in alone.values())
    behind = []
    for turns, (fast, slow) in {"": (6, 6), "@2": (8, 4), "@3": (9, 3), "@5": (10, 2)}.items():
        found = step(mixed, f"v100:1x1{turns}+t4:1x1", 12, overlap="none").iteration_s
        behind.append(found - max(fast * fast_s, slow * slow_s))
    assert behind == pytest.approx([behind[0]] * 4, rel=1e-3)


def test_turns_of_one_are_no_turns(mixed: str) -> None:
    """Nor are those that all replicas have."""
    plain = step(mixed, "v100:1x2+t4:1x2").iteration_s
    assert step(mixed, "v100:1x2@1+t4:1x2@1").iteration_s == plain
    assert step(mixed, "v100:1x2@3+t4:1x2@3").iteration_s == plain


SIDES = ("v100:1x1{}+v100:1x1", "v100:1x1{}+t4:1x1", "t4:1x1{}+v100:1x1", "v100:1x1", "t4:1x1")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(SIDES), st.integers(1, 4)), min_size=2, max_size=3),
    st.sampled_from(["1f1b", "gpipe", "zero-bubble"]),
)
def test_pipelines_end_and_lose_no_micro_batch(
    mixed: str, stages: list[tuple[str, int]], schedule: str
) -> None:
    """No replica waits for ever for one that waits for it, whatever their turns."""
    hw = ";".join(side.format(f"@{turns}") for side, turns in stages)
    rounds = [
        sum(one.number * one.turns for one in stage) // math.gcd(*(one.turns for one in stage))
        for stage in stage_devices(hw)
    ]
    batch = 2 * math.lcm(*rounds)
    with suppress(PlanError):  # of tied weights, or of devices that are not left
        found = step(mixed, hw, batch, schedule=schedule, tied="copies")
        assert found.iteration_s > 0
        assert accelarray.Plan.from_json(found.plan.to_json()) == found.plan


def test_a_batch_that_does_not_go_round_is_refused(mixed: str) -> None:
    with pytest.raises(PlanError, match="3 micro-batches in a round"):
        step(mixed, "v100:1x1@2+t4:1x1", 25)


def test_schedules_without_a_flush_have_no_turns(mixed: str) -> None:
    with pytest.raises(PlanError, match="between two flushes"):
        step(mixed, "v100:1x1@2+v100:1x1;t4:1x3", 24, schedule="pipedream")
