"""Whole steps beside those of ASTRA-sim, and tables of that kind."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.cli import main
from experiments.output import UsageError
from experiments.studies.case import Case, step_of
from experiments.validate.other_steps import (
    RING,
    Given,
    GivenCells,
    other_steps,
    parse,
    section,
    shipped,
)
from hardware import load_array
from hardware.reader import parse_csv
from workloads import load_network

HEADER = ",".join(GivenCells.model_fields)
GOOD = "vgg16,8,32,34042692"
SMALL = Given("vgg16", 8, 32, 34_042_692e-9)


@pytest.fixture(scope="module")
def found() -> list[Any]:
    return list(other_steps(shipped()))


def test_every_step_is_within_a_thousandth(found: list[Any]) -> None:
    assert [(s.given.network, s.given.devices) for s in found] == [
        (network, devices) for network in ("vgg16", "resnet50", "gpt2") for devices in (8, 64)
    ]
    for step in found:
        assert abs(step.error) < 1e-3
        assert abs(step.of_a_message_s) < 1e-9  # theirs are whole nanoseconds
        assert step.error, "theirs are not ours copied"
        assert 0 < step.hidden < 1


def test_without_queues_or_overlap_steps_are_not_theirs() -> None:
    """What makes them agree is what is compared: exchanges that hide, and wait for each other."""
    array = load_array("ring-8", ["topology.latency=500 ns"])
    network = load_network("vgg16")
    for execution in (
        replace(RING, overlap=False),
        replace(RING, bucket_bytes=1e12),
    ):
        _, timeline = step_of(Case(network, "data_parallel", array, 256, execution=execution))
        assert abs(timeline.iteration_s / SMALL.step_s - 1) > 1e-2
    assert RING.overlap
    assert not RING.bucket_bytes


def test_an_all_reduce_for_each_gradient() -> None:
    (step,) = other_steps([SMALL])
    assert step.all_reduces == 16  # layers with weights
    assert step.messages == 16 * 14
    shown = section([step])
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
        parse(parse_csv(f"{HEADER}\n{line}\n", "t", UsageError))
    assert words in str(refused.value)


@given(st.text(max_size=60))
def test_strangers_tables_are_read_or_refused(text: str) -> None:
    for table in (text, f"{HEADER}\n{text}", f"{HEADER}\n{GOOD}\n{text}"):
        try:
            rows = parse(parse_csv(table, "t", UsageError))
        except UsageError:
            continue
        assert all(2 <= row.devices <= 4096 for row in rows)
