"""Several stages at one place as one program: a template behind the other for every worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from simulator.engine.operations import Operation, Part, Program, Task, Worker
from simulator.lowering.training_step import Tree


class Merged(NamedTuple):
    """A worker of all stages of a place: its template, its lines by stage and part, its splits."""

    worker: Worker
    tasks: tuple[Task, ...]
    lines: Mapping[tuple[int, Part], tuple[int, ...]]
    sites: tuple[int, ...]


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
            for part, mine in tree.scripts[number].by_part().items():
                lines[stage, part] = tuple(i + behind for i in mine)
        sites = max((w.sites for w in same), key=len)
        held = sum(w.held_bytes for w in same)
        found.append(Merged(replace(same[0], held_bytes=held), tuple(tasks), lines, sites))
    return found


def operations_of(program: Program) -> Iterator[Operation]:
    """Every distinct operation of a program, those that are routed included."""
    seen: set[Operation] = set()
    for worker in program.workers:
        routes = worker.itinerary.routes if worker.itinerary else {}
        for task in worker.template:
            ways = routes.get(task.operation)
            for operation in [way.operation for way in ways] if ways else [task.operation]:
                if operation not in seen:
                    seen.add(operation)
                    yield operation
