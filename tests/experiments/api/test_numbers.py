"""Every result has the numbers, and the words, of the command that does the same."""

import json
from pathlib import Path
from typing import Any

import pandas
import pytest

import accelarray
from experiments.api.inputs import network_of
from hardware import load_array
from tests.experiments.api import SET, SMALL, said, values
from workloads import load_network


def without_wall(text: str) -> list[str]:
    return [line for line in text.splitlines() if "wall time" not in line]


def test_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    step = accelarray.simulate("alexnet", "hypar", set=SMALL, batch=64)
    args = ("simulate", "alexnet", "--planner", "hypar", *SET, "--batch", "64")
    theirs = values(capsys, *args, "--metrics", "time,traffic")
    ours = json.loads(step.to_json())
    assert ours.pop("wall_s") > 0
    assert theirs.pop("wall_s") > 0
    assert ours.pop("energy_j") is None
    assert ours == theirs
    assert without_wall(step.summary()) == without_wall(
        said(capsys, *args, "--metrics", "time,traffic")
    )
    assert (step.energy_j, step.traffic_bytes) == (None, theirs["traffic_bytes"])
    assert step.shares.computing == theirs["computing"]
    assert step.warnings == ()


def test_a_step_with_energy(capsys: pytest.CaptureFixture[str]) -> None:
    step = accelarray.simulate("hypar-lenet-c", "hypar", "hypar-16", 256)
    args = ("simulate", "hypar-lenet-c", "--planner", "hypar", "--array", "hypar-16")
    theirs = values(capsys, *args, "--batch", "256", "--metrics", "energy")
    assert step.energy_j == theirs["energy_j"] == step.to_dict()["energy_j"]
    assert "energy" in step.summary()


def test_options_of_the_deployed_model(capsys: pytest.CaptureFixture[str]) -> None:
    options: Any = {"overlap": "none", "shards": "exact", "bucket": "1 MB", "algorithm": "ring"}
    step = accelarray.simulate(
        "lenet", "accpar", "tpu-v3-8", 64, "deployed", objective="traffic", **options
    )
    args = [word for key, value in options.items() for word in (f"--{key}", value)]
    theirs = values(
        capsys,
        *("simulate", "lenet", "--planner", "accpar", "--array", "tpu-v3-8", "--batch", "64"),
        *("--execution", "deployed", "--objective", "traffic", *args),
    )
    assert step.to_dict()["iteration_s"] == theirs["iteration_s"]
    assert step.to_dict()["execution"] == theirs["execution"]
    assert theirs["objective"] == "traffic"
    plain = accelarray.simulate("lenet", "accpar", "tpu-v3-8", 64, "deployed")
    assert plain.iteration_s != step.iteration_s


def test_an_unfolded_step(capsys: pytest.CaptureFixture[str]) -> None:
    folded = accelarray.simulate("lenet", "owt", set=SMALL)
    single = accelarray.simulate("lenet", "owt", set=SMALL, folded=False)
    theirs = values(capsys, "simulate", "lenet", "--planner", "owt", *SET, "--unfolded")
    assert single.to_dict()["distinct_cores"] == theirs["distinct_cores"] == 32
    assert single.timeline.iteration_ps == folded.timeline.iteration_ps
    assert len(single.to_frame()) > len(folded.to_frame())


def test_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    plan = accelarray.plan("alexnet", "accpar", set=SMALL, communication="printed")
    args = ("plan", "alexnet", "--planner", "accpar", "--array", "accpar-mixed", *SET)
    assert json.loads(plan.to_json()) == values(capsys, *args)
    assert plan.summary() == said(capsys, *args)


def test_a_deployed_plan_goes_down_to_cores(capsys: pytest.CaptureFixture[str]) -> None:
    plan = accelarray.plan("alexnet", "accpar", "tpu-v3-8", execution="deployed")
    args = ("plan", "alexnet", "--planner", "accpar", "--array", "tpu-v3-8")
    assert json.loads(plan.to_json()) == values(capsys, *args, "--execution", "deployed")
    assert plan.summary() == said(capsys, *args, "--execution", "deployed")
    assert plan.array.group.size == 8


def test_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    result = accelarray.compare(["lenet", "alexnet"], ["owt", "accpar"], set=SMALL, batch=64)
    args = ("speedup", *SET, "--networks", "lenet,alexnet", "--planners", "owt,accpar")
    theirs = values(capsys, *args, "--batch", "64")
    assert json.loads(result.to_json()) == theirs
    assert result.summary() == said(capsys, *args, "--batch", "64")
    assert result.geomean == theirs["geomean"]
    assert result.messages == theirs["notes"]
    frame = result.to_frame()
    assert frame["speedup"].tolist() == [row["speedup"] for row in theirs["rows"]]
    step = result.step("alexnet", "accpar")
    assert step.iteration_s == theirs["rows"][-1]["iteration_s"]
    assert step.plan.network == "alexnet"


def test_other_metrics_of_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    result = accelarray.compare(
        "hypar-lenet-c", "hypar", "hypar-16", 256, metrics=["time", "energy", "traffic"]
    )
    theirs = said(
        capsys,
        *("speedup", "--networks", "hypar-lenet-c", "--planners", "hypar", "--array", "hypar-16"),
        *("--batch", "256", "--metrics", "time,energy,traffic"),
    )
    assert result.summary() == theirs
    assert {"energy_j", "traffic_bytes"} <= {*result.to_frame().columns}


def test_sizes_of_an_array(capsys: pytest.CaptureFixture[str]) -> None:
    result = accelarray.scale("lenet", "owt,accpar", levels=range(1, 4), batch=64)
    args = ("speedup", "--networks", "lenet", "--planners", "owt,accpar", "--batch", "64")
    assert json.loads(result.to_json()) == values(capsys, *args, "--levels", "1-3")
    assert result.summary() == said(capsys, *args, "--levels", "1-3")
    frame = result.to_frame()
    assert [*frame["accelerators"]] == [2, 2, 4, 4, 8, 8]
    assert [*frame.index] == [*range(6)]


def test_a_sweep(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    vary = {"network.bandwidth": "1 Gbit/s:100 Gbit/s:log:3", "batch": [64, 128]}
    result = accelarray.sweep(vary, ["lenet"], ["owt", "accpar"], set=SMALL, metrics="traffic")
    path = tmp_path / "cases.json"
    words = [word for key, value in vary.items() for word in ("--vary", f"{key}={_text(value)}")]
    args = ("sweep", *words, "--networks", "lenet", "--planners", "owt,accpar", *SET)
    printed = said(capsys, *args, "--metrics", "traffic", "--output", str(path))
    assert json.loads(result.to_json())["rows"] == json.loads(path.read_text())
    assert result.summary().endswith(printed)
    frame = result.to_frame()
    assert len(frame) == 12
    assert "energy_j" not in frame
    frame["speedup"] = 0.0
    assert (result.to_frame()["speedup"] > 0).all()  # the result is not the frame's to change
    row = result.to_frame().iloc[5]
    step = result.step(5)
    assert step.iteration_s == row["iteration_s"]
    assert (step.case.batch, step.case.planner) == (row["batch"], row["planner"])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ",".join(map(str, value))


def test_crossovers_of_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    vary = "network.bandwidth=1 Gbit/s:10 Tbit/s:log:5"
    result = accelarray.sweep(vary, "lenet", "owt,hypar,accpar", set=SMALL)
    args = ("sweep", "--vary", vary, "--networks", "lenet", "--planners", "owt,hypar,accpar")
    assert result.summary() == said(capsys, *args, *SET)
    for cross in result.crossovers:
        assert f"{cross.first} = {cross.second} between" in result.summary()
        assert cross.below < cross.value < cross.above


@pytest.mark.parametrize("model", ["published", "deployed"])
def test_an_explanation(capsys: pytest.CaptureFixture[str], model: str) -> None:
    changes = {"network.bandwidth": "100 Gbit/s", "devices.0.count": 2, "devices.1.count": 2}
    result = accelarray.explain("lenet", "accpar", batch=64, execution=model, set=changes)
    words = [word for key, value in changes.items() for word in ("--set", f"{key}={value}")]
    args = ("explain", "lenet", "--planner", "accpar", "--batch", "64", "--execution", model)
    theirs = values(capsys, *args, *words)
    assert json.loads(result.to_json()) == theirs
    assert result.summary() == said(capsys, *args, *words)
    assert [change["assignment"] for change in theirs["set"]] == words[1::2]
    assert result.messages == theirs["notes"]
    frame = result.to_frame()
    assert frame["path_s"].is_monotonic_decreasing
    assert frame["path_s"].sum() == pytest.approx(theirs["iteration_s"])
    parts = frame[["computing_s", "exposed_s", "waiting_s"]]
    assert parts.to_numpy().sum() == pytest.approx(theirs["iteration_s"])
    assert result.timeline.iteration_s == result.iteration_s == theirs["iteration_s"]
    step = accelarray.simulate("lenet", result.plan, execution=model, set=changes)
    assert step.timeline.iteration_ps == result.timeline.iteration_ps
    own = accelarray.simulate("lenet", "accpar", batch=64, execution=model, set=changes).explain()
    assert own.to_dict() == theirs | {"set": []}  # a step does not know what changed its array


def test_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (accelarray.simulate("alexnet", p, set=SMALL) for p in ("owt", "accpar"))
    result = accelarray.difference(first, second)
    args = ("compare", "alexnet", "--planners", "owt,accpar", *SET)
    assert json.loads(result.to_json()) == values(capsys, *args)
    assert result.summary() == said(capsys, *args)
    frame = result.to_frame()
    assert [*frame.columns] == ["layer", "owt [s]", "accpar [s]", "difference [s]"]
    assert frame["owt [s]"].sum() == pytest.approx(first.iteration_s)
    change = second.iteration_s - first.iteration_s
    assert frame["difference [s]"].sum() == pytest.approx(change)


def test_a_plan_and_a_timeline_as_frames() -> None:
    step = accelarray.simulate("alexnet", "accpar", set=SMALL)
    records = step.to_frame()
    assert len(records) == len(step.timeline)
    assert records["end_ps"].max() == step.timeline.iteration_ps
    types = step.planned().to_frame()
    assert [*types.columns] == ["group", "level", "layer", "type", "share", "cost", "update"]
    assert len(types) == 3 * len(step.plan.nodes)  # v2 | v3, and each in halves
    assert step.plan.root is not None
    top = types[types["level"] == 0]
    assert top["type"].tolist() == [str(kind) for kind in step.plan.root.types]
    assert top["share"].tolist() == [cut.share for cut in step.plan.root.partitions]
    assert isinstance(types, pandas.DataFrame)
    assert step.planned().plan is step.plan


@pytest.mark.parametrize("transform", [(), ("apart",)])
def test_a_stack_says_whether_sums_of_gradients_are_kernels_of_their_own(
    transform: tuple[str, ...],
) -> None:
    def alone(*changes: str) -> set[str]:
        array = load_array("v100-cluster", ("precision=fp16", "nodes=1", *changes))
        network = network_of("gpt2", transform, array)
        return {one.name for one in network.layers if one.apart}

    plain, summing = alone("stack=nemo-2024"), alone("stack=megatron-2021")
    layers = load_network("gpt2").layers
    biased = {one.name for one in layers if one.weighted and one.bias}
    norms = {one.name for one in layers if one.operator == "layer_norm"}
    assert biased
    assert norms
    assert not plain & (biased | norms)
    assert summing - plain == biased | norms
