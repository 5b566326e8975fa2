"""Whole steps beside those of ASTRA-sim, tables of that kind, and steps measured on GPUs."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.cli import main
from experiments.measured.steps import (
    RING,
    GpuRow,
    RingRow,
    gpu_section,
    gpu_step,
    gpu_steps,
    ring_section,
    ring_steps,
    shipped_gpus,
    shipped_rings,
)
from experiments.output import UsageError
from experiments.studies.case import Case, step_of
from hardware import load_array, load_device, load_stack
from hardware.reader import checked_rows, parse_csv
from workloads import load_network

HEADER = ",".join(RingRow.model_fields)
GOOD = "vgg16,8,32,34042692"
SMALL = RingRow(network="vgg16", devices=8, batch_per_device=32, step_ns=34_042_692)


@pytest.fixture(scope="module")
def found() -> list[Any]:
    return list(ring_steps(shipped_rings()))


def test_every_step_is_within_a_thousandth(found: list[Any]) -> None:
    assert [(s["network"], s["devices"]) for s in found] == [
        (network, devices) for network in ("vgg16", "resnet50", "gpt2") for devices in (8, 64)
    ]
    for step in found:
        assert abs(step["error"]) < 1e-3
        off_ns = abs(step["ours_ns"] - step["theirs_ns"])
        assert off_ns < step["messages"]  # theirs are whole nanoseconds
        assert step["error"], "theirs are not ours copied"
        assert 0 < step["hidden"] < 1


def test_without_queues_or_overlap_steps_are_not_theirs() -> None:
    """What makes them agree is what is compared: exchanges that hide, and wait for each other."""
    array = load_array("ring-8", ["topology.latency=500 ns"])
    network = load_network("vgg16")
    for execution in (
        replace(RING, overlap=False),
        replace(RING, bucket_bytes=1e12),
    ):
        _, timeline = step_of(Case(network, "data_parallel", array, 256, execution=execution))
        assert abs(timeline.iteration_s / (SMALL.step_ns / 1e9) - 1) > 1e-2
    assert RING.overlap
    assert not RING.bucket_bytes


def test_an_all_reduce_for_each_gradient() -> None:
    (step,) = ring_steps([SMALL])
    assert step["all_reduces"] == 16  # layers with weights
    assert step["messages"] == 16 * 14
    shown = ring_section([step])
    assert shown.rows[0]["theirs [ns]"] == "34,042,692"
    assert shown.data["other_steps"][0]["theirs_ns"] == pytest.approx(34_042_692)


def test_any_table_of_that_shape(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("step_ns,network,devices,batch_per_device\n# mine\n1000000,lenet,4,16\n")
    assert main(["validate", "--table", str(path), "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (row,) = said["other_steps"]
    assert (row["network"], row["devices"], row["batch_per_device"]) == ("lenet", 4, 16)
    assert row["error"] == pytest.approx(row["ours_ns"] / 1e6 - 1)
    assert len(said["rows"]) == 5  # measured ones, as shipped


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vgg17,8,32,1", "t:2: network: 'vgg17': is not known"),
        ("/etc/passwd.txt,8,32,1", "is not known"),
        ("vgg16,1,32,1", "t:2: devices: '1': must be a whole number from 2 to 4,096"),
        ("vgg16,8.5,32,1", "t:2: devices: '8.5': must be a whole number from 2 to 4,096"),
        ("vgg16,4097,32,1", "t:2: devices: '4097': must be a whole number from 2 to 4,096"),
        ("vgg16,8,0,1", "t:2: batch_per_device: '0': must be a whole number from 1"),
        ("vgg16,8,32,-1", "t:2: step_ns: '-1': must be a number from 1e-06 to"),
        ("vgg16,8,32", "t:2: 3 values; 4 columns"),
    ],
)
def test_what_is_wrong_is_named(line: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        checked_rows(RingRow, parse_csv(f"{HEADER}\n{line}\n", "t", UsageError), UsageError)
    assert words in str(refused.value)


@given(st.text(max_size=60))
def test_strangers_tables_are_read_or_refused(text: str) -> None:
    for table in (text, f"{HEADER}\n{text}", f"{HEADER}\n{GOOD}\n{text}"):
        try:
            rows = checked_rows(RingRow, parse_csv(table, "t", UsageError), UsageError)
        except UsageError:
            continue
        assert all(2 <= row.devices <= 4096 for row in rows)


@pytest.fixture(scope="module")
def gpus() -> list[Any]:
    return list(gpu_steps(shipped_gpus()))


def test_the_median_is_within_twelve_percent(gpus: list[Any]) -> None:
    """And on the rows of several GPUs, on which no constant is fitted."""
    assert median(abs(case["error"]) for case in gpus) < 0.12
    checks = [abs(case["error"]) for case in gpus if case["gpus"] > 1]
    assert len(checks) == 12
    assert median(checks) < 0.12


def test_data_sheets_alone_are_far_off(gpus: list[Any]) -> None:
    assert median(abs(case["specs_s"] / case["step_s"] - 1) for case in gpus) > 0.3


def test_every_network_and_machine_of_the_review_is_there() -> None:
    networks = {row.network.partition(":")[0] for row in shipped_gpus()}
    assert networks == {"resnet50", "bert-large", "vgg16", "inception-v3"}
    assert {row.gpus for row in shipped_gpus()} == {1, 8, 16}
    assert all(len(row.source) > 20 for row in shipped_gpus())


@pytest.mark.parametrize(
    ("key", "factor"), [("matrix_efficiency", 0.85), ("memory_efficiency", 1.15)]
)
def test_other_constants_fit_worse(key: str, factor: float, gpus: list[Any]) -> None:
    """The sum of absolute errors on an A100's rows of one GPU, with 15 % less or more of either."""
    values = {"matrix_efficiency": 0.62, "memory_efficiency": 0.36}
    change = f"devices.0.roofline.{key}={factor * values[key]}"
    ours = theirs = 0.0
    for row, case in zip(shipped_gpus(), gpus, strict=True):
        if case["use"] == "calibration" and case["device"] == "a100-40":
            _, step_s = gpu_step(row, [f"stack={row.stack}", change])
            ours += abs(case["error"])
            theirs += abs(step_s / case["step_s"] - 1)
    assert 0 < ours < theirs


def test_the_table_tells_fitted_rows_from_checks() -> None:
    same: dict[str, Any] = {
        "network": "lenet",
        "array": "dgx-a100",
        "stack": "ngc-2020",
        "batch_per_gpu": 64,
    }
    same |= dict.fromkeys(("device", "precision", "optimizer"), "")
    rows = [GpuRow(**same, gpus=many, step_ms=1.0, source="somewhere") for many in (1, 8)]
    part = gpu_section(list(gpu_steps(rows)))
    assert [row["use"] for row in part.rows] == ["calibration", "check"]
    assert part.messages[0].startswith("All 2 rows")
    assert [row["use"] for row in part.data["gpu_steps"]] == ["calibration", "check"]


def test_stacks_name_what_their_constants_are_fitted_on() -> None:
    for name in ("ngc-2020", "ngc-2019", "tensorflow-2017"):
        _, settings = load_stack(name)
        fitted = [s.source for s in settings if s.key.endswith((".products", ".memory"))]
        assert set(fitted) == {
            "fitted on the steps of single GPUs that accelarray papers validate shows"
        }
    assert load_device("p100")[0].arithmetic.element_bytes == 4.0
