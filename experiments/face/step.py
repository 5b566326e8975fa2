"""One simulated step: its plan, its timeline, and what both say."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.face.notices import tell
from experiments.face.result import Result, readable
from experiments.studies.case import Case, plan_of, simulated
from experiments.studies.running.estimate import forewarning
from planners import Plan
from simulator import Shares, Timeline, overflow, shares

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.table import Table

    from experiments.face.explanation import ExplanationResult
    from experiments.face.planned import PlanResult
    from experiments.pictures.lanes import Chart


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class StepResult(Result):
    """One training step of a case, simulated; ``wall_s`` is what that took, in seconds."""

    case: Case
    plan: Plan
    timeline: Timeline
    wall_s: float = 0.0

    @property
    def iteration_s(self) -> float:
        """Time of the whole step in seconds."""
        return self.timeline.iteration_s

    @property
    def shares(self) -> Shares:
        """Computing, communicating and waiting: fractions of an average core's step."""
        return shares(self.timeline)

    @property
    def energy_j(self) -> float | None:
        """Joules of the whole array; None where a device's spec has no energies."""
        return self.timeline.energy_j

    @property
    def traffic_bytes(self) -> float:
        """Bytes received in the whole array."""
        return self.timeline.traffic_bytes

    @property
    def overflow(self) -> str | None:
        """What does not fit in memory, a sentence; None where all fits, or has no memory."""
        name = self.case.planner_name
        return overflow(self.case.network.name, name, self.case.array.name, self.timeline.memory)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was not understood of the network, and what does not fit in memory."""
        return (*self.case.network.notes, *([self.overflow] if self.overflow else []))

    @property
    def unread(self) -> list[str]:
        """Which values of the array's spec the execution model does not read, in sentences."""
        from experiments.studies.unread import warnings

        return warnings(self.case.array, self.case.execution)

    def title(self) -> str:
        """The case, and the time of its step."""
        return f"{self.case}: {readable(self.iteration_s)}"

    def shown(self) -> list[Table | str]:
        """What ``accelarray simulate`` prints."""
        from experiments.commands.simulate import tables

        return tables(self.to_dict(), self.plan, self.unread)

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray simulate --format json`` prints, energy and traffic with it."""
        from experiments.commands.simulate import to_dict
        from experiments.studies.step_numbers import METRICS, measured

        return to_dict(self.case, self.plan, self.timeline) | {
            "wall_s": self.wall_s,
            "warnings": [*self.warnings, *self.unread],
            **measured(METRICS, self.timeline),
        }

    def to_frame(self) -> pandas.DataFrame:
        """A row for each record, in the order in which they ended.

        Times are picoseconds; bytes and FLOPs those of one of ``multiplicity``
        resources that did the same at the same time.
        """
        from experiments.pictures.lanes import sites
        from experiments.pictures.trace import to_frame

        return to_frame(self.timeline, sites(self.timeline))

    def memory_frame(self) -> pandas.DataFrame:
        """A row for each computation of each class of cores: what a core holds at its most, when.

        Bytes by class ("weights", "optimizer", ...), with all together as "bytes"; times are
        picoseconds. Without rows where the execution model has no memory.
        """
        import pandas

        from experiments.pictures.lanes import labels, sites
        from experiments.pictures.trace import memory
        from simulator.engine.operations import CLASSES

        at, every = self.timeline, sites(self.timeline)
        names = labels(every, at, folded=self.case.folded)
        rows = [
            (names[site.name], one.start_ps, one.end_ps, *one.by_class, one.most)
            for site in every
            for one in memory(at, site)
        ]
        return pandas.DataFrame(rows, columns=["cores", "start_ps", "end_ps", *CLASSES, "bytes"])

    def plot(self) -> Figure:
        """A Gantt chart: what each class of cores, memories and links did when."""
        from experiments.pictures.gantt import plot_gantt

        return plot_gantt([self.chart()])

    def chart(self) -> Chart:
        """Its lanes, for a Gantt chart."""
        from experiments.pictures.lanes import chart, sites

        at = self.timeline
        return chart(str(self.case), at, sites(at), folded=self.case.folded)

    def planned(self) -> PlanResult:
        """Its plan, with a map and a table of it."""
        from experiments.face.planned import PlanResult

        return PlanResult(self.plan, self.case)

    def explain(self) -> ExplanationResult:
        """Why it takes as long as it does, and what would help; simulates its variants."""
        from experiments.face.explanation import explained

        return explained(self.case)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what ``accelarray timeline --output`` does; raises UsageError.

        A chart (.png, .svg, .pdf), a trace for ui.perfetto.dev (.json, .json.gz)
        or the records (.csv), by the ending of the name.
        """
        from experiments.commands.timeline import write
        from experiments.pictures.lanes import sites

        write(os.fspath(path), self.case, self.plan, self.timeline, sites(self.timeline))


def stepped(case: Case) -> StepResult:
    """Plan and simulate a case; what does not fit in memory is a warning."""
    if said := forewarning([case]):
        tell(said)
    plan = plan_of(case)
    started = time.perf_counter()
    timeline = simulated(case, plan)
    step = StepResult(case, plan, timeline, time.perf_counter() - started)
    if step.overflow:
        tell(f"{step.overflow} {REMEDY}")
    return step


REMEDY = "(strict_memory=True makes this an error)"
