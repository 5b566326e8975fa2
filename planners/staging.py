"""Stages for a network and an array: where to cut, which accelerators, and a plan for each stage.

Any planner plans a stage: to it a stage is a network, and its place an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hardware import Array
from planners.errors import PlanError
from planners.objective import TIME, Objective
from planners.place import Place
from planners.plan import Pipeline, Plan, Stage
from planners.registry import load_planner, planner_name
from workloads import Cut, Network, NetworkError, cut, partition_graph

if TYPE_CHECKING:
    from planners.registry import Planner


@dataclass(frozen=True, slots=True)
class Staging:
    """What is asked of a pipeline, beside the planner of its stages.

    ``stages`` places with ``virtual`` stages each; ``schedule`` may be left to what is
    usual. ``cuts`` are the first layers of the stages where they are given.
    """

    stages: int = 1
    micro_batches: int = 1
    schedule: str = ""
    virtual: int = 1
    recompute: bool = False
    tied: str = ""
    vertical_sync: bool = False
    cuts: tuple[int, ...] = ()

    @property
    def usual_schedule(self) -> str:
        """The schedule that is named, or 1f1b; interleaved with several stages a place."""
        return self.schedule or ("interleaved" if self.virtual > 1 else "1f1b")

    def __str__(self) -> str:
        words = [f"{self.stages} stage{'s' * (self.stages > 1)}"]
        if self.virtual > 1:
            words.append(f"{self.virtual} virtual")
        words.append(self.usual_schedule)
        words.append(f"{self.micro_batches} micro-batch{'es' * (self.micro_batches > 1)}")
        words += ["recompute"] * self.recompute + ["vertical sync"] * self.vertical_sync
        return ", ".join(words)


def places_of(array: Array, stages: int) -> tuple[Place, ...]:
    """An array's accelerators, evenly and in order; the first places have what is left over.

    Raises PlanError where there are fewer than stages, or a board would be cut unevenly.
    """
    size = array.group.size
    if stages > size:
        raise PlanError(
            f"{stages} stages on {array.name!r}, which has {size} accelerators; take fewer stages"
        )
    each, rest = divmod(size, stages)
    counts = [each + (k < rest) for k in range(stages)]
    firsts = [sum(counts[:k]) for k in range(stages)]
    return tuple(Place(first, count) for first, count in zip(firsts, counts, strict=True))


def micro_batch(batch: int, micro_batches: int) -> int:
    """Samples of one; raises PlanError where they do not divide the batch."""
    if micro_batches < 1 or batch % micro_batches:
        near = [n for n in range(1, min(batch, 4 * max(micro_batches, 1)) + 1) if not batch % n]
        best = min(near, key=lambda n: abs(n - micro_batches))
        raise PlanError(
            f"{micro_batches} micro-batches do not divide a batch of {batch}; take {best}, or "
            "another batch"
        )
    return batch // micro_batches


def cut_into(network: Network, firsts: Sequence[int]) -> Cut:
    """The network in stages; raises PlanError where it cannot be cut so."""
    try:
        return cut(network, firsts)
    except NetworkError as error:
        raise PlanError(str(error)) from None


def planned_in_stages(
    planner: str | Planner,
    network: Network,
    array: Array,
    batch: int,
    staging: Staging,
    firsts: Sequence[int],
    places: Sequence[Place],
    objective: Objective = TIME,
) -> Plan:
    """A plan whose stages begin at layers ``firsts``, each planned by ``planner`` at its place.

    Stages that are alike are planned once.
    """
    each, size = load_planner(planner), micro_batch(batch, staging.micro_batches)
    found = cut_into(network, firsts)
    stages = []
    for k, (first, part) in enumerate(zip(found.firsts, found.networks, strict=True)):
        place = places[k % len(places)]
        own = each(part, array.part(place.first, place.each), size, objective)
        stages.append(Stage(first, k % len(places), own, staging.recompute))
    pipeline = Pipeline(
        tuple(stages),
        tuple(places),
        staging.usual_schedule,
        staging.micro_batches,
        staging.tied,
        staging.vertical_sync,
    )
    names = tuple(node.name for node in partition_graph(network))
    return Plan(
        planner_name(planner),
        network.name,
        batch,
        objective.name,
        names,
        None,
        objective.communication,
        pipeline,
    )
