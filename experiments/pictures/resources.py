"""Where a run's resources are in the array: its boards or cores and links, and their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.output import UsageError

if TYPE_CHECKING:
    from simulator import Timeline, Worker
    from simulator.engine.resources import Resource

BOARD = -1
"""The level of a board, or of a single core, below every split."""


@dataclass(frozen=True, slots=True)
class Site:
    """A board, or the link of a split, of one run.

    ``level`` is a link's (0 at the top), or BOARD. It stands for
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
    """Every board and link of a run, parents before children, in the order of its resources."""
    program, stations = timeline.program, timeline.stations
    under: dict[int, list[Worker]] = {}
    for worker, station in zip(program.workers, stations.workers, strict=True):
        for link in station.links:
            under.setdefault(link, []).append(worker)
    found: dict[int, Site] = {}
    for worker, station in zip(program.workers, stations.workers, strict=True):
        above: tuple[str, ...] = ()
        for level, link in enumerate(station.links):
            resource = timeline.resources[link]
            if link not in found:
                found[link] = _link(link, level, resource, under[link], above)
            above = (*above, resource.name)
        resources = range(station.own[0], max(station.own) + 1)
        found[resources[0]] = Site(
            station.name,
            BOARD,
            worker.first,
            1,
            worker.multiplicity,
            (worker.device.name,),
            above,
            resources,
            worker.unit,
        )
    return list(found.values())


def _link(
    number: int, level: int, resource: Resource, under: Sequence[Worker], above: tuple[str, ...]
) -> Site:
    many = resource.multiplicity
    return Site(
        resource.name,
        level,
        min(worker.first for worker in under),
        sum(worker.multiplicity for worker in under) // many,
        many,
        tuple(dict.fromkeys(worker.device.name for worker in under)),
        above,
        range(number, number + 1),
        under[0].unit,
    )


def chosen(everything: Sequence[Site], devices: str) -> list[Site]:
    """The boards (or cores) that ``devices`` names and the links above; raises UsageError.

    ``devices`` lists boards by name, number or range: ``board0,board3``, ``0,3`` or ``0-7``.
    """
    boards = [site for site in everything if site.level == BOARD]
    wanted = [boards[i] for i in _numbers(devices, len(boards), everything[0].unit)]
    names = {site.name for site in wanted} | {name for site in wanted for name in site.above}
    return [site for site in everything if site.name in names]


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
    return {
        site.name: called[site.name] + (_from(site) if uses[called[site.name]] > 1 else "")
        for site in everything
    }


def _from(site: Site) -> str:
    """What tells a class from others of its label."""
    if site.level == BOARD and site.unit == "core" and site.multiplicity == 1:
        return f", number {site.first}"
    return f", from {site.unit} {site.first}"


def _class_label(site: Site, timeline: Timeline, *, mixed: bool) -> str:
    if site.level == BOARD:
        if site.unit == "core":
            return f"{site.multiplicity:,} core{'s' * (site.multiplicity > 1)} of {site.devices[0]}"
        cores = [timeline.resources[i] for i in site.resources]
        number = sum(core.multiplicity for core in cores if core.kind == "core")
        return f"{site.multiplicity:,} x {site.devices[0]}, {number:,} cores"
    label = f"link level {site.level}"
    if site.multiplicity > 1:
        label += f", {site.multiplicity:,} x"
    if mixed:
        label += f" ({', '.join(site.devices)})"
    return label


def _single_label(site: Site, timeline: Timeline) -> str:
    if site.level == BOARD:
        if site.unit == "core":
            return f"{site.name}, {site.devices[0]}"
        cores = sum(timeline.resources[i].kind == "core" for i in site.resources)
        return f"{site.name}, {site.devices[0]}, {cores:,} cores"
    return f"link level {site.level}, {site.unit}s {site.first}-{site.first + site.boards - 1}"
