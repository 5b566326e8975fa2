"""How full the stages of a pipeline get, found before what they exchange is written.

That needs nothing but what each stage computes, and of stages that are the same but for
names only one: a plan that does not fit is refused in a fraction of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hardware import Array
from planners.plan import Pipeline
from simulator.engine.operations import Action, Itinerary, Worker
from simulator.lowering.merged import Merged, merged
from simulator.lowering.stage_writer import ComputingWriter, StageWriter
from workloads import Cut
from workloads.stages import first_alike

Layers = Mapping[str, str]
"""What a stage calls the layers of the one that was asked for it."""


def computing_workers(
    cut: Cut,
    pipeline: Pipeline,
    alike: Sequence[int],
    writers: Callable[[int], Sequence[StageWriter]],
    followed: Callable[[int, int], tuple[tuple[Action, ...], Mapping[int, int]]],
) -> list[tuple[Worker, Layers]]:
    """The workers of all places, with what they compute alone, and their names for it.

    ``alike`` are the stages that each is like (``alike_stages``), ``writers`` are a stage's,
    one for each replica; ``followed`` are the actions of a place and replica, and their
    versions of the weights. Nothing where stages do not go together at a place.
    """
    trees = {}
    for stage in dict.fromkeys(alike):
        computing = list(map(ComputingWriter, writers(stage)))
        for writer in computing:
            writer.write_all()
        trees[stage] = [writer.tree() for writer in computing]
    found: list[tuple[Worker, Layers]] = []
    written: dict[tuple[tuple[int, ...], int], Sequence[Merged]] = {}
    for rank, place in enumerate(pipeline.places):
        stages = range(rank, len(alike), len(pipeline.places))
        models = tuple(alike[stage] for stage in stages)
        names = {k: v for stage in stages for k, v in _names(cut, alike[stage], stage).items()}
        for replica in range(place.replicas):
            if (models, replica) not in written:
                own = [trees[model][replica] for model in models]
                written[models, replica] = merged(range(len(models)), own) or ()
            actions, versions = followed(rank, replica)
            for worker, tasks, lines, _ in written[models, replica]:
                mine = {(stages[chunk], part): some for (chunk, part), some in lines.items()}
                way = Itinerary(actions, mine, rank=rank, replica=replica, versions=versions)
                found.append((replace(worker, template=tasks, itinerary=way), names))
    return found


def alike_stages(cut: Cut, pipeline: Pipeline, array: Array) -> list[int]:
    """Of each stage the first one that computes the same, but for names and its place.

    Itself where there are several at a place.
    """
    if pipeline.virtual > 1:
        return list(range(len(pipeline.stages)))

    def like(one: int, other: int) -> bool:
        plans = [pipeline.stages[stage].plan for stage in (one, other)]
        on = [pipeline.places[stage] for stage in (one, other)]
        groups = [array.part(place.first, place.count).group for place in on]
        return (
            first_alike(cut)[one] == first_alike(cut)[other]
            and plans[0].root == plans[1].root
            and plans[0].updates == plans[1].updates
            and plans[0].bucket_bytes == plans[1].bucket_bytes
            and plans[0].update_order == plans[1].update_order
            and on[0].replicas == on[1].replicas
            and groups[0] == groups[1]
        )

    found: list[int] = []
    for stage in range(len(pipeline.stages)):
        known = (other for other in dict.fromkeys(found) if like(other, stage))
        found.append(next(known, stage))
    return found


def _names(cut: Cut, asked: int, stage: int) -> Layers:
    """What each layer of the stage that was asked is called in another one."""
    if asked == stage:
        return {}
    ends = (*cut.firsts[1:], len(cut.graph))
    nodes = [cut.graph[cut.firsts[k] : ends[k]] for k in (asked, stage)]
    return {one.name: other.name for one, other in zip(*nodes, strict=True)}
