"""The lanes of a chart: what each class of cores, memories and links did when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from experiments.sites import BOARD, Site, labels

if TYPE_CHECKING:
    from simulator import Operation, Timeline


class Slice(NamedTuple):
    """One operation on a lane; times in picoseconds."""

    start_ps: int
    end_ps: int
    operation: Operation


@dataclass(frozen=True, slots=True)
class Lane:
    """Resources that did the same: what to call them, and their slices in order."""

    label: str
    slices: tuple[Slice, ...]

    @property
    def busy_ps(self) -> int:
        """Picoseconds that one of them was busy."""
        return sum(end - start for start, end, _ in self.slices)


@dataclass(frozen=True, slots=True)
class Chart:
    """One run's lanes under a title; ``iteration_ps`` is the whole step's time."""

    title: str
    iteration_ps: int
    lanes: tuple[Lane, ...]


def chart(title: str, timeline: Timeline, chosen: Sequence[Site], *, folded: bool) -> Chart:
    """A lane for each chosen link, and for each board's cores, and HBMs, that did the same.

    Memories without a record have no lane.
    """
    names = labels(chosen, timeline, folded=folded)
    slices = slices_by_resource(timeline)
    lanes = [lane for site in chosen for lane in _lanes(site, names[site.name], timeline, slices)]
    return Chart(title, timeline.iteration_ps, tuple(lanes))


def slices_by_resource(timeline: Timeline) -> list[list[Slice]]:
    """Per resource of the timeline, its slices in the order in which they ended."""
    found: list[list[Slice]] = [[] for _ in timeline.resources]
    operations = timeline.program.operations
    for resource, index, start, end in zip(*timeline.columns, strict=True):
        found[resource].append(Slice(start, end, operations[index]))
    return found


def _lanes(
    site: Site, label: str, timeline: Timeline, slices: Sequence[list[Slice]]
) -> Iterator[Lane]:
    if site.level != BOARD:
        yield Lane(label, tuple(slices[site.resources[0]]))
        return
    for kind in ("core", "hbm"):
        alike: dict[tuple[Slice, ...], list[int]] = {}
        for number in site.resources:
            if timeline.resources[number].kind == kind:
                alike.setdefault(tuple(slices[number]), []).append(number)
        for done, members in alike.items():
            name = label if kind == "core" else f"HBM of {label}"
            if len(alike) > 1:  # cores of one board that part ways: say which these are
                place = timeline.resources[members[0]].name
                name = place + (f" and {len(members) - 1} alike" if len(members) > 1 else "")
            if done or kind == "core":
                yield Lane(name, done)
