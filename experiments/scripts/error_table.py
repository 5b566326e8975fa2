"""Errors of measured rows, as ``error_band`` reads them: run again when predictions change.

    python -m experiments.scripts.error_table ROWS.csv STORE.db [JOBS]

predicts all rows (``papers validate --rows ROWS.csv --store STORE.db``, whose finished steps
it takes) and writes ``experiments/published/measured_errors.csv``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import pandas

from experiments.measured.case import RowCase, ready
from experiments.measured.rows import Row, load, shipped
from experiments.measured.study import counted, predicted
from experiments.results.error_band import COLUMNS, FILE, features_of
from experiments.studies.running.runner import Runner
from experiments.studies.running.store import Store

ABOUT = """# Measured training steps of large models: how far predictions are off (error_band.py).
# Written by python -m experiments.scripts.error_table; the rows are those of public sources that
# docs/results.md tells, predicted with constants of the shipped calibration rows alone.
"""


def table_of(rows: Sequence[Row], calibration: Sequence[Row], runner: Runner) -> pandas.DataFrame:
    """A line for each row that can be compared: its features, and its error."""
    study = predicted(rows, calibration, runner)
    found = []
    for outcome in counted(study.outcomes):
        case = ready(outcome.row)
        of = features_of(case.case) if isinstance(case, RowCase) else None
        if of is not None:
            error = {"measured_over_predicted": f"{1 / (1 + outcome.error):.4f}"}
            found.append({"id": outcome.row.id, "source": outcome.row.source} | of | error)
    return pandas.DataFrame(found, columns=[*COLUMNS])


def main(path: str, store: str, jobs: str = "2") -> None:
    """Predict and write."""
    with Store(store) as kept:
        table = table_of(load(path), shipped(), Runner(kept, int(jobs)))
    file = Path(str(resources.files("experiments") / "published" / f"{FILE}.csv"))
    file.write_text(ABOUT + text_of(table))


def text_of(table: pandas.DataFrame) -> str:
    """As CSV; what is so or not as 1 or 0."""
    flags = table.select_dtypes("bool").columns
    return table.astype(dict.fromkeys(flags, int)).to_csv(index=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
