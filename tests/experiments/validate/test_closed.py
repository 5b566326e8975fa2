"""Validation against formulas and another simulator."""

import json
from typing import Any

import pytest

from experiments.cli import main
from experiments.validate.closed import EXACT, SIZE_BYTES, closed_forms, independent
from simulator.collectives.choice import ALGORITHMS

B = 50 * 2**30


@pytest.fixture(scope="module")
def said() -> Any:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["validate", "--format", "json"]) == 0
    return json.loads(out.getvalue())


def test_every_case_is_as_exact_as_whole_picoseconds_allow(said: Any) -> None:
    cases = said["closed_forms"]
    for case in cases:
        off_s = abs(case["simulated_s"] - case["closed_form_s"])
        assert off_s <= max(1e-6 * case["closed_form_s"], 1e-12 * case["phases"]), case
        assert case["error"] == pytest.approx(
            case["simulated_s"] / case["closed_form_s"] - 1, abs=1e-15
        )
    assert {case["n"] for case in cases} >= {2, 8, 64, 1024}
    assert {case["latency_s"] for case in cases} == {0.0, 5e-7}
    assert len(cases) == 2 * sum(len(shapes) for *_, shapes in EXACT)


def test_algorithms_with_a_formula_are_all_there(said: Any) -> None:
    # no formula holds for them
    without = {"hierarchical", "hierarchical-overlapped", "pipelined", "scatter-gather"}
    # theirs are in tests of their own
    without |= {"cable-rings", "in-switch", "multicast", "unicast"}
    assert {case["algorithm"] for case in said["closed_forms"]} == set(ALGORITHMS) - without
    assert {case["collective"] for case in said["closed_forms"]} == {
        "all-reduce",
        "reduce-scatter",
        "all-gather",
        "all-to-all",
        "broadcast",
    }


def test_formulas_by_hand(said: Any) -> None:
    """Typed in again, for what is easily mistaken: twice too much, or a latency too few."""
    n, size = 64, SIZE_BYTES / B
    wanted = {
        ("ring", "ring"): 2 * (n - 1) / n * size + 2 * (n - 1) * 5e-7,
        ("ring-two-way", "ring"): (n - 1) / n * size + 2 * (n - 1) * 5e-7,
        ("recursive-doubling", "switch"): 6 * (size + 5e-7),
        ("halving-doubling", "switch"): 2 * (n - 1) / n * size + 12 * 5e-7,
        ("direct", "fully_connected"): 2 / n * size + 2 * 5e-7,
    }
    for case in said["closed_forms"]:
        key = case["algorithm"], case["topology"]
        chosen = case["collective"] == "all-reduce" and case["n"] == n and case["latency_s"]
        if chosen and key in wanted:
            assert case["simulated_s"] == pytest.approx(wanted.pop(key), rel=1e-6)
    assert not wanted


def test_the_other_simulator(said: Any) -> None:
    cases = said["independent"]
    assert [round(case["theirs_s"] * 1e9) for case in cases] == [
        3_259_635,
        3_667_105,
        3_259_635 + 14 * 500,
        3_667_105 + 126 * 500,
    ]
    assert all(abs(case["error"]) < 1e-4 for case in cases)
    assert all(case["error"] for case in cases), "theirs are not ours copied"
    assert [case.ours_s for case in independent()] == [case["ours_s"] for case in cases]


def test_progress_is_told_of_each_line() -> None:
    heard: list[str] = []
    list(closed_forms(heard.append))
    assert len(heard) == len(EXACT)


def test_the_table_has_all_sections(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate"]) == 0
    out = capsys.readouterr().out
    for title in ("Measured steps of resnet50", "Collectives: simulated", "Another simulator"):
        assert title in out
    assert "ps a phase off" in out
    assert "│ ASTRA-sim 2.0 │ ring of 64 " in out
