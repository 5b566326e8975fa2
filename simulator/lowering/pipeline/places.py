"""Places: several stages as one program for every worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from simulator.engine.operations import Part, Task, Worker
from simulator.lowering.step.training_step import Tree


class Merged(NamedTuple):
    """A worker of all stages of a place: its template, its lines by stage and part, its splits."""

    worker: Worker
    tasks: tuple[Task, ...]
    lines: Mapping[tuple[int, Part], tuple[int, ...]]
    communicators: tuple[int, ...]


def merged(stages: Sequence[int], trees: Sequence[Tree]) -> list[Merged] | None:
    """Workers that are the same in all stages of a place: one template behind the other."""
    found: list[Merged] = []
    for same in zip(*(tree.workers for tree in trees), strict=False):
        if len({(w.device, w.multiplicity, w.first) for w in same}) > 1:
            return None
    if len({len(tree.workers) for tree in trees}) > 1:
        return None
    for number, same in enumerate(zip(*(tree.workers for tree in trees), strict=True)):
        tasks: list[Task] = []
        lines: dict[tuple[int, Part], tuple[int, ...]] = {}
        for stage, tree, worker in zip(stages, trees, same, strict=True):
            behind = len(tasks)
            tasks += [
                task._replace(needs=tuple(i + behind for i in task.needs))
                for task in worker.template
            ]
            for part, mine in tree.programs[number].by_part().items():
                lines[stage, part] = tuple(i + behind for i in mine)
        communicators = max((w.communicators for w in same), key=len)
        worker = replace(
            same[0],
            held_bytes=sum(w.held_bytes for w in same),
            weight_bytes=sum(w.weight_bytes for w in same),
            gradient_bytes=sum(w.gradient_bytes for w in same),
        )
        found.append(Merged(worker, tuple(tasks), lines, communicators))
    return found
