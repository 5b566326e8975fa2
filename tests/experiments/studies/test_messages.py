"""What is said about plans and comparisons, sentence by sentence."""

from dataclasses import replace

import pytest

from experiments.notices import warnings_on_stderr
from experiments.studies.published_values import Published
from experiments.studies.speedups import Comparison, Row, inexact, messages, slower, warn_inexact
from planners import Partition, PartitionType, Plan, Split

BASE = Row("net", "data_parallel", 2.0, 1.0)
FINE = Row("net", "mine", 1.0, 2.0)


def said(*rows: Row, **changes: object) -> list[str]:
    return messages(replace(Comparison("array", 64, rows, {}), **changes))  # type: ignore[arg-type]


def plan(cost: float, lower_bound: float | None) -> Plan:
    split = Split((Partition(PartitionType.I, 0.5),), cost, (None,), lower_bound)
    return Plan("mine", "net", 64, "time", ("fc",), split)


def test_nothing_is_said_of_what_is_fine() -> None:
    assert said(BASE, FINE) == []


def test_plans_that_lose() -> None:
    losing = replace(FINE, speedup=0.9)
    rows = (BASE, losing, replace(BASE, network="b"), replace(losing, network="b", speedup=0.999))
    sentence = "mine is slower than data parallelism for net, b."
    assert said(*rows) == [sentence]
    result = Comparison("array", 64, rows, {})
    assert list(slower(result)) == [sentence]
    assert list(slower(result, "data_parallel")) == []
    assert said(BASE, replace(FINE, speedup=1.0)) == []


def test_devices_that_are_better_left_out() -> None:
    assert said(BASE, replace(FINE, fast_alone_speedup=2.5)) == [
        "mine on the fastest devices alone beats mine on the whole array for net."
    ]
    assert said(BASE, replace(FINE, fast_alone_speedup=1.5)) == []


def test_what_the_published_model_moves_for_free() -> None:
    """Steps of 1 s that leave out 3 s and nothing: speedups of 2 are 0.5 and 2, of mean 1."""
    rows = (BASE, replace(FINE, uncharged_s=3.0), replace(FINE, network="b", uncharged_s=0.0))
    assert said(*rows) == [
        "mine: the published model moves tensors between layers of unlike shares for free. "
        "Charged, a step of net takes 300.0% longer, and the geometric mean is 1.000."
    ]
    assert said(BASE, replace(FINE, uncharged_s=1e-4)) == []


def test_values_that_are_not_verified() -> None:
    values = {"mine": Published(2.0, "recalled"), "owt": Published(1.0, "printed")}
    assert said(BASE, FINE, published=values) == [
        "The paper's averages for this array are recalled, not verified."
    ]


@pytest.mark.parametrize(
    ("gap", "amount"),
    [(0.0123, "at most 1.23%"), (None, "an unknown amount"), (0.0, "at most 0.00%")],
)
def test_rows_that_are_not_exact(gap: float | None, amount: str) -> None:
    assert said(BASE, replace(FINE, exact=False, gap=gap)) == [
        f"mine's plan for net is not exact (its graph is too wide): a split costs {amount} more "
        "than a lower bound on the least."
    ]


def test_cores_that_are_idle_or_overflow() -> None:
    rows = [
        replace(FINE, network=name, idle_cores=idle, cores_over_memory=over)
        for name, idle, over in (("a", 3, 0), ("b", 1200, 8), ("c", 3, 1), ("d", 0, 0))
    ]
    assert said(*rows, cores=2048) == [
        "mine leaves 3 of 2,048 cores idle for a, c.",
        "mine leaves 1,200 of 2,048 cores idle for b.",
        "* mine does not fit in memory for b, c: this array cannot run it.",
    ]


def test_nothing_loses_to_what_does_not_fit() -> None:
    rows = [replace(FINE, network=name, speedup=0.5) for name in "ab"]
    assert said(*rows, base_full=("b",)) == [
        "mine is slower than data parallelism for a.",
        "* data_parallel does not fit in memory for b: this array cannot run it. No speedup over "
        "it can be had.",
    ]


def test_energy_that_is_not_there_is_said_only_where_it_is_asked_for() -> None:
    rows = (BASE, FINE, replace(BASE, network="b", energy_efficiency=1.0))
    assert said(*rows) == []
    assert said(*rows, metrics=("energy",)) == [
        "No energy efficiency of data_parallel, mine for net: a step, or the one under data "
        "parallelism, takes no joules."
    ]
    known = (replace(BASE, energy_efficiency=1.0), replace(FINE, energy_efficiency=2.0))
    assert said(*known, metrics=("energy",)) == []


def test_plans_that_are_not_exact(capsys: pytest.CaptureFixture[str]) -> None:
    assert inexact(plan(1.0, None)) == ""
    assert inexact(plan(1.1, 1.0)) == (
        "Not exact: the graph is too wide for an exact search; "
        "no split costs more than 10.00% above a lower bound on the least.\n"
    )
    assert inexact(plan(1.0, 0.0)) == (
        "Not exact: the graph is too wide, and nothing is known about the least cost.\n"
    )
    with warnings_on_stderr():
        warn_inexact("net", plan(1.0, None))
        assert capsys.readouterr().err == ""
        warn_inexact("net", plan(1.1, 1.0))
    warning = capsys.readouterr().err
    assert warning.startswith(
        "accelarray: warning: net, mine: not exact: the graph is too wide for"
    )
    assert warning.endswith("the least.\n")


def test_the_gap_as_fields() -> None:
    assert plan(1.0, None).gap_fields() == {"exact": True, "gap": None}
    assert plan(1.5, 1.0).gap_fields() == {"exact": False, "gap": 0.5}
    assert plan(1.0, 1.0).gap_fields() == {"exact": False, "gap": 0.0}
    assert plan(1.0, 0.0).gap_fields() == {"exact": False, "gap": None}
