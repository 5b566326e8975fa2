"""Predict every row of a table: fit constants on some, say how far the others are off.

Every prediction is a case like any other's: planned by the row's axes, simulated on the
engine, kept in a store where there is one. Beside each stand controls, predictions that know
nothing, which a model of a machine has to beat.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from experiments.measured.case import RowCase, chips_of, ready, run_rows
from experiments.measured.fit import PROBES, Constants, Probed, fitted
from experiments.measured.machine import chips
from experiments.measured.rows import Row
from experiments.measured.section import Record, grouped, relative
from experiments.output import UsageError
from experiments.progress import expecting
from experiments.studies.published_values import shipped_rows
from experiments.studies.running.estimate import estimate as needs
from experiments.studies.running.outputs import REFUSED, Outputs
from experiments.studies.running.runner import Runner
from hardware import Device

GIB = 2.0**30
STEPS = "calibration_steps.csv"
"""What the steps of the shipped calibration rows take at both probes, by the keys of their cases.
They were simulated before: a small table of one's own takes 4 s instead of 29
(``scripts.calibration_steps`` writes the file)."""
MOST_S = 600.0
"""A row is left out whose step takes longer to simulate, by its estimate."""
PEAK, SHARE, HARDWARE = "peak only", "constant share", "share, recompute counted"
CONTROLS = (PEAK, SHARE, HARDWARE)
"""The model's FLOPs at the chip's peak; at one share of it for all rows, the one that fits the
calibration rows best; the same of the FLOPs with forward once more where it is computed again."""
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row and what is said of it; seconds, GiB of a chip; None where nothing can be said.

    ``left_out`` is why it is in no statistic (None: it is in). ``assumed`` is what the row
    does not state and the prediction takes. ``controls`` are those of the same row, in seconds.
    ``fits`` is whether the predicted memory is within that of every device; None without one.
    """

    row: Row
    predicted_s: float | None
    memory_gib: float | None
    left_out: str | None
    assumed: tuple[str, ...] = ()
    controls: Mapping[str, float] = field(default_factory=dict)
    fits: bool | None = None

    @property
    def error(self) -> float:
        """Signed and relative: 0.1 is a prediction 10 % too slow."""
        if self.predicted_s is None or self.row.step_s is None:
            raise ValueError(f"{self.row.id}: nothing to compare")
        return relative(self.predicted_s, self.row.step_s)

    @property
    def memory_error(self) -> float | None:
        """The same of memory; None where it is not measured or not predicted."""
        if self.memory_gib is None or self.row.mem_gib is None:
            return None
        return relative(self.memory_gib, self.row.mem_gib)

    @property
    def architecture(self) -> str:
        """Dense models, and mixtures of experts, which are told apart in every table."""
        return "dense" if self.row.dense else "mixture of experts"

    def to_json(self) -> Record:
        """The row as scripts read it."""
        return {
            "id": self.row.id,
            "measured_s": self.row.step_s,
            "predicted_s": self.predicted_s,
            "memory_gib": self.memory_gib,
            "fits": self.fits,
            "left_out": self.left_out,
            "measured_memory_gib": self.row.mem_gib,
            "source": self.row.source,
            "chip": chips_of(self.row),
            "architecture": self.architecture,
            "assumed": list(self.assumed),
            "controls": dict(self.controls),
        }


def counted(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those in the statistics."""
    return [outcome for outcome in outcomes if outcome.left_out is None]


class Work(NamedTuple):
    """Seconds of a step's FLOPs at the peak of all chips: the model's, and with recomputing.

    Six FLOPs for each multiply-accumulate of a forward pass; attention's are counted whole,
    causal or not.
    """

    model_s: float
    hardware_s: float


@dataclass(frozen=True, slots=True)
class Study:
    """What came out: a row's outcome each, in their order, and the constants behind them.

    ``factors`` are of sources of which some rows set them (``--per-source``), else empty.
    """

    outcomes: tuple[Outcome, ...]
    constants: Constants
    factors: Mapping[str, float]
    estimated: bool = False
    """Whether predictions are the first pass's, and not simulated."""


def predicted(
    rows: Sequence[Row],
    calibration: Sequence[Row],
    runner: Runner,
    per_source: int = 0,
    progress: Progress = lambda done: None,
    *,
    estimate: bool = False,
) -> Study:
    """Fit on the rows for calibration, predict the others, or ``estimate`` them (first pass).

    Of each source ``per_source`` rows that can be compared set a factor for the seconds of
    that source (``spread_over``), and are left out of the errors themselves.
    """
    constants = fitted(probe(calibration, runner, progress))
    known = ((ready(row), row.step_s) for row in calibration)
    shares = fitted_shares(
        (work_of(one), step_s) for one, step_s in known if isinstance(one, RowCase) and step_s
    )
    left_out, asked, due = dict[str, str](), dict[str, RowCase](), dict[str, float]()
    for row in rows:
        one = ready(row)
        if not isinstance(one, RowCase):
            left_out[row.id] = str(one)
            continue
        needed = None if estimate else needs(one.case)
        if needed and needed.seconds > MOST_S:
            left_out[row.id] = f"its step alone would take {needed} here"
        else:
            asked[row.id] = at_shares(one, constants)
            due[row.id] = needed.seconds if needed else 1.0
    expecting(progress, due)
    found = dict[str, Outcome]()
    for name, of, outputs in run_rows(asked, runner, estimate=estimate):
        found[name] = _outcome(of, outputs, shares)
        progress(name)
    outcomes = [found.get(row.id) or Outcome(row, None, None, left_out.get(row.id)) for row in rows]
    return _by_source(Study(tuple(outcomes), constants, {}, estimate), per_source)


def probe(rows: Iterable[Row], runner: Runner, progress: Progress) -> list[Probed]:
    """Calibration rows at both probes; those of which nothing can be said are passed over.

    Steps that come with accelarray (``STEPS``) are not simulated.
    Raises UsageError for one that cannot be planned.
    """
    asked = probes_of(rows)
    keys = {name: of.case.key for name, of in asked.items()}
    known = shipped_steps()
    found = {name: known[key] for name, key in keys.items() if key in known}
    for row, _ in found:
        progress(row)
    left = {name: of for name, of in asked.items() if name not in found}
    for name, _, outputs in run_rows(left, runner):
        if reason := outputs.get(REFUSED):
            raise UsageError(f"{name[0]}: {reason}; leave it out of the rows for calibration")
        found[name] = outputs["iteration_s"]
        progress(name[0])
    by_id = {id_: of.row for (id_, _), of in asked.items()}
    return [
        Probed(row, (found[name, PROBES[0]], found[name, PROBES[1]])) for name, row in by_id.items()
    ]


def probes_of(rows: Iterable[Row]) -> dict[tuple[str, float], RowCase]:
    """Calibration rows at both probes, by id and share."""
    known = ((row, ready(row)) for row in rows if row.step_s)
    return {
        (row.id, share): at_share(one, share)
        for row, one in known
        if isinstance(one, RowCase)
        for share in PROBES
    }


def shipped_steps() -> dict[str, float]:
    """Seconds of ``STEPS`` by their cases' keys: once anything else changes, none is found."""
    return {cells["key"]: float(cells["step_s"]) for _, cells in shipped_rows(STEPS)}


def at_shares(of: RowCase, constants: Constants) -> RowCase:
    """The same where products reach the share of their peak that is known of each chip.

    Where an array's chip is in no row for calibration the catalog's share stays, as the stack
    has it. ``assumed`` says what was taken from elsewhere.
    """
    if not of.row.array:
        return at_share(of, *constants.share(of.row))
    shares, words = dict[str, float](), list[str]()
    for device, _ in of.case.array.group.kinds:
        chip = chips().get(device.name)
        if chip and constants.knows(chip):
            shares[device.name], said = constants.share(of.row.model_copy(update={"hw": chip}))
            words += said
        else:
            words.append(f"share of {device.name} as in the catalog")
    return _reaching(of, shares, dict.fromkeys(words))


def at_share(of: RowCase, share: float, words: Iterable[str] = ()) -> RowCase:
    """The same where products reach a share of their peak, which ``words`` say is assumed."""
    devices = (device for device, _ in of.case.array.group.kinds)
    return _reaching(of, {device.name: share for device in devices}, words)


def _reaching(of: RowCase, shares: Mapping[str, float], words: Iterable[str]) -> RowCase:
    """The same where devices of those names have such shares."""

    def reaching(device: Device) -> Device:
        share = shares.get(device.name, device.roofline.matrix_efficiency)
        return replace(device, roofline=replace(device.roofline, matrix_efficiency=share))

    case = replace(of.case, array=of.case.array.with_devices(reaching))
    return replace(of, case=case, split=replace(of.split, assumed=(*of.split.assumed, *words)))


def work_of(of: RowCase) -> Work:
    """What a row's step takes at the peak of its chips."""
    forward = 2.0 * of.case.network.macs * of.case.batch
    again = forward if of.split.recompute == "full" else 0.0
    if of.split.recompute.isdecimal() and of.row.layers:
        stages = of.split.axes.pp * of.split.axes.vp
        again = forward * min(int(of.split.recompute) * stages / of.row.layers, 1)
    peak = sum(device.peak_flops_per_s * count for device, count in of.case.array.group.kinds)
    return Work(3 * forward / peak, (3 * forward + again) / peak)


def fitted_shares(calibration: Iterable[tuple[Work, float]]) -> Work:
    """Shares of peak with the median step right, of work and measured seconds.

    The median of logarithms: half of the rows are faster, half slower.
    """
    logs = [[math.log(at_peak_s / step_s) for at_peak_s in work] for work, step_s in calibration]
    if not logs:
        return Work(1.0, 1.0)
    return Work(*(math.exp(statistics.median(own)) for own in zip(*logs, strict=True)))


def controls(work: Work, shares: Work) -> dict[str, float]:
    """Each control's seconds."""
    return {
        PEAK: work.model_s,
        SHARE: work.model_s / shares.model_s,
        HARDWARE: work.hardware_s / shares.hardware_s,
    }


def _outcome(of: RowCase, outputs: Outputs, shares: Work) -> Outcome:
    if REFUSED in outputs:
        return Outcome(of.row, None, None, outputs[REFUSED])
    peak = outputs["peak_memory_bytes"]
    return Outcome(
        of.row,
        outputs["iteration_s"],
        None if peak is None else (peak + of.reserve_bytes) / GIB,
        None if of.row.step_s else "its step is not stated",
        of.split.assumed,
        controls(work_of(of), shares),
        all(one["peak_bytes"] <= one["capacity_bytes"] / of.room for one in outputs["memory"]),
    )


def _by_source(study: Study, per_source: int) -> Study:
    """The study with each source's factor, whose rows are left out."""
    if not per_source:
        return study
    chosen = {
        source: spread_over(found, per_source)
        for source, found in grouped(counted(study.outcomes), _source).items()
    }
    used = {one.row.id for found in chosen.values() for one in found}
    factors = {source: factor_of(found) for source, found in chosen.items()}
    scaled = (_scaled(outcome, factors, used) for outcome in study.outcomes)
    return replace(study, outcomes=tuple(scaled), factors=factors)


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
