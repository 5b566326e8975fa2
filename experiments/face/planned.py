"""A plan of a case, to look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.face.result import Result
from experiments.studies.case import Case, plan_of
from hardware import Array
from planners import Plan, Update

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PlanResult(Result):
    """How a planner splits a network over an array; goes wherever a planner does."""

    plan: Plan
    case: Case

    @property
    def array(self) -> Array:
        """The array as its planner saw it: of boards, or down to cores with real wires."""
        return self.case.execution.planned(self.case.array)

    def title(self) -> str:
        """The case, and how deep the array is split."""
        levels = (self.array.group.size - 1).bit_length()
        return f"{self.case}: {levels} levels"

    def shown(self) -> list[Table | str]:
        """What ``accelarray plan`` prints."""
        from experiments.commands.plan import tables

        return tables(self.plan, self.array)

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray plan --format json`` prints."""
        from experiments.commands.plan import to_dict

        return to_dict(self.plan, self.array) | {"warnings": list(self.case.network.notes)}

    def to_frame(self) -> pandas.DataFrame:
        """A row for each level of each distinct group, and layer.

        ``share`` is the first half's; ``cost`` the whole split's, in the
        objective's unit (seconds, or elements); ``update`` is how the layer's weights are
        updated everywhere.
        """
        import pandas

        from experiments.pictures.plan_map import describe, stretches

        everyone = (str(Update.REPLICATED),) * len(self.plan.nodes)
        updates = tuple(map(str, self.plan.updates)) or everyone
        rows = [
            (describe(group, chain), first + i, layer, str(cut.type), cut.share, split.cost, update)
            for group, first, chain in stretches(self.plan.root, self.array.group, 0)
            for i, split in enumerate(chain)
            for layer, cut, update in zip(self.plan.nodes, split.partitions, updates, strict=True)
        ]
        columns = ["group", "level", "layer", "type", "share", "cost", "update"]
        return pandas.DataFrame(rows, columns=columns)

    def plot(self) -> Figure:
        """A map of layers by levels; raises UsageError where nothing is split."""
        from experiments.pictures.plan_map import plot_plan

        return plot_plan(self.plan, self.array)


def planned(case: Case) -> PlanResult:
    """A case's plan; raises PlanError where it cannot be made."""
    return PlanResult(plan_of(case), case)
