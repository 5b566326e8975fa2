"""Errors by group, and choosing among measured plans: by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.measured.large_models import choices, errors_of, few, ranking, spread, spreads
from experiments.measured.study import CONTROLS, Outcome
from experiments.output import UsageError
from tests.experiments.measured.some_rows import small


def outcome(name: str, measured_s: float, predicted_s: float | None, **changed: object) -> Outcome:
    row = small(id=name, step_s=measured_s, **changed)
    return Outcome(row, predicted_s, None, None)


def test_the_fastest_predicted_over_the_fastest_measured() -> None:
    """b is the fastest, d is taken for it and takes a fifth longer; e takes three times as long."""
    plans = [("a", 1.5, 1.4), ("b", 1.0, 1.3), ("c", 2.0, 2.0), ("d", 1.2, 1.2), ("e", 3.0, 1.9)]
    outcomes = [outcome(*plan) for plan in plans]
    others: list[dict[str, Any]] = [{"gbs": 64}, {"array": "own.toml"}, {"network": "own.txt"}]
    elsewhere = [outcome("g", 0.1, 0.1, **one) for one in others]
    (found,) = choices([*outcomes, outcome("f", 0.1, None), *elsewhere])
    assert (found["plans"], found["chosen"]) == (5, "d")
    assert found["slower"] == pytest.approx(0.2)
    assert found["spread"] == pytest.approx(3)


def test_of_four_plans_nothing_is_said() -> None:
    assert choices([outcome(str(n), 1.0 + n, 1.0) for n in range(4)]) == []


def test_ranks_by_hand() -> None:
    """Of ranks 1 2 3 4 predicted as 2 1 3 4 the correlation is 1 - 6 x 2 / (4 x 15) = 0.8."""
    steps = [("a", 1.0, 2.0), ("b", 1.5, 1.0), ("c", 2.0, 3.0), ("d", 9.0, 4.0)]
    plans = [outcome(*plan, group="one") for plan in steps]
    (section,) = ranking([*plans, outcome("e", 1.0, 1.0), outcome("f", 1.0, 1.0, group="two")])
    first, second = section.data["ranking"]
    assert (first["group"], first["plans"], first["chosen"]) == ("one", 4, "b")
    assert first["spearman"] == pytest.approx(0.8)
    assert first["regret"] == pytest.approx(0.5)
    assert (second["group"], second["spearman"]) == ("two", None)
    with pytest.raises(UsageError, match="--rank: no row with a group"):
        ranking([outcome("e", 1.0, 1.0)])


def test_errors_by_hand() -> None:
    rows = [(1.1, 0), (0.8, 0), (9.9, 0), (1.3, 8)]
    outcomes = [
        Outcome(small(step_s=1.0, experts=experts), seconds, 2.0, "why" if seconds > 9 else None)
        for seconds, experts in rows
    ]
    errors = errors_of(outcomes)
    assert list(errors["chip"]) == ["H100"] * 3
    found = spreads(errors, "model")
    assert found["dense"] == pytest.approx(
        {"rows": 2, "median": 0.15, "p90": 0.19, "signed": -0.05}
    )
    assert found["mixture of experts"]["rows"] == 1
    assert errors[CONTROLS[0]].isna().all()
    assert Outcome(small(), 1.0, 2.0, None).memory_error is None
    assert Outcome(small(mem_gib=4.0), 1.0, 2.0, None).memory_error == -0.5


def test_a_few_rows_are_shown_by_name() -> None:
    outcomes = [outcome("a", 2.0, 2.5), outcome("b", 1.0, 0.9)]
    left_out = Outcome(small(id="c"), 1.0, None, "why")
    (section,) = few([*outcomes, left_out])
    assert [list(row.values()) for row in section.rows] == [
        ["a", "2", "2.5", "+25.0%"],
        ["b", "1", "0.9", "-10.0%"],
    ]
    assert few(outcomes * 11) == few([left_out]) == []


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
def test_spreads_are_numpys(errors: list[float]) -> None:
    found, sizes = spread(errors), np.abs(errors)
    assert found["p90"] == pytest.approx(float(np.quantile(sizes, 0.9)), abs=1e-12)
    assert found["median"] == pytest.approx(float(np.median(sizes)))
