"""A plan of a case, to look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.table import Table

from experiments.files.export import exported
from experiments.output import frame_of, table_of, width
from experiments.pictures.plan_map import describe, plot_plan, stretches
from experiments.results.result import Result
from experiments.studies.case import Case, Planned
from experiments.studies.pipelining import no_effect
from experiments.studies.speedups import inexact
from hardware import Array
from planners import OBJECTIVES, Partition, Pipeline, Plan, Split, Update
from planners.plan.updates import bucket_words, update_order_words
from simulator import usual

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


AS_WRITTEN = "Costs and bounds are as the plan was given; they are not calculated again."


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PlanResult(Result):
    """How a planner splits a network over an array; goes wherever a planner does."""

    plan: Plan
    case: Case

    @property
    def array(self) -> Array:
        """The array as its planner saw it: of boards, or down to cores with real wires."""
        return self.case.execution.planned(self.case.array)

    def export(self, target: str) -> str:
        """The plan as flags or a file: "megatron", "torchtitan", "maxtext" or "deepspeed"."""
        return exported(self.case, self.plan, target)

    def title(self) -> str:
        """The case, and how deep the array is split."""
        levels = (self.array.group.size - 1).bit_length()
        return f"{self.case}: {levels} levels"

    def tables(self) -> list[Table | str]:
        """What ``accelarray plan`` prints."""
        return [*tables(self.plan, self.array), *self.without()]

    def without(self) -> list[str]:
        """What was asked that a plan does not hold, in a sentence."""
        asked, own = self.case.execution, usual(self.case.array)
        said = no_effect(self.case, self.plan)
        said += [AS_WRITTEN] * isinstance(self.case.planner, Planned)
        lacks = [f"--recompute {asked.recompute}"] * (asked.recompute not in ("", "none"))
        if asked.bucket_bytes not in (None, own.bucket_bytes, self.plan.bucket_bytes):
            lacks.append(f"bucket={asked.bucket_bytes:g}")
        if asked.update_order not in ("", own.update_order, self.plan.update_order):
            lacks.append(f"update_order={asked.update_order}")
        if not lacks or asked.inference:
            return said
        again = f"say {'it' if len(lacks) == 1 else 'them'} again where the plan is simulated"
        return [*said, f"A plan does not hold {', '.join(lacks)}: {again}."]

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray plan --format json`` prints: levels where all halves are alike.

        Where they are not, the tree; of a pipeline its stages.
        """
        plan = self.plan
        data = plan.to_json() | {"array": self.array.name, **plan.gap_fields()}
        if plan.pipeline is None:
            levels, root = plan.levels(), data.pop("root")
            if levels is None:
                data["tree"] = root
            else:
                data["levels"] = [[str(kind) for kind in split.types] for split in levels]
                costs = [split.cost for split in levels]  # whole numbers of elements as integers
                data["cost"] = [int(cost) if cost.is_integer() else cost for cost in costs]
                data["lower_bound"] = [split.lower_bound for split in levels]
        return data | {"warnings": [*self.case.network.notes, *self.without()]}

    def rows(self) -> list[dict[str, Any]]:
        """Each layer at each level of each distinct group; shares of the first half."""
        every = _rows(self.plan, self.array)
        return [{k: v for k, v in row.items() if k != "cost" and v is not None} for row in every]

    def to_frame(self) -> pandas.DataFrame:
        """A row for each level of each distinct group, and layer; of a pipeline also each stage.

        ``share`` is the first half's; ``cost`` the whole split's, in the
        objective's unit (seconds, or elements); ``update`` is how the layer's weights are
        updated everywhere. ``stage`` is there for a pipeline, a row for its first replica.
        """
        rows = [
            row | {"update": row["update"] or str(Update.REPLICATED)}
            for row in _rows(self.plan, self.array)
            if not row.get("replica")
        ]
        stage = ["stage"] * (self.plan.pipeline is not None)
        return frame_of(rows, [*stage, *CUTS])

    def plot(self) -> Figure:
        """A map of layers by levels; raises UsageError where nothing is split."""
        return plot_plan(self.plan, self.array)


CUTS = ("group", "level", "layer", "type", "share", "cost", "update")


def tables(plan: Plan, array: Array) -> list[Table | str]:
    """A table for every stretch of the tree in which halves are alike."""
    unit = OBJECTIVES[plan.objective].unit
    made = f"{plan.network}, {plan.planner} by {plan.objective}"
    title = f"{made} on {array.name}, batch {plan.batch}"
    if plan.communication != "printed":
        title += f", {plan.communication} communication"
    if plan.bucket_bytes is not None:
        title += f", {bucket_words(plan.bucket_bytes)}"
    if plan.update_order:
        title += f", {update_order_words(plan.update_order)}"
    parts: list[Table | str] = [title]
    if said := inexact(plan):
        parts += ["", said.rstrip()]
    if plan.pipeline is not None:
        return [*parts, *_stages(plan, plan.pipeline, array)]
    for group, level, chain in stretches(plan.root, plan.group(array), 0):
        parts += ["", describe(group, chain), *_pieces(plan, chain, level, unit)]
    if plan.root is None:
        parts += ["", "A single accelerator: nothing is split."]
    return parts


def _stages(plan: Plan, pipeline: Pipeline, array: Array) -> Iterator[Table | str]:
    """Which layers are where, then every stage's own plan."""
    many, layers = pipeline.micro_batches, pipeline.layers(plan.nodes)
    yield ""
    size = plan.batch // many
    samples = f"{size} sample{'s' * (size > 1)}"
    yield f"{pipeline.schedule}, {many} micro-batch{'es' * (many > 1)} of {samples}"
    several = len(array.group.kinds) > 1
    turns = ("micro-batches a round",) * any(place.turns for place in pipeline.places)
    heads = ("stage", "layers", *("kind",) * several, "devices", "replicas", *turns)
    table = table_of("", heads, ("layers", "kind", "devices"))
    for k, (stage, names) in enumerate(zip(pipeline.stages, layers, strict=True)):
        place = pipeline.places[stage.place]
        ranges = place.ranges if place.parts else ((place.first, place.count),)
        where = ", ".join(f"{one}" + f"-{one + n - 1}" * (n > 1) for one, n in ranges)
        said = "…".join(dict.fromkeys((names[0], names[-1]))) + ", recomputed" * stage.recompute
        groups = [array.part(*one).group for one in place.ranges]
        kinds = dict.fromkeys(device.name for group in groups for device, _ in group.kinds)
        on = [" + ".join(kinds)] if several else []
        each = "+".join(map(str, dict.fromkeys(place.turns or (1,))))
        table.add_row(str(k), said, *on, where, str(place.replicas), *(each,) * len(turns))
    yield table
    for k, stage in enumerate(pipeline.stages):
        place = pipeline.places[stage.place]
        replicas = enumerate(stage.plans or (stage.plan,))
        own = [(one, array.part(*place.replica(number))) for number, one in replicas]
        for _, same in groupby(
            range(len(own)), [(one.root, on.group) for one, on in own].__getitem__
        ):
            first, *others = same
            last = f"s {first}-{others[-1]}" if others else f" {first}"
            which = f", replica{last}" if stage.plans else ""
            yield from ["", f"stage {k}{which}:", *tables(*own[first])[1:]]


def _rows(plan: Plan, array: Array) -> Iterator[dict[str, Any]]:
    """Those of a pipeline are its stages'."""
    if plan.pipeline is not None:
        for k, stage in enumerate(plan.pipeline.stages):
            place = plan.pipeline.places[stage.place]
            for replica, one in enumerate(stage.plans or (stage.plan,)):
                which = {"replica": replica} if stage.plans else {}
                for row in _rows(one, array.part(*place.replica(replica))):
                    yield row | {"network": plan.network, "stage": k} | which
        return
    for group, first, chain in stretches(plan.root, plan.group(array), 0):
        for level, split in enumerate(chain, first):
            for v, (name, part) in enumerate(zip(plan.nodes, split.partitions, strict=True)):
                yield {
                    "network": plan.network,
                    "planner": plan.planner,
                    "group": describe(group, chain),
                    "level": level,
                    "layer": name,
                    "type": str(part.type),
                    "share": part.share,
                    "cost": split.cost,
                    "update": str(plan.updates[v]) if plan.updates else None,
                }


def _pieces(plan: Plan, chain: list[Split], level: int, unit: str) -> Iterator[Table]:
    """Tables of as many levels as a terminal takes beside the layers' names."""
    names = max(map(len, [*plan.nodes, f"cost [{unit}]"]))
    cells = [_cell(part) for split in chain for part in split.partitions]
    cells += [_cost(split.cost) for split in chain] + [f"level {level + len(chain)}"]
    names += len("replicated") + 3 if plan.updates else 0
    many = max(1, (width() - names - 4) // (max(map(len, cells)) + 3))
    for first in range(0, len(chain), many):
        yield _table(plan, chain[first : first + many], level + first, unit)


def _table(plan: Plan, chain: list[Split], level: int, unit: str) -> Table:
    levels = [f"level {level + i}" for i in range(len(chain))]
    heads = ("layer", *["update"] * bool(plan.updates), *levels)
    table = table_of("", heads, heads)
    for v, name in enumerate(plan.nodes):
        update = [str(one) for one in plan.updates[v : v + 1]]
        table.add_row(name, *update, *[_cell(split.partitions[v]) for split in chain])
    table.add_section()
    nothing = [""] * bool(plan.updates)
    table.add_row(f"cost [{unit}]", *nothing, *[_cost(split.cost) for split in chain])
    return table


def _cell(partition: Partition) -> str:
    """The type; the first group's share where it is not one half."""
    return f"{partition.type}" + ("" if partition.share == 0.5 else f" {partition.share:.4f}")


def _cost(cost: float) -> str:
    return f"{cost:,.0f}" if cost.is_integer() else f"{cost:.4g}"
