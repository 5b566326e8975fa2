"""What a plan's JSON may contain: that of ``Plan.to_json``, and of ``plan --format json``.

The latter has a ``tree``, or, where all halves are alike, ``levels`` of types with a list of costs.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from hardware.reader import Table, whole
from planners.errors import LARGEST_BATCH
from planners.partition import Communication, Partition, PartitionType
from planners.plan.split import Split
from planners.plan.updates import Update

MOST_STAGES = 1 << 14
MOST_MICRO_BATCHES = 1 << 20
MOST_LEVELS = 64
_SPLITS = ("root", "tree", "levels", "pipeline")
"""Keys of which a plan has one: how it is split."""


def _type(written: object) -> PartitionType:
    names = PartitionType.__members__
    if not isinstance(written, str) or written not in names:
        raise ValueError(f"must be one of {', '.join(names)}")
    return names[written]


Type = Annotated[PartitionType, BeforeValidator(_type)]


class PlanPart(Table):
    """A part of a plan; a split without a bound costs infinity."""

    model_config = ConfigDict(allow_inf_nan=True)


class SplitTable(PlanPart):
    """A split and all below it; None is a single accelerator."""

    types: list[Type]
    shares: list[float]
    cost: float
    halves: list[SplitTable | None]
    lower_bound: float | None = None
    idle: bool = False

    def split(self) -> Split:
        """Return the split."""
        if len(self.types) != len(self.shares):
            raise ValueError(f"{len(self.types)} types and {len(self.shares)} shares of a split")
        return Split(
            tuple(map(Partition, self.types, self.shares)),
            self.cost,
            tuple(half.split() if half else None for half in self.halves),
            self.lower_bound,
            self.idle,
        )


class PlaceTable(PlanPart):
    """A place of a pipeline (``planners.Place``)."""

    first: int
    count: int
    replicas: int = 1
    parts: Annotated[
        tuple[Annotated[tuple[int, int], Field(strict=False)], ...],
        Field(strict=False, max_length=MOST_STAGES),
    ] = ()
    turns: Annotated[tuple[int, ...], Field(strict=False, max_length=MOST_STAGES)] = ()


class PlanValues(PlanPart):
    """What a plan has beside its layers and their splits, in Python as in a file."""

    planner: str
    network: str
    batch: Annotated[int, whole(1, LARGEST_BATCH)]
    objective: str
    bucket_bytes: float | None = None
    update_order: str = ""
    together: Annotated[
        tuple[Annotated[int, whole(1, 1 << 20)], ...],
        Field(strict=False, max_length=MOST_LEVELS),
    ] = ()
    array: str = ""


class StepTable(PlanValues):
    """A plan without stages."""

    layers: list[str]
    communication: Communication = Field(default=Communication.PRINTED, strict=False)
    updates: list[Annotated[Update, Field(strict=False)]] = Field(default=[])
    root: SplitTable | None = None
    tree: SplitTable | None = None
    levels: list[list[Type]] = Field(default=[], max_length=MOST_LEVELS)
    cost: float | list[float] | None = None
    lower_bound: float | list[float | None] | None = None
    pipeline: None = None

    @model_validator(mode="after")
    def _has_splits(self) -> StepTable:
        found = [key for key in _SPLITS if key in self.model_fields_set]
        if not found:
            raise ValueError("root: is missing")
        if len(found) > 1:
            raise ValueError(f"{' and '.join(found)}: a plan has one of {', '.join(_SPLITS)}")
        return self

    def split(self) -> Split | None:
        """Return the top split, of a tree or of levels: their shares are one half."""
        if "levels" not in self.model_fields_set:
            top = self.tree or self.root
            return top.split() if top else None
        costs, bounds = self.cost, self.lower_bound
        costs = costs if isinstance(costs, list) else []
        bounds = bounds if isinstance(bounds, list) else [None] * len(self.levels)
        for name, numbers in (("cost", costs), ("lower_bound", bounds)):
            if len(numbers) != len(self.levels):
                raise ValueError(f"{name}: a list of {len(self.levels)} numbers, as levels are")
        below: Split | None = None
        for types, cost, bound in reversed(list(zip(self.levels, costs, bounds, strict=True))):
            partitions = tuple(Partition(kind, 0.5) for kind in types)
            below = Split(partitions, cost, (below,), bound)
        return below


class StageTable(PlanPart):
    """A stage of a pipeline; its plan has no stages."""

    first: int
    place: int
    plan: StepTable
    recompute: bool = False
    plans: list[StepTable] = Field(default=[], max_length=MOST_STAGES)


class PipelineTable(PlanPart):
    """A pipeline (``planners.Pipeline``)."""

    stages: list[StageTable] = Field(max_length=MOST_STAGES)
    places: list[PlaceTable]
    schedule: str
    micro_batches: Annotated[int, whole(1, MOST_MICRO_BATCHES)]
    tied: str = ""
    vertical_sync: bool = False
    batches: Annotated[int, whole(0, MOST_MICRO_BATCHES)] = 0


class PlanTable(StepTable):
    """A plan, of stages or not, with what ``plan --format json`` tells of it beside."""

    pipeline: PipelineTable | None = None  # type: ignore[assignment]  # wider than a stage's
    exact: bool = True
    gap: float | None = None
    warnings: list[str] = Field(default=[])
