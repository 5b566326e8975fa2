"""Where a core's time goes when exchanges overlap with computing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from simulator.engine.operations import Branch, Leaf

if TYPE_CHECKING:
    from simulator.engine.timeline import Timeline

Interval = tuple[int, int]
"""Start and end in picoseconds."""


class CoreTime(NamedTuple):
    """What one distinct core does over the step, in picoseconds; it stands for ``multiplicity``.

    ``exposed`` is the time in which it computes nothing while an exchange
    that it takes part in is under way.
    """

    leaf: Leaf
    computing: int
    exposed: int

    @property
    def multiplicity(self) -> int:
        """How many cores it stands for."""
        return self.leaf.multiplicity


def core_times(timeline: Timeline) -> Iterator[CoreTime]:
    """One entry for each distinct core of a run of single cores, in the order of its tree."""
    spans = operation_spans(timeline)
    cores = (i for i, resource in enumerate(timeline.resources) if resource.kind == "core")
    computing: dict[int, list[Interval]] = {}
    for number, start, end in zip(
        timeline.columns.resource, timeline.columns.start, timeline.columns.end, strict=True
    ):
        computing.setdefault(number, []).append((start, end))
    for leaf, number in zip(leaves(timeline.program.root), cores, strict=True):
        busy = merged(computing.get(number, []))
        exchanges = merged([spans[op.index] for op in leaf.operations if op.level >= 0])
        both = length(merged([*busy, *exchanges]))
        yield CoreTime(leaf, length(busy), both - length(busy))


def operation_spans(timeline: Timeline) -> dict[int, Interval]:
    """When each operation ran, by its index; operations that run once."""
    _, operation, start, end = timeline.columns
    return {index: (begin, stop) for index, begin, stop in zip(operation, start, end, strict=True)}


def leaves(node: Branch | Leaf) -> Iterator[Leaf]:
    """The tree's leaves, first halves first."""
    if isinstance(node, Leaf):
        yield node
        return
    for half in node.halves:
        yield from leaves(half)


def merged(intervals: Sequence[Interval]) -> list[Interval]:
    """The union of intervals, as disjoint ones in order."""
    union: list[Interval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def length(intervals: Sequence[Interval]) -> int:
    """Picoseconds in disjoint intervals."""
    return sum(end - start for start, end in intervals)
