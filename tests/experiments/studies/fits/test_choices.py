"""Every legal combination of axes and options, once, and what each is as a step."""

from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from itertools import product

import pytest

from experiments.output import UsageError
from experiments.studies.case import Case, plan_of
from experiments.studies.fits.choices import VARIED, Choice, Choices, held_of, varied_of
from experiments.studies.options import with_options
from experiments.studies.running.outputs import run_case
from hardware import Array, load_array
from planners import AXES, Axes, PlanError, Staging, planned_by_axes
from simulator import DEPLOYED
from workloads import Network, load_network

GPT = "gpt2:layers=4:seq=16"


def array(count: int = 8, hbm: str = "80 GiB") -> Array:
    sets = [f"devices.0.count={count}", "nodes=1", f'devices.0.hbm.capacity="{hbm}"']
    return load_array("h100-cluster", sets)


def asked(name: str, varied: tuple[str, ...], batch: int = 16, count: int = 8) -> Choices:
    return Choices(load_network(name), array(count), batch, DEPLOYED, varied)


def legal(network: Network, of: Array, batch: int, axes: Axes, size: int) -> bool:
    try:
        staging = Staging(parallel=axes, micro_batch=size)
        planned_by_axes(network, DEPLOYED.planned(of), batch, axes, staging)
    except PlanError:
        return False
    around = axes.pp if axes.vp > 1 else 1  # interleaved, micro-batches go round in groups
    return batch // (axes.dp * size) % around == 0


def test_every_legal_combination_by_trying_all() -> None:
    """Of gpt2's 12 heads two and four are powers of two; four layers are up to four stages."""
    of = asked(GPT, ("tp", "sp", "pp", "cp", "vp", "micro-batch"))
    found = [(choice.axes, choice.micro_batch) for choice in of.choices()]
    assert len(found) == len(set(found))
    powers = (1, 2, 4, 8)
    wanted = set()
    sizes = (*powers, 16)
    for tp, pp, cp, vp, size, sp in product(powers, powers, powers, powers, sizes, (False, True)):
        dp, rest = divmod(8, tp * pp * cp)
        axes = Axes(dp, pp, tp, vp, 1, cp, sp)
        few = pp * vp <= 4  # beyond, some stage has no whole block
        most = size <= 8 or pp == 1
        if not rest and dp and few and most and legal(of.network, of.array, 16, axes, size):
            wanted.add((axes, size))
    assert set(found) == wanted


def test_experts_are_split_within_dp() -> None:
    of = asked("mixtral-8x7b:layers=2:seq=16:hidden=64:heads=4:kv_heads=4:ffn=64", ("ep", "pp"))
    assert {(c.axes.dp, c.axes.ep) for c in of.choices() if c.axes.pp == 1} == {
        (8, 1),
        (8, 2),
        (8, 4),
        (8, 8),
    }
    assert {c.axes.ep for c in of.choices() if c.axes.pp == 2} == {1, 2, 4}


EXPERTS = "mixtral-8x7b:layers=2:seq=16:hidden=64:heads=4:kv_heads=4:ffn=64"


@pytest.mark.parametrize("etp", [0, 1])
def test_experts_are_split_as_axes_can_be(etp: int) -> None:
    """Whole ones over dp x tp, too: of 4 GPUs of tp and 2 of dp eight; none over a part of tp."""
    held = {"etp": etp} if etp else {}
    of = replace(asked(EXPERTS, ("tp", "ep"), count=8), held=held)
    found = {(c.axes.dp, c.axes.tp, c.axes.ep) for c in of.choices()}
    wanted = set()
    for tp, ep in product((1, 2, 4), (1, 2, 4, 8)):
        with suppress(PlanError):
            axes = Axes(8 // tp, 1, tp, 1, ep, etp=etp).on(8, "")
            wanted.add((axes.dp, tp, ep))
    assert found == wanted
    assert ((2, 4, 2) in found) == (not etp)
    assert (2, 4, 8) in found


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        ("interleaved", {(2, 2), (4, 2), (2, 4)}),
        ("zero-bubble", {(1, 1), (2, 1), (4, 1)}),
        ("gpipe", {(1, 1), (2, 1), (4, 1), (2, 2), (4, 2), (2, 4)}),
    ],
)
def test_a_schedule_has_its_stages(schedule: str, wanted: set[tuple[int, int]]) -> None:
    """Interleaved several at each place, others one; of eight blocks no more than eight."""
    of = asked("gpt2:layers=8:seq=16", ("pp", "vp", "micro-batch"), count=4)
    how = replace(DEPLOYED, staging=Staging(schedule=schedule))
    choices = [*replace(of, execution=how).choices()]
    assert {(c.axes.pp, c.axes.vp) for c in choices} == wanted
    for choice in choices:
        plan_of(of.case(choice))


def test_a_schedule_without_a_formula_is_ranked_as_the_usual() -> None:
    of = asked(GPT, ("pp",))
    own = replace(of, execution=replace(DEPLOYED, staging=Staging(schedule="pipedream")))
    choice = Choice(Axes(4, 2), 1)
    assert (own.without_formula, of.without_formula) == ("pipedream", "")
    assert own.layout(choice) == of.layout(choice)


def test_what_repeats_no_named_blocks_is_not_computed_again() -> None:
    """GNMT's LSTMs repeat, but no block of several layers does."""
    assert {c.recompute for c in asked("gnmt", ("recompute",)).choices()} == {"none"}
    assert "full" in {c.recompute for c in asked(GPT, ("recompute",)).choices()}


def test_micro_batches_of_images_are_larger() -> None:
    for network, most in (("resnet18", 64), (GPT, 8)):
        of = asked(network, ("pp", "micro-batch"), batch=512)
        assert max(c.micro_batch for c in of.choices() if c.axes.pp > 1) == most


def test_a_choice_is_an_execution() -> None:
    choice = Choice(Axes(2, 2, 2, cp=2, sp=True), 4, "selective", "sharded", "zero-bubble")
    execution = choice.of(DEPLOYED)
    assert execution.staging is not None
    assert execution.staging.parallel == choice.axes
    assert (execution.staging.micro_batch, execution.recompute) == (4, "selective")
    assert (execution.update, execution.strict_memory) == ("sharded", True)
    assert execution.staging.schedule == choice.fields()["schedule"] == "zero-bubble"
    assert choice.fields()["sp"] is True


def test_what_is_varied() -> None:
    assert varied_of("tp, cp") == ("tp", "cp")
    with pytest.raises(UsageError, match="--axes tp,xp: no 'xp'; there are tp, sp, pp"):
        varied_of("tp,xp")


ZERO_OF = {"replicated": "0", "sharded": "1", "gradients": "2", "weights": "3"}


def test_all_ways_to_update() -> None:
    """The four ways that simulate knows; weights in parts have one stage."""
    of = asked(GPT, varied_of("pp,zero"))
    assert of.varied == ("pp", "update")
    found = {(choice.axes.pp, choice.update) for choice in of.choices()}
    whole = {"replicated", "sharded", "gradients"}
    assert found == {(pp, how) for pp in (1, 2, 4) for how in whole} | {(1, "weights")}
    for choice in of.choices():
        case = of.case(choice)
        options = {"parallel": str(choice.axes), "micro_batch": "1", "zero": ZERO_OF[choice.update]}
        by_hand = Case(
            case.network, AXES, case.array, 16, execution=with_options(DEPLOYED, options)
        )
        assert run_case(case)["iteration_s"] == run_case(by_hand)["iteration_s"]
        assert choice.fields()["update"] == choice.update


def test_what_is_given_is_not_varied() -> None:
    options = {"zero": "2", "recompute": "selective", "schedule": "gpipe"}
    execution = with_options(DEPLOYED, options)
    of = Choices(load_network("gpt2:layers=4:attention=unfused"), array(), 16, execution)
    found = list(of.choices())
    assert {choice.update for choice in found} == {"gradients"}
    assert {choice.recompute for choice in found} == {"selective"}
    assert {of.layout(choice).usual_schedule for choice in found} == {"gpipe"}
    for choice in (found[0], found[-1]):
        ran = of.case(choice).execution
        assert (ran.update, ran.recompute) == ("gradients", "selective")
        assert ran.staging is not None
        assert ran.staging.schedule == "gpipe"


HELD = ("tp=2", "tp=2,sp", "dp=4", "pp=2,vp=2", "cp=2,tp=4"), (None, 4)


@pytest.mark.parametrize(("axes", "size"), [*product(HELD[0], HELD[1]), (None, 2)])
def test_combinations_with_what_is_held_are_those_of_all_that_have_it(
    axes: str | None, size: int | None
) -> None:
    every = asked(GPT, ("tp", "sp", "pp", "vp", "cp", "micro-batch"))
    held = held_of(axes, size)

    def has(choice: Choice) -> bool:
        values = choice.fields() | {"micro-batch": choice.micro_batch}
        return all(values[name] == many for name, many in held.items())

    found = list(replace(every, held=held).choices())
    assert found == [choice for choice in every.choices() if has(choice)] != []


def test_what_is_held_need_not_be_a_power_of_two() -> None:
    of = replace(asked(GPT, ("pp",), batch=24), held=held_of("tp=2", 3))
    assert {(c.axes.tp, c.axes.pp, c.micro_batch) for c in of.choices()} == {
        (2, 1, 3),
        (2, 2, 3),
        (2, 4, 3),
    }
    assert not [*replace(of, held={"tp": 8}).choices()]  # of 12 heads
    assert not [*replace(of, held={"micro-batch": 5}).choices()]


def test_weights_in_parts_have_one_stage_where_they_are_given_too() -> None:
    execution = with_options(DEPLOYED, {"zero": "3"})
    of = Choices(load_network(GPT), array(), 16, execution, ("pp",))
    assert {choice.axes.pp for choice in of.choices()} == {1}


def test_bytes_of_parts() -> None:
    """An H100's: 2 B of a weight, 4 of its gradient, 8 of the optimizer's; four devices share."""
    network = load_network(GPT)
    of = Choices(network, array(), 16, DEPLOYED, ("update",))
    each = {"replicated": 14.0, "sharded": 8.0, "gradients": 5.0, "weights": 3.5}
    for how, size in each.items():
        choice = Choice(Axes(2, 1, 2, cp=2), 1, update=how)
        assert of.state_bytes(choice) == pytest.approx(network.parameters * size / 2)


def test_inference_holds_weights_alone() -> None:
    network = load_network(GPT)
    of = Choices(network, array(), 16, replace(DEPLOYED, mode="inference"), ("tp",))
    assert of.state_bytes(Choice(Axes(4, tp=2), 1)) == pytest.approx(network.parameters * 2 / 2)


def test_plain_data_parallelism_is_among_them() -> None:
    """ResNet-50's whole share of 12 samples is no power of two, and has no micro-batches."""
    of = Choices(load_network("resnet50"), array(), 96, DEPLOYED, ("micro-batch", "recompute"))
    sizes = [c.micro_batch for c in of.choices() if (c.axes.dp, c.recompute) == (8, "none")]
    assert sizes == [1, 2, 4, 12]
    plain = Case(of.network, "data_parallel", of.array, 96, execution=DEPLOYED)
    whole = of.case(Choice(Axes(dp=8), 12))
    assert run_case(whole)["iteration_s"] == run_case(plain)["iteration_s"]


def test_more_and_more_is_computed_again() -> None:
    """Attention's scores, then so many blocks of a stage, then all of them."""
    of = asked("gpt2:layers=8:attention=unfused", ("pp", "recompute"))
    choice: Choice | None = Choice(Axes(4, 2), 1)
    found = []
    while choice is not None:
        found.append(choice.recompute)
        choice = of.heavier(choice)
    assert found == ["none", "selective", "1", "2", "full"]
    one_by_one = {c.recompute for c in of.choices() if c.axes.pp == 8}
    assert one_by_one == {"none", "selective", "full"}
    fused = asked("gpt2:layers=8:attention=fused", ("pp", "recompute"))
    assert "selective" not in {c.recompute for c in fused.choices()}  # it keeps no scores


def test_stages_with_fewer_layers_at_the_ends_are_the_stages_of_the_step() -> None:
    """Of eight blocks on four stages, where the last stage has the head, too."""
    of = asked("gpt2:layers=8", ("pp", "layers"))
    found = {c.layers for c in of.choices() if c.axes.pp == 4}
    assert found == {(), (2, 3, 2, 1), (1, 3, 3, 1)}
    for choice in (c for c in of.choices() if c.axes.pp == 4):
        plan = planned_by_axes(
            of.network,
            DEPLOYED.planned(of.array),
            16,
            choice.axes,
            of.case(choice).execution.staging or Staging(),
        )
        assert plan.pipeline is not None
        if choice.layers:
            assert of.layout(choice).firsts == plan.pipeline.firsts


def test_a_network_is_not_compared_for_each_combination(monkeypatch: pytest.MonkeyPatch) -> None:
    """In other processes it is a copy for each part, and to compare copies takes milliseconds."""
    compared, equal = [], Network.__eq__

    def counted(one: Network, other: object) -> bool:
        compared.append(one)
        return equal(one, other)

    monkeypatch.setattr(Network, "__eq__", counted)
    for part in range(2):
        of = deepcopy(replace(asked(GPT, VARIED), part=(part, 2)))
        for choice in of.choices():
            of.state_bytes(choice)
            of.layout(choice)
    assert len(compared) < 30
