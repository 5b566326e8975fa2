"""The lanes of a chart: what each class of cores, memories and links did when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from experiments.pictures.resources import BOARD, Site, labels

if TYPE_CHECKING:
    from simulator import Operation, Timeline


class Slice(NamedTuple):
    """One operation on a lane; times in picoseconds."""

    start_ps: int
    end_ps: int
    operation: Operation
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """Resources that did the same: what to call them, and their slices in order."""

    label: str
    slices: tuple[Slice, ...]

    @property
    def busy_ps(self) -> int:
        """Picoseconds that one of them was busy."""
        return sum(one.end_ps - one.start_ps for one in self.slices)


@dataclass(frozen=True, slots=True)
class Chart:
    """One run's lanes under a title; ``iteration_ps`` is the whole step's time."""

    title: str
    iteration_ps: int
    lanes: tuple[Lane, ...]


def chart(title: str, timeline: Timeline, chosen: Sequence[Site], *, folded: bool) -> Chart:
    """A lane for each chosen link, and for each board's cores, units and HBMs that did the same.

    Where a link, or an HBM, did several things at once it has as many lanes as they
    need. Cores with units, and memories without a record have no lane, nor have links
    where the run is of single cores; folded, those that did the same share one.
    """
    slices = slices_by_resource(timeline)
    shown = alike(chosen, slices) if folded else list(chosen)
    names = labels(shown, timeline, folded=folded)
    lanes = [lane for site in shown for lane in _lanes(site, names[site.name], timeline, slices)]
    return Chart(title, timeline.makespan_ps, tuple(lanes))


def slices_by_resource(timeline: Timeline) -> list[list[Slice]]:
    """Per resource of the timeline, its slices in the order in which they ended."""
    found: list[list[Slice]] = [[] for _ in timeline.resources]
    operations = timeline.operations
    for resource, index, turn, start, end, _ in zip(*timeline.columns, strict=True):
        found[resource].append(Slice(start, end, operations[index], turn))
    return found


def alike(everything: Sequence[Site], slices: Sequence[list[Slice]]) -> list[Site]:
    """Single cores of one device that did the same as one site, the first, for all of them.

    The plan may set them apart although in the end they have equal shards.
    """
    merged: dict[object, Site] = {}
    for site in everything:
        key: object = site.name
        if site.level == BOARD and site.unit == "core":
            key = (site.devices, *(tuple(slices[number]) for number in site.resources))
        old = merged.get(key)
        count = site.multiplicity + (old.multiplicity if old else 0)
        merged[key] = replace(old or site, multiplicity=count)
    return list(merged.values())


def tracks(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Slices in the order in which they began, in as few rows as they need not to overlap."""
    rows: list[list[Slice]] = []
    for done in sorted(slices, key=lambda s: (s.start_ps, s.end_ps)):
        row = next((row for row in rows if row[-1].end_ps <= done.start_ps), None)
        if row is None:
            rows.append([done])
        else:
            row.append(done)
    return rows


def rows_of(slices: Sequence[Slice]) -> list[list[Slice]]:
    """What one resource did, as it is where nothing overlaps, else in as few rows as it needs.

    An HBM overlaps whose core has several units, each of which moves its own.
    """
    behind = 0
    for done in slices:  # in the order in which they ended
        if done.start_ps < behind:
            return tracks(slices)
        behind = done.end_ps
    return [list(slices)]


def _lanes(
    site: Site, label: str, timeline: Timeline, slices: Sequence[list[Slice]]
) -> Iterator[Lane]:
    if site.level != BOARD:
        rows = tracks(slices[site.resources[0]])
        if not rows and site.unit == "board":
            yield Lane(label, ())
        for number, row in enumerate(rows, 1):
            yield Lane(label if number == 1 else f"{label}, row {number}", tuple(row))
        return
    kinds = {timeline.resources[number].kind for number in site.resources}
    for kind in ("unit" if "unit" in kinds else "core", "hbm"):
        same: dict[tuple[Slice, ...], list[int]] = {}
        for number in site.resources:
            if timeline.resources[number].kind == kind:
                same.setdefault(tuple(slices[number]), []).append(number)
        for done, members in same.items():
            name = label if kind == "core" else f"HBM of {label}"
            if kind == "unit":
                name = f"{timeline.resources[members[0]].name.rpartition('.')[2]} of {label}"
            elif len(same) > 1:  # cores of one board that part ways: say which these are
                place = timeline.resources[members[0]].name
                name = place + (f" and {len(members) - 1} alike" if len(members) > 1 else "")
            for number, row in enumerate(rows_of(done), 1):
                if row or kind != "hbm":
                    yield Lane(name if number == 1 else f"{name}, row {number}", tuple(row))
