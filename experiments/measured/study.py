"""Predict every row of a table: fit constants on some, say how far the others are off.

Every prediction is a case like any other's: planned by the row's axes, simulated on the
engine, kept in a store where there is one.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from experiments.measured.case import RowCase, case_of
from experiments.measured.controls import Shares, Work, controls, fitted_shares
from experiments.measured.errors import Outcome, counted
from experiments.measured.fit import PROBES, Constants, Probed, fitted
from experiments.measured.rows import Row
from experiments.measured.running import Ran, run_rows
from experiments.measured.split import LeftOutError
from experiments.output import UsageError
from experiments.studies.running.estimate import estimate
from experiments.studies.running.outputs import REFUSED
from experiments.studies.running.runner import Runner

GIB = 2.0**30
MOST_S = 600.0
"""A row is left out whose step takes longer to simulate, by its estimate."""
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Study:
    """What came out: a row's outcome each, in their order, and the constants behind them.

    ``factors`` are of sources of which some rows set them (``--per-source``), else empty.
    """

    outcomes: tuple[Outcome, ...]
    constants: Constants
    shares: Shares
    factors: Mapping[str, float]


def predicted(
    rows: Sequence[Row],
    calibration: Sequence[Row],
    runner: Runner,
    per_source: int = 0,
    progress: Progress = lambda done: None,
) -> Study:
    """Fit on the rows for calibration, predict the others.

    Of each source ``per_source`` rows that can be compared set a factor for the seconds of
    that source (``spread_over``), and are left out of the errors themselves.
    """
    probed = probe(calibration, runner, progress)
    constants = fitted(probed)
    known = [ready(row) for row in calibration]
    shares = fitted_shares(
        (work_of(one), one.row.step_s)
        for one in known
        if isinstance(one, RowCase) and one.row.step_s
    )
    outcomes = _outcomes(rows, constants, shares, runner, progress)
    outcomes, factors = _by_source(outcomes, per_source)
    return Study(tuple(outcomes), constants, shares, factors)


def probe(rows: Iterable[Row], runner: Runner, progress: Progress) -> list[Probed]:
    """Calibration rows at both probes; those of which nothing can be said are passed over.

    Raises UsageError for one that cannot be planned.
    """
    asked: dict[tuple[str, float], RowCase] = {}
    by_id: dict[str, Row] = {}
    for row in rows:
        one = ready(row)
        if isinstance(one, RowCase) and row.step_s:
            by_id[row.id] = row
            asked |= {(row.id, share): at_share(one, share) for share in PROBES}
    found: dict[tuple[str, float], float] = {}
    for name, ran in run_rows(asked, runner):
        if reason := ran.outputs.get(REFUSED):
            raise UsageError(f"{name[0]}: {reason}; leave it out of the rows for calibration")
        found[name] = ran.outputs["iteration_s"]
        progress(name[0])
    return [
        Probed(row, (found[name, PROBES[0]], found[name, PROBES[1]])) for name, row in by_id.items()
    ]


def at_share(of: RowCase, share: float) -> RowCase:
    """The same where products reach a share of their peak."""
    group = of.case.array.group
    kinds = tuple(
        (replace(device, roofline=replace(device.roofline, matrix_efficiency=share)), count)
        for device, count in group.kinds
    )
    array = replace(of.case.array, group=replace(group, kinds=kinds))
    return replace(of, case=replace(of.case, array=array))


def work_of(of: RowCase) -> Work:
    """FLOPs of a row's step, and the peak of its chips."""
    forward = 2.0 * of.case.network.macs * of.case.batch
    again = forward if of.split.recompute == "full" else 0.0
    if of.split.recompute.isdecimal() and of.row.layers:
        again = forward * min(
            int(of.split.recompute) * of.split.pp * of.split.vp / of.row.layers, 1
        )
    peak = sum(device.peak_flops_per_s * count for device, count in of.case.array.group.kinds)
    return Work(3 * forward, 3 * forward + again, peak)


def ready(row: Row) -> RowCase | LeftOutError:
    """A row's case, or why there is none."""
    try:
        return case_of(row)
    except LeftOutError as error:
        return error


def _outcomes(
    rows: Sequence[Row],
    constants: Constants,
    shares: Shares,
    runner: Runner,
    progress: Progress,
) -> list[Outcome]:
    known = {row.id: ready(row) for row in rows}
    left_out: dict[str, str] = {}
    asked: dict[str, RowCase] = {}
    for row in rows:
        one = known[row.id]
        if not isinstance(one, RowCase):
            left_out[row.id] = str(one)
        elif (needed := estimate(one.case)).seconds > MOST_S:
            left_out[row.id] = f"its step alone would take {needed} here"
        else:
            asked[row.id] = at_share(one, constants.share(row)[0])
    found: dict[str, Ran] = {}
    for name, ran in run_rows(asked, runner):
        found[name] = ran
        progress(name)
    return [
        _outcome(row, found.get(row.id), left_out.get(row.id), constants, shares) for row in rows
    ]


def _outcome(
    row: Row, ran: Ran | None, left_out: str | None, constants: Constants, shares: Shares
) -> Outcome:
    if ran is None or REFUSED in ran.outputs:
        return Outcome(row, None, None, ran.outputs[REFUSED] if ran else left_out)
    peak = ran.outputs["peak_memory_bytes"]
    return Outcome(
        row,
        ran.outputs["iteration_s"],
        None if peak is None else peak / GIB,
        None if row.step_s else "its step is not stated",
        (*ran.of.split.assumed, *constants.share(row)[1]),
        tuple(controls(work_of(ran.of), shares).items()),
    )


def _by_source(
    outcomes: Sequence[Outcome], per_source: int
) -> tuple[list[Outcome], dict[str, float]]:
    """The outcomes with each source's factor, whose rows are left out."""
    if not per_source:
        return list(outcomes), {}
    sources: dict[str, list[Outcome]] = {}
    for outcome in counted(outcomes):
        sources.setdefault(_source(outcome), []).append(outcome)
    chosen = {source: spread_over(found, per_source) for source, found in sources.items()}
    used = {one.row.id for found in chosen.values() for one in found}
    factors = {source: factor_of(found) for source, found in chosen.items()}
    return [_scaled(outcome, factors, used) for outcome in outcomes], factors


def factor_of(found: Sequence[Outcome]) -> float:
    """What makes the middle one of some rows right, less of it the more they contradict each other.

    Of its logarithm m the part m^2 / (m^2 + s^2 / n), s being the standard deviation of all n
    (the estimate of James and Stein): of rows that take 1.18, 1.2 and
    1.22 times as long as predicted 0.997, of 0.9, 1.02 and 1.14 times 0.08. One row is taken
    at its word.
    """
    logs = [math.log1p(one.error) for one in found]
    middle = statistics.median(logs)
    if not middle or len(logs) < 2:
        return math.exp(-middle)
    unsure = statistics.variance(logs) / len(logs)
    return math.exp(-middle * middle**2 / (middle**2 + unsure))


def _source(outcome: Outcome) -> str:
    """A source's dense models, and its mixtures of experts, which are another matter."""
    return outcome.row.source + ("" if outcome.row.dense else ", experts")


def spread_over(found: Sequence[Outcome], count: int) -> list[Outcome]:
    """So many of some rows, from the first to the last one; of one, that in the middle.

    Tables are sorted by model and size, so that the first ones alone are much alike. Three of
    nine are the first, the fifth and the last.
    """
    last = len(found) - 1
    if count > last:
        return list(found)
    if count == 1:
        return [found[last // 2]]
    return [found[round(i * last / (count - 1))] for i in range(count)]


def _scaled(outcome: Outcome, factors: Mapping[str, float], used: set[str]) -> Outcome:
    if outcome.predicted_s is None:
        return outcome
    factor = factors.get(_source(outcome), 1.0)
    left_out = "sets its source's factor" if outcome.row.id in used else outcome.left_out
    return replace(outcome, predicted_s=factor * outcome.predicted_s, left_out=left_out)
