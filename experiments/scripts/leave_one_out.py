"""What each source of calibration rows does to the errors of all rows, by leaving it out.

    python -m experiments.scripts.leave_one_out ROWS.csv STORE.db [JOBS]

simulates each row at its share of peak and at ``LOWER`` of it (finished steps are in the
store). Constants are then fitted without one source after the other. A row's step at its new
share is on the line through both simulations, a + b / share. Prints medians of the errors'
sizes in percent, a line a source.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence

import pandas

from experiments.measured.case import RowCase, ready, run_rows
from experiments.measured.fit import Constants, Probed, fitted
from experiments.measured.rows import Row, load, shipped
from experiments.measured.section import relative
from experiments.measured.study import Outcome, at_share, counted, predicted, probe
from experiments.studies.running.estimate import estimate
from experiments.studies.running.runner import Runner
from experiments.studies.running.store import Store

LOWER = 0.8
LONGEST_S = 20.0
"""Rows whose step takes longer to simulate, by its estimate, keep their share."""


def slopes_of(
    outcomes: Sequence[Outcome], constants: Constants, runner: Runner
) -> dict[str, float]:
    """Seconds of a step for each 1 / share, by row; none for rows that take too long."""
    asked: dict[str, RowCase] = {}
    for outcome in outcomes:
        one = ready(outcome.row)
        if isinstance(one, RowCase) and estimate(one.case).seconds < LONGEST_S:
            asked[outcome.row.id] = at_share(one, LOWER * constants.share(outcome.row)[0])
    base = {outcome.row.id: outcome for outcome in outcomes}
    slopes = {}
    for name, _, outputs in run_rows(asked, runner):
        slower, of = outputs.get("iteration_s"), base[name]
        if slower and of.predicted_s:
            share = constants.share(of.row)[0]
            slopes[name] = (slower - of.predicted_s) / (1 / (LOWER * share) - 1 / share)
    return slopes


def errors_with(
    outcomes: Sequence[Outcome], slopes: Mapping[str, float], before: Constants, now: Constants
) -> dict[str, float]:
    """Sizes of the rows' errors where other constants hold."""
    found = {}
    for of in outcomes:
        if of.predicted_s and of.row.step_s:
            change = 1 / now.share(of.row)[0] - 1 / before.share(of.row)[0]
            step_s = of.predicted_s + slopes.get(of.row.id, 0.0) * change
            found[of.row.id] = abs(relative(step_s, of.row.step_s))
    return found


def table_of(rows: Sequence[Row], calibration: Sequence[Row], runner: Runner) -> pandas.DataFrame:
    """Medians with all sources, and without each."""
    study = predicted(rows, calibration, runner)
    outcomes, probed = counted(study.outcomes), probe(calibration, runner, lambda done: None)
    slopes = slopes_of(outcomes, study.constants, runner)
    lines = []
    for source in (None, *dict.fromkeys(one.row.source for one in probed)):
        kept: list[Probed] = [one for one in probed if one.row.source != source]
        errors = errors_with(outcomes, slopes, study.constants, fitted(kept))
        parts = {
            "dense": [of for of in outcomes if of.row.dense],
            "experts": [of for of in outcomes if not of.row.dense],
            "its own rows": [of for of in outcomes if of.row.source == source],
        }
        line: dict[str, object] = {"without": source or "(all sources)"}
        for name, part in parts.items():
            sizes = [100 * errors[of.row.id] for of in part if of.row.id in errors]
            line[name] = round(statistics.median(sizes), 2) if sizes else None
        lines.append(line)
    return pandas.DataFrame(lines)


def main(path: str, store: str, jobs: str = "2") -> None:
    """Simulate what is missing, and print."""
    with Store(store) as kept:
        print(table_of(load(path), shipped(), Runner(kept, int(jobs))).to_string(index=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
