"""Whole steps beside another simulator's: a table of what it says, and what ours say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator

from experiments.output import UsageError
from experiments.studies.case import Case, step_of
from experiments.studies.published_values import shipped_rows
from experiments.validate.section import Section
from hardware import load_array
from hardware.reader import Cells, Row, checked_rows, number, whole
from planners.order import Kind, Phase
from simulator import Execution, Timeline, shares
from workloads import LARGE, NETWORKS, load_network

SHIPPED = "astra_sim_steps.csv"
RING = Execution("deployed", bucket_bytes=0.0, algorithm="ring")
"""Each gradient in an all-reduce of its own, round the ring, while cores compute on."""


@dataclass(frozen=True, slots=True)
class Given:
    """One step of the other simulator: data parallel on a one-way ring, 500 ns a hop."""

    network: str
    devices: int
    batch_per_device: int
    step_s: float


@dataclass(frozen=True, slots=True)
class OtherStep:
    """One step, theirs and ours; ``messages`` are those that every device sends, one by one.

    ``hidden`` is the share of the gradients' time on the ring during which cores compute.
    """

    given: Given
    ours_s: float
    all_reduces: int
    messages: int
    hidden: float

    @property
    def error(self) -> float:
        """Relative to the other, signed."""
        return self.ours_s / self.given.step_s - 1

    @property
    def of_a_message_s(self) -> float:
        """The difference, over all messages of a device."""
        return (self.ours_s - self.given.step_s) / self.messages


def _known(network: str) -> str:
    if network.partition(":")[0] not in {*NETWORKS, *LARGE}:
        raise ValueError("is not known (see: list networks)")
    return network


class GivenCells(Cells):
    """The columns of a table of steps; a ring has two devices or more."""

    network: Annotated[str, AfterValidator(_known)]
    devices: Annotated[int, whole(2, 1 << 12)]
    batch_per_device: Annotated[int, whole(1, 1 << 12)]
    step_ns: Annotated[float, number(1e-6, 1e15)]


def shipped() -> tuple[Given, ...]:
    """Return the table that comes with accelarray, of ASTRA-sim."""
    return parse(shipped_rows(SHIPPED))


def parse(rows: Sequence[Row]) -> tuple[Given, ...]:
    """Return the steps of a table's rows; raises UsageError with file and line."""
    return tuple(
        Given(row.network, row.devices, row.batch_per_device, row.step_ns / 1e9)
        for row in checked_rows(GivenCells, rows, UsageError)
    )


def other_steps(
    rows: Sequence[Given], progress: Callable[[str], None] = lambda done: None
) -> Iterator[OtherStep]:
    """Each step on ``ring-8``, with as many devices."""
    for row in rows:
        changes = [f"devices.0.count={row.devices}", "topology.latency=500 ns"]
        network, array = load_network(row.network), load_array("ring-8", changes)
        batch = row.devices * row.batch_per_device
        _, timeline = step_of(Case(network, "data_parallel", array, batch, execution=RING))
        yield _compared(row, timeline)
        progress(f"{row.network}, {row.devices} devices")


def _compared(row: Given, timeline: Timeline) -> OtherStep:
    sums = timeline.totals()[Phase.GRADIENT, Kind.SUMS]
    exposed = shares(timeline).communicating * timeline.iteration_ps * timeline.cores
    return OtherStep(
        row,
        timeline.iteration_s,
        sums.operations,
        sums.operations * 2 * (row.devices - 1),
        1 - exposed / sums.core_ps,
    )


def section(found: Sequence[OtherStep]) -> Section:
    """A line for each step."""
    rows: list[dict[str, Any]] = [
        {
            "network": step.given.network,
            "devices": step.given.devices,
            "batch each": step.given.batch_per_device,
            "theirs [ns]": f"{step.given.step_s * 1e9:,.0f}",
            "ours [ns]": f"{step.ours_s * 1e9:,.0f}",
            "error": f"{step.error:+.4%}",
            "hidden": f"{step.hidden:.1%}",
        }
        for step in found
    ]
    furthest = max(found, key=lambda step: abs(step.error))
    most = max(abs(step.of_a_message_s) for step in found) * 1e9
    remarks = (
        f"At most {abs(furthest.error):.4%} off. hidden: of the gradients' time on the ring, while "
        "cores compute.",
        f"Over the messages that a device sends one after the other, at most {most:.2g} ns each.",
    )
    data = [_data(step) for step in found]
    title = "Whole steps of ASTRA-sim 2.0: one-way ring, an all-reduce for each gradient"
    return Section(title, rows, remarks, {"other_steps": data})


def _data(step: OtherStep) -> dict[str, Any]:
    return {
        "network": step.given.network,
        "devices": step.given.devices,
        "batch_per_device": step.given.batch_per_device,
        "theirs_ns": step.given.step_s * 1e9,
        "ours_ns": step.ours_s * 1e9,
        "error": step.error,
        "all_reduces": step.all_reduces,
        "messages": step.messages,
        "hidden": step.hidden,
    }
