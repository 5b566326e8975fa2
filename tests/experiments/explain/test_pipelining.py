"""What explain says of a pipeline, and what else it tries."""

import json
from dataclasses import replace

import pytest

from experiments.cli import main
from experiments.explain.other_pipelines import pipeline_side, steps_beside
from experiments.explain.study import explain, messages
from experiments.studies.case import Case, Planned, step_of
from experiments.studies.options import with_options
from hardware import load_array
from planners import AXES, Plan, Staging
from simulator import DEPLOYED
from simulator.analysis.stages import stage_uses
from simulator.search.stages import replicated_stages
from workloads import load_network


def case(**options: str) -> Case:
    given = {"stages": "4", "micro_batches": "8"} | options
    execution = with_options(DEPLOYED, given)
    return Case(
        load_network("vgg16"), "data_parallel", load_array("tpu-v3-8"), 256, execution=execution
    )


def test_alternatives_are_what_simulating_them_gives() -> None:
    heard: list[str] = []
    mine = case()
    side = pipeline_side(mine, *step_of(mine), heard.append)
    assert side is not None
    assert len(heard) == len(side.alternatives) == steps_beside(mine)
    by_what = {one.what: one for one in side.alternatives}
    assert by_what["16 micro-batches"].seconds == step_of(case(micro_batches="16"))[1].iteration_s
    other = step_of(case(schedule="zero-bubble"))[1].iteration_s
    assert by_what["schedule zero-bubble"].seconds == other
    slowest = max(stage_uses(step_of(mine)[1]), key=lambda use: use.busy)
    (number,) = slowest.stages
    assert any(said.startswith(f"Stage {number} (") for said in side.sentences)
    plan = step_of(mine)[0]
    assert plan.pipeline is not None
    for what, cut, step in (
        ("first layer to the stage before", 0, 1),
        ("last layer to the next", 1, -1),
    ):
        found = by_what[f"the slowest stage gives its {what}"]
        firsts = list(plan.pipeline.firsts)
        if number + cut in (0, len(firsts)):
            assert (found.seconds, found.reason) == (None, "there is no such stage")
            continue
        firsts[number + cut] += step
        cuts = ",".join(plan.nodes[first] for first in firsts[1:])
        assert found.seconds == step_of(case(cuts=cuts))[1].iteration_s


def test_pipedream_is_told_of_more_micro_batches_and_other_cuts() -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=16"])
    mine = Case(load_network("vgg16"), "pipedream", array, 512)
    plan, timeline = step_of(mine)
    side = pipeline_side(mine, plan, timeline, lambda _: None)
    assert side is not None
    assert plan.pipeline is not None
    assert len(side.alternatives) == steps_beside(mine) == 3
    more, before, after = side.alternatives
    many = replace(mine, execution=replace(mine.execution, staging=Staging(micro_batches=32)))
    assert (more.what, more.seconds) == ("32 micro-batches", step_of(many)[1].iteration_s)
    assert (before.seconds, before.reason) == (None, "there is no such stage")

    def cut_at(second: int) -> Plan:
        whole, staging = replace(plan, pipeline=None), Staging(micro_batches=16)
        places = plan.pipeline.places if plan.pipeline else ()
        return replicated_stages(whole, mine.network, array, staging, (0, second), places)

    second = plan.pipeline.firsts[1]
    assert cut_at(second) == plan
    other = replace(mine, planner=Planned("pipedream", cut_at(second - 1)))
    assert after.seconds == step_of(other)[1].iteration_s != timeline.iteration_s


def test_a_step_without_stages_has_none() -> None:
    plain = Case(load_network("lenet"), "data_parallel", load_array("tpu-v3-8"), 64)
    assert pipeline_side(plain, *step_of(plain), lambda _: None) is None
    assert steps_beside(plain) == 0


def test_links_are_told_to_be_of_one_of_several_alike_pipelines() -> None:
    """Eight replicas of each stage: those that share no link are one; unfolded, links are all."""
    network, array = load_network("gpt2:layers=2:seq=64"), load_array("h100-cluster", ["nodes=6"])
    given = {"parallel": "pp=2", "stage_hw": "h100-sxm:4x8;h100-sxm:2x8", "micro_batch": "1"}
    execution = with_options(DEPLOYED, given)
    one = Case(network, AXES, array, 16, execution=execution)
    said = "Links are those of one of 8 alike pipelines, which send as much each."
    assert said in messages(explain(one))
    assert said not in messages(explain(replace(one, folded=False)))


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = "explain lenet --planner data_parallel --array tpu-v3-8 --stages 2 --micro-batches 4"
    assert main([*words.split(), "--batch", "64", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["pipeline"]
    assert {"bubble", "stages", "alternatives", "notes", "schedule"} <= found.keys()
    assert len(found["stages"]) == 2


def by_axes(**options: str) -> Case:
    execution = with_options(DEPLOYED, {"parallel": "dp=2,pp=2,tp=2"} | options)
    network = load_network("gpt3-125m:layers=2:seq=128")
    return Case(network, "axes", load_array("tpu-v3-8"), 16, execution=execution)


@pytest.mark.parametrize(
    ("options", "others"),
    [
        ({"micro_batch": "1"}, [2]),
        ({}, [2]),
        ({"micro_batch": "2"}, [1, 4]),
        ({"micro_batch": "8"}, [4]),
    ],
    ids=str,
)
def test_who_says_the_samples_of_a_micro_batch_is_told_of_others(
    options: dict[str, str], others: list[int]
) -> None:
    mine = by_axes(**options)
    side = pipeline_side(mine, *step_of(mine), lambda _: None)
    assert side is not None
    assert steps_beside(mine) == len(side.alternatives)
    seconds = {one.what: one.seconds for one in side.alternatives}
    bubbles = step_of(by_axes(schedule="zero-bubble", **options))[1].iteration_s
    assert seconds.pop("schedule zero-bubble") == bubbles
    assert seconds == {
        f"micro-batches of {n}": step_of(by_axes(micro_batch=str(n)))[1].iteration_s for n in others
    }


def test_who_says_how_many_micro_batches_is_told_of_more() -> None:
    mine = by_axes(micro_batches="2")
    side = pipeline_side(mine, *step_of(mine), lambda _: None)
    assert side is not None
    whats = ["4 micro-batches", "schedule zero-bubble"]
    assert [one.what for one in side.alternatives] == whats
    assert side.alternatives[0].reason is None


def staged(parallel: str, **options: str) -> Case:
    execution = with_options(DEPLOYED, {"parallel": parallel, "micro_batch": "1"} | options)
    network = load_network("gpt3-125m:layers=8:seq=128:vocab=65536")
    return Case(network, "axes", load_array("tpu-v3-8"), 16, execution=execution)


def test_the_slowest_stage_of_named_axes_gives_a_block_away() -> None:
    """The last stage has the head, and the stage that is idle most takes a block of it."""
    mine = staged("dp=2,pp=4")
    plan, timeline = step_of(mine)
    side = pipeline_side(mine, plan, timeline, lambda _: None)
    assert side is not None
    assert len(side.alternatives) == steps_beside(mine)
    seconds = {one.what: one.seconds for one in side.alternatives}
    least = min(stage_uses(timeline)[:-1], key=lambda use: use.busy).rank
    layers = ",".join(str(2 + (k == least) - (k == 3)) for k in range(4))
    others = {
        f"--stage-layers {layers}": staged("dp=2,pp=4", stage_layers=layers),
        "--parallel dp=2,pp=4,vp=2": staged("dp=2,pp=4,vp=2"),
        "schedule zero-bubble": staged("dp=2,pp=4", schedule="zero-bubble"),
    }
    found = {what: step_of(other)[1].iteration_s for what, other in others.items()}
    assert seconds.items() >= found.items()
    assert found[f"--stage-layers {layers}"] < timeline.iteration_s


def test_stages_that_cannot_be_otherwise_are_not_tried() -> None:
    """Eight blocks on eight stages are one each; two stages at each of four places are eight."""
    layers = {"stage_layers": "1,1,1,1,1,1,1,1"}
    for parallel, options in (("pp=8", {}), ("dp=2,pp=4,vp=2", {}), ("pp=8", layers)):
        mine = staged(parallel, **options)
        side = pipeline_side(mine, *step_of(mine), lambda _: None)
        assert side is not None
        whats = {one.what for one in side.alternatives}
        assert len(whats) == steps_beside(mine)
        assert not any(what.startswith("--") for what in whats)


@pytest.mark.parametrize("options", [{"schedule": "zero-bubble"}, {"stage_layers": "2,2,2,2"}])
def test_more_stages_a_place_are_not_tried_beside_what_forbids_them(
    options: dict[str, str],
) -> None:
    mine = staged("dp=2,pp=4", **options)
    side = pipeline_side(mine, *step_of(mine), lambda _: None)
    assert side is not None
    assert len(side.alternatives) == steps_beside(mine)
    assert not any("vp=2" in one.what for one in side.alternatives)
    assert all(one.reason is None for one in side.alternatives)


def test_a_stage_without_blocks_gives_none_away() -> None:
    """The last stage has the head alone, and is the slowest: the next slowest gives."""
    mine = staged("dp=2,pp=4", stage_layers="3,3,2,0")
    plan, timeline = step_of(mine)
    assert max(stage_uses(timeline), key=lambda use: use.busy).rank == 3
    side = pipeline_side(mine, plan, timeline, lambda _: None)
    assert side is not None
    (layers,) = (one for one in side.alternatives if "layers" in one.what)
    assert "-1" not in layers.what
    assert layers.reason is None
