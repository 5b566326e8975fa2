"""Samples and tokens a second, and the share of the peak, beside what the engine counted."""

import json
import math

import pytest

from experiments.cli import main
from experiments.studies.case import Case
from experiments.studies.throughput import CONVENTION, Throughput, throughput
from hardware import load_array
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


def test_the_tables_say_what_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    step = ("gpt2:seq=64", "--planner", "owt", "--array", "tpu-v3-8", "--batch", "8")
    assert main(["simulate", *step]) == 0
    out = capsys.readouterr().out
    for key in ("samples", "tokens", "share of peak"):
        assert f"│ {key} " in out
    assert CONVENTION in out
    assert main(["explain", *step]) == 0
    _, rates, *rest = capsys.readouterr().out.splitlines()
    assert " samples/s, " in rates
    assert rates.endswith("% of peak")
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
    assert str(Throughput(12.345, None, 0.5)) == "12.35 samples/s, 50.0% of peak"
    words = "1,234 samples/s, 1,000,000 tokens/s, 1.2% of peak"
    assert str(Throughput(1234.5, 1e6, 0.012)) == words
    none = throughput(Case(load_network("lenet"), "owt", load_array("tpu-v3-8"), 8), 0.0)
    assert math.isnan(none.samples_per_s)
    assert math.isnan(none.share_of_peak)
