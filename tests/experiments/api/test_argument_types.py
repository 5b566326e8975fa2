"""Names, paths, objects and functions are the same step."""

import dataclasses
import math
import pickle
import re
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accelarray
from accelarray import PlanError, UsageError
from planners import TIME, Objective, Partition, PartitionType, load_planner
from planners.hierarchy import plan_hierarchy
from simulator import DEPLOYED, Execution, SimulationError
from tests.experiments.api import SMALL
from workloads import load_network
from workloads.exporters.onnx_model import to_onnx

ARRAY = accelarray.array("accpar-mixed", set=SMALL)
LENET = load_network("lenet")
SAME = accelarray.simulate("lenet", "accpar", set=SMALL, batch=64)


def one_type(
    network: accelarray.Network, array: accelarray.Array, batch: int, objective: Objective = TIME
) -> accelarray.Plan:
    """Type I alone."""
    kinds = (PartitionType.I,)
    return plan_hierarchy("one_type", network, array, batch, objective, lambda node: kinds)


def ps(*args: Any, **kwargs: Any) -> int:
    return accelarray.simulate(*args, **kwargs).timeline.iteration_ps


@pytest.mark.parametrize("network", ["lenet", LENET], ids=["name", "object"])
@pytest.mark.parametrize(
    "planner",
    ["accpar", load_planner("accpar"), SAME.plan, SAME.planned()],
    ids=["name", "function", "plan", "result"],
)
@pytest.mark.parametrize(
    ("array", "changes"), [("accpar-mixed", SMALL), (ARRAY, ())], ids=["name", "object"]
)
def test_all_forms_are_one_step(network: Any, planner: Any, array: Any, changes: Any) -> None:
    step = accelarray.simulate(network, planner, array, 64, "published", set=changes)
    assert step.timeline.iteration_ps == SAME.timeline.iteration_ps
    assert step.to_dict() | {"wall_s": 0} == SAME.to_dict() | {"wall_s": 0}


def test_a_plan_from_a_file_is_the_same_step(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(SAME.planned().to_json())
    kept: dict[str, Any] = {"plan": file, "array": ARRAY, "batch": 64}
    assert ps("lenet", **kept) == SAME.timeline.iteration_ps
    assert accelarray.plan("lenet", **kept).plan == SAME.plan
    assert accelarray.explain("lenet", **kept).iteration_s == SAME.iteration_s
    for other in ({"planner": "accpar"}, {"parallel": "dp=8"}):
        with pytest.raises(UsageError, match="plan is a whole plan: leave out"):
            accelarray.simulate("lenet", **kept | other)
    with pytest.raises(PlanError, match=r"absent.json"):
        accelarray.simulate("lenet", plan="absent.json")


def test_networks_from_files(tmp_path: Path) -> None:
    onnx, layers, spec = tmp_path / "n.onnx", tmp_path / "n.txt", tmp_path / "a.toml"
    onnx.write_bytes(to_onnx(LENET).SerializeToString())
    for path in (onnx, str(onnx)):
        assert ps(path, "accpar", ARRAY, 64) == SAME.timeline.iteration_ps
    layers.write_text("num_layers 1\nfc1 FC\nin_ch 64\nout_ch 10\n")
    assert accelarray.network(layers).layers[-1].name == "fc1"
    spec.write_text(
        'kind = "array"\ndescription = "two"\n[[devices]]\ndevice = "tpu-v3"\ncount = 2'
    )
    assert accelarray.simulate(layers, "owt", spec).timeline.cores == 16
    assert accelarray.array(spec).name == "a"


def test_a_network_with_an_option() -> None:
    step = accelarray.simulate("gpt2:seq=128", "data_parallel", "tpu-v3-8", 8, "deployed")
    assert step.case.network == load_network("gpt2:seq=128")


def test_torch_modules_come_with_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def from_torch(module: Any, inputs: Any) -> accelarray.Network:
        asked.append((module, inputs))
        return LENET

    monkeypatch.setattr("workloads.importers.from_torch", from_torch)
    module = types.SimpleNamespace
    assert ps((module, "example"), "accpar", ARRAY, 64) == SAME.timeline.iteration_ps
    assert asked == [(module, "example")]
    result = accelarray.compare((module, 1), "owt", ARRAY)  # one network, not two
    assert result.comparison.networks == ["lenet"]
    accelarray.compare([(module, 1), "alexnet"], "owt", ARRAY)
    assert len(asked) == 3


def test_a_real_torch_module() -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    step = accelarray.simulate((module, torch.zeros(4, 64)), "data_parallel", ARRAY)
    assert step.case.network.weights == 64 * 32 + 32 * 8


def test_a_planner_of_your_own_goes_everywhere() -> None:
    step = accelarray.simulate("lenet", one_type, ARRAY, 64)
    data_parallel = accelarray.simulate("lenet", "data_parallel", ARRAY, 64)
    assert step.timeline.iteration_ps == data_parallel.timeline.iteration_ps
    assert "one_type" in repr(step)
    compared = accelarray.compare("lenet", [one_type, "accpar"], ARRAY, 64)
    assert compared.geomean["one_type"] == 1
    assert compared.step("lenet", "one_type").iteration_s == step.iteration_s
    swept = accelarray.sweep({"batch": [64, 128]}, "lenet", [one_type], ARRAY)
    assert swept.to_frame()["iteration_s"].iloc[0] == step.iteration_s
    assert swept.step(1).case.planner is one_type
    assert accelarray.explain("lenet", one_type, ARRAY, 64).iteration_s == step.iteration_s
    assert accelarray.plan("lenet", one_type, ARRAY, 64).plan == step.plan
    scaled = accelarray.scale("lenet", one_type, levels=[1], batch=64)
    assert scaled.to_frame()["speedup"].tolist() == [1]


def test_a_plan_that_is_made_already_goes_everywhere() -> None:
    mine = dataclasses.replace(SAME.plan, planner="mine")
    compared = accelarray.compare("lenet", [mine, "accpar"], ARRAY)
    assert compared.comparison.batch == 64  # what the plan was made for
    assert compared.geomean["mine"] == pytest.approx(compared.geomean["accpar"])
    frame = compared.to_frame().set_index("planner")
    assert frame["fast_alone_speedup"].isna()["mine"]  # it does not fit on those alone
    assert not frame["fast_alone_speedup"].isna()["accpar"]
    for array, changes in ((ARRAY, ()), ("accpar-mixed", SMALL)):
        explained = accelarray.explain("lenet", SAME.plan, array, set=changes)
        assert explained.iteration_s == SAME.iteration_s
        assert explained.to_dict()["fast_alone_s"] is None
    assert "without it there is no plan" in explained.summary()
    swept = accelarray.sweep("network.bandwidth=1 Gbit/s,8 Gbit/s", "lenet", mine, set=SMALL)
    assert [*swept.to_frame()["batch"]] == [64, 64]


def test_what_a_plan_was_made_for_holds() -> None:
    with pytest.raises(PlanError, match="'accpar' gave a plan for batch 64, not 128; plan again"):
        accelarray.simulate("lenet", SAME.plan, ARRAY, 128)
    with pytest.raises(PlanError, match="for communication printed, not plotted"):
        accelarray.simulate("lenet", SAME.plan, ARRAY, communication="plotted")
    with pytest.raises(PlanError, match="gave a plan for batch 64, not 128"):
        accelarray.sweep("batch=64,128", "lenet", SAME.plan, ARRAY)
    with pytest.raises(PlanError):
        accelarray.simulate("alexnet", SAME.plan, ARRAY)
    plotted = accelarray.plan("lenet", "hypar", ARRAY, communication="plotted", objective="traffic")
    case = accelarray.simulate("lenet", plotted, ARRAY).case
    assert (case.communication, case.objective) == ("plotted", "traffic")


def test_executions_by_name_and_as_objects() -> None:
    step = ("lenet", "owt", "tpu-v3-8", 64)
    assert ps(*step, "deployed") == ps(*step, DEPLOYED)
    whole = dataclasses.replace(
        DEPLOYED, overlap=False, bucket_bytes=1e6, update_order="arrival", strict_memory=True
    )
    options: Any = {
        "overlap": False,
        "bucket": 1_000_000,
        "update_order": "arrival",
        "strict_memory": True,
    }
    assert accelarray.simulate(*step, "deployed", **options).case.execution == whole
    assert accelarray.simulate(*step, whole).case.execution == whole
    both = accelarray.simulate(*step, whole, overlap=True, bucket=np.float64(2e6)).case.execution
    assert (both.overlap, both.bucket_bytes, both.strict_memory) == (True, 2e6, True)
    assert (
        accelarray.simulate(*step, whole, strict_memory=False).case.execution.strict_memory is False
    )


def test_changes_of_a_spec_in_every_form() -> None:
    forms: list[Any] = [
        ["devices.0.count=2", "network.bandwidth=1 Gbit/s"],
        {"devices.0.count": 2, "network.bandwidth": "1 Gbit/s"},
        iter(["devices.0.count=2", "network.bandwidth=1 Gbit/s"]),
    ]
    arrays = [accelarray.array("accpar-mixed", set=form) for form in forms]
    assert arrays[0] == arrays[1] == arrays[2]
    assert [count for _, count in arrays[0].group.kinds] == [2, 128]
    one = accelarray.array("accpar-mixed", set="devices.1.count=3")
    assert [count for _, count in one.group.kinds] == [128, 3]
    tiled = accelarray.array(
        "hypar-16-torus", set={"devices.0.roofline.tile": True, "topology.shape": (2, 8)}
    )
    assert tiled.group.kinds[0][0].roofline.tile is True
    assert tiled.topology.shape == (2, 8)
    explained = accelarray.explain("lenet", "owt", "accpar-mixed", 64, set=iter(SMALL))
    assert [setting.assignment for setting in explained.explanation.settings] == [*SMALL]


def test_batches_are_whole_numbers_of_any_kind() -> None:
    assert ps("lenet", "accpar", ARRAY, np.int64(64)) == SAME.timeline.iteration_ps
    assert accelarray.simulate("lenet", "owt", ARRAY).case.batch == 512
    assert ps("lenet", "accpar", ARRAY, "64") == SAME.timeline.iteration_ps
    for wrong in (64.0, "many"):
        with pytest.raises(UsageError, match=f"batch {wrong!r}: must be a whole number"):
            accelarray.simulate("lenet", "owt", ARRAY, wrong)  # type: ignore[arg-type]


def test_values_that_are_varied_in_every_form(tmp_path: Path) -> None:
    spec = tmp_path / "own.toml"
    spec.write_text(
        'kind = "array"\ndescription = "one"\n[[devices]]\ndevice = "tpu-v3"\ncount = 1'
    )
    vary: Any = {
        "array": [spec, "tpu-v3-8"],
        "batch": np.array([32, 64]),
        "overlap": [True, False],
        "bucket": ["1 MB"],
    }
    frame = accelarray.sweep(vary, LENET, "owt", execution="deployed").to_frame()
    assert [*frame["array"]] == ["own"] * 4 + ["tpu-v3-8"] * 4
    assert [*frame["batch"]] == [32, 32, 64, 64] * 2
    assert [*frame["overlap"]] == ["full", "none"] * 4
    texts = accelarray.sweep(
        ["batch=32", "overlap=none"], LENET, "owt", spec, execution="deployed", bucket=1e6
    )
    assert [*texts.to_frame()["iteration_s"]] == [frame["iteration_s"].iloc[1]]


def test_a_partition_and_a_plan_can_be_changed_by_hand() -> None:
    assert SAME.plan.root is not None
    halves = tuple(Partition(PartitionType.I, 0.5) for _ in SAME.plan.nodes)
    root = dataclasses.replace(SAME.plan.root, partitions=halves)
    changed = dataclasses.replace(SAME.plan, root=root, planner="by hand")
    step = accelarray.simulate("lenet", changed, ARRAY)
    assert step.timeline.iteration_ps != SAME.timeline.iteration_ps
    assert str(step.case) == f"lenet, by hand on {step.case.array.name}, batch 64, published"


def test_the_frame_of_a_plan_with_stages_has_them_all() -> None:
    plan = accelarray.plan(
        "gpt2:layers=4", array="h100-cluster", batch=16, parallel="dp=4,pp=2", set=["nodes=1"]
    )
    frame = plan.to_frame()
    assert len(frame) == len(plan.rows()) > 0
    assert set(frame["stage"]) == {0, 1}


def test_fit_has_micro_batches_of_each_combination_alone() -> None:
    with pytest.raises(UsageError, match=r"micro_batches = 2: .*--axes micro-batch"):
        accelarray.fit("lenet", "h100-cluster", 64, micro_batches=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"jobs": "x"}, "jobs 'x': must be a whole number"),
        ({"vary": {"nodes": [1, 2]}}, "vary {'nodes': [1, 2]}: must be text"),
        ({"at_most": {"memory": 0.5}}, "at_most {'memory': 0.5}: must be text"),
        ({"strict_memory": "false"}, "strict_memory 'false': must be True or False"),
        ({"micro_batches": True}, "micro_batches True: must be a whole number"),
    ],
)
def test_values_of_another_kind_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        accelarray.fit("lenet", "h100-cluster", 64, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"model": "foo"},
        {"overlap": "none"},
        {"whole_shards": "exact"},
        {"bucket_bytes": math.nan},
        {"bucket_bytes": "1 MB"},
        {"mode": "infer"},
        {"recompute": "foo"},
        {"update_order": "foo"},
        {"memory_reserve": -1.0},
        {"paces": (-1.0,)},
        {"staging": "x"},
    ],
)
def test_an_execution_checks_its_values(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(SimulationError, match=f"execution: {name}="):
        Execution(**options)


@pytest.mark.parametrize("array", ["accpar-mixed", "tpu-v3-8", "h100-cluster", "tpu-mixed"])
def test_a_step_goes_to_other_processes_and_back(array: str) -> None:
    step = accelarray.simulate("lenet", "data_parallel", array, batch=512)
    again = pickle.loads(pickle.dumps(step))  # noqa: S301  (our own)
    assert again.timeline.iteration_s == step.iteration_s
    assert again.to_dict()["phases"] == step.to_dict()["phases"]


def test_what_to_dict_returns_is_the_callers_own() -> None:
    found = accelarray.collective("all-reduce", 1e6, "tpu-v3-8")
    before = found.time_s
    found.to_dict()["time_s"] *= 2
    assert found.time_s == before


def test_a_step_of_a_sweep_has_a_row() -> None:
    found = accelarray.sweep({"batch": [64, 128]}, "lenet", "owt", "tpu-v3-8")
    assert found.step(1).case.batch == 128
    assert found.step(np.int64(0)).case.batch == 64  # type: ignore[arg-type]
    for row in (2, -1, "0"):
        with pytest.raises(UsageError, match="a row's number, from 0 to 1"):
            found.step(row)  # type: ignore[arg-type]
