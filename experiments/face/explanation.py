"""Why a step takes as long as it does, to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.explain.study import Explanation, explain, messages, steps_of
from experiments.face.notices import tell
from experiments.face.result import Result, readable
from experiments.studies.case import Case
from experiments.studies.running.estimate import forewarning
from planners import Plan
from simulator import Timeline

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ExplanationResult(Result):
    """A step's critical path, what its cores wait for, and what it would be otherwise."""

    explanation: Explanation

    @property
    def case(self) -> Case:
        """What was explained."""
        return self.explanation.case

    @property
    def plan(self) -> Plan:
        """Its plan."""
        return self.explanation.plan

    @property
    def timeline(self) -> Timeline:
        """What happened in its step, when."""
        return self.explanation.timeline

    @property
    def iteration_s(self) -> float:
        """Time of the step in seconds."""
        return self.explanation.iteration_s

    @property
    def messages(self) -> list[str]:
        """What to know about the plan, in sentences."""
        return messages(self.explanation)

    def title(self) -> str:
        """The case, the time of its step, and what most of its critical path goes to."""
        paths = self.explanation.paths
        bound, ps = max(paths.by_bound().items(), key=lambda item: item[1])
        most = f"{readable(self.iteration_s)}, {paths.share(ps):.0%} {bound}"
        return f"{self.case}: {most}"

    def shown(self) -> list[Table | str]:
        """What ``accelarray explain`` prints."""
        from experiments.commands.explain import tables

        return tables(self.explanation)

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray explain --format json`` prints."""
        from experiments.commands.explain import to_dict

        return to_dict(self.explanation)

    def to_frame(self) -> pandas.DataFrame:
        """A row for each layer or boundary, the largest part of the critical path first.

        Seconds on the critical path (``path_s``), and those that an average core
        computes, waits for its exchanges (``exposed_s``) and for other cores.
        """
        import pandas

        spent = self.to_dict()
        on_path = {part["layer"]: part["seconds"] for part in spent["critical_path"]["layers"]}
        rows = [
            {"layer": part["layer"], "path_s": on_path.get(part["layer"], 0.0), **part}
            for part in spent["layers"]
        ]
        columns = ["layer", "path_s", "computing_s", "exposed_s", "waiting_s"]
        rows.sort(key=lambda row: -row["path_s"])
        return pandas.DataFrame(rows, columns=columns)

    def plot(self) -> Figure:
        """The path as a strip through the step, and an average core's time by layer."""
        from experiments.explain.picture import plot_explanation

        return plot_explanation(self.explanation)


def explained(
    case: Case,
    array: str = "",
    changes: Sequence[str] = (),
    progress: Callable[[str], None] | None = None,
) -> ExplanationResult:
    """Explain a case; ``array`` and ``changes`` name its array, where it has them from a spec."""
    from experiments.face.progress import hearing

    steps = steps_of(case, changes)
    if said := forewarning([case] * steps):
        tell(said)
    with hearing(progress, steps) as heard:
        return ExplanationResult(explain(case, array, changes, heard))
