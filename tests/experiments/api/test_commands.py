"""Functions of ``accelarray`` give the answers of the commands of the same names."""

from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.results.result import Result
from tests.experiments.api import SMALL, said, values
from tests.experiments.measured.some_rows import SMALL as ROW

GPT = "gpt2:layers=2:seq=16"


def like(result: Result, theirs: Any, *without: str) -> None:
    """A result has the numbers of the command, and a face."""
    ours = result.to_dict()
    assert {k: v for k, v in ours.items() if k not in without} == {
        k: v for k, v in theirs.items() if k not in without
    }
    assert "\n" not in repr(result)
    assert "object at" not in repr(result)
    assert len(result.to_frame()) == len(result.rows())
    assert result.summary()
    assert result.to_json().startswith("{")


def test_fit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    heard: list[str] = []
    found = accelarray.fit(GPT, "tpu-v3-8", 8, axes=["tp", "pp"], progress=heard.append)
    words = ("fit", GPT, "--array", "tpu-v3-8", "--batch", "8", "--axes", "tp,pp")
    like(found, values(capsys, *words))
    assert found.summary() == said(capsys, *words)
    assert found.fits[0]["iteration_s"] == min(row["iteration_s"] for row in found.fits)
    assert len(heard) == len(found.rows())  # each step, so that the time left is of all
    found.save(tmp_path / "fit.png")


def test_collective(capsys: pytest.CaptureFixture[str]) -> None:
    found = accelarray.collective("all-reduce", "100 MB", "ring-8", algorithm="ring")
    words = ("collective", "all-reduce", "--bytes", "100 MB", "--array", "ring-8")
    like(found, values(capsys, *words, "--algorithm", "ring"))
    assert accelarray.collective("all-reduce", 1e8, "ring-8").time_s == found.time_s
    with pytest.raises(accelarray.UsageError, match="one of all-reduce, reduce-scatter"):
        accelarray.collective("all_reduce", 1e8, "ring-8")


def test_what_a_collective_and_a_sweep_do_not_read_is_said() -> None:
    found = accelarray.collective("all-reduce", 1e8, "dgx-h100", precision="fp8")
    assert found.data["warnings"] == ["A collective does not read precision."]
    changes = {"devices.0.chip.peak_by_format.bf16": "1 PFLOP/s", "devices.0.hbm.capacity": "1 GiB"}
    idle = accelarray.collective("all-reduce", 1e8, "dgx-h100", set=changes).data["warnings"]
    assert idle == [f"A collective does not read {key}." for key in changes]
    with pytest.raises(accelarray.UsageError, match="--vary price: a sweep shows no cost"):
        accelarray.sweep({"price": [1, 2]}, "lenet", "data_parallel", "a100-cluster", 256)


def test_train(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run: Any = {"iterations": 6, "slowdown": "worker:0:5", "seed": 3}
    found = accelarray.train("lenet", 8, "ad-psgd", "ring-8", **run)
    words = ("train", "lenet", "--workers", "8", "--array", "ring-8", "--iterations", "6")
    drawn = ("--slowdown", "worker:0:5", "--seed", "3")
    like(found, values(capsys, *words, "--method", "ad-psgd", *drawn))
    assert repr(found) == "<Train lenet, ad-psgd on ring-8, 8 workers>"
    for name in ("run.svg", "run.html", "run.json.gz"):
        found.save(tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    both = accelarray.train("lenet", 8, array="ring-8", compare=["all-reduce", "ad-psgd"], **run)
    theirs = values(capsys, *words, "--compare", "all-reduce,ad-psgd", *drawn)
    like(both, theirs)
    grid = accelarray.train("lenet", 8, array="ring-8", vary={"workers": [4, 8]}, iterations=6)
    assert grid.to_dict() == values(capsys, *words, "--vary", "workers=4,8")
    assert [*grid.to_frame()["workers"]] == [4, 8]
    with pytest.raises(accelarray.UsageError, match="no page"):
        grid.save(tmp_path / "grid.html")


def test_design(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = accelarray.design("lenet", space="small", budget=20, top=1)
    words = ("design", "lenet", "--space", "small", "--budget", "20", "--top", "1")
    like(found, values(capsys, *words), "search_s")
    found.save(tmp_path / "designs.png")
    found.save(tmp_path / "core.toml")
    assert 'kind = "device"' in (tmp_path / "core.toml").read_text()
    with pytest.raises(
        accelarray.UsageError, match="--area -1: must be a number above zero, in mm2"
    ):
        accelarray.design("lenet", area=-1)
    with pytest.raises(
        accelarray.UsageError, match="--power 2 V: must be a number above zero, in W"
    ):
        accelarray.design("lenet", power="2 V")
    with pytest.warns(accelarray.AccelarrayWarning, match="--seed 3 has no effect: only --search"):
        accelarray.design("lenet", space="small", budget=4, top=1, seed=3)
    same = [
        accelarray.design("lenet", space="small", budget=4, top=1, search="random", power=power)
        for power in (200, "200 W")
    ]
    assert len({str(one.to_dict()["designs"]) for one in same}) == 1


def table(path: Path, *steps_s: float) -> str:
    """Measured rows in a file."""
    rows = [ROW | {"id": f"small/{i}", "step_s": s} for i, s in enumerate(steps_s)]
    lines = [",".join(map(str, ROW)), *(",".join(str(v) for v in row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_calibrate_and_validate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rows, stack = table(tmp_path / "rows.csv", 0.05, 0.06), tmp_path / "mine.toml"
    found = accelarray.calibrate(rows, jobs=1)
    like(found, values(capsys, "calibrate", rows))
    found.save(stack)
    assert 'kind = "stack"' in stack.read_text()
    checked = accelarray.validate(rows=rows, calibration=rows, jobs=1)
    like(checked, values(capsys, "validate", "--rows", rows, "--calibration", rows))
    with pytest.raises(accelarray.UsageError, match="--rank is for measured rows"):
        accelarray.validate(rank=True)


def test_reproduce(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = accelarray.reproduce("hypar", ["5"])
    like(found, values(capsys, "reproduce", "hypar", "--figures", "5"))
    found.save(tmp_path / "figures")
    assert (tmp_path / "figures" / "hypar-5.png").exists()
    assert found.plot().axes
    with pytest.raises(accelarray.UsageError, match="paper 'hyper': one of hypar, accpar"):
        accelarray.reproduce("hyper")


def test_report(tmp_path: Path) -> None:
    found = accelarray.report("lenet", "owt", "tpu-v3-8", 64, title="Mine")
    found.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == found.html
    assert (found.to_dict()["title"], found.to_dict()["networks"]) == ("Mine", ["lenet"])
    with pytest.raises(accelarray.UsageError, match=r"must end in \.html"):
        found.save(tmp_path / "page.png")


def test_speedup_is_compare_and_scale(capsys: pytest.CaptureFixture[str]) -> None:
    one = accelarray.speedup("lenet", "owt", set=SMALL)
    assert one.to_dict() == accelarray.compare("lenet", "owt", set=SMALL).to_dict()
    several = accelarray.speedup("lenet", "owt", levels=[1, 2])
    words = ("speedup", "--networks", "lenet", "--planners", "owt", "--levels", "1,2")
    assert several.to_dict() == values(capsys, *words)
    fair = accelarray.speedup("lenet", "owt", baselines=True, set=SMALL)
    assert "best_share" in fair.summary()


def test_degrees_of_parallelism_need_no_planner(capsys: pytest.CaptureFixture[str]) -> None:
    step = accelarray.simulate(GPT, array="tpu-v3-8", batch=8, parallel="dp=4,tp=2", zero=1)
    words = ("simulate", GPT, "--array", "tpu-v3-8", "--batch", "8", "--parallel", "dp=4,tp=2")
    theirs = values(capsys, *words, "--zero", "1")
    assert (step.iteration_s, step.case.planner) == (theirs["iteration_s"], "axes")
    with pytest.raises(accelarray.UsageError, match="name a planner"):
        accelarray.simulate("lenet")


def test_keywords_that_change_network_and_array(capsys: pytest.CaptureFixture[str]) -> None:
    asked: Any = {"attention": "fused", "precision": "bf16", "optimizer": "sgd"}
    step = accelarray.simulate(GPT, "data_parallel", "tpu-v3-8", 8, recompute="full", **asked)
    words = ("simulate", GPT, "--planner", "data_parallel", "--array", "tpu-v3-8", "--batch", "8")
    flags = [word for key, value in asked.items() for word in (f"--{key}", value)]
    theirs = values(capsys, *words, "--recompute", "full", *flags)
    assert step.iteration_s == theirs["iteration_s"]
    assert step.case.array.name == theirs["array"]
    assert step.case.execution.recompute == "full"
    plain = accelarray.simulate(GPT, "data_parallel", "tpu-v3-8", 8, recompute="full")
    assert plain.iteration_s != step.iteration_s
    why = accelarray.explain(GPT, "data_parallel", "tpu-v3-8", 8, optimizer="sgd")
    assert [one.assignment for one in why.explanation.settings] == ["optimizer=sgd"]
