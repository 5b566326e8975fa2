"""MLPerf's steps of ResNet-50 on pods of TPUs: one constant fitted, everything else from specs.

A whole step of the deployed model on the event engine: each core does every
operator on its rows; then all gradients together are all-reduced, nothing
hidden behind backward; then the optimizer updates.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import Field, model_validator

from experiments.measured.fit import LEAST, MOST, fit_efficiency
from experiments.measured.section import (
    Column,
    Record,
    Section,
    largest_error,
    lines,
    median_error,
    relative,
)
from experiments.output import UsageError
from experiments.pictures.figures import TITLE_SIZE, panels, plain
from experiments.pictures.palette import SERIES
from experiments.studies.case import Case, step_of
from experiments.studies.published_values import shipped_rows
from hardware import Array, Device, Group, Topology, load_array
from hardware.reader import Cells, checked_rows, number, whole
from planners.order import Kind, Phase
from planners.partition import Shard
from simulator import PICOSECONDS, Execution, shares
from simulator.cost.roofline import flops
from simulator.cost.training_operators import operators
from workloads import Network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ONE_ALL_REDUCE = Execution("deployed", overlap=False, bucket_bytes=math.inf)
"""Exchanges hide nothing; gradients are combined, as XLA does with all-reduces of small tensors."""
CALIBRATION = "calibration"
SYSTEMS = ("tpu-v2", "tpu-v3")
MOST_CORES = 1 << 17
MOST_DRAWN = 60
"""Rows of a picture."""
_CORES_PER_BOARD = 8
_MOST_ROWS_PER_CORE = 1 << 16
_ROUNDING = 0.05
"""How far images a second and step time may be apart: both are rounded, or medians."""

COLUMNS = (
    Column("round", "round"),
    Column("system", "system"),
    Column("cores", "cores"),
    Column("batch a core", "batch_per_core"),
    Column("use", "use"),
    Column("measured [ms]", "measured_ms", "{:.1f}"),
    Column("predicted [ms]", "predicted_ms", "{:.1f}"),
    Column("of it all-reduce", "all_reduce_ms", "{:.2f}"),
    Column("error", "error", "{:+z.1%}"),
    Column("specs alone", "specs_alone_error", "{:+z.1%}"),
    Column("peak only", "peak_only_error", "{:+z.1%}"),
)


class PodRow(Cells):
    """One measured step: data parallel on ``cores`` with ``batch_per_core`` samples each.

    Any ``use`` that is not "calibration" is a check; what looks misspelt is refused.
    """

    round: str
    system: str
    cores: Annotated[int, whole(1, MOST_CORES)]
    global_batch: Annotated[int, whole(1, MOST_CORES * _MOST_ROWS_PER_CORE)]
    batch_per_core: Annotated[int, whole(1, _MOST_ROWS_PER_CORE)]
    images_per_s: Annotated[float, number(1e-6, 1e15)]
    step_ms: Annotated[float, number(1e-6, 1e15)]
    use: Annotated[str, Field(min_length=1, max_length=40)]

    @property
    def device(self) -> str:
        """The device that the system is made of."""
        return self.system.rpartition("-")[0]

    @property
    def step_s(self) -> float:
        """The measured seconds."""
        return self.step_ms / 1e3

    @model_validator(mode="after")
    def _go_together(self) -> PodRow:
        samples, every = self.cores * self.batch_per_core, self.global_batch
        took_ms = every / self.images_per_s * 1e3
        near = difflib.get_close_matches(self.use.lower(), [CALIBRATION], cutoff=0.8)
        if self.cores % _CORES_PER_BOARD:
            raise ValueError(f"cores: {self.cores}: a board has {_CORES_PER_BOARD}")
        if every != samples:
            raise ValueError(
                f"global_batch: {every}, but {self.cores} x {self.batch_per_core} = {samples}"
            )
        if abs(self.step_ms / took_ms - 1) > _ROUNDING:
            raise ValueError(
                f"step_ms: {self.step_ms:g}, but {every} samples at {self.images_per_s:g} a second "
                f"take {took_ms:.4g} ms"
            )
        if self.device not in SYSTEMS:
            known = " or ".join(f"{name}-CORES" for name in SYSTEMS)
            raise ValueError(f"system: {self.system[:40]!r} is not known; {known}")
        if self.system != f"{self.device}-{self.cores}":
            raise ValueError(f"system: {self.system[:40]!r} does not have {self.cores} cores")
        if self.use != CALIBRATION and near:
            raise ValueError(f"use: {self.use!r}: did you mean {CALIBRATION}?")
        return self


def shipped() -> list[PodRow]:
    """Return the table that comes with accelarray, from MLPerf Training's public logs."""
    return checked_rows(PodRow, shipped_rows("mlperf_resnet50_tpu.csv"), UsageError)


class Step(NamedTuple):
    """A predicted step, in seconds, and what of it cores do not compute, or update weights."""

    total_s: float
    communication_s: float
    update_s: float


@lru_cache(maxsize=1024)
def step(network: Network, device: Device, cores: int, rows: int) -> Step:
    """A step on ``cores`` of a device with ``rows`` samples each."""
    array = array_of(device, cores)
    case = Case(network, "data_parallel", array, cores * rows, execution=ONE_ALL_REDUCE)
    _, timeline = step_of(case)
    total_s, update = timeline.iteration_s, timeline.totals()[Phase.UPDATE, Kind.COMPUTE]
    communication_s = total_s * (1 - shares(timeline).computing)
    return Step(total_s, communication_s, update.core_ps / timeline.cores / PICOSECONDS)


@lru_cache(maxsize=1024)
def peak_only_s(network: Network, device: Device, rows: int) -> float:
    """Seconds for the FLOPs of a step at a core's peak: the negative control."""
    asked = operators(network)
    nodes = ((op, asked.graph[op.node]) for op in asked.schedule())
    work = sum(flops(op, Shard(rows, node.in_channels, node.out_channels)) for op, node in nodes)
    return work / (device.chip_peak_flops_per_s / device.cores_per_chip)


def array_of(device: Device, cores: int) -> Array:
    """So many cores of a device on inter-chip links: one board's mesh, or a torus."""
    name, boards = f"{device.name}-{cores}", cores // device.cores
    if boards == 1:
        topology = load_array(f"{device.name.partition(',')[0]}-8").topology
    else:
        topology = Topology("torus", "chips", torus(boards * device.chips, pod_side(device.name)))
    return Array(name, "", Group(((device, boards),)), topology=topology)


def pod_side(device: str) -> int:
    """Chips along the shorter side of a device's pod; larger machines are pods in a row."""
    pod = load_array(f"{device}-pod")
    ((board, boards),) = pod.group.kinds
    return min(pod.topology.shape_of(boards * board.chips))


def torus(chips: int, side: int) -> tuple[int, int]:
    """The longer and the shorter side of a torus: as near to square as chips and pods allow."""
    most = min(math.isqrt(chips), side)
    short = next(side for side in range(most, 0, -1) if chips % side == 0)
    return chips // short, short


@dataclass(frozen=True, slots=True)
class Model:
    """Predicts rows of one network; ``devices`` by name, ``progress`` hears of each step."""

    network: Network
    devices: Mapping[str, Device]
    progress: Callable[[str], None] = lambda done: None

    def step(self, row: PodRow, memory_efficiency: float) -> Step:
        """The predicted step of a row."""
        device = self.devices[row.device]
        roofline = replace(device.roofline, memory_efficiency=memory_efficiency)
        found = step(
            self.network, replace(device, roofline=roofline), row.cores, row.batch_per_core
        )
        self.progress(f"{device.name}-{row.cores}, {row.batch_per_core} a core")
        return found

    def error(self, row: PodRow, memory_efficiency: float) -> float:
        """Signed and relative."""
        return relative(self.step(row, memory_efficiency).total_s, row.step_s)

    def fitted(self, rows: Sequence[PodRow]) -> float:
        """The memory efficiency, the one constant."""
        return fit_efficiency(lambda guess: [self.error(row, guess) for row in rows])

    def peak_s(self, row: PodRow) -> float:
        """The negative control at full efficiency."""
        return peak_only_s(self.network, self.devices[row.device], row.batch_per_core)


def validate(rows: Sequence[PodRow], shipped: Sequence[PodRow], model: Model) -> Record:
    """Fit on the rows marked calibration (the shipped ones where there are none); predict all.

    Returns constants, each row's errors and what else the fit says, as JSON has it.
    """
    own = [row for row in rows if row.use == CALIBRATION]
    fitted_on = own or [row for row in shipped if row.use == CALIBRATION]
    memory = model.fitted(fitted_on)
    shortest = [(model.peak_s(row), row.step_s) for row in fitted_on]
    peak = fit_efficiency(lambda guess: [relative(s / guess, m) for s, m in shortest])
    records = [_record(model, row, memory, peak) for row in rows]
    checks = [record for record in records if record["use"] != CALIBRATION]
    found: Record = {
        "constants": {"memory_efficiency": memory, "peak_only_efficiency": peak},
        "fitted_on": [row.system for row in fitted_on],
        # an efficiency at its bound is no fit
        "fit_at_bound": not LEAST * 1.001 < memory < MOST * 0.999,
        "rows": records,
    }
    if checks:
        worst = {"median_error": median_error(checks), "largest_error": largest_error(checks)}
        found["other_rows"] = worst
    return found | _one_board(model, fitted_on) | _ratio(model, fitted_on, memory)


def _record(model: Model, row: PodRow, memory: float, peak: float) -> Record:
    took = model.step(row, memory)
    return row.model_dump(exclude={"global_batch", "images_per_s", "step_ms", "use"}) | {
        "measured_ms": row.step_s * 1e3,
        "predicted_ms": took.total_s * 1e3,
        "error": relative(took.total_s, row.step_s),
        "use": row.use,
        "all_reduce_ms": took.communication_s * 1e3,
        "update_ms": took.update_s * 1e3,
        "specs_alone_error": model.error(row, 1.0),
        "peak_only_error": relative(model.peak_s(row) / peak, row.step_s),
    }


def _one_board(model: Model, fitted_on: Sequence[PodRow]) -> Record:
    """The constant fitted on one board's rows alone, and what it then says of another's."""
    first = min(row.device for row in fitted_on)
    others = [row for row in fitted_on if row.device != first]
    if not others:
        return {}
    alone = model.fitted([row for row in fitted_on if row.device == first])
    errors = {row.system: model.error(row, alone) for row in others}
    return {"one_board": {"fitted_on": first, "memory_efficiency": alone, "errors": errors}}


def _ratio(model: Model, fitted_on: Sequence[PodRow], memory: float) -> Record:
    """How much faster the second is of the first two rows that differ in their device alone."""
    for one, other in product(fitted_on, repeat=2):
        alike = (one.cores, one.batch_per_core) == (other.cores, other.batch_per_core)
        if alike and one.device < other.device:
            steps = [model.step(row, memory).total_s for row in (one, other)]
            ratio = {
                "boards": [one.system, other.system],
                "measured": one.step_s / other.step_s,
                "predicted": steps[0] / steps[1],
                "peak_only": model.peak_s(one) / model.peak_s(other),
            }
            return {"board_ratio": ratio}
    return {}


def section(found: Record, network: str) -> Section:
    """As the command prints it."""
    on = ", ".join(dict.fromkeys(found["fitted_on"]))
    own = any(row["use"] == CALIBRATION for row in found["rows"])
    said = [
        f"memory_efficiency {found['constants']['memory_efficiency']:.4f}, the one fitted "
        f"constant, on {on}"
        f"{'' if own else ' of the shipped table (this one has no calibration rows)'}."
    ]
    if found["fit_at_bound"]:
        said.append("It ended at a bound of 0.01...1: the model does not fit these rows.")
    if others := found.get("other_rows"):
        said.append(
            f"Other rows: median {others['median_error']:.1%}, "
            f"at most {others['largest_error']:.1%} off."
        )
    if one := found.get("one_board"):
        wrong = ", ".join(f"{system} {error:+z.1%}" for system, error in one["errors"].items())
        said.append(
            f"Fitted on {one['fitted_on']} alone ({one['memory_efficiency']:.4f}): {wrong}."
        )
    if ratio := found.get("board_ratio"):
        slower, faster = ratio["boards"]
        said.append(
            f"{faster} is {ratio['measured']:.2f} times as fast as {slower}; predicted "
            f"{ratio['predicted']:.2f}, by peak FLOP/s {ratio['peak_only']:.2f}."
        )
    said.append(
        "specs alone: memory_efficiency 1. peak only: FLOPs at "
        f"{found['constants']['peak_only_efficiency']:.3f} of peak and nothing else, a control "
        "that is to fail."
    )
    title = f"Measured steps of {network}, data parallel on a torus"
    return Section(title, lines(found["rows"], COLUMNS), tuple(said), found)


def check_drawable(rows: int) -> None:
    """Raise UsageError when there are more rows than a picture can hold."""
    if rows > MOST_DRAWN:
        raise UsageError(f"--plot draws at most {MOST_DRAWN} rows, not {rows}")


def plot(found: Record) -> Figure:
    """A line for each row: errors of the model, of the specs alone and of the control."""
    rows = found["rows"][::-1]
    figure, (axes,) = panels(7, 1.4 + 0.32 * len(rows))
    series = (
        ("the model", "o", SERIES[0], "error"),
        ("specs alone", "d", SERIES[2], "specs_alone_error"),
        ("peak FLOP/s only", "x", SERIES[3], "peak_only_error"),
    )
    for label, marker, colour, key in series:
        percent = [100 * row[key] for row in rows]
        axes.plot(percent, range(len(rows)), marker, color=colour, mew=1.6, label=label)
    names = [
        f"{plain(row['system'])}, {row['batch_per_core']} a core"
        f"{' (fit)' if row['use'] == CALIBRATION else ''}"
        for row in rows
    ]
    axes.set_yticks(range(len(rows)), names, fontsize=7)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.axvline(0, color="#555555", lw=0.6)
    axes.axvspan(-10, 10, color="#eeeeee", lw=0, zorder=0)
    axes.set_xlabel("error of the predicted step time [%]; grey: within 10 %")
    efficiency = found["constants"]["memory_efficiency"]
    title = f"ResNet-50 on TPUs, deployed model, memory_efficiency {efficiency:.3f}"
    axes.set_title(title, fontsize=TITLE_SIZE)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=7
    )
    return figure
