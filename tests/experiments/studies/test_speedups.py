"""Rows and comparisons as values: means, columns, and what does not apply."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.studies.published_values import Published
from experiments.studies.speedups import Comparison, Row, geometric_mean, mean_of

ROWS = (
    Row("net", "data_parallel", 2.0, 1.0),
    Row("net", "mine", 1.0, 2.0),
    Row("other", "data_parallel", 8.0, 1.0),
    Row("other", "mine", 1.0, 8.0),
)
RESULT = Comparison("array", 64, ROWS, {})


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=20))
def test_the_geometric_mean_lies_between_and_scales(values: list[float]) -> None:
    mean = geometric_mean(values)
    assert min(values) * (1 - 1e-9) <= mean <= max(values) * (1 + 1e-9)
    assert geometric_mean([3 * value for value in values]) == pytest.approx(3 * mean)
    assert mean ** len(values) == pytest.approx(math.prod(values), rel=1e-6)


def test_means_of_nothing_known_and_of_zero() -> None:
    assert geometric_mean([0.0, 4.0]) == 0.0
    assert mean_of([2.0, 8.0]) == pytest.approx(4.0)
    assert mean_of([2.0, None]) is None
    assert mean_of([0.0, 0.0]) == 0.0


def test_networks_planners_and_means() -> None:
    assert RESULT.networks == ["net", "other"]
    assert RESULT.planners == ["data_parallel", "mine"]
    assert [row.speedup for row in RESULT.of("mine")] == [2.0, 8.0]
    assert RESULT.geomean == {"data_parallel": 1.0, "mine": pytest.approx(4.0)}
    assert RESULT.means("time") == RESULT.geomean
    assert RESULT.means("energy") == {"data_parallel": None, "mine": None}


def test_a_case_names_what_is_not_the_default() -> None:
    assert RESULT.case == "array, batch 64, published"
    other = replace(RESULT, communication="plotted", execution="deployed, overlap none")
    assert other.case == "array, batch 64, plotted communication, deployed, overlap none"


def test_values_that_apply() -> None:
    row = ROWS[1]
    assert row.values() == {"network": "net", "planner": "mine", "iteration_s": 1.0, "speedup": 2.0}
    asked = row.values(("time", "energy"))
    assert asked == row.values() | {"energy_j": None, "energy_efficiency": None}
    assert replace(row, idle_cores=0, exact=False).values()["idle_cores"] == 0
    assert replace(row, exact=False).values()["exact"] is False


@pytest.mark.parametrize(
    ("metric", "value"), [("time", 2.0), ("energy", 3.0), ("traffic", 4e9), ("", None)]
)
def test_a_rows_metrics(metric: str, value: float | None) -> None:
    row = replace(ROWS[1], energy_efficiency=3.0, traffic_bytes=4e9)
    if metric:
        assert row.metric(metric) == value
        return
    with pytest.raises(KeyError):
        row.metric("power")


def test_a_frames_columns_are_those_that_tell_something() -> None:
    plain = ["network", "planner", "iteration_s", "speedup", "slow_share", "fast_alone_speedup"]
    assert list(RESULT.to_frame().columns) == plain
    energy = replace(RESULT, metrics=("energy",))
    assert list(energy.to_frame().columns) == [*plain, "energy_j", "energy_efficiency"]
    occupied = (*ROWS[:3], replace(ROWS[3], peak_memory_bytes=1.0, idle_cores=0))
    memory = ["peak_memory_bytes", "cores_over_memory", "idle_cores"]
    frame = replace(RESULT, rows=occupied).to_frame()
    assert list(frame.columns) == [*plain, *memory]
    assert frame["peak_memory_bytes"].isna().to_list() == [True, True, True, False]
    inexact = replace(RESULT, rows=(*ROWS[:3], replace(ROWS[3], exact=False)))
    assert list(inexact.to_frame().columns) == [*plain, "exact", "gap"]
    assert list(RESULT.to_frame()["speedup"]) == [1.0, 2.0, 1.0, 8.0]
    nothing = RESULT.to_frame()["slow_share"]
    assert nothing.dtype == float
    assert nothing.isna().all()


def test_published_values_stay_beside() -> None:
    value = Published(2.98, "printed")
    assert replace(RESULT, published={"owt": value}).published["owt"].speedup == 2.98
