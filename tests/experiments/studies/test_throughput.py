"""Samples and tokens a second, and the share of the peak, beside what the engine counted."""

import json
import math
from dataclasses import replace

import pytest

from experiments.cli import main
from experiments.studies.case import Case, plan_of, simulated
from experiments.studies.step_numbers import CONVENTION, Throughput, computed, throughput
from hardware import load_array
from simulator import DEPLOYED, Execution
from workloads import Builder, load_network


@pytest.mark.parametrize("network", ["resnet50", "gpt2:seq=128"])
def test_the_share_of_peak_is_three_forward_passes(
    network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The deployed model counts two FLOPs a multiply-add; backward and gradient as many each."""
    step = (network, "--planner", "data_parallel", "--array", "tpu-v3-8", "--batch", "64")
    assert main(["simulate", *step, "--format", "json"]) == 0
    out = json.loads(capsys.readouterr().out)
    (forward,) = (
        row["flops"]
        for row in out["phases"]
        if (row["phase"], row["kind"]) == ("forward", "compute")
    )
    peak = 4 * 123e12
    assert out["share_of_peak"] == pytest.approx(3 * forward / out["iteration_s"] / peak)
    assert out["samples_per_s"] == pytest.approx(64 / out["iteration_s"])
    if network == "resnet50":
        assert out["tokens_per_s"] is None
    else:
        assert out["tokens_per_s"] == pytest.approx(128 * 64 / out["iteration_s"])


@pytest.mark.parametrize(("capacity", "model"), [(1.0, 1.0), (2.0, 1.0), (1.5, 1.0), (0.5, 0.5)])
def test_experts_padding_is_no_model_flop(capacity: float, model: float) -> None:
    """Tokens for experts that are none cost time, and are no work; dropped ones are left out."""
    name = "mixtral-8x7b:layers=2:seq=256"
    networks = [load_network(f"{name}:capacity={factor}") for factor in (0, capacity)]
    routed = sum(layer.macs for layer in networks[0].layers if ".experts." in layer.name)
    rest = networks[0].macs - routed
    cases = [Case(one, "data_parallel", load_array("tpu-v3-8"), 8) for one in networks]
    shares = [throughput(case, 1.0).share_of_peak for case in cases]
    assert shares[1] / shares[0] == pytest.approx((rest + model * routed) / (rest + routed))
    assert networks[1].macs == pytest.approx(rest + capacity * routed)


def test_shares_of_a_gpt_are_the_papers() -> None:
    """Korthikanti et al. 2022: 72 B s n h^2 (1 + s/6h + V/12nh) model FLOPs.

    With all blocks computed again a third more but for the head, Narayanan et al.'s 96.
    """
    network = load_network("gpt3-125m:seq=512:layers=3")
    n, h, s, v, batch = 3, 768, 512, 51_200, 8
    model = 72 * batch * s * n * h * h * (1 + s / (6 * h) + v / (12 * n * h))
    hardware = 96 * batch * s * n * h * h * (1 + s / (6 * h) + v / (16 * n * h))
    array = load_array("tpu-v3-8")
    for recompute, done in (("none", model), ("full", hardware)):
        case = Case(network, "data_parallel", array, batch, execution=execution(recompute))
        timeline = simulated(case, plan_of(case))
        shown = throughput(case, timeline.iteration_s), computed(case, timeline)
        peak_s = 4 * 123e12 * timeline.iteration_s
        assert shown[0].share_of_peak == pytest.approx(model / peak_s)
        assert shown[1]["computed_share_of_peak"] == pytest.approx(done / peak_s)
        assert shown[1]["tokens_per_s_per_chip"] == pytest.approx(
            batch * s / 4 / timeline.iteration_s
        )


def execution(recompute: str) -> Execution:
    return replace(DEPLOYED, recompute=recompute)


def test_causal_attention_computes_less_than_is_counted() -> None:
    """Fused, (s + 1) / 2s of forward's pairs, and 2.5 times as many backward, not 2."""
    h, s = 768, 512
    case = Case(
        load_network("gpt2:seq=512:layers=1:attention=fused"),
        "data_parallel",
        load_array("tpu-v3-8"),
        8,
        execution=DEPLOYED,
    )
    timeline = simulated(case, plan_of(case))
    products = s * (12 * h * h + 50_257 * h)
    seen = (s + 1) / (2 * s) * 2 * s * s * h
    done = 2 * 8 * (3 * products + 3.5 * seen)
    share = computed(case, timeline)["computed_share_of_peak"]
    assert share == pytest.approx(done / (4 * 123e12 * timeline.iteration_s))


def test_without_tokens_there_are_none_a_chip() -> None:
    case = Case(load_network("lenet"), "owt", load_array("tpu-v3-8"), 64, execution=DEPLOYED)
    found = computed(case, simulated(case, plan_of(case)))
    assert found["tokens_per_s_per_chip"] is None
    assert found["computed_share_of_peak"]


def test_the_tables_say_what_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    step = ("gpt2:seq=64", "--planner", "owt", "--array", "tpu-v3-8", "--batch", "8")
    assert main(["simulate", *step]) == 0
    out = capsys.readouterr().out
    for key in ("samples/s", "tokens/s", "MFU", "HFU"):
        assert f"│ {key} " in out
    assert out.count("TFLOP/s per chip") == 2
    assert CONVENTION in out
    assert main(["explain", *step]) == 0
    _, rates, *rest = capsys.readouterr().out.splitlines()
    assert " samples/s, " in rates
    assert " MFU " in rates
    assert CONVENTION in rest


def test_studies_have_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    step = ("--planner", "owt", "--format", "json")
    one = json.loads(printed(capsys, "simulate", "gnmt", *step))
    study = ("--networks", "gnmt", "--planners", "owt", "--jobs", "1", "--format", "json")
    found = [json.loads(printed(capsys, "explain", "gnmt", *step))]
    found += json.loads(printed(capsys, "speedup", *study))["rows"]
    found += json.loads(printed(capsys, "sweep", *study, "--vary", "batch=512"))
    for row in found:
        for key in ("samples_per_s", "tokens_per_s", "share_of_peak"):
            assert row[key] == one[key]


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(args) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("bert-base", 512), ("gpt2:seq=64", 64), ("gnmt", 50), ("vit-b16", None), ("lenet", None)],
)
def test_tokens_of_a_sample(name: str, tokens: int | None) -> None:
    assert load_network(name).tokens == tokens


def test_one_id_is_no_sequence() -> None:
    net = Builder("recommender", 1, 1)
    net.embedding("rows", 100, 8)
    net.linear("out", 1)
    assert net.build().tokens is None


def test_in_words() -> None:
    assert str(Throughput(12.345, None, 0.5)) == "12.35 samples/s, MFU 50.0%"
    words = "1,234 samples/s, 1,000,000 tokens/s, MFU 1.2%"
    assert str(Throughput(1234.5, 1e6, 0.012)) == words
    none = throughput(Case(load_network("lenet"), "owt", load_array("tpu-v3-8"), 8), 0.0)
    assert math.isnan(none.samples_per_s)
    assert math.isnan(none.share_of_peak)
