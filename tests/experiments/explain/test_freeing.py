"""What changes would free: against the peaks of the changed steps, each planned and run."""

from dataclasses import replace
from typing import Any

import pytest

import accelarray
from experiments.explain.freeing import (
    GENTLE,
    LITTLE,
    PRICED,
    Freed,
    changes_of,
    freed,
)
from experiments.studies.case import Case, Planned, plan_of, simulated, step_of
from experiments.studies.options import with_options
from hardware import load_array
from planners import PlanError
from simulator import DEPLOYED, PUBLISHED, Timeline, memory_of
from simulator.engine.operations import CLASSES
from simulator.search.updates import with_updates
from workloads import load_network

GPT = "gpt3-125m:layers=2:seq=128"
NOTHING: list[str] = []


def case(network: str = GPT, array: str = "tpu-v3-8", batch: int = 32, **options: str) -> Case:
    planner = "axes" if "parallel" in options else "data_parallel"
    execution = with_options(DEPLOYED, options)
    return Case(load_network(network), planner, load_array(array), batch, execution=execution)


def found(mine: Case) -> dict[str, Freed]:
    some = freed(mine, *step_of(mine), NOTHING.append)
    known = [one.frees_bytes for one in some if one.frees_bytes is not None]
    assert known == sorted(known, reverse=True)
    assert all(one.reason for one in some[len(known) :])
    return {one.what: one for one in some}


def peak(timeline: Timeline) -> float:
    return max(one.peak_bytes for one in timeline.memory)


def test_a_change_that_no_step_can_have_is_not_offered() -> None:
    """Though its memory is known: the head's weights lie in other parts than the embedding's."""
    array = load_array("mixed-v100-t4")
    network = load_network("gpt2:layers=1:seq=64")
    with_zero = Case(network, "accpar", array, 64, execution=replace(DEPLOYED, update="weights"))
    plan = with_updates(network, plan_of(with_zero), array, with_zero.execution)
    with pytest.raises(PlanError, match="but not the same parts"):
        memory_of(network, plan, array, with_zero.execution)


AXES: dict[str, Any] = {"parallel": "dp=2,pp=2,tp=2", "micro_batch": "4"}
STAGES: dict[str, Any] = {"stages": "2", "micro_batches": "4", "tied": "copies", "batch": 256}
CHANGED: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    ({}, "--batch 16", {"batch": 16}),
    ({}, "--zero 1", {"update": "sharded"}),
    ({}, "--zero 2", {"update": "gradients"}),
    ({}, "--zero 3", {"update": "weights"}),
    ({}, "--recompute selective", {"recompute": "selective"}),
    ({}, "--recompute full", {"recompute": "full"}),
    (AXES, "--micro-batch 2", {"micro_batch": "2"}),
    (AXES, "--parallel dp=2,pp=2,tp=2,sp", {"parallel": "dp=2,pp=2,tp=2,sp"}),
    (AXES, "--parallel dp=1,pp=2,tp=4", {"parallel": "dp=1,pp=2,tp=4"}),
    (AXES, "--zero 2", {"update": "gradients"}),
    ({"parallel": "dp=4,tp=2"}, "--micro-batch 1", {"micro_batch": "1"}),
    ({"parallel": "dp=4,tp=2", "micro_batches": "2"}, "--micro-batches 4", {"micro_batches": "4"}),
    (STAGES, "--micro-batches 8", {"micro_batches": "8"}),
    (STAGES, "--recompute stages:all", {"recompute": "stages:all"}),
]


@pytest.mark.parametrize(("options", "what", "change"), CHANGED, ids=lambda x: str(x))
def test_what_is_freed_is_what_the_changed_step_holds_less(
    options: dict[str, Any], what: str, change: dict[str, Any]
) -> None:
    mine = case(**options)
    one = found(mine)[what]
    other = case(**{**options, **change})
    now, then = peak(step_of(mine)[1]), peak(step_of(other)[1])
    assert one.peak_bytes == then
    assert one.frees_bytes == (now - then if then < now else None)
    assert (one.reason is None) == (then < now)
    assert one.fits is (True if then < now else None)


def test_what_is_done_already_is_not_offered() -> None:
    words = {
        mine: {change.what for change in changes_of(case(update=mine[0], recompute=mine[1]))}
        for mine in (("replicated", "none"), ("sharded", "selective"), ("weights", "full"))
    }
    assert {"--zero 1", "--recompute selective"} <= words["replicated", "none"]
    assert words["sharded", "selective"] >= {"--zero 2", "--recompute full"}
    assert not {"--zero 1", "--recompute selective"} & words["sharded", "selective"]
    assert words["weights", "full"] == {"--batch 16", "--attention fused"}
    assert changes_of(replace(case(), execution=PUBLISHED)) == []
    inference = [change.what for change in changes_of(case(mode="inference"))]
    assert inference == ["--batch 16", "--attention fused"]
    plan = plan_of(case())
    planned = replace(case(), planner=Planned("mine", plan))
    assert not any(change.anew for change in changes_of(planned))


def test_a_class_that_is_little_is_not_tried_and_that_is_said() -> None:
    """With many samples on a core a small network's states are little; LITTLE bounds them."""
    mine = case("resnet18", batch=4096)
    timeline = step_of(mine)[1]
    (memory,) = timeline.memory
    held = dict(zip(CLASSES, memory.by_class, strict=True))
    states = held["weights"] + held["optimizer"] + held["gradients"]
    assert states < LITTLE * memory.peak_bytes
    some = found(mine)
    said = some["--zero 1"].reason
    share = f"{states / memory.peak_bytes:.1%}"
    assert said == f"weights, optimizer and gradients are {share} of the peak"
    really = memory.peak_bytes - peak(step_of(case("resnet18", batch=4096, update="sharded"))[1])
    assert really <= states
    assert (some["--batch 2048"].frees_bytes or 0) > 0.4 * memory.peak_bytes


def test_what_cannot_be_says_why() -> None:
    some = found(case(**AXES))
    assert "take zero=2" in (some["--zero 3"].reason or "")
    assert some["--zero 3"].peak_bytes is None


def test_of_unlike_devices_cores_as_large_as_the_fullest_are_compared() -> None:
    mine = Case(load_network("resnet18"), "accpar", load_array("tpu-mixed"), 4096)
    mine = replace(mine, execution=DEPLOYED)
    timeline = step_of(mine)[1]
    full = max(timeline.memory, key=lambda one: one.peak_bytes / one.capacity_bytes)
    smaller = replace(mine, batch=2048)
    half = simulated(smaller, plan_of(smaller))
    (then,) = [one for one in half.memory if one.device == full.device]
    one = found(mine)["--batch 2048"]
    assert one.frees_bytes == full.peak_bytes - then.peak_bytes
    assert one.fits == all(each.fits for each in half.memory)


def test_each_change_and_what_the_first_cost_is_a_step_of_progress() -> None:
    heard: list[str] = []
    mine = case()
    frees = freed(mine, *step_of(mine), heard.append)
    assert sorted(heard[: len(frees)]) == sorted(one.what for one in frees)
    assert heard[len(frees) :] == [f"what {one.what} costs" for one in frees[:PRICED]]


def test_where_a_step_does_not_fit_what_frees_least_of_what_then_fits_is_priced_too() -> None:
    whole = case()
    most = peak(step_of(whole)[1])
    small = load_array("tpu-v3-8", [f"devices.0.hbm.capacity={2 * (most - 1):.0f} B"])
    mine = replace(whole, array=small)
    plan, timeline = step_of(mine)
    assert not all(one.fits for one in timeline.memory)
    some = freed(mine, plan, timeline, NOTHING.append)
    fitting = [one for one in some if one.fits]
    assert len(fitting) > PRICED + GENTLE
    priced = [one for one in some if one.seconds is not None]
    assert priced == [*some[:PRICED], *fitting[-GENTLE:]]
    of_all = freed(whole, *step_of(whole), NOTHING.append)  # which fits as it is
    assert [one for one in of_all if one.seconds is not None] == list(of_all[:PRICED])


def test_what_needs_more_is_not_said_to_free() -> None:
    """Each change frees something, or says why it does not."""
    mine = case(**AXES)
    for one in found(mine).values():
        if one.frees_bytes is None:
            assert one.reason
        else:
            assert one.frees_bytes > 0
    chip = load_array("wham-1")
    alone = replace(Case(load_network("alexnet"), "data_parallel", chip, 64), execution=DEPLOYED)
    some = found(alone)
    assert {some[f"--zero {stage}"].reason for stage in (1, 2, 3)} == {"frees nothing"}


def test_what_simulate_refuses_frees_nothing() -> None:
    """The head uses the embedding's weights, of which AccPar's shares give it other parts."""
    on: dict[str, Any] = {"array": "mixed-a100-h100", "batch": 64}
    rows = accelarray.explain("gpt2:layers=2", "accpar", **on).to_dict()["frees"]
    (row,) = [row for row in rows if row["what"] == "--zero 3"]
    with pytest.raises(PlanError) as refused:
        accelarray.simulate("gpt2:layers=2", "accpar", zero=3, **on)
    assert row["reason"] == str(refused.value)
    assert row["frees_bytes"] is None
    assert row is rows[-1]
