"""What of the array a run has: cores, HBMs and links by name, and whose they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from hardware import Device
from simulator.engine.operations import Program, Worker


class Resource(NamedTuple):
    """A core, unit of a core, HBM or link that stands for ``multiplicity`` alike ones.

    ``cores`` is how many of the array's cores wait while it is busy (all that
    a core stands for; those on both sides of the splits a link stands for).
    """

    kind: str
    name: str
    multiplicity: int
    cores: int = 0
    device: Device | None = None


class Station(NamedTuple):
    """Where a worker stands: its name, and the numbers of its resources.

    ``links`` are those of the splits above it, the top one first; ``units`` those of
    its core, if it has several.
    """

    name: str
    cores: tuple[int, ...]
    memories: tuple[int, ...]
    links: tuple[int, ...]
    units: tuple[int, ...] = ()

    @property
    def lanes(self) -> tuple[tuple[int, ...], ...]:
        """What does one operation at a time: each unit, or the cores, which all do the same."""
        return tuple((unit,) for unit in self.units) or (self.cores,)

    @property
    def own(self) -> tuple[int, ...]:
        """Every resource but the links."""
        return self.cores + self.units + self.memories


class Stations(NamedTuple):
    """Every resource of a program's array, a station for each worker, and each site's link."""

    resources: tuple[Resource, ...]
    workers: tuple[Station, ...]
    links: tuple[int, ...]


def stations(program: Program) -> Stations:
    """Name and number what a program's workers have.

    A link comes before what is under it, and a chip's cores before its HBM;
    links that are nobody's own come last.
    """
    resources: list[Resource] = []
    found: list[Station] = []
    links: dict[int, int] = {}
    names = Counter[int]()
    under = Counter[int]()
    for worker in program.workers:
        under.update(dict.fromkeys(worker.sites, worker.cores))

    def link(site: int) -> int:
        if site not in links:
            level, multiplicity, name = program.sites[site]
            links[site] = len(resources)
            if not name:
                name = f"link{level}.{names[level]}"
                names[level] += 1
            resources.append(Resource("link", name, multiplicity, under[site]))
        return links[site]

    for number, worker in enumerate(program.workers):
        above = tuple(map(link, worker.sites))
        first = len(resources)
        resources += _own(worker, f"{worker.unit}{number}")
        mine = range(first, len(resources))
        found.append(
            Station(
                f"{worker.unit}{number}",
                tuple(i for i in mine if resources[i].kind == "core"),
                tuple(i for i in mine if resources[i].kind == "hbm"),
                above,
                tuple(i for i in mine if resources[i].kind == "unit"),
            )
        )
    every = tuple(map(link, range(len(program.sites))))
    return Stations(tuple(resources), tuple(found), every)


def _own(worker: Worker, name: str) -> Iterator[Resource]:
    """A worker's cores and HBMs; one that stands for others has their number."""
    device, count = worker.device, worker.multiplicity
    if worker.unit == "core":  # a single core, and its slice of the HBM
        yield Resource("core", f"{name}.core", count, count, device)
        for unit in worker.units:
            yield Resource("unit", f"{name}.{unit}", count, count, device)
        yield Resource("hbm", f"{name}.hbm", count, device=device)
        return
    chips_each = count * device.chips // worker.chips
    cores_each = chips_each * device.cores_per_chip // worker.cores_per_chip
    for chip in range(worker.chips):
        place = f"{name}.chip{chip}"
        for core in range(worker.cores_per_chip):
            yield Resource("core", f"{place}.core{core}", cores_each, cores_each, device)
        yield Resource("hbm", f"{place}.hbm", chips_each, device=device)


def names_of(stations: Stations, doing: Mapping[int, object]) -> dict[str, str]:
    """Workers by name and device, in their order, with what each does, as text."""
    found = {}
    for number, what in sorted(doing.items(), key=lambda item: item[0]):
        station = stations.workers[number]
        device = stations.resources[station.cores[0]].device
        found[f"{station.name} ({device.name if device else ''})"] = str(what)
    return found
