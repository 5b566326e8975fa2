"""Steps of the shipped calibration rows at both probes: run again when predictions change.

    python -m experiments.scripts.calibration_steps [JOBS]

simulates each (a minute) and writes ``experiments/published/calibration_steps.csv``.
"""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

import pandas

from experiments.measured.case import run_rows
from experiments.measured.rows import shipped
from experiments.measured.study import STEPS, probes_of
from experiments.studies.running.runner import Runner

ABOUT = """# Steps of the rows of large_models_calibration.csv, with products at two shares of peak.
# Written by python -m experiments.scripts.calibration_steps; keys are those of --store.
"""


def table_of(runner: Runner) -> pandas.DataFrame:
    """A line for each row and probe: its key, and the seconds of its step."""
    asked = probes_of(shipped())
    steps = {name: outputs["iteration_s"] for name, _, outputs in run_rows(asked, runner)}
    return pandas.DataFrame(
        {"row": row, "share": share, "key": of.case.key, "step_s": repr(steps[row, share])}
        for (row, share), of in asked.items()
    )


def main(jobs: str = "2") -> None:
    """Simulate and write."""
    file = Path(str(resources.files("experiments") / "published" / STEPS))
    file.write_text(ABOUT + table_of(Runner(jobs=int(jobs))).to_csv(index=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
