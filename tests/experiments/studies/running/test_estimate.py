"""What a run will take, said before it: the order of magnitude, and what is cheaper."""

import json
import re
import time
import tracemalloc
from dataclasses import replace

import pytest

import accelarray
from experiments.cli import main
from experiments.studies.case import Case, step_of
from experiments.studies.running.estimate import (
    LARGE_BYTES,
    LONG_S,
    Estimate,
    estimate,
    forewarning,
    together,
)
from hardware import load_array
from planners import AXES, Axes, Staging
from simulator import DEPLOYED, PUBLISHED, Execution
from simulator.engine import VARIABLE
from workloads import load_network

SLOW = ("--set", "devices.0.count=8192", "--unfolded")


def case(network: str, array: str = "accpar-mixed", *changes: str) -> Case:
    return Case(load_network(network), "accpar", load_array(array, changes), 512)


FEW = ("devices.0.count=8", "devices.1.count=8")
CASES = {
    "deep": case("gpt2-medium:seq=64"),
    "every board": replace(case("resnet18"), folded=False),
    "deployed": replace(case("resnet50"), execution=DEPLOYED),
    "deployed alike": replace(case("llama3-8b:seq=64", "tpu-v3-pod"), execution=DEPLOYED),
    "every core": replace(case("vgg11", "accpar-mixed", *FEW), execution=DEPLOYED, folded=False),
    "told apart": replace(case("vgg11", "tpu-v3-pod", "devices.0.count=12"), execution=DEPLOYED),
    "all together": replace(
        case("resnet50", "tpu-v3-pod", "devices.0.count=24"),
        planner="data_parallel",
        execution=DEPLOYED,
    ),
    "by axes": Case(
        load_network("llama3-8b"),
        AXES,
        load_array("h100-cluster", ["nodes=4"]),
        64,
        execution=replace(DEPLOYED, staging=Staging(parallel=Axes.parse("pp=16,tp=2"))),
    ),
    "searched": replace(case("resnet18", "tpu-v3-pod", "devices.0.count=4"), planner="search"),
    "searched, deployed": replace(
        case("alexnet", "tpu-v3-8"), planner="search", execution=DEPLOYED
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_seconds_are_of_the_right_order_of_magnitude(name: str) -> None:
    started = time.process_time()
    step_of(CASES[name])
    taken = time.process_time() - started
    assert taken / 10 < estimate(CASES[name]).seconds < taken * 10


@pytest.mark.parametrize("name", ["every board", "every core"])
def test_bytes_are_of_the_right_order_of_magnitude(name: str) -> None:
    tracemalloc.start()
    try:
        step_of(CASES[name])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most / 10 < estimate(CASES[name]).held_bytes < most * 10


@pytest.mark.parametrize("execution", [PUBLISHED, DEPLOYED])
def test_work_grows_with_all_that_is_counted(execution: Execution) -> None:
    small = replace(case("vgg11", "accpar-homogeneous"), execution=execution)
    for larger in (
        replace(small, network=load_network("vgg19")),
        replace(small, array=load_array("accpar-homogeneous", ["devices.0.count=4096"])),
        replace(small, array=load_array("accpar-mixed")),
        replace(small, folded=False),
    ):
        assert estimate(larger).seconds > estimate(small).seconds
        assert estimate(larger).held_bytes > estimate(small).held_bytes


def test_steps_one_after_another_add_their_seconds_and_share_their_memory() -> None:
    small, large = estimate(CASES["deployed"]), estimate(CASES["every board"])
    both = together([CASES["deployed"], CASES["every board"]])
    assert both.seconds == small.seconds + large.seconds
    assert both.held_bytes == max(small.held_bytes, large.held_bytes)
    assert together([]) == Estimate(0.0, 0.0)


def test_only_what_takes_long_or_much_is_announced() -> None:
    assert forewarning([]) is None
    assert all(forewarning([one]) is None for one in CASES.values())
    assert not Estimate(LONG_S, LARGE_BYTES).large
    assert Estimate(LONG_S + 1, 0.0).large
    assert Estimate(0.0, LARGE_BYTES * 2).large
    many = [CASES["deep"]] * 1000
    said = forewarning(many)
    assert said is not None
    assert said.startswith("1,000 steps will take about")
    assert "fewer networks, planners or values" in said
    assert forewarning(many, jobs=1000) is not None  # it is the work that is large
    assert forewarning(many, jobs=2000) == forewarning(many, jobs=1000)


def test_what_would_be_cheaper_is_said_with_what_it_takes() -> None:
    one = CASES["every core"]
    large = replace(one, array=load_array("accpar-mixed", ["devices.0.count=4096"]))
    said = forewarning([large]) or ""
    assert f"folded (the same result): {estimate(replace(large, folded=True))}" in said
    published = replace(large, execution=PUBLISHED)
    assert f"under the published model: {estimate(published)}" in said
    deep = replace(case("llama3-405b"), array=load_array("accpar-mixed"))
    lone = forewarning([deep] * 1) or forewarning([deep] * 400) or ""
    assert "400 steps" in lone


def test_amounts_are_said_in_words() -> None:
    assert str(Estimate(0.04, 5e6)) == "about 0.04 s and 5 MB"
    assert str(Estimate(119.0, 3e9)) == "about 119 s and 3 GB"
    assert str(Estimate(7100.0, 2.1e10)) == "about 118 min and 21 GB"
    assert str(Estimate(20_000.0, 3.5e11)) == "about 6 h and 350 GB"


def long(out: str) -> list[str]:
    """The warnings of a long run, among others."""
    return [said for said in json.loads(out)["warnings"] if "will take about" in said]


def test_a_long_step_is_announced_on_stderr_and_in_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.studies.running.estimate.LONG_S", 0.001)
    assert main(["simulate", "lenet", "--planner", "owt", "--format", "json"]) == 0
    said = capsys.readouterr()
    (warning,) = long(said.out)
    assert re.match(r"this step will take about 0.\d+ s and \d MB, roughly; ", warning)
    assert said.err == f"accelarray: warning: {warning}\n"


@pytest.mark.parametrize(
    "args",
    [
        ("speedup", "--networks", "lenet"),
        ("speedup", "--networks", "lenet", "--levels", "1-2"),
        ("compare", "lenet", "--planners", "owt,accpar"),
        ("explain", "lenet", "--planner", "owt"),
    ],
    ids=" ".join,
)
def test_every_study_is_announced(
    args: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([*args, "--format", "json"]) == 0
    assert long(capsys.readouterr().out) == []
    monkeypatch.setattr("experiments.studies.running.estimate.LONG_S", 0.0)
    assert main([*args, "--format", "json"]) == 0
    said = capsys.readouterr()
    (warning,) = long(said.out)
    assert warning in said.err


def test_python_is_warned_as_the_command_line_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.studies.running.estimate.LONG_S", 0.0)
    for asked in (
        lambda: accelarray.simulate("lenet", "owt"),
        lambda: accelarray.explain("lenet", "owt"),
        lambda: accelarray.compare("lenet", "owt"),
    ):
        with pytest.warns(accelarray.AccelarrayWarning, match="will take about"):
            asked()


def test_micro_batches_take_their_time() -> None:
    """Every one of them is simulated, folded or not."""
    network, array = load_network("llama3-405b"), load_array("tpu-v3-pod")

    def staged(micro_batches: int, *, folded: bool = True) -> Estimate:
        execution = replace(DEPLOYED, staging=Staging(64, micro_batches))
        one = Case(network, "data_parallel", array, 4096, execution=execution, folded=folded)
        return estimate(one)

    one, two, three = (staged(many).seconds for many in (512, 1024, 1536))
    assert two > one + 1
    assert three - two == pytest.approx(two - one)
    assert staged(512, folded=False).seconds > one


def by_axes(words: str, samples: int = 0, schedule: str = "") -> Estimate:
    staging = Staging(parallel=Axes.parse(words), micro_batch=samples, schedule=schedule)
    execution = replace(DEPLOYED, staging=staging)
    array = load_array("h100-cluster", ["nodes=4"])
    return estimate(Case(load_network("llama3-8b"), AXES, array, 64, execution=execution))


def test_axes_make_stages_and_micro_batches() -> None:
    """Of 64 samples in two ways 32 go through each stage, or 16 pairs."""
    assert by_axes("pp=2,tp=8") == by_axes("dp=2,pp=2,tp=8")
    one, two, four = (by_axes("dp=2,pp=2,tp=8", samples).seconds for samples in (1, 2, 4))
    assert one > two > four  # 16 and 8 turns fewer, of which most repeat others
    alone, apart = (by_axes(axes, 1).seconds for axes in ("dp=16,pp=2", "dp=2,pp=2,tp=8"))
    assert apart > 1.2 * alone  # 32 micro-batches for 4, and layers that exchange


def test_micro_batches_that_repeat_are_not_all_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All 32 are in GPipe, and where repeats are switched off."""
    plan = "dp=2,pp=2,tp=8", 1
    some, all_ = by_axes(*plan).seconds, by_axes(*plan, "gpipe").seconds
    assert all_ > 1.3 * some
    monkeypatch.setenv(VARIABLE, "repeats")
    assert by_axes(*plan).seconds == by_axes(*plan, "gpipe").seconds == all_
