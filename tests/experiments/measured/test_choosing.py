"""Choosing among measured plans: by hand."""

from __future__ import annotations

import pytest

from experiments.measured.choosing import choices
from experiments.measured.errors import Outcome
from tests.experiments.measured.some_rows import small


def outcome(name: str, measured_s: float, predicted_s: float | None, **changed: object) -> Outcome:
    row = small(id=name, step_s=measured_s, **changed)
    return Outcome(row, predicted_s, None, None)


def test_the_fastest_predicted_over_the_fastest_measured() -> None:
    """b is the fastest, d is taken for it and takes a fifth longer; e takes three times as long."""
    plans = [("a", 1.5, 1.4), ("b", 1.0, 1.3), ("c", 2.0, 2.0), ("d", 1.2, 1.2), ("e", 3.0, 1.9)]
    outcomes = [outcome(*plan) for plan in plans]
    (found,) = choices([*outcomes, outcome("f", 0.1, None), outcome("g", 0.1, 0.1, gbs=64)])
    assert (found.plans, found.chosen) == (5, "d")
    assert found.slower == pytest.approx(0.2)
    assert found.spread == pytest.approx(3)


def test_of_four_plans_nothing_is_said() -> None:
    assert choices([outcome(str(n), 1.0 + n, 1.0) for n in range(4)]) == []
