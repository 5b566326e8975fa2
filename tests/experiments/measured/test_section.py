"""Columns turn records into tables; sections are one answer."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from experiments.api.measured import ValidationResult
from experiments.measured.section import (
    Column,
    Section,
    grouped,
    largest_error,
    lines,
    median_error,
    relative,
)

RECORDS = [
    {"name": "a", "gpus": 1024, "step_s": 0.0123, "error": -0.2},
    {"name": "b", "gpus": 8, "step_s": None, "error": 0.1},
]
COLUMNS = (
    Column("row", "name"),
    Column("GPUs", "gpus"),
    Column("step [ms]", "step_s", "{:.1f}", 1e3),
    Column("error", "error", "{:+.0%}"),
)


def test_a_table_has_the_columns_in_their_units_and_nothing_of_what_is_unknown() -> None:
    assert lines(RECORDS, COLUMNS) == [
        {"row": "a", "GPUs": 1024, "step [ms]": "12.3", "error": "-20%"},
        {"row": "b", "GPUs": 8, "step [ms]": "", "error": "+10%"},
    ]


def test_errors() -> None:
    assert relative(1.1, 1.0) == pytest.approx(0.1)
    assert median_error(RECORDS) == pytest.approx(0.15)
    assert largest_error(RECORDS) == 0.2


def test_groups_come_in_the_order_of_their_first() -> None:
    assert list(grouped([3, 1, 2, 5], lambda n: n % 2).items()) == [(1, [3, 1, 5]), (0, [2])]


def test_sections_are_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a narrow terminal has no room for goes; a section without rows has its messages."""
    monkeypatch.setenv("COLUMNS", "80")
    wide = [{"row": "x" * 40, "by": "y" * 40, "n": 1}]
    first = Section("First", wide, ("said",), {"rows": wide})
    second = Section("Second", [], ("nothing there",), {"more": 2})
    found = ValidationResult((first, second), Figure, ("by",))
    assert found.to_dict() == {"rows": wide, "more": 2}
    assert list(found.rows()) == wide
    text = found.summary()
    assert "Not shown here: by" in text
    assert text.index("said") < text.index("nothing there")
    assert "Not shown" not in ValidationResult((first,), Figure, ()).summary()
