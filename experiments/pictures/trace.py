"""A timeline as files for other programs: Chrome trace events, and records as a frame."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.output import whole_file
from experiments.pictures.counters import link_use, memory
from experiments.pictures.resources import BOARD, Site, labels
from experiments.pictures.tracks import Slice, rows_of, slices_by_resource, tracks
from simulator.engine.operations import CLASSES
from simulator.engine.records import NO_ROW

if TYPE_CHECKING:
    import pandas

    from simulator import Timeline
    from simulator.engine.resources import Resource

Event = dict[str, Any]
PS_A_NS = 1000
DIRECTIONS = (", to the first half", ", to the second half")
"""The two tracks of a link: an exchange is on each that it moves bytes in."""


def trace_events(timeline: Timeline, chosen: Sequence[Site], *, folded: bool) -> Iterator[Event]:
    """Metadata, then a complete event for every record of the chosen sites; flows; counters.

    A board, or a level of links, is a process; a core, an HBM or one direction
    of a link a thread.
    ``ts`` and ``dur`` are microseconds in whole nanoseconds, start and end
    rounded down: Perfetto rounds both to nanoseconds by itself, and drops a
    slice that then reaches into the next one. ``args`` has the exact
    picoseconds, and, where one stands for many, its ``multiplicity``. An arrow
    goes to an operation from what it waited for, where that is on another
    track; both last a nanosecond at least. Counters say how full the memory of
    each class of cores is, also by what it is full of, and what all links of a kind carry.
    """
    names = labels(chosen, timeline, folded=folded)
    labelled = dict.fromkeys(_process(site, names) for site in chosen)
    processes = {process: pid for pid, process in enumerate(labelled, 1)}
    slices, versions = slices_by_resource(timeline), _versions(timeline)
    for process, pid in processes.items():
        yield _metadata("process_name", pid, 0, name=process)
        yield _metadata("process_sort_index", pid, 0, sort_index=pid)
    threads = count(len(processes) + 2)  # no thread has a process's number
    places: dict[int, tuple[int, int]] = {}
    for site in chosen:
        pid = processes[_process(site, names)]
        for number in site.resources:
            resource = timeline.resources[number]
            name = _thread(resource, names[site.name], folded=folded)
            for thread, direction, done in _rows(name, resource, slices[number]):
                tid = next(threads)
                yield _metadata("thread_name", pid, tid, name=thread)
                yield _metadata("thread_sort_index", pid, tid, sort_index=tid)
                for each in done:
                    moved = each.operation.received[direction]
                    places.setdefault(id(each), (pid, tid))
                    version = versions.get(number, {}).get(each.turn)
                    yield _complete(each, resource, pid, tid, moved, version)
    yield from _flows(timeline, slices, places)
    for site in chosen:
        pid, name = processes[_process(site, names)], names[site.name]
        for held in memory(timeline, site):
            by_class = dict(zip(CLASSES, held.by_class, strict=True))
            at_ps = held.start_ps
            yield _counter(f"memory of a core: {name}", pid, at_ps, {"bytes": held.most})
            yield _counter(f"memory by class: {name}", pid, at_ps, by_class)
    yield from _links(timeline, len(processes) + 1)


def _flows(
    timeline: Timeline, slices: Sequence[Sequence[Slice]], places: Mapping[int, tuple[int, int]]
) -> Iterator[Event]:
    """An arrow for each record that waited for one of another resource, if both are shown.

    It leaves within the last nanosecond of its slice: behind that it would be
    another one's.
    """
    columns = timeline.columns
    each = [iter(row) for row in slices]
    rows = [next(each[resource]) for resource in columns.resource]
    for row, cause in enumerate(columns.cause):
        if cause == NO_ROW or columns.resource[row] == columns.resource[cause]:
            continue
        ends = [rows[cause], rows[row]]
        if all(id(end) in places and _lasts(end) for end in ends):
            for phase, done in zip("sf", ends, strict=True):
                pid, tid = places[id(done)]
                at_ns = done.end_ps // PS_A_NS - 1 if phase == "s" else done.start_ps // PS_A_NS
                event = {"ph": phase, "name": "waited for", "cat": "wait", "id": row}
                event |= {"pid": pid, "tid": tid, "ts": at_ns / 1000}
                yield event | ({"bp": "e"} if phase == "f" else {})


def _lasts(done: Slice) -> bool:
    """Whether a viewer can tell which slice an arrow is of."""
    return done.end_ps // PS_A_NS > done.start_ps // PS_A_NS


def _links(timeline: Timeline, pid: int) -> Iterator[Event]:
    """What all links of a kind carry, as counters of a process of their own."""
    for number, (kind, samples) in enumerate(link_use(timeline).items()):
        if number == 0:
            yield _metadata("process_name", pid, 0, name="all links by kind")
            yield _metadata("process_sort_index", pid, 0, sort_index=pid)
        for sample in samples:
            yield _counter(f"links: {kind}", pid, sample.at_ps, {"bytes a second": sample.value})


def _counter(name: str, pid: int, at_ps: int, args: Mapping[str, float]) -> Event:
    at = at_ps // PS_A_NS / 1000
    return {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": at, "args": dict(args)}


def _rows(
    name: str, resource: Resource, slices: Sequence[Slice]
) -> Iterator[tuple[str, int, Sequence[Slice]]]:
    """The threads of a resource: name, direction and slices that do not overlap.

    A link has one for each direction, or more where exchanges were under way at once.
    """
    if resource.kind != "link":
        for number, row in enumerate(rows_of(slices), 1):
            yield name if number == 1 else f"{name}, row {number}", 0, row
        return
    for direction, towards in enumerate(DIRECTIONS):
        moving = [done for done in slices if done.operation.received[direction]]
        for number, row in enumerate(tracks(moving) or [[]], 1):
            again = "" if number == 1 else f", row {number}"
            yield name + towards + again, direction, row


def _process(site: Site, names: Mapping[str, str]) -> str:
    return names[site.name] if site.level == BOARD else f"links of level {site.level}"


def _thread(resource: Resource, site: str, *, folded: bool) -> str:
    if resource.kind == "link":
        return site
    kind = resource.name.rpartition(".")[2] if resource.kind == "unit" else resource.kind
    return f"{kind}, {resource.multiplicity:,} x" if folded else resource.name


def _metadata(what: str, pid: int, tid: int, **args: Any) -> Event:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _versions(timeline: Timeline) -> dict[int, Mapping[int, int]]:
    """Of each resource of a pipeline's workers, the version of the weights of each turn."""
    found: dict[int, Mapping[int, int]] = {}
    for worker, station in zip(timeline.program.workers, timeline.stations.workers, strict=True):
        if worker.itinerary is not None:
            found |= dict.fromkeys(station.own, worker.itinerary.versions)
    return found


def _complete(
    done: Slice, resource: Resource, pid: int, tid: int, moved: float, version: int | None
) -> Event:
    """With its micro-batch, and the version of the weights, where there are such."""
    operation = done.operation
    turn = {} if version is None else {"micro_batch": done.turn, "version": version}
    start_ns, end_ns = done.start_ps // PS_A_NS, done.end_ps // PS_A_NS
    return {
        "ph": "X",
        "name": f"{operation.layer}: {operation.phase} {operation.kind}",
        "cat": f"{operation.phase},{operation.kind}",
        "pid": pid,
        "tid": tid,
        "ts": start_ns / 1000,
        "dur": (end_ns - start_ns) / 1000,
        "args": {
            "layer": operation.layer,
            "phase": str(operation.phase),
            "kind": str(operation.kind),
            "level": operation.level,
            "bytes": moved,
            "flops": operation.flops,
            "multiplicity": resource.multiplicity,
            "start_ps": done.start_ps,
            "duration_ps": done.end_ps - done.start_ps,
            **turn,
        },
    }


def write_trace(events: Iterator[Event], about: Mapping[str, Any], path: str) -> None:
    """A trace that ui.perfetto.dev opens; compressed when ``path`` ends in .gz."""
    with whole_file(path) as target:
        if path.lower().endswith(".gz"):
            # no name and no time inside, so that equal traces are equal files
            with target.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                _write(events, about, io.TextIOWrapper(packed, "utf-8", write_through=True))
        else:
            with target.open("w", encoding="utf-8") as plain:
                _write(events, about, plain)


def _write(events: Iterator[Event], about: Mapping[str, Any], file: io.TextIOBase) -> None:
    """One event a line, as they come: a large array's are never all in memory as text."""
    encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
    file.write(f'{{"displayTimeUnit":"ns","otherData":{encode(dict(about))},"traceEvents":[')
    for i, event in enumerate(events):
        file.write((",\n" if i else "\n") + encode(event))
    file.write("\n]}\n")
    file.flush()


def to_frame(timeline: Timeline, chosen: Sequence[Site]) -> pandas.DataFrame:
    """One line for each record of the chosen sites, in the order in which they ended."""
    import pandas

    from simulator import Record

    wanted = {number for site in chosen for number in site.resources}
    numbered = zip(timeline.columns.resource, timeline, strict=True)
    rows = [record for number, record in numbered if number in wanted]
    return pandas.DataFrame(rows, columns=list(Record._fields))


def write_csv(timeline: Timeline, chosen: Sequence[Site], path: str) -> None:
    """The records as CSV; times in picoseconds, bytes and FLOPs of one of ``multiplicity``."""
    with whole_file(path) as target:
        to_frame(timeline, chosen).to_csv(Path(target), index=False, lineterminator="\n")
