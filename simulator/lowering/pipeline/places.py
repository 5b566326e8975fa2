"""Places: several stages as one program for every worker, and how full their HBM gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from simulator.analysis.memory_timeline import Held, classes_of, peak
from simulator.engine.operations import MOVING, DeviceMemory, Part, Task, Worker
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


Use = tuple[Worker, float, Held | None]
"""A worker, its capacity (bytes), and the computation with the most."""


def stage_memory(
    workers: Sequence[Worker],
    capacities: Sequence[float],
    names: Sequence[str],
    reserve: float = 0.0,
) -> tuple[DeviceMemory, ...]:
    """One entry for each place and device; ``names`` and ``capacities`` are the workers'.

    A place without a name is called as its device. Bytes are those of the fullest core. The share
    ``reserve`` of capacities is not theirs.
    """
    found: dict[tuple[str, str], list[Use]] = {}
    for worker, capacity, name in zip(workers, capacities, names, strict=True):
        if worker.rank_program is not None:
            use = worker, capacity, peak(worker, worker.rank_program)
            found.setdefault((worker.device.name, name), []).append(use)
    return tuple(
        _of_stage(f"{name} ({device})" if name else device, uses, reserve)
        for (device, name), uses in found.items()
    )


def _of_stage(name: str, uses: Sequence[Use], reserve: float) -> DeviceMemory:
    """What the fullest of some workers holds, the first of such."""
    worker, capacity, top = max(uses, key=_most)
    where, versions, by_class = "", 1, (0.0,) * len(MOVING)
    if top is not None:
        versions, by_class = top.versions, top.by_class
        copies = f", {versions} versions of the weights" if versions > 1 else ""
        where = (
            f"{top.operation.layer} {top.operation.phase}, micro-batch {top.micro_batch}{copies}"
        )
    return DeviceMemory(
        name,
        _most((worker, capacity, top)),
        capacity,
        where,
        sum(one.cores for one, _, _ in uses),
        sum(use[0].cores for use in uses if _most(use) > (1 - reserve) * use[1]),
        classes_of(worker, versions, by_class),
        reserve * capacity,
    )


def _most(use: Use) -> float:
    """The most that a worker holds, in bytes."""
    worker, _, top = use
    return worker.held_bytes if top is None else top.most
