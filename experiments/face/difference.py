"""Two steps, and where the difference between them comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.face.result import Result, readable
from experiments.face.step import StepResult
from experiments.output import UsageError
from experiments.studies.difference import Difference, difference

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DifferenceResult(Result):
    """Two steps of one network on one array, beside each other."""

    first: StepResult
    second: StepResult
    difference: Difference

    def title(self) -> str:
        """Both labels and times."""
        labels, steps = self.difference.planners, (self.first, self.second)
        both = [
            f"{label} {readable(s.iteration_s)}" for label, s in zip(labels, steps, strict=True)
        ]
        case, other = self.first.case, self.second.case
        array = case.array.name if case.array == other.array else case.array.base
        return f"{case.network.name} on {array}, batch {case.batch}: {' | '.join(both)}"

    def shown(self) -> list[Table | str]:
        """What ``accelarray compare`` prints."""
        from experiments.commands.compare import tables

        return [*tables(self.difference, self.first.case), *self._unread()]

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray compare --format json`` prints."""
        from experiments.commands.compare import about, to_dict

        steps = (self.first, self.second)
        faults = [step.overflow for step in steps if step.overflow]
        said = [*self.first.case.network.notes, *faults, *self._unread()]
        return about(self.first.case) | to_dict(self.difference) | {"warnings": said}

    def _unread(self) -> list[str]:
        """What of either spec is not read, each sentence once."""
        return list(dict.fromkeys([*self.first.unread, *self.second.unread]))

    def to_frame(self) -> pandas.DataFrame:
        """A row for each layer or boundary, the largest change first, and one for waiting.

        Seconds that an average core spends in either step, and the change.
        """
        import pandas

        first, second = self.difference.planners
        rows = [
            (row["layer"], *row["core_s"], row["difference_s"]) for row in self.to_dict()["layers"]
        ]
        return pandas.DataFrame(
            rows, columns=["layer", f"{first} [s]", f"{second} [s]", "difference [s]"]
        )

    def plot(self) -> Figure:
        """Both Gantt charts on one time axis."""
        from experiments.pictures.gantt import plot_gantt

        return plot_gantt([self.first.chart(), self.second.chart()])


def differing(first: StepResult, second: StepResult) -> DifferenceResult:
    """Compare two steps; raises UsageError unless network, array and batch are the same."""
    ours, theirs = first.case, second.case
    for what, one, other in (
        ("networks", ours.network.name, theirs.network.name),
        ("arrays", ours.array.base, theirs.array.base),
        ("cores", first.timeline.cores, second.timeline.cores),
        ("batches", ours.batch, theirs.batch),
    ):
        if one != other:
            raise UsageError(
                f"steps of different {what} ({one}, {other}) cannot be compared layer by layer; "
                "to_frame() and sweep() put them beside each other"
            )
    labels = _labels(ours.inputs, theirs.inputs)
    found = difference(labels, (first.timeline, second.timeline))
    return DifferenceResult(first, second, found)


def _labels(first: dict[str, Any], second: dict[str, Any]) -> tuple[str, str]:
    """What tells the two steps apart; planners, where nothing does."""
    keys = [key for key in {**first, **second} if first.get(key) != second.get(key)]
    words = [
        ", ".join(
            str(of[key]) if key in ("planner", "execution") else f"{key}={of[key]}"
            for key in keys or ["planner"]
            if key in of
        )
        for of in (first, second)
    ]
    return words[0] or first["planner"], words[1] or second["planner"]
