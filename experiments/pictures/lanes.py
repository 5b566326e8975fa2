"""Where a run's resources are in the array, and the lanes of a chart: what each did when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from experiments.output import UsageError
from simulator import Operation, Timeline, Worker
from simulator.lowering.pipeline.transfers import BETWEEN

BOARD = -1
"""The level of a board, or of a single core, below every split."""


@dataclass(frozen=True, slots=True)
class Site:
    """A board, or the link of a split, of one run.

    ``level`` is a link's (0 at the top), BOARD or BETWEEN. It stands for
    ``multiplicity`` alike ones, each with ``boards`` boards of ``devices``;
    ``first`` is the number, in the whole array, of the first board under the
    first of them. Where the run is of single cores (``unit`` "core"), these
    stand in the boards' place. ``above`` names the links over it, top first.
    ``resources`` are indices into the timeline's: a link's, or a board's or
    core's cores and HBMs.
    """

    name: str
    level: int
    first: int
    boards: int
    multiplicity: int
    devices: tuple[str, ...]
    above: tuple[str, ...]
    resources: range
    unit: str = "board"


def sites(timeline: Timeline) -> list[Site]:
    """Every board and link of a run, parents before children, in the order of its resources.

    What stages send each other comes behind them.
    """
    program, all_resources = timeline.program, timeline.all_resources
    under: dict[int, list[Worker]] = {}
    for worker, worker_resources in zip(program.workers, all_resources.workers, strict=True):
        for link in worker_resources.links:
            under.setdefault(link, []).append(worker)
    found: dict[int, Site] = {}
    for worker, worker_resources in zip(program.workers, all_resources.workers, strict=True):
        above: tuple[str, ...] = ()
        for level, link in enumerate(worker_resources.links):
            resource = timeline.resources[link]
            if link not in found:
                only, many = range(link, link + 1), resource.multiplicity
                found[link] = _site(resource.name, level, under[link], many, above, only)
            above = (*above, resource.name)
        own = range(worker_resources.own[0], max(worker_resources.own) + 1)
        name, many = worker_resources.name, worker.multiplicity
        found[own[0]] = _site(name, BOARD, [worker], many, above, own)
    known = {number for site in found.values() for number in site.resources}
    between = [
        Site(one.name, BETWEEN, 0, 0, one.multiplicity, (), (), range(number, number + 1))
        for number, one in enumerate(timeline.resources)
        if number not in known
    ]
    return [*found.values(), *between]


def _site(
    name: str, level: int, of: list[Worker], many: int, above: tuple[str, ...], resources: range
) -> Site:
    """The site ``of`` some workers, which stands for so many alike ones."""
    devices = tuple(dict.fromkeys(one.device.name for one in of))
    boards, first = sum(one.multiplicity for one in of) // many, min(one.first for one in of)
    return Site(name, level, first, boards, many, devices, above, resources, of[0].unit)


def chosen(everything: Sequence[Site], devices: str) -> list[Site]:
    """The boards (or cores) that ``devices`` names and the links above; raises UsageError.

    What stages send each other is shown whichever are named: its sites do not know whose it is.
    ``devices`` lists boards by name, number or range: ``board0,board3``, ``0,3`` or ``0-7``.
    """
    boards = [site for site in everything if site.level == BOARD]
    wanted = [boards[i] for i in _numbers(devices, len(boards), everything[0].unit)]
    names = {site.name for site in wanted} | {name for site in wanted for name in site.above}
    return [site for site in everything if site.name in names or site.level == BETWEEN]


def _numbers(text: str, boards: int, unit: str) -> list[int]:
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = (end.strip().removeprefix(unit) for end in part.partition("-"))
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdigit() and len(end) < 9 for end in ends):
            raise UsageError(
                f"--devices {text!r}: expected names or numbers of {unit}s, "
                f"as {unit}0,{unit}3 or 0-7"
            )
        low, high = map(int, ends)
        if high < low < boards:
            raise UsageError(f"--devices {text!r}: a range goes up: write {high}-{low}")
        if not low <= high < boards:
            raise UsageError(f"--devices {text!r}: the array's {unit}s are 0...{boards - 1}")
        numbers += range(low, high + 1)
    return numbers


def labels(everything: Sequence[Site], timeline: Timeline, *, folded: bool) -> dict[str, str]:
    """Per site's name, what to call it; no two alike.

    A class of a folded run is called by how many it stands for, a board or
    link of an unfolded one by the numbers of its boards.
    """
    levels: dict[int, set[tuple[str, ...]]] = {}
    for site in everything:
        levels.setdefault(site.level, set()).add(site.devices)
    called = {
        site.name: _class_label(site, timeline, mixed=len(levels[site.level]) > 1)
        if folded
        else _single_label(site, timeline)
        for site in everything
    }
    uses = Counter(called.values())
    for site in everything:
        if uses[called[site.name]] > 1:  # tell it from others of its label
            alone = site.level == BOARD and site.unit == "core" and site.multiplicity == 1
            called[site.name] += f", {'number' if alone else f'from {site.unit}'} {site.first}"
    return called


def _class_label(site: Site, timeline: Timeline, *, mixed: bool) -> str:
    many = f"{site.multiplicity:,}"
    if site.level == BETWEEN:
        return f"{site.name}, {many} x" if site.multiplicity > 1 else site.name
    device = site.devices[0]
    if site.level != BOARD:
        label = links_of(site) + (f" of {', '.join(site.devices)}" if mixed else "")
        return f"{label}, {many} x" if site.multiplicity > 1 else label
    if site.unit == "core":
        return f"{many} core{'s' * (site.multiplicity > 1)} of {device}"
    return f"{many} x {device}, {_cores(site, timeline, each=False):,} cores"


def links_of(site: Site) -> str:
    """What the links of a level are called; single cores exchange on wires of their own."""
    if site.unit == "core":
        return f"collectives (level {site.level})"
    whose = "the array's " if site.level == 0 else ""
    return f"links between {whose}halves (level {site.level})"


def _single_label(site: Site, timeline: Timeline) -> str:
    if site.level == BETWEEN:
        return site.name
    if site.level != BOARD:
        last = site.first + site.boards - 1
        return f"{links_of(site)}, {site.unit}s {site.first}-{last}"
    label = f"{site.name}, {site.devices[0]}"
    return label if site.unit == "core" else f"{label}, {_cores(site, timeline, each=True):,} cores"


def _cores(site: Site, timeline: Timeline, *, each: bool) -> int:
    """How many cores a site has; ``each`` counts those that stand for many as one."""
    cores = [timeline.resources[i] for i in site.resources]
    return sum(1 if each else core.multiplicity for core in cores if core.kind == "core")


class Slice(NamedTuple):
    """One operation on a lane; times in picoseconds.

    ``version`` is that of the weights, where they have several: of a pipeline's own resources.
    """

    start_ps: int
    end_ps: int
    operation: Operation
    micro_batch: int = 0
    version: int | None = None


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
    versions: list[Mapping[int, int]] = [{} for _ in found]
    program, all_resources = timeline.program, timeline.all_resources
    for worker, its_resources in zip(program.workers, all_resources.workers, strict=True):
        if worker.rank_program is not None:
            for resource in its_resources.own:
                versions[resource] = worker.rank_program.versions
    for resource, index, micro_batch, start, end, _ in zip(*timeline.columns, strict=True):
        version = versions[resource].get(micro_batch)
        found[resource].append(Slice(start, end, operations[index], micro_batch, version))
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
            for number, row in enumerate(tracks(done) or [[]], 1):
                if row or kind != "hbm":
                    yield Lane(name if number == 1 else f"{name}, row {number}", tuple(row))
