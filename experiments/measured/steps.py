"""Whole steps, data parallel, beside another simulator's and beside measured ones on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

from pydantic import AfterValidator

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
from experiments.studies.case import Case, step_of
from experiments.studies.published_values import shipped_rows
from hardware import Array, load_array
from hardware.reader import Cells, checked_rows, number, whole
from planners.order import Kind, Phase
from simulator import Execution, shares, usual
from workloads import LARGE, NETWORKS, load_network

RING = Execution("deployed", bucket_bytes=0.0, algorithm="ring")
"""Each gradient in an all-reduce of its own, round the ring, while cores compute on."""
SHEET = tuple(f"devices.0.roofline.{key}=1" for key in ("matrix_efficiency", "memory_efficiency"))
"""What makes a GPU reach its data sheet's peaks."""

RINGS = (
    Column("network", "network"),
    Column("devices", "devices"),
    Column("batch each", "batch_per_device"),
    Column("theirs [ns]", "theirs_ns", "{:,.0f}"),
    Column("ours [ns]", "ours_ns", "{:,.0f}"),
    Column("error", "error", "{:+.4%}"),
    Column("hidden", "hidden", "{:.1%}"),
)
GPUS = (
    Column("network", "network"),
    Column("GPU", "device"),
    Column("GPUs", "gpus"),
    Column("batch a GPU", "batch_per_gpu"),
    Column("stack", "stack"),
    Column("use", "use"),
    Column("measured [ms]", "step_s", "{:.1f}", 1e3),
    Column("ours [ms]", "ours_s", "{:.1f}", 1e3),
    Column("error", "error", "{:+z.1%}"),
    Column("specs alone", "specs_error", "{:+z.1%}"),
)


def _known(network: str) -> str:
    if network.partition(":")[0] not in {*NETWORKS, *LARGE}:
        raise ValueError("is not known (see: list networks)")
    return network


class RingRow(Cells):
    """A step of the other simulator: on a one-way ring of two or more devices, 500 ns a hop."""

    network: Annotated[str, AfterValidator(_known)]
    devices: Annotated[int, whole(2, 1 << 12)]
    batch_per_device: Annotated[int, whole(1, 1 << 12)]
    step_ns: Annotated[float, number(1e-6, 1e15)]


class GpuRow(Cells):
    """A measured step over the first ``gpus`` of an array; constants are fitted on those of one.

    An empty device, precision or optimizer is the array's own.
    """

    network: str
    array: str
    device: str
    stack: str
    precision: str
    optimizer: str
    gpus: Annotated[int, whole(1, 1 << 12)]
    batch_per_gpu: Annotated[int, whole(1, 1 << 16)]
    step_ms: Annotated[float, number(1e-6, 1e15)]
    source: str

    @property
    def settings(self) -> tuple[str, ...]:
        """What of the array is changed."""
        changes = {
            "precision": self.precision,
            "optimizer": self.optimizer,
            "devices.0.device": self.device,
        }
        return tuple(f"{key}={value}" for key, value in changes.items() if value)


def shipped_rings() -> list[RingRow]:
    """Return ASTRA-sim's steps that come with accelarray."""
    return checked_rows(RingRow, shipped_rows("astra_sim_steps.csv"), UsageError)


def shipped_gpus() -> list[GpuRow]:
    """Return the measured steps on GPUs that come with accelarray."""
    return checked_rows(GpuRow, shipped_rows("gpu_steps.csv"), UsageError)


def ring_steps(
    rows: Sequence[RingRow], progress: Callable[[str], None] = lambda done: None
) -> Iterator[Record]:
    """Each step on ``ring-8``, with as many devices.

    ``messages`` are those that every device sends, one by one; ``hidden`` is the share of the
    gradients' time on the ring during which cores compute.
    """
    for row in rows:
        changes = [f"devices.0.count={row.devices}", "topology.latency=500 ns"]
        network, array = load_network(row.network), load_array("ring-8", changes)
        batch = row.devices * row.batch_per_device
        _, timeline = step_of(Case(network, "data_parallel", array, batch, execution=RING))
        sums = timeline.totals()[Phase.GRADIENT, Kind.SUMS]
        exposed = shares(timeline).communicating * timeline.iteration_ps * timeline.cores
        theirs_s = row.step_ns / 1e9
        yield row.model_dump(exclude={"step_ns"}) | {
            "theirs_ns": theirs_s * 1e9,
            "ours_ns": timeline.iteration_s * 1e9,
            "error": relative(timeline.iteration_s, theirs_s),
            "all_reduces": sums.operations,
            "messages": sums.operations * 2 * (row.devices - 1),
            "hidden": 1 - exposed / sums.core_ps,
        }
        progress(f"{row.network}, {row.devices} devices")


def ring_section(found: list[Record]) -> Section:
    """A line for each of the other simulator's steps."""
    most = max(abs(one["ours_ns"] - one["theirs_ns"]) / one["messages"] for one in found)
    remarks = (
        f"At most {largest_error(found):.4%} off. hidden: of the gradients' time on the ring, "
        "while cores compute.",
        f"Over the messages that a device sends one after the other, at most {most:.2g} ns each.",
    )
    title = "Whole steps of ASTRA-sim 2.0: one-way ring, an all-reduce for each gradient"
    return Section(title, lines(found, RINGS), remarks, {"other_steps": found})


def gpu_step(row: GpuRow, changes: Sequence[str]) -> tuple[Array, float]:
    """A row's array, changed further, and the seconds of its step."""
    array = load_array(row.array, [*row.settings, *changes])
    part, batch = array.part(0, row.gpus), row.gpus * row.batch_per_gpu
    network = load_network(row.network)
    case = Case(network, "data_parallel", part, batch, execution=usual(array))
    return array, step_of(case)[1].iteration_s


def gpu_steps(
    rows: Sequence[GpuRow], progress: Callable[[str], None] = lambda done: None
) -> Iterator[Record]:
    """Each measured step, simulated with the stack's constants, and at data sheets' peaks."""
    for row in rows:
        array, ours_s = gpu_step(row, [f"stack={row.stack}"])
        ((device, _),) = array.group.kinds
        measured_s = row.step_ms / 1e3
        yield row.model_dump(exclude={"precision", "optimizer", "step_ms"}) | {
            "settings": row.settings,
            "step_s": measured_s,
            "device": device.name,
            "ours_s": ours_s,
            "error": relative(ours_s, measured_s),
            "use": "calibration" if row.gpus == 1 else "check",
            "specs_s": gpu_step(row, SHEET)[1],
        }
        progress(f"{row.network} on {device.name}")


def gpu_section(found: list[Record]) -> Section:
    """A line for each measured step on GPUs."""
    alone = [one | {"error": relative(one["specs_s"], one["step_s"])} for one in found]
    rows = [one | {"specs_error": specs["error"]} for one, specs in zip(found, alone, strict=True)]
    checks = [one for one in found if one["use"] == "check"]
    remarks = (
        f"All {len(found)} rows: median {median_error(found):.1%}; {len(checks)} rows of several "
        f"GPUs, on which nothing is fitted: median {median_error(checks):.1%}, at most "
        f"{largest_error(checks):.1%} off.",
        "Fitted: two constants a GPU and stack (products, memory) on its rows of one GPU. Data "
        f"sheets alone: median {median_error(alone):.1%}.",
    )
    title = "Measured steps on GPUs, data parallel"
    return Section(title, lines(rows, GPUS), remarks, {"gpu_steps": found})
