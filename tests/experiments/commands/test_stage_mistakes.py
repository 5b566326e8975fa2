"""Pipelines that cannot be: one clear message, exit code 2, no traceback."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import main
from simulator.lowering.schedules import registry
from simulator.lowering.schedules.schedule import BACKWARD, FORWARD, Pass, Rank, Schedule

SIMULATE = ["simulate", "vgg16", "--planner", "data_parallel", "--array", "tpu-v3-8"]


def message(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What is said of a mistake, in one message."""
    assert main([*argv]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "Traceback" not in seen.err
    assert seen.err.count("error:") == 1
    return " ".join(seen.err.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--stages", "17"], "17 stages on 'tpu-v3-8', which has 8 accelerators; take fewer"),
        (["--stages", "8", "--virtual", "3"], "24 stages, but only 16 layers have weights"),
        (["--stages", "2", "--micro-batches", "3"], "3 micro-batches do not divide a batch of 256"),
        (["--micro-batches", "512"], "512 micro-batches do not divide a batch of 256; take 256"),
        (["--stages", "2", "--schedule", "1f2b"], "unknown schedule '1f2b'; did you mean 1f1b?"),
        (["--stages", "2", "--schedule", "zzz"], "unknown schedule 'zzz'; one of gpipe, 1f1b"),
        (["--stages", "0"], "stages=0: must be a whole number from 1"),
        (["--stages", str(2**20 + 1)], "must be a whole number from 1 to 1,048,576"),
        (["--stages", str(2**62)], "must be a whole number from 1 to 1,048,576"),
        (["--micro-batches", str(2**63)], "micro-batches="),
        (["--stages", str(2**20)], "1048576 stages on 'tpu-v3-8'"),
        (
            ["--stages", "2", "--virtual", "2", "--schedule", "1f1b"],
            "it has one stage a place, not 2",
        ),
        (["--stages", "4", "--virtual", "2", "--micro-batches", "2"], "no multiple of 4 places"),
        (["--stages", "2", "--cuts", "conv9_9"], "no layer 'conv9_9' to begin a stage with"),
        (["--stages", "3", "--cuts", "conv3_1"], "1 cuts make 2 stages, not 3"),
        (["--stages", "3", "--cuts", "conv3_1,conv2_1"], "that must be 0 and then ascending"),
        (["--stages", "4", "--schedule", "2bw", "--micro-batches", "2"], "from 4 micro-batches on"),
        (["--stages", "2", "--recompute", "stages:x"], "recompute=x: must be a whole number"),
        (
            ["--stages", "2", "--vertical-sync"],
            "schedule '1f1b': with a flush there is one version of the weights",
        ),
    ],
)
def test_what_is_wrong_is_said(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in message(capsys, *SIMULATE, "--batch", "256", *options)


def said_of(options: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What is written of a small step, in one line."""
    step = ["simulate", "gpt2:layers=2:seq=64", "--array", "h100-cluster", "--set", "nodes=1"]
    assert main([*step, "--batch", "64", *options]) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--recompute", "1"], False),
        (["--recompute", "2"], True),
        (["--recompute", "2", "--cuts", "head"], False),
    ],
)
def test_more_blocks_again_than_a_stage_has_are_said(
    options: list[str], *, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "--recompute 2: no stage has more than 1 blocks; all are done again."
    assert (said in said_of(["--parallel", "dp=4,pp=2", *options], capsys)) == told


ONE, ALONE = ["--parallel", "dp=8"], "No effect, without stages or micro-batches: "
PLANNED = ["--planner", "data_parallel"]
TRAINED = ["--optimizer", "adam", "--bucket", "0", "--tied", "copies"]
FLUSHED = "No effect, as schedule {} flushes after each batch: batches."


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([*ONE, "--schedule", "gpipe", "--cuts", "h1"], f"{ALONE}schedule gpipe, cuts."),
        (
            [*ONE, "--stage-layers", "4", "--tied", "copies"],
            f"{ALONE}tied copies, stage layers.",
        ),
        ([*ONE, "--vertical-sync", "--batches", "3"], f"{ALONE}vertical sync, batches."),
        (
            [*ONE, "--mode", "inference", "--recompute", "full"],
            "No effect, in inference: recompute.",
        ),
        (
            ["--parallel", "dp=4,pp=2", "--mode", "inference", *TRAINED],
            "No effect, in inference: optimizer, bucket, tied copies.",
        ),
        ([*ONE, "--micro-batch", "2", "--tied", "copies"], "No effect, without stages: tied"),
        ([*ONE, "--micro-batch", "2", "--batches", "3"], FLUSHED.format("1f1b")),
        ([*ONE, "--micro-batch", "2", "--schedule", "gpipe"], ""),  # it holds more
        (["--parallel", "dp=4,pp=2", "--stage-layers", "1,1", "--schedule", "gpipe"], ""),
        (["--parallel", "dp=4,pp=2", "--tied", "copies"], ""),
        (["--parallel", "dp=4,pp=2", "--batches", "3"], FLUSHED.format("1f1b")),
        ([*PLANNED, "--schedule", "gpipe"], f"{ALONE}schedule gpipe."),
        (["--planner", "pipedream", "--schedule", "1f1b", "--micro-batches", "8"], ""),
    ],
)
def test_what_a_step_of_one_stage_does_not_read_is_said(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said_of(options, capsys)
    assert said in found
    assert found.count("No effect") == bool(said)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ["fit", "--recompute", "full", "--schedule", "gpipe", "--best", "1"],
            "recompute, optimizer, schedule.",
        ),
        (
            ["sweep", "--planners", "data_parallel", "--vary", "recompute=none,full"],
            "optimizer, recompute.",
        ),
    ],
)
def test_studies_of_inference_say_what_training_alone_reads(
    command: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *options = command
    network = ["--networks"] if verb == "sweep" else []
    place = ["--array", "dgx-h100", "--batch", "16", "--mode", "inference", "--optimizer", "adam"]
    assert main([verb, *network, "gpt2:layers=2", *place, *options]) == 0
    (told,) = (line for line in capsys.readouterr().out.splitlines() if "No effect" in line)
    assert told == f"No effect, in inference: {said}"


def test_copies_of_weights_that_no_layer_shares(capsys: pytest.CaptureFixture[str]) -> None:
    staged = ["--batch", "256", "--stages", "2", "--micro-batches", "2", "--tied", "copies"]
    assert main([*SIMULATE, *staged]) == 0
    assert "No effect, without tied weights: tied copies." in capsys.readouterr().out


def test_a_cut_through_tied_weights_asks_who_sums(capsys: pytest.CaptureFixture[str]) -> None:
    gpt = ["simulate", "gpt2", "--planner", "data_parallel", "--array", "tpu-v3-8"]
    gpt += ["--batch", "16", "--stages", "4", "--micro-batches", "4"]
    said = message(capsys, *gpt)
    assert "whose weights it uses: say who sums their gradients (--tied copies" in said
    assert main([*gpt, "--tied", "copies"]) == 0
    capsys.readouterr()
    asynchronous = [*gpt, "--tied", "copies", "--schedule", "pipedream"]
    assert "would have other versions in each" in message(capsys, *asynchronous)


def test_a_recomputing_stage_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    said = message(capsys, *SIMULATE, "--batch", "256", "--stages", "2", "--recompute", "stages:5")
    assert "recompute=stages:5: there is no stage 5; stages are 0 to 1, or all" in said


def test_a_stage_that_does_not_fit_its_memory_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    argv = [*SIMULATE, "--batch", "512", "--stages", "4", "--micro-batches", "4"]
    argv += ["--schedule", "gpipe", "--set", "devices.0.hbm.capacity=4 GiB"]
    code = main(argv)
    seen = capsys.readouterr()
    assert "Traceback" not in seen.err
    assert "stage 0 (tpu-v3)" in seen.err
    assert code in (0, 2)


def backwards(rank: Rank) -> Iterator[Pass]:
    """All ranks but the last wait for its errors, and it for all of their micro-batches."""
    passes = [Pass(FORWARD, n) for n in range(rank.micro_batches)]
    back = [Pass(BACKWARD, n) for n in range(rank.micro_batches)]
    if rank.rank == rank.ranks - 1:
        yield from passes + back
    else:
        yield from (one for pair in zip(passes, back, strict=True) for one in pair)


def forgetful(rank: Rank) -> Iterator[Pass]:
    """One that leaves the last micro-batch out."""
    for n in range(rank.micro_batches - 1):
        yield Pass(FORWARD, n)
        yield Pass(BACKWARD, n)


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (
            backwards,
            [
                "schedule 'wrong': deadlock",
                "core0 (tpu-v3) waits in",
                "core3 (tpu-v3) waits in forward",
            ],
        ),
        (
            forgetful,
            ["'wrong': rank 0 does not take each of its 4 micro-batches once through part"],
        ),
    ],
)
def test_a_wrong_schedule_of_strangers_is_named(
    order: Any,
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(registry.SCHEDULES, "wrong", Schedule("wrong", order, "a wrong one"))
    said = message(
        capsys,
        *SIMULATE,
        "--batch",
        "64",
        "--stages",
        "4",
        "--micro-batches",
        "4",
        "--schedule",
        "wrong",
    )
    assert all(word in said for word in words), said


@pytest.fixture
def plan_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "plan.json"
    argv = ["plan", *SIMULATE[1:], "--batch", "256", "--stages", "4", "--micro-batches", "8"]
    assert main([*argv, "--format", "json", "--output", str(path)]) == 0
    capsys.readouterr()
    return path


def test_a_plan_with_stages_is_simulated_from_its_file(
    plan_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same time as if it were planned at once."""
    argv = ["--array", "tpu-v3-8", "--batch", "256", "--format", "json"]
    assert main(["simulate", "vgg16", "--plan", str(plan_file), *argv]) == 0
    from_file = json.loads(capsys.readouterr().out)
    again = [*SIMULATE, *argv[2:], "--stages", "4", "--micro-batches", "8"]
    assert main(again) == 0
    at_once = json.loads(capsys.readouterr().out)
    assert from_file["iteration_s"] == at_once["iteration_s"]


def pipeline_in(data: dict[str, Any]) -> dict[str, Any]:
    """Where the plan's pipeline is, in what the command writes."""
    found = data.get("pipeline") or data["plan"]["pipeline"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.update(micro_batches=7), "7 micro-batches of 32"),
        (
            lambda p: p.update(schedule="gpype"),
            ".json: pipeline.schedule: unknown schedule 'gpype'",
        ),
        (
            lambda p: p["places"][0].update(replicas=3),
            "place 0: replicas 3 do not divide its 2 accelerators",
        ),
        (lambda p: p["places"][3].update(first=99), "the stages need 101 accelerators"),
        (lambda p: p["places"][3].update(first=0), "have an accelerator in common"),
        (lambda p: p["stages"].pop(), "3 stages at 4 places"),
        (lambda p: p["stages"][1].pop("plan"), "not a plan: pipeline.stages.1.plan: is missing"),
        (lambda p: p.update(stages=None), "pipeline.stages: None: must be a list"),
        (lambda p: p.update(micro_batches=2**70), "a whole number from 1 to 1,048,576"),
        (lambda p: p.update(batches=-1), "pipeline.batches: -1: must be a whole number from 0 to"),
        (lambda p: p.update(batches=2**70), "must be a whole number from 0 to 1,048,576"),
    ],
    ids=range(11),
)
def test_malformed_plan_files(
    change: Any, words: str, plan_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(plan_file.read_text())
    change(pipeline_in(data))
    plan_file.write_text(json.dumps(data))
    argv = ["simulate", "vgg16", "--plan", str(plan_file), "--array", "tpu-v3-8"]
    assert words in message(capsys, *argv, "--batch", "256")
