"""accelarray fit: a table, a picture, JSON, and its mistakes."""

import json
import shlex
import sqlite3
from pathlib import Path

import pytest

from accelarray import fit
from experiments.cli import main

FIT = ["fit", "gpt2:layers=2:seq=16", "--array", "tpu-v3-8", "--batch", "8"]


def test_the_fastest_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "fit.png"
    assert main([*FIT, "--axes", "tp,pp", "--format", "json", "--plot", str(plot)]) == 0
    found = json.loads(capsys.readouterr().out)
    seconds = [row["iteration_s"] for row in found["fits"]]
    assert seconds == sorted(seconds)
    assert found["combinations"] == found["simulated"] == len(seconds) == 6
    assert plot.read_bytes().startswith(b"\x89PNG")
    best = found["fits"][0]
    axes = f"dp={best['dp']},tp={best['tp']},pp={best['pp']}"
    step = ["simulate", *FIT[1:], "--parallel", axes, "--micro-batch", str(best["micro_batch"])]
    assert main([*step, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["iteration_s"] == best["iteration_s"]


def test_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--axes", "tp"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines()[:6])) <= 80
    said = "3 combinations: the first pass estimated 3. The engine simulated 3."
    assert said in " ".join(out.split())


def test_several_sizes_of_an_array_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Each size is there, and what is said to be the best is a step with these flags."""
    gpt = ["gpt2:layers=2:seq=16", "--array", "h100-cluster", "--batch", "16"]
    assert (
        main(
            [
                "fit",
                *gpt,
                "--axes",
                "tp,micro-batch,zero",
                "--vary",
                "nodes=1,2",
                "--objective",
                "cost",
                "--best",
                "4",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if line.startswith(("│", "┃"))]
    assert max(map(len, rows)) <= 80
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in rows]
    assert {row[1] for row in cells if row[0].startswith("dp")} == {"1", "2"}
    spent = [float(row[-2].replace(",", "")) for row in cells if row[0].startswith("dp")]
    assert spent == sorted(spent)
    best = out.partition("The best again: ")[2].splitlines()[0]
    assert main(["simulate", *gpt, *shlex.split(best)]) == 0
    step_time = next(row[-3] for row in cells if row[0].startswith("dp"))
    assert f"│ {step_time} " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        # its blocks are no layers that can be counted
        (["alexnet", "--array", "mixed-v100-t4", "--batch", "32"], "--cuts"),
        (
            [
                *("mixtral-8x7b:layers=1:seq=64:hidden=64:heads=4:kv_heads=4:ffn=64", "--array"),
                *("dgx-a100", "--batch", "8", "--parallel", "tp=2,ep=4,etp=1"),
            ],
            "etp=1",
        ),
    ],
)
def test_the_best_again_is_the_best(
    asked: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", *asked, "--best", "1", "--format", "json"]) == 0
    seconds = json.loads(capsys.readouterr().out)["fits"][0]["iteration_s"]
    assert main(["fit", *asked, "--best", "1"]) == 0
    best = capsys.readouterr().out.partition("The best again: ")[2].splitlines()[0]
    assert named in best
    step = asked[: asked.index("--batch") + 2]
    assert main(["simulate", *step, *shlex.split(best), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["iteration_s"] == seconds


def test_one_batch_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--vary", "batch=8,16"]) == 2
    assert "fit is of one batch; ask for each by --batch" in capsys.readouterr().err


def test_stages_that_compute_again_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """They have no formula; without a word they were left out."""
    assert main([*FIT, "--parallel", "pp=2", "--recompute", "stages:all"]) == 2
    assert "take --recompute full" in capsys.readouterr().err


def test_a_schedule_without_a_formula_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    untied = ["fit", "gpt2:layers=2:seq=16:tied=no", *FIT[2:], "--schedule", "pipedream"]
    assert main([*untied, "--axes", "pp"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Schedule pipedream has no formula: they are ranked as with 1f1b." in said


def test_stages_that_are_not_searched_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two kinds of devices, but of one name."""
    kind = '[[devices]]\ndevice = "tpu-v3"\ncount = 1\n'
    path = tmp_path / "alike.toml"
    wires = '[topology]\nkind = "torus"\njoins = "chips"\n'
    path.write_text(f'kind = "array"\n{kind}{kind}hbm.bandwidth = "800 GB/s"\n{wires}')
    args = ["fit", "lenet", "--array", str(path), "--batch", "16", "--jobs", "1"]
    assert main([*args, "--axes", "micro-batch"]) == 0
    out, err = capsys.readouterr()
    assert "Stages over kinds of devices are left out: " in " ".join(err.split())
    assert "1 combination: the first pass estimated " in out


def test_what_a_store_has_already_changes_no_order(tmp_path: Path) -> None:
    """Two combinations that take equally long changed places with what was finished before."""
    asked = ("gpt2:layers=2:seq=16", "tpu-v3-8", 8)
    first = fit(*asked, best=8, store=tmp_path / "s.db")
    with sqlite3.connect(tmp_path / "s.db") as store:
        store.execute("DELETE FROM results WHERE rowid % 2")
    assert fit(*asked, best=8, store=tmp_path / "s.db").to_dict() == first.to_dict()


def test_tokens_of_a_step_stand_for_the_batch(capsys: pytest.CaptureFixture[str]) -> None:
    small = [word for word in FIT if word not in ("--batch", "8")]
    args = [*small, "--axes", "tp", "--format", "json"]
    assert main([*args, "--tokens-per-step", "0.128K"]) == 0
    assert json.loads(capsys.readouterr().out)["batch"] == 8
    assert main([*args, "--tokens-per-step", "128", "--batch", "8"]) == 2
    assert "say one of the two" in capsys.readouterr().err


def test_no_legal_combination_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["fit", "gpt2:layers=2:seq=16", "--array", "tpu-v3-8", "--axes", "micro-batch"]
    assert main([*args, "--batch", "7"]) == 2
    assert "no dp divides a batch of 7" in capsys.readouterr().err


def test_an_option_that_fit_does_not_take_is_said_not_to_be_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    step = ("fit", "gpt2", "--array", "h100-cluster", "--batch", "16")
    assert main([*step, "--set", "planner=owt"]) == 2
    said = capsys.readouterr().err
    assert "--set planner: this command does not take the option planner" in said
    assert "did you mean" not in said


def test_options_are_held_by_set_too(capsys: pytest.CaptureFixture[str]) -> None:
    args = [*FIT, "--axes", "tp", "--format", "json"]
    found = []
    for given in (["--zero", "1"], ["--set", "zero=1"]):
        assert main([*args, *given]) == 0
        found.append(json.loads(capsys.readouterr().out)["fits"])
    assert found[0] == found[1]
    assert {row["update"] for row in found[0]} == {"sharded"}
