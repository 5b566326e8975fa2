"""A measured trace beside a simulated step: by what kernels do, and where the two differ most."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from experiments.explain.kernels import Sums, step_sums
from experiments.files.kineto import Trace, read_trace
from experiments.output import table_of
from experiments.results.result import Result, readable
from experiments.results.step import StepResult
from experiments.terms import change, duration

MOST = 3
"""Classes that a sentence names as those that differ."""
LEAST = 0.001
"""Of the trace's step, by which they do."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class TraceDifferenceResult(Result):
    """One simulated step, and a rank of a measured one (PyTorch's profiler)."""

    step: StepResult
    trace: Trace
    simulated: Sums
    place: str
    """Which devices are simulated, in words."""
    notes: tuple[str, ...] = ()

    def title(self) -> str:
        """Both, with their times."""
        ours, theirs = (readable(one["step"]) for one in (self.simulated, self.trace.sums))
        return f"{self.step.case}: simulated {ours} | trace {theirs}"

    def to_dict(self) -> dict[str, Any]:
        """What ``papers compare --trace FILE --format json`` prints: seconds of one device."""
        case = self.step.case
        about = {key: value for key, value in asdict(self.trace).items() if key != "sums"}
        *classes, step = self.rows()
        return {
            "network": case.network.name,
            "planner": case.planner_name,
            "array": case.array.name,
            "batch": case.batch,
            "execution": str(case.execution),
            "devices": self.place,
            "trace": about,
            "iteration_s": [step["simulated_s"], step["trace_s"]],
            "difference_s": step["difference_s"],
            "classes": classes,
            "differs_most": [row["class"] for row in self._most()],
            "warnings": [*self.notes, *self.step.warnings, *self.step.unread],
        }

    def rows(self) -> list[dict[str, Any]]:
        """A line for each class of kernels, exposed communication, idle time and the step."""
        ours, theirs = self.simulated, self.trace.sums
        return [
            {
                "class": name,
                "simulated_s": ours[name],
                "trace_s": theirs[name],
                "difference_s": theirs[name] - ours[name],
            }
            for name in ours
            if ours[name] or theirs[name] or name in ("exposed communication", "idle", "step")
        ]

    def _most(self) -> list[dict[str, Any]]:
        """What differs most, by ``LEAST`` of the trace's step or more."""
        *found, step = self.rows()
        found.sort(key=lambda row: -abs(row["difference_s"]))
        return [one for one in found[:MOST] if abs(one["difference_s"]) > LEAST * step["trace_s"]]

    def tables(self) -> list[Table | str]:
        """A row for each class, then what to know."""
        columns = "kernels", "simulated", "trace", "difference", "of the trace"
        case, whole = self.step.case, self.trace.sums["step"]
        title = f"{case.network.name} on {case.array.name}, batch {case.batch}, {self.place}"
        table = table_of(title, columns, ("kernels",))
        for row in self.rows():
            if row["class"] in ("exposed communication", "step"):
                table.add_section()
            part = f"{row['difference_s'] / whole:+z.1%}" if whole else "-"
            times = duration(row["simulated_s"]), duration(row["trace_s"])
            table.add_row(row["class"], *times, change(row["difference_s"]), part)
        return [table, *self._sentences(), *self.step.warnings, *self.step.unread]

    def _sentences(self) -> list[str]:
        most = ", ".join(f"{row['class']} {change(row['difference_s'])}" for row in self._most())
        said = [f"They differ most in: {most}." if most else f"No class differs by {LEAST:.1%}."]
        of_steps = {
            0: "The trace names no ProfilerStep: all of it counts as one step.",
            1: "The trace is one step.",
        }
        many = f"The trace's step is the mean of {self.trace.steps} (ProfilerStep)."
        said.append(of_steps.get(self.trace.steps, many))
        told = (
            "Kernels at once count once in their class and in each of several classes. Measured "
            "kernels of collectives include waiting for other ranks; simulated, that is idle time."
        )
        return [*said, told, *self.notes]


def traced(step: StepResult, path: str) -> TraceDifferenceResult:
    """Compare a step with the trace in a file; raises UsageError.

    Where a pipeline's trace says its rank, with those devices of the stage that it is in.
    """
    trace = read_trace(path)
    workers, place = _like(step, trace)
    notes = []
    devices = sum(worker.multiplicity for worker in step.timeline.program.workers)
    if (world := trace.world_size) not in (None, devices):
        notes.append(f"The trace is of {world:,} ranks, the step of {devices:,} devices.")
    if trace.devices > 1:
        notes.append(f"The trace has {trace.devices} devices: times are those of a mean one.")
    return TraceDifferenceResult(
        step, trace, step_sums(step.timeline, workers), place, tuple(notes)
    )


def _like(step: StepResult, trace: Trace) -> tuple[Collection[int] | None, str]:
    """The workers of the trace's stage (None: all), and what to call them."""
    pipeline, workers = step.plan.pipeline, step.timeline.program.workers
    if pipeline is not None and len(pipeline.places) > 1 and trace.rank is not None:
        places = [
            {device for first, each in place.ranges for device in range(first, first + each)}
            for place in pipeline.places
        ]
        devices = sorted(set().union(*places))  # ranks, in their order
        at = devices[trace.rank] if trace.rank < len(devices) else None
        for number, place in enumerate(places):
            if at in place:
                found = [i for i, one in enumerate(workers) if one.first in place]
                return found, f"a mean device of stage {number} (of {len(places)})"
    return None, "a mean device"
