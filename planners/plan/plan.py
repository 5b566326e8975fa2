"""A plan: how every layer is split at every level of the bisected array, stage by stage."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import pairwise
from types import NoneType
from typing import Any

from hardware import Array, Group
from hardware.reader import checked, parse_json, raise_all, read_text, shown, validated
from planners.cost.objective import Objective
from planners.errors import PlanError
from planners.partition import III, Communication
from planners.plan.split import Split, check_split, split_to_json, splits_below
from planners.plan.tables import (
    MOST_MICRO_BATCHES,
    PipelineTable,
    PlanTable,
    PlanValues,
    StepTable,
)
from planners.plan.updates import Updates, check_bucket, check_updates, updates_of
from workloads import Network, partition_graph

LARGEST_FILE = 64 << 20
"""Bytes of a plan's file; larger ones are refused."""
COPIES = "copies"
"""How a weight that two stages use is kept: by both, who sum their gradients."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive layers from number ``first`` of the plan's on, at a place.

    ``plan`` splits them over one replica of the place, for a micro-batch; where replicas
    are of unlike devices, ``plans`` has one for each. With ``recompute`` nothing but what
    the stage received is kept for backward, which begins with forward again.
    """

    first: int
    place: int
    plan: Plan
    recompute: bool = False
    plans: tuple[Plan, ...] = ()

    def plan_of(self, replica: int) -> Plan:
        """The plan of a replica."""
        return self.plans[replica] if self.plans else self.plan


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A network's stages in order, at their places, and how micro-batches go through.

    A batch is ``micro_batches`` of them. ``schedule`` names the order
    (``simulator.lowering.schedules``). With several stages a place (``virtual``
    stages) stage k is at place k modulo their number. ``tied`` is COPIES where
    a weight is used in several stages. With ``vertical_sync`` a micro-batch
    meets the same version of the weights in all stages (PipeDream). Where nothing
    is flushed so many ``batches`` are run (0: as many as show the rhythm).
    Raises PlanError for what is no pipeline.
    """

    stages: tuple[Stage, ...]
    places: tuple[Place, ...]
    schedule: str
    micro_batches: int
    tied: str = ""
    vertical_sync: bool = False
    batches: int = 0

    def __post_init__(self) -> None:
        if not self.stages or not self.places:
            raise PlanError("a pipeline has at least one stage, at a place")
        if not 1 <= (many := self.micro_batches) <= MOST_MICRO_BATCHES:
            raise PlanError(f"{many} micro-batches; a batch has 1 to {MOST_MICRO_BATCHES:,}")
        if not 0 <= self.batches <= MOST_MICRO_BATCHES:
            raise PlanError(f"{self.batches} batches; 0 (enough) to {MOST_MICRO_BATCHES:,} are run")
        firsts = [stage.first for stage in self.stages]
        if firsts[0] != 0 or any(one >= other for one, other in pairwise(firsts)):
            raise PlanError(f"stages begin at layers {firsts}; that must be 0, then ascending")
        if any(stage.place != k % len(self.places) for k, stage in enumerate(self.stages)):
            raise PlanError(
                f"stages are at places {[stage.place for stage in self.stages]}; stage k is at "
                f"place k modulo the number of places ({len(self.places)})"
            )
        if len(self.stages) % len(self.places):
            raise PlanError(
                f"{len(self.stages)} stages at {len(self.places)} places: every place has as many"
            )
        check_places(self.places)
        for k, stage in enumerate(self.stages):
            if len(stage.plans) not in (0, self.places[stage.place].replicas):
                raise PlanError(
                    f"stage {k} has {len(stage.plans)} plans; it needs one, or one for each of "
                    f"{self.places[stage.place].replicas} replicas"
                )
        if self.tied not in ("", COPIES):
            raise PlanError(f"tied weights {self.tied!r}: '{COPIES}', or nothing")

    @property
    def virtual(self) -> int:
        """Stages at each place."""
        return len(self.stages) // len(self.places)

    @property
    def firsts(self) -> tuple[int, ...]:
        """The number of each stage's first layer."""
        return tuple(stage.first for stage in self.stages)

    @property
    def replicas(self) -> tuple[int, ...]:
        """How many of each place."""
        return tuple(place.replicas for place in self.places)

    @property
    def rounds(self) -> tuple[tuple[int, ...], ...]:
        """Which replica of each place takes each micro-batch of a round."""
        return tuple(place.round for place in self.places)

    def layers(self, nodes: Sequence[str]) -> list[tuple[str, ...]]:
        """Of a network's layers those of each stage."""
        ends = (*self.firsts[1:], len(nodes))
        pairs = zip(self.firsts, ends, strict=True)
        return [tuple(nodes[first:end]) for first, end in pairs]


@dataclass(frozen=True, slots=True)
class Plan:
    """A planner's answer for one network, array and batch.

    ``nodes`` names the partitioned layers and joins in topological order;
    ``root`` is None on a single accelerator, and where a ``pipeline`` has a plan for
    each of its stages. ``communication`` is the table its exchanges follow, ``updates`` say
    of every node how its weights are updated (none: replicated, all of them). Gradients go
    in buckets of ``bucket_bytes`` (0: each by itself; None: as the execution model has it),
    updates in ``update_order`` ("layers" or "arrival"; "": likewise). No split cuts a group of
    ``together`` accelerators (see ``hardware.Group``). One that was read says
    the ``array`` that it was made for, where its file does. Raises PlanError when
    a layer lacks a partition, a share is not within 0...1, or a value is none of these.
    """

    planner: str
    network: str
    batch: int
    objective: str
    nodes: tuple[str, ...]
    root: Split | None
    communication: Communication = Communication.PRINTED
    pipeline: Pipeline | None = None
    updates: Updates = ()
    bucket_bytes: float | None = None
    update_order: str = ""
    together: tuple[int, ...] = ()
    array: str = field(default="", compare=False)

    @classmethod
    def blank(cls, planner: str, network: Network, batch: int, objective: Objective) -> Plan:
        """A plan for a network without any splits, for others to be made like it."""
        names = tuple(node.name for node in partition_graph(network))
        table = objective.communication
        return cls(planner, network.name, batch, objective.name, names, None, table)

    def __post_init__(self) -> None:
        whose = f"plan for {self.network!r}"
        self._check_values(whose)
        self._check_pipeline()
        staged = self.pipeline is not None
        check_updates(self.updates, self.update_order, self.nodes, whose, stages=staged)
        check_bucket(self.bucket_bytes, whose, stages=staged)
        for split in splits_below(self.root):
            check_split(split, self.nodes, whose)
            if self.communication is Communication.PLOTTED and III in split.types:
                raise PlanError(f"{whose}: HyPar's 'plotted' table has no type III; take 'printed'")

    def _check_values(self, whose: str) -> None:
        values = {name: getattr(self, name) for name in PlanValues.model_fields}
        faults = validated(PlanValues, values)[1]
        raise_all((f"{whose}: {': '.join(fault)}" for fault in faults), PlanError)
        for name, kinds in _KINDS.items():
            if not isinstance(value := getattr(self, name), kinds):
                wanted = " or ".join(kind.__name__ for kind in kinds if kind is not NoneType)
                raise PlanError(f"{whose}: {name}: {shown(value)}: must be of type {wanted}")
        if strange := [name for name in self.nodes if not isinstance(name, str)]:
            raise PlanError(f"{whose}: nodes: {shown(strange[0])}: must be the name of a layer")

    def _check_pipeline(self) -> None:
        if self.pipeline is None:
            return
        names = self.pipeline.layers(self.nodes)
        if self.root is not None or self.pipeline.firsts[-1] >= len(self.nodes):
            raise PlanError(f"plan for {self.network!r}: its stages do not fit its layers")
        for k, (stage, layers) in enumerate(zip(self.pipeline.stages, names, strict=True)):
            for own in (stage.plan, *stage.plans):
                if own.nodes != layers or own.pipeline is not None:
                    raise PlanError(f"plan for {self.network!r}: stage {k} is not of its layers")
                if own.batch * self.pipeline.micro_batches != self.batch:
                    raise PlanError(
                        f"plan for {self.network!r}: {self.pipeline.micro_batches} micro-batches "
                        f"of {own.batch} (stage {k}) are no batch of {self.batch}"
                    )

    @property
    def of_stages(self) -> list[Plan]:
        """The plans of all stages, stage by stage; of one without a pipeline itself."""
        if self.pipeline is None:
            return [self]
        return [own for stage in self.pipeline.stages for own in (stage.plans or (stage.plan,))]

    def splits(self) -> Iterator[Split]:
        """Every distinct split, parents before children, stage by stage."""
        for own in self.of_stages:
            yield from splits_below(own.root)

    def group(self, array: Array) -> Group:
        """The array's accelerators, as this plan halves them."""
        return replace(array.group, together=self.together)

    def levels(self) -> list[Split] | None:
        """The splits from the top down where all halves are alike, else None."""
        levels: list[Split] = []
        split = self.root
        if self.pipeline is not None:
            return None
        while split:
            if len(split.halves) != 1:
                return None
            levels.append(split)
            split = split.halves[0]
        return levels

    @property
    def gap(self) -> float | None:
        """How far a split's cost may lie above the least, as a fraction of a lower bound on it.

        The largest of all splits; None where every split was solved exactly.
        """
        return max((s.gap for s in self.splits() if s.gap is not None), default=None)

    def gap_fields(self) -> dict[str, bool | float | None]:
        """``exact``, and ``gap`` as a fraction: None where it is exact, or nothing is known."""
        known = self.gap is not None and math.isfinite(self.gap)
        return {"exact": self.gap is None, "gap": self.gap if known else None}

    def to_json(self) -> dict[str, Any]:
        """Plain values for json.dumps; ``from_json`` gives an equal plan back."""
        return {
            "planner": self.planner,
            "network": self.network,
            "batch": self.batch,
            "objective": self.objective,
            "communication": str(self.communication),
            "layers": list(self.nodes),
            **({"updates": list(map(str, self.updates))} if self.updates else {}),
            **({"update_order": self.update_order} if self.update_order else {}),
            **({} if self.bucket_bytes is None else {"bucket_bytes": self.bucket_bytes}),
            **({"together": list(self.together)} if self.together else {}),
            **(
                {"pipeline": pipeline_to_json(self.pipeline)}
                if self.pipeline
                else {"root": split_to_json(self.root)}
            ),
        }

    @classmethod
    def from_json(cls, data: object, origin: str = "not a plan") -> Plan:
        """Read what ``to_json`` or ``accelarray plan --format json`` wrote; raises PlanError.

        Errors begin with ``origin``.
        """
        table = checked(PlanTable, data, origin, PlanError)
        try:
            return cls._of(table, _pipeline(table.pipeline) if table.pipeline else None)
        except PlanError:
            raise
        except ValueError as error:
            raise PlanError(f"{origin}: {error}") from None

    @classmethod
    def _of(cls, table: StepTable, pipeline: Pipeline | None = None) -> Plan:
        return cls(
            planner=table.planner,
            network=table.network,
            batch=table.batch,
            objective=table.objective,
            nodes=tuple(table.layers),
            root=None if pipeline else table.split(),
            pipeline=pipeline,
            communication=table.communication,
            updates=updates_of(table.updates),
            bucket_bytes=table.bucket_bytes,
            update_order=table.update_order,
            together=table.together,
            array=table.array,
        )

    @staticmethod
    def read(path: str) -> Plan:
        """The plan in a JSON file (see ``from_json``); raises PlanError with the file's name."""
        data = parse_json(read_text(path, PlanError, "a plan", LARGEST_FILE), path, PlanError)
        try:
            return Plan.from_json(data, f"{path}: not a plan")
        except PlanError as error:
            told = str(error)
            raise PlanError(told if told.startswith(path) else f"{path}: {told}") from None


_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("nodes", "updates", "together"), (tuple,)),
    "communication": (Communication,),
    "root": (Split, NoneType),
    "pipeline": (Pipeline, NoneType),
}
"""What a plan's fields are in Python, where a file has them otherwise."""


def _pipeline(table: PipelineTable) -> Pipeline:
    return Pipeline(
        tuple(
            Stage(s.first, s.place, Plan._of(s.plan), s.recompute, tuple(map(Plan._of, s.plans)))
            for s in table.stages
        ),
        tuple(Place(**dict(place)) for place in table.places),
        **table.model_dump(exclude={"stages", "places"}),
    )


def pipeline_to_json(pipeline: Pipeline) -> dict[str, Any]:
    """Plain values, each stage with its plan."""
    return {
        **{field.name: getattr(pipeline, field.name) for field in fields(pipeline)[2:]},
        "places": [
            {key: value for key, value in asdict(place).items() if value or key not in OMITTED}
            for place in pipeline.places
        ],
        "stages": [
            {
                "first": stage.first,
                "place": stage.place,
                "recompute": stage.recompute,
                "plan": stage.plan.to_json(),
                **({"plans": [one.to_json() for one in stage.plans]} if stage.plans else {}),
            }
            for stage in pipeline.stages
        ],
    }


@dataclass(frozen=True, slots=True)
class Place:
    """``count`` accelerators (boards, or cores) from number ``first`` on, for one rank.

    They are ``replicas`` of equal size, which take micro-batches in turn. Where replicas are
    of unlike size, or no neighbours, ``parts`` has the first accelerator and the number of each.
    Where they take unlike numbers of micro-batches in a round, ``turns`` has those.
    """

    first: int
    count: int
    replicas: int = 1
    parts: tuple[tuple[int, int], ...] = ()
    turns: tuple[int, ...] = ()

    @property
    def each(self) -> int:
        """Accelerators of the first replica."""
        return self.replica(0)[1]

    def replica(self, number: int) -> tuple[int, int]:
        """A replica's first accelerator, and how many it has."""
        if self.parts:
            return self.parts[number]
        each = self.count // self.replicas
        return self.first + number * each, each

    @property
    def round(self) -> tuple[int, ...]:
        """Which replica takes each micro-batch of a round: 0 1 0 for turns of two and one.

        Each replica's micro-batches are spread evenly over the round.
        """
        turns = self.turns or (1,) * self.replicas
        times = [((k + 0.5) / many, r) for r, many in enumerate(turns) for k in range(many)]
        return tuple(replica for _, replica in sorted(times))

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First accelerator and number of each part where there are some, else of all."""
        return self.parts or ((self.first, self.count),)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The same of all replicas."""
        return tuple(self.replica(k) for k in range(self.replicas))


OMITTED = frozenset({"parts", "turns"})
"""What a place's JSON has only where it is not as usual."""
MOST_TURNS = 64


def check_places(places: Sequence[Place]) -> None:
    """Raise PlanError for places that overlap, or whose accelerators are not their replicas'."""
    for k, place in enumerate(places):
        firsts = [place.first, *(first for first, _ in place.parts)]
        if min(*firsts, place.count - 1, place.replicas - 1) < 0:
            raise PlanError(
                f"place {k}: first {min(firsts)}, count {place.count}, replicas {place.replicas}; "
                "first is at least 0, the others at least 1"
            )
        if place.replicas > MOST_MICRO_BATCHES:
            raise PlanError(f"place {k}: at most {MOST_MICRO_BATCHES:,} replicas")
        allowed = all(1 <= many <= MOST_TURNS for many in place.turns)
        if place.turns and (len(place.turns) != place.replicas or not allowed):
            raise PlanError(f"place {k}: turns are one to {MOST_TURNS} for each replica")
        if place.parts:
            counts = [count for _, count in place.parts]
            whole = (place.parts[0][0], sum(counts), len(counts))
            if min(counts) < 1 or whole != (place.first, place.count, place.replicas):
                raise PlanError(f"place {k}: its parts are not its accelerators")
        elif place.count % place.replicas:
            raise PlanError(
                f"place {k}: replicas {place.replicas} do not divide its {place.count} accelerators"
            )
    taken = sorted((first, first + count) for place in places for first, count in place.spans)
    if any(end > begin for (_, end), (begin, _) in pairwise(taken)):
        raise PlanError("two places have an accelerator in common")
