"""Errors of measured rows, as ``error_band`` reads them: run again when predictions change.

    python -m experiments.scripts.error_table ROWS.csv [JOBS] [SECONDS]

predicts all rows (``accelarray validate --rows``) whose step takes at most so many seconds
to simulate, by its estimate, and writes ``experiments/published/measured_errors.csv``.
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

import pandas

from experiments.measured.case import RowCase
from experiments.measured.rows import load, shipped
from experiments.measured.study import counted, predicted, ready
from experiments.results.error_band import COLUMNS, FILE, features_of
from experiments.studies.running.estimate import estimate
from experiments.studies.running.runner import Runner

ABOUT = """# Measured training steps of large models: how far predictions are off (error_band.py).
# Written by python -m experiments.scripts.error_table; the rows are those of public sources that
# docs/large-models.md tells, predicted with constants of the shipped calibration rows alone.
"""


def table_of(path: str, jobs: int, most_s: float) -> pandas.DataFrame:
    """A line for each row that can be compared: its features, and its error."""
    rows = [
        row
        for row in load(path)
        if isinstance(one := ready(row), RowCase) and estimate(one.case).seconds <= most_s
    ]
    study = predicted(rows, shipped(), Runner(jobs=jobs))
    found = []
    for outcome in counted(study.outcomes):
        case = ready(outcome.row)
        of = features_of(case.case) if isinstance(case, RowCase) else None
        if of is not None:
            error = {"measured_over_predicted": f"{1 / (1 + outcome.error):.4f}"}
            found.append({"id": outcome.row.id, "source": outcome.row.source} | of | error)
    return pandas.DataFrame(found, columns=[*COLUMNS])


def main(path: str, jobs: str = "2", most_s: str = "600") -> None:
    """Predict and write."""
    table = table_of(path, int(jobs), float(most_s))
    flags = table.select_dtypes("bool").columns
    text = table.astype(dict.fromkeys(flags, int)).to_csv(index=False)
    Path(str(resources.files("experiments") / "published" / FILE)).write_text(ABOUT + text)


if __name__ == "__main__":
    main(*sys.argv[1:])
