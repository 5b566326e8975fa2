"""The hierarchy sweep: the same comparison on arrays of 2, 4, 8, … accelerators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from experiments.output import UsageError
from experiments.studies.comparison import Comparison, compare
from hardware import Array, Group
from planners import TIME, Objective
from simulator import PUBLISHED, Execution
from workloads import Network

MOST_LEVELS = 16


@dataclass(frozen=True, slots=True)
class Level:
    """One array of the sweep: 2^levels accelerators, and the comparison on it."""

    levels: int
    accelerators: int
    result: Comparison


def scaled(array: Array, levels: int) -> Array:
    """An array of 2^levels accelerators with the proportions of ``array``; raises UsageError."""
    if not 1 <= levels <= MOST_LEVELS:
        raise UsageError(f"--levels {levels}: must be within 1...{MOST_LEVELS}")
    size, wanted = array.group.size, 2**levels
    if any(count * wanted % size for _, count in array.group.kinds):
        counts = " + ".join(f"{count} {device.name}" for device, count in array.group.kinds)
        raise UsageError(
            f"--levels {levels}: {wanted} accelerators cannot have the proportions of "
            f"{array.name} ({counts})"
        )
    kinds = tuple((device, count * wanted // size) for device, count in array.group.kinds)
    topology = replace(array.topology, shape=())
    return replace(array, group=Group(kinds), settings=(), topology=topology)


def sweep(
    array: Array,
    levels: Sequence[int],
    networks: Sequence[Network],
    planners: Sequence[str],
    batch: int,
    progress: Callable[[str], None] = lambda done: None,
    *,
    execution: Execution = PUBLISHED,
    folded: bool = True,
    objective: Objective = TIME,
    metrics: tuple[str, ...] = ("time",),
) -> list[Level]:
    """Compare on every size; interrupted by the keyboard, it returns the sizes finished so far."""
    arrays = [scaled(array, level) for level in levels]
    done: list[Level] = []
    for level, sized in zip(levels, arrays, strict=True):
        try:
            result = compare(
                sized,
                networks,
                planners,
                batch,
                progress,
                execution=execution,
                folded=folded,
                objective=objective,
                metrics=metrics,
            )
        except KeyboardInterrupt:
            if done:
                break
            raise
        if not result.complete:
            break
        done.append(Level(level, sized.group.size, result))
    return done
