"""Measured steps on GPUs: what is asked of them, what is fitted, and what data sheets alone say."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from experiments.validate.gpu_steps import Compared, Given, compared, section, shipped
from hardware import load_device, load_stack


@pytest.fixture(scope="module")
def found() -> list[Compared]:
    return list(compared(shipped(), lambda _: None))


def test_the_median_is_within_twelve_percent(found: list[Compared]) -> None:
    """And on the rows of several GPUs, on which no constant is fitted."""
    assert median(abs(case.error) for case in found) < 0.12
    checks = [abs(case.error) for case in found if case.given.gpus > 1]
    assert len(checks) == 12
    assert median(checks) < 0.12


def test_data_sheets_alone_are_far_off(found: list[Compared]) -> None:
    assert median(abs(case.plain_error) for case in found) > 0.3


def test_every_network_and_machine_of_the_review_is_there() -> None:
    networks = {row.network.partition(":")[0] for row in shipped()}
    assert networks == {"resnet50", "bert-large", "vgg16", "inception-v3"}
    assert {row.gpus for row in shipped()} == {1, 8, 16}
    assert all(len(row.source) > 20 for row in shipped())


@pytest.mark.parametrize("key", ["matrix_efficiency", "memory_efficiency"])
@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_other_constants_fit_worse(key: str, factor: float, found: list[Compared]) -> None:
    """The sum of absolute errors on an A100's rows of one GPU, with 15 % less or more of either."""
    rows = [case.given for case in found if case.given.fitted and case.device == "a100-40"]
    values = {"matrix_efficiency": 0.62, "memory_efficiency": 0.36}
    change = f"devices.0.roofline.{key}={factor * values[key]}"
    others = [replace(row, settings=(*row.settings, change)) for row in rows]
    ours = sum(abs(case.error) for case in found if case.given in rows)
    theirs = sum(abs(case.error) for case in compared(others, lambda _: None))
    assert ours < theirs


def test_the_table_tells_fitted_rows_from_checks() -> None:
    rows = [
        Given("lenet", "dgx-a100", (), "ngc-2020", gpus, 64, 1e-3, "somewhere") for gpus in (1, 8)
    ]
    part = section(list(compared(rows, lambda _: None)))
    assert [row["use"] for row in part.rows] == ["calibration", "check"]
    assert part.messages[0].startswith("All 2 rows")
    assert [row["use"] for row in part.data["gpu_steps"]] == ["calibration", "check"]


def test_stacks_name_what_their_constants_are_fitted_on() -> None:
    for name in ("ngc-2020", "ngc-2019", "tensorflow-2017"):
        _, settings = load_stack(name)
        fitted = [s.source for s in settings if s.key.endswith((".products", ".memory"))]
        assert set(fitted) == {"fitted on the steps of single GPUs that accelarray validate shows"}
    assert load_device("p100")[0].arithmetic.element_bytes == 4.0
