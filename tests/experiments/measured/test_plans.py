"""Measured plans of AMP (16 T4, 16 V100) and of Sailor (GH200), beside what is predicted for them.

Nothing is fitted on them. Facts are from DachengLi1/AMP (results and scripts) and eth-easl/sailor
(clariden/); one row of Sailor's whose layers are another model's is left out.
"""

import shutil
from pathlib import Path
from statistics import median

import pandas as pd
import pytest

from experiments.measured.case import case_of
from experiments.measured.rows import load
from experiments.studies.running.outputs import run_case
from tests.experiments.measured.transgan import write

PLANS = Path(__file__).parents[2] / "data" / "plans"


def steps(name: str, every: int, folder: Path = PLANS) -> tuple[list[float], list[float]]:
    """Measured and predicted seconds of each so many-th plan."""
    rows = load(str(folder / f"{name}.csv"))[::every]
    predicted = [float(run_case(case_of(row).case)["iteration_s"]) for row in rows]
    return [row.step_s or 0.0 for row in rows], predicted


@pytest.mark.parametrize(
    ("every", "least"), [(2, 0.92), pytest.param(1, 0.93, marks=pytest.mark.slow)]
)
def test_plans_on_16_t4_are_in_order(every: int, least: float) -> None:
    """AMP's own planner has 0.93, and picks a plan 10 % slower than the best.

    Steps are too fast, those with tp most: between its T4 all-reduces seem slower than they are
    here (docs/results.md).
    """
    measured, predicted = steps("amp", every)
    errors = [ours / theirs - 1 for theirs, ours in zip(measured, predicted, strict=True)]
    assert pd.Series(measured).rank().corr(pd.Series(predicted).rank()) > least
    assert measured[predicted.index(min(predicted))] <= 1.05 * min(measured)
    assert -0.22 < median(errors) < 0


@pytest.mark.slow
def test_plans_of_blocks_of_two_sizes_are_in_order(tmp_path: Path) -> None:
    """TransGAN, whose last blocks are 64 times as narrow and a thousand times as long.

    AMP's own planner has 0.85 and picks the fastest.
    """
    for name in ("transgan.csv", "v100.toml"):
        shutil.copy(PLANS / name, tmp_path)
    write(tmp_path)
    measured, predicted = steps("transgan", 1, tmp_path)
    errors = [ours / theirs - 1 for theirs, ours in zip(measured, predicted, strict=True)]
    assert pd.Series(measured).rank().corr(pd.Series(predicted).rank()) > 0.93
    assert measured[predicted.index(min(predicted))] <= 1.05 * min(measured)
    assert abs(median(errors)) < 0.25
    assert max(map(abs, errors)) < 0.4


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_plans_on_gh200_take_as_long_as_measured(every: int) -> None:
    """Its memory is what nvidia-smi shows."""
    slower, larger = [], []
    for row in load(str(PLANS / "sailor.csv"))[::every]:
        of = case_of(row)
        found = run_case(of.case)
        slower.append(found["iteration_s"] / (row.step_s or 0) - 1)
        used = found["peak_memory_bytes"] + of.reserve_bytes
        larger.append(used / 2**30 / (row.mem_gib or 0) - 1)
    assert -0.12 < median(slower) < 0.0
    assert max(map(abs, slower)) < 0.45
    assert median(map(abs, larger)) < 0.06
    assert max(map(abs, larger)) < 0.21
