"""Every legal combination of axes, once; what the weights alone rule out; ranks and reasons."""

from itertools import product

import pytest

from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.fitting import Choice, Fit, ranked, row_of, run_choice, varied_of, why_not
from experiments.studies.options import ZERO, with_options
from experiments.studies.running.outputs import run_case
from hardware import Array, load_array
from planners import AXES, Axes, PlanError, Staging, planned_by_axes
from simulator import DEPLOYED
from workloads import Network, load_network

GPT = "gpt2:layers=4:seq=16"


def array(count: int = 8, hbm: str = "80 GiB") -> Array:
    sets = [f"devices.0.count={count}", "nodes=1", f'devices.0.hbm.capacity="{hbm}"']
    return load_array("h100-cluster", sets)


def asked(name: str, varied: tuple[str, ...], batch: int = 16, count: int = 8) -> Fit:
    return Fit(load_network(name), array(count), batch, DEPLOYED, varied)


def legal(network: Network, of: Array, batch: int, axes: Axes, size: int) -> bool:
    try:
        staging = Staging(parallel=axes, micro_batch=size)
        planned_by_axes(network, DEPLOYED.planned(of), batch, axes, staging)
    except PlanError:
        return False
    return True


def test_every_legal_combination_by_trying_all() -> None:
    """Of gpt2's 12 heads two and four are powers of two; four layers are up to four stages."""
    fit = asked(GPT, ("tp", "sp", "pp", "cp", "vp", "micro-batch"))
    found = [(choice.axes, choice.micro_batch) for choice in fit.choices()]
    assert len(found) == len(set(found))
    powers = (1, 2, 4, 8)
    wanted = set()
    sizes = (*powers, 16)
    for tp, pp, cp, vp, size, sp in product(powers, powers, powers, powers, sizes, (False, True)):
        dp, rest = divmod(8, tp * pp * cp)
        axes = Axes(dp, pp, tp, vp, 1, cp, sp)
        few = pp * vp <= 4  # beyond, some stage has no whole block
        most = size <= 8 or pp == 1
        if not rest and dp and few and most and legal(fit.network, fit.array, 16, axes, size):
            wanted.add((axes, size))
    assert set(found) == wanted


def test_experts_are_split_within_dp() -> None:
    fit = asked("mixtral-8x7b:layers=2:seq=16:hidden=64:heads=4:kv_heads=4:ffn=64", ("ep", "pp"))
    assert {(c.axes.dp, c.axes.ep) for c in fit.choices() if c.axes.pp == 1} == {
        (8, 1),
        (8, 2),
        (8, 4),
        (8, 8),
    }
    assert {c.axes.ep for c in fit.choices() if c.axes.pp == 2} == {1, 2, 4}


def test_weights_that_cannot_fit_are_not_tried() -> None:
    """gpt2-xl has 1.56 billion parameters of 18 B and more: 26 GiB on one device of 16 GiB."""
    fit = Fit(load_network("gpt2-xl:seq=16"), array(4, "16 GiB"), 8, DEPLOYED, ("pp",))
    assert {choice.axes.pp for choice in fit.choices()} == {1, 2, 4}
    tried = {choice.axes.pp for choice in fit.cases()}
    assert tried < {1, 2, 4}
    for choice in fit.choices():
        outputs = run_choice(Fit.cases(fit)[choice]) if choice in fit.cases() else None
        assert outputs is None or outputs["iteration_s"] or "memory" in outputs["reason"]


def test_more_is_computed_again_only_where_less_does_not_fit() -> None:
    """On HBM of all sizes: the lightest that fits, and what was tried before it."""
    found = {}
    for hbm in ("1 GiB", "2 GiB", "4 GiB", "64 GiB"):
        network = load_network("gpt2:layers=4:seq=512:attention=unfused")
        fit = Fit(network, array(1, hbm), 8, DEPLOYED, ("recompute",))
        waiting, tried = dict(fit.cases()), []
        while waiting:
            choice, case = waiting.popitem()
            outputs = run_choice(case)
            tried.append((choice.recompute, bool(outputs["iteration_s"])))
            waiting |= fit.after(choice, outputs)
        found[hbm] = tried
    assert found["64 GiB"] == [("none", True)]
    for tried in found.values():
        assert [fits for _, fits in tried[:-1]] == [False] * (len(tried) - 1)
        assert [word for word, _ in tried] == ["none", "selective", "full"][: len(tried)]
    assert max(map(len, found.values())) > 1


@pytest.mark.parametrize(
    ("layers", "count", "hbm"), [(4, 4, "1 GiB"), (4, 4, "2 GiB"), (12, 2, "3 GiB")]
)
def test_the_staircase_finds_all_that_fits(layers: int, count: int, hbm: str) -> None:
    """What it leaves out does not fit, or fits with less computed again: by running all."""
    network = load_network(f"gpt2:layers={layers}:attention=unfused")
    fit = Fit(network, array(count, hbm), 16, DEPLOYED, ("pp", "tp", "micro-batch", "recompute"))
    runs = {choice: run_choice(fit.case(choice)) for choice in fit.choices()}
    waiting, tried = [*fit.cases()], list[Choice]()
    while waiting:
        tried.append(waiting.pop())
        waiting += fit.after(tried[-1], runs[tried[-1]])
    assert len(tried) == len(set(tried)) < len(runs)
    lightest = dict[tuple[Axes, int], Choice]()
    for choice, outputs in runs.items():
        if outputs["iteration_s"]:
            lightest.setdefault((choice.axes, choice.micro_batch), choice)
    assert {choice for choice in tried if runs[choice]["iteration_s"]} == set(lightest.values())
    assert len({choice.recompute for choice in lightest.values()}) > 1


def test_a_choice_is_an_execution() -> None:
    choice = Choice(Axes(2, 2, 2, cp=2, sp=True), 4, "selective", "sharded")
    execution = choice.of(DEPLOYED)
    assert execution.staging is not None
    assert execution.staging.parallel == choice.axes
    assert (execution.staging.micro_batch, execution.recompute) == (4, "selective")
    assert (execution.update, execution.strict_memory) == ("sharded", True)
    assert choice.fields()["sp"] is True


def test_rows_reasons_and_ranks() -> None:
    fit = asked(GPT, ("tp",))
    rows = [row_of(choice, case, run_choice(case)) for choice, case in fit.cases().items()]
    best = ranked(rows)
    assert [row["tp"] for row in best] == sorted(
        {1, 2, 4}, key=lambda tp: next(row["iteration_s"] for row in rows if row["tp"] == tp)
    )
    for row in best:
        assert row["tokens_per_s_each"] == pytest.approx(16 * 16 / row["iteration_s"] / 8)
    none = {"iteration_s": None}
    full = [("x does not fit in memory", True), ("tp=16: no", False)]
    rows = [none | {"reason": reason, "out_of_memory": over} for reason, over in full]
    assert why_not(rows) == {"do not fit in memory": 1, "cannot be": 1}
    assert ranked(rows) == []


def test_what_is_varied() -> None:
    assert varied_of("tp, cp") == ("tp", "cp")
    with pytest.raises(UsageError, match="--axes tp,xp: no 'xp'; there are tp, sp, pp"):
        varied_of("tp,xp")


def test_all_ways_to_update() -> None:
    """The four ways that simulate knows; weights in parts have one stage."""
    fit = asked(GPT, varied_of("pp,zero"))
    assert fit.varied == ("pp", "update")
    found = {(choice.axes.pp, choice.update) for choice in fit.choices()}
    whole = {"replicated", "sharded", "gradients"}
    assert found == {(pp, how) for pp in (1, 2, 4) for how in whole} | {(1, "weights")}
    for choice, case in fit.cases().items():
        outputs = run_choice(case)
        options = {"parallel": str(choice.axes), "micro_batch": "1", "zero": ZERO_OF[choice.update]}
        by_hand = Case(
            case.network, AXES, case.array, 16, execution=with_options(DEPLOYED, options)
        )
        assert outputs["iteration_s"] == run_case(by_hand)["iteration_s"]
        assert choice.fields()["update"] == choice.update


def test_what_is_asked_for_is_kept_where_updates_are_not_varied() -> None:
    execution = with_options(DEPLOYED, {"zero": "2"})
    fit = Fit(load_network(GPT), array(), 16, execution, ("pp",))
    assert {case.execution.update for case in fit.cases().values()} == {"gradients"}
    assert {choice.fields()["update"] for choice in fit.choices()} == {"gradients"}
    varied = Fit(load_network(GPT), array(), 16, execution, ("update",))
    cases = varied.cases().items()
    assert {choice.update: case.execution.update for choice, case in cases} == {
        "replicated": "",
        "sharded": "sharded",
        "gradients": "gradients",
        "weights": "weights",
    }


def test_bytes_of_parts() -> None:
    """An H100's: 2 B of a weight, 4 of its gradient, 8 of the optimizer's; four devices share."""
    network = load_network(GPT)
    fit = Fit(network, array(), 16, DEPLOYED, ("update",))
    each = {"replicated": 14.0, "sharded": 8.0, "gradients": 5.0, "weights": 3.5}
    for how, size in each.items():
        choice = Choice(Axes(2, 1, 2, cp=2), 1, update=how)
        assert fit.state_bytes(choice) == pytest.approx(network.parameters * size / 2)


ZERO_OF = {word: stage for stage, word in ZERO.items()}


def test_passes_are_those_of_all_stages() -> None:
    """As the plan has them: each of so many micro-batches goes through every stage."""
    fit = asked(GPT, ("tp", "pp", "micro-batch"))
    for choice in fit.choices():
        staging = Staging(parallel=choice.axes, micro_batch=choice.micro_batch)
        plan = planned_by_axes(fit.network, DEPLOYED.planned(fit.array), 16, choice.axes, staging)
        many = plan.pipeline.micro_batches * len(plan.pipeline.stages) if plan.pipeline else None
        assert many in (None, fit.passes(choice))


def test_plain_data_parallelism_is_among_them() -> None:
    """ResNet-50's whole share of 12 samples is no power of two, and has no micro-batches."""
    fit = Fit(load_network("resnet50"), array(), 96, DEPLOYED)
    sizes = [c.micro_batch for c in fit.choices() if (c.axes.dp, c.recompute) == (8, "none")]
    assert sizes == [1, 2, 4, 12]
    plain = Case(fit.network, "data_parallel", fit.array, 96, execution=DEPLOYED)
    whole = fit.case(Choice(Axes(dp=8), 12))
    assert run_case(whole)["iteration_s"] == run_case(plain)["iteration_s"]
    assert fit.after(Choice(Axes(dp=8), 4), {"out_of_memory": False}).keys() == {
        Choice(Axes(dp=8), 12)
    }
