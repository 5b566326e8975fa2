"""Explaining a step whose stages a search finds: they are searched anew on changed arrays."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from experiments.explain.freeing import changes_of
from experiments.explain.study import explain, steps_of
from experiments.explain.whatif import WORDS, sped_up, turn
from experiments.studies.case import Case, step_of
from experiments.studies.running.outputs import fastest_alone
from hardware import load_array
from planners import PlanError, Staging
from simulator import DEPLOYED
from simulator.search.kinds import over_kinds
from workloads import load_network

ONE_OF_EACH = ["devices.0.count=1", "devices.1.count=1"]
SLOW = "devices.0.network.bandwidth=1 Gbit/s"
OPEN = replace(DEPLOYED, staging=Staging(stages=0))


def case(*changes: str) -> Case:
    array = load_array("accpar-mixed", [*ONE_OF_EACH, *changes])
    return Case(load_network("lenet"), "search", array, 16, execution=OPEN)


def seconds(other: Case) -> float:
    return step_of(other)[1].iteration_s


def test_twice_as_fast_links_are_searched_anew() -> None:
    mine = case(SLOW)
    plan, timeline = step_of(mine)
    links = turn("links", mine, plan, timeline, dict.fromkeys(WORDS, 0.0))
    assert links.replanned_s < links.same_plan_s
    halves = [change.what for change in changes_of(mine) if change.what.startswith("--batch")]
    assert halves == ["--batch 8"]


@pytest.mark.slow
def test_each_question_is_answered_by_a_new_search() -> None:
    mine, heard = case(SLOW), list[str]()
    changes = [*ONE_OF_EACH, SLOW]

    def asked(some: Sequence[str]) -> Case:
        return replace(mine, array=load_array("accpar-mixed", some))

    found = explain(mine, changes, asked, heard.append)
    assert len(heard) == steps_of(mine, changes)
    faster = replace(mine, array=sped_up(mine.array, "links"))
    assert found.knobs[0].replanned_s == seconds(faster)
    assert found.settings[-1].unchanged_s == seconds(case())
    assert found.fast_alone_s == seconds(replace(mine, array=fastest_alone(mine.array)))
    assert found.data_parallel_s is not None
    (half,) = (one for one in found.frees if one.what == "--batch 8")
    assert half.reason is None


def test_without_a_pipeline_that_fits_the_plan_has_one_stage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(*_: object) -> None:
        raise PlanError("no stages fit")

    whole = replace(case(), execution=DEPLOYED)
    monkeypatch.setattr(over_kinds, "stages_over_kinds", none)
    plan, timeline = step_of(case())
    assert plan.pipeline is None
    assert timeline.iteration_s == seconds(whole)


def test_what_is_never_searched_is_said_although_one_stage_would_do() -> None:
    array = case().array.with_devices(lambda device: replace(device, name="one"))
    published = replace(case(), execution=replace(OPEN, model="published"))
    for other, words in ((replace(case(), array=array), "one name"), (published, "deployed model")):
        with pytest.raises(PlanError, match=words):
            step_of(other)
