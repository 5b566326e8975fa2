"""The hierarchy sweep: the same comparison on arrays of 2, 4, 8, … accelerators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

from experiments.output import UsageError
from experiments.studies.comparison import Options, comparisons
from experiments.studies.speedups import Comparison
from hardware import Array, Group
from hardware.array import waiting
from planners import Planner
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
    kinds = waiting((device, count * wanted // size) for device, count in array.group.kinds)
    topology = replace(array.topology, shape=())
    settings = tuple(s for s in array.settings if not s.key.endswith((".count", "topology.shape")))
    sizes = ".count=", "topology.shape="
    words = [word for word in array.changes if not any(key in word for key in sizes)]
    changes = (*words, f"{wanted} accelerators")
    return replace(
        array,
        name=", ".join([array.base, *changes]),
        description="",
        group=Group(kinds),
        settings=settings,
        topology=topology,
        changes=changes,
    )


def sweep(
    array: Array,
    levels: Sequence[int],
    networks: Sequence[Network],
    planners: Sequence[str | Planner],
    batch: int,
    progress: Callable[[str], None] = lambda done: None,
    **options: Unpack[Options],
) -> list[Level]:
    """``comparisons`` on every size; interrupted by the keyboard, the sizes finished so far."""
    arrays = [scaled(array, level) for level in levels]
    results = comparisons(arrays, networks, planners, batch, progress, **options)
    done = [
        Level(level, sized.group.size, result)
        for level, sized, result in zip(levels, arrays, results, strict=True)
        if result.complete
    ]
    if not done:
        raise KeyboardInterrupt
    return done
