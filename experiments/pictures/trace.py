"""A timeline as files for other programs: Chrome trace events, and records as a frame."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from experiments import terms
from experiments.output import frame_of, whole_file
from experiments.pictures.lanes import BOARD, Site, Slice, labels, slices_by_resource, tracks
from experiments.results.formats import csv_of
from hardware import Wires
from simulator import PICOSECONDS, Operation, Record, Timeline
from simulator.analysis.memory_timeline import Filled, filled
from simulator.engine.operations import CLASSES
from simulator.engine.records import NO_ROW
from simulator.engine.resources import Resource
from simulator.lowering.pipeline.transfers import BETWEEN

if TYPE_CHECKING:
    import pandas


Sample = tuple[int, float]
"""From a time (ps) on a value, until the next one."""


def memory(timeline: Timeline, site: Site) -> Iterator[Filled]:
    """The most that one core of a site holds during each of its computations, by class, too.

    Nothing where the execution model has no memory.
    """
    if not timeline.memory or site.level != BOARD:
        return
    names = [worker_resources.name for worker_resources in timeline.all_resources.workers]
    yield from filled(timeline, names.index(site.name))


def _links(timeline: Timeline, pid: int) -> Iterator[Event]:
    """Bytes a second over all links of each kind (``explain``'s) that carries something.

    They are counters of a process of their own. What an exchange moves counts as moved evenly
    while it is under way. Where links are no wires' (published) a kind is the splits of one level.
    """
    moved: dict[Operation, dict[str, float]] = {}
    changes: dict[str, list[tuple[int, float]]] = {}
    for number, index, _, start, end, _ in zip(*timeline.columns, strict=True):
        resource, operation = timeline.resources[number], timeline.operations[index]
        if resource.kind != "link":
            continue
        if operation not in moved:
            moved[operation] = _moved(timeline, operation)
        for kind, amount in moved[operation].items():
            many = 1 if operation.jobs else resource.multiplicity
            rate = many * amount * PICOSECONDS / max(1, end - start)
            changes.setdefault(kind, []).extend([(start, rate), (max(end, start + 1), -rate)])
    for number, (kind, steps) in enumerate(changes.items()):
        if number == 0:
            yield from _named("process", pid, 0, "all links by kind")
        for at_ps, value in _summed(steps):
            yield _counter(f"links: {kind}", pid, at_ps, {"bytes a second": value})


def _moved(timeline: Timeline, operation: Operation) -> dict[str, float]:
    """Bytes over links by kind; a folded exchange's jobs are those of all that it stands for."""
    wires, found = timeline.program.wires, dict[str, float]()
    if not isinstance(wires, Wires) or not operation.jobs:
        return {f"level {operation.level}": operation.bytes} if operation.bytes else {}
    for some, size in (each for job in operation.jobs for each in job.crosses):
        load = some.unfolded()
        for subnet in wires.subnets:
            here = (load.links >= subnet.links.start) & (load.links < subnet.links.stop)
            amount = float(load.flows[here].sum()) * size
            if amount:
                found[subnet.joins] = found.get(subnet.joins, 0.0) + amount
    return found


def _summed(changes: list[tuple[int, float]]) -> list[Sample]:
    """The sum after each change; exactly nothing where all that began has ended."""
    samples: list[Sample] = []
    total, open_now = 0.0, 0
    for at_ps, rate in sorted(changes):
        open_now += 1 if rate > 0 else -1
        total = total + rate if open_now else 0.0
        if samples and samples[-1][0] == at_ps:
            samples.pop()
        samples.append((at_ps, total))
    return samples


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
    slices = slices_by_resource(timeline)
    for process, pid in processes.items():
        yield from _named("process", pid, 0, process)
    threads = count(len(processes) + 2)  # no thread has a process's number
    places: dict[tuple[int, Slice], tuple[int, int]] = {}
    for site in chosen:
        pid = processes[_process(site, names)]
        for number in site.resources:
            resource = timeline.resources[number]
            name = _thread(resource, names[site.name], folded=folded)
            halves = (0, 1) if site.level == BETWEEN else None
            for thread, directions, done in _rows(name, resource, slices[number], halves):
                tid = next(threads)
                yield from _named("thread", pid, tid, thread)
                for each in done:
                    moved = sum(each.operation.received[direction] for direction in directions)
                    places.setdefault((number, each), (pid, tid))
                    yield _complete(each, resource, pid, tid, moved)
    yield from _flows(timeline, slices, places)
    for site in chosen:
        pid, name = processes[_process(site, names)], names[site.name]
        for held in memory(timeline, site):
            for what, args in (
                ("memory of a core", {"bytes": held.most}),
                ("memory by class", dict(zip(CLASSES, held.by_class, strict=True))),
            ):
                yield _counter(f"{what}: {name}", pid, held.start_ps, args)
    yield from _links(timeline, len(processes) + 1)


def _flows(
    timeline: Timeline,
    slices: Sequence[Sequence[Slice]],
    places: Mapping[tuple[int, Slice], tuple[int, int]],
) -> Iterator[Event]:
    """An arrow for each record that waited for one of another resource, if both are shown.

    It leaves within the last nanosecond of its slice: behind that it would be
    another one's. A viewer cannot tell which slice an arrow is of that lasts less.
    """
    columns = timeline.columns
    each = [iter(row) for row in slices]
    rows = [(resource, next(each[resource])) for resource in columns.resource]
    for row, cause in enumerate(columns.cause):
        if cause == NO_ROW or columns.resource[row] == columns.resource[cause]:
            continue
        ends = [rows[cause], rows[row]]
        lasts = [done.end_ps // PS_A_NS > done.start_ps // PS_A_NS for _, done in ends]
        if all(lasts) and all(end in places for end in ends):
            for phase, (resource, done) in zip("sf", ends, strict=True):
                pid, tid = places[resource, done]
                at_ns = done.end_ps // PS_A_NS - 1 if phase == "s" else done.start_ps // PS_A_NS
                event = {"ph": phase, "name": "waited for", "cat": "wait", "id": row}
                event |= {"pid": pid, "tid": tid, "ts": at_ns / 1000}
                yield event | ({"bp": "e"} if phase == "f" else {})


def _counter(name: str, pid: int, at_ps: int, args: Mapping[str, float]) -> Event:
    at = at_ps // PS_A_NS / 1000
    return {"ph": "C", "name": name, "pid": pid, "tid": 0, "ts": at, "args": args}


def _rows(
    name: str, resource: Resource, slices: Sequence[Slice], together: Sequence[int] | None
) -> Iterator[tuple[str, Sequence[int], Sequence[Slice]]]:
    """The threads of a resource: name, directions and slices that do not overlap.

    A link has one for each direction, or more where exchanges were under way at once; between
    stages both are ``together``.
    """
    if resource.kind != "link" or together:
        for number, row in enumerate(tracks(slices) or [[]], 1):
            yield name if number == 1 else f"{name}, row {number}", together or (0,), row
        return
    for direction, towards in enumerate(DIRECTIONS):
        moving = [done for done in slices if done.operation.received[direction]]
        for number, row in enumerate(tracks(moving) or [[]], 1):
            again = "" if number == 1 else f", row {number}"
            yield name + towards + again, (direction,), row


def _process(site: Site, names: Mapping[str, str]) -> str:
    if site.level == BETWEEN:
        return "between stages"
    return names[site.name] if site.level == BOARD else f"links of level {site.level}"


def _thread(resource: Resource, site: str, *, folded: bool) -> str:
    if resource.kind == "link":
        return site
    kind = resource.name.rpartition(".")[2] if resource.kind == "unit" else resource.kind
    return f"{kind}, {resource.multiplicity:,} x" if folded else resource.name


def _named(what: str, pid: int, tid: int, name: str) -> Iterator[Event]:
    """What a process or thread is called, and its place among the others: by its number."""
    for key, value in (("name", name), ("sort_index", tid or pid)):
        yield {"ph": "M", "name": f"{what}_{key}", "pid": pid, "tid": tid, "args": {key: value}}


def _name(operation: Operation) -> str:
    """What it does, in the field's terms."""
    moved = filter(None, [terms.collective(operation)])
    return terms.operation_name(str(operation.phase), str(operation.kind), moved)


def _complete(done: Slice, resource: Resource, pid: int, tid: int, moved: float) -> Event:
    """With its micro-batch, and the version of the weights, where there are such."""
    operation, micro_batch = done.operation, dict[str, int]()
    if done.version is not None:
        micro_batch = {"micro_batch": done.micro_batch, "version": done.version}
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
            "operation": _name(operation),
            "level": operation.level,
            "bytes": moved,
            "flops": operation.flops,
            "multiplicity": resource.multiplicity,
            "start_ps": done.start_ps,
            "duration_ps": done.end_ps - done.start_ps,
            **micro_batch,
        },
    }


def write_trace(
    events: Iterator[Event],
    about: Mapping[str, Any],
    path: str,
    beside: Mapping[str, Any] | None = None,
) -> None:
    """A trace that ui.perfetto.dev opens; compressed when ``path`` ends in .gz.

    The file says what it is ``about``, and has further values ``beside`` the events.
    """
    head = {"displayTimeUnit": "ns", "otherData": dict(about), **(beside or {})}
    with whole_file(path) as target:
        if path.lower().endswith(".gz"):
            # no name and no time inside, so that equal traces are equal files
            with target.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                _write(events, head, io.TextIOWrapper(packed, "utf-8", write_through=True))
        else:
            with target.open("w", encoding="utf-8") as plain:
                _write(events, head, plain)


def _write(events: Iterator[Event], head: Mapping[str, Any], file: io.TextIOBase) -> None:
    """One event a line, as they come: a large array's are never all in memory as text."""
    encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
    # with blanks: Holistic Trace Analysis looks for '"rank": 3' as text
    file.write(json.dumps(head, allow_nan=False)[:-1] + ', "traceEvents":[')
    for i, event in enumerate(events):
        file.write((",\n" if i else "\n") + encode(event))
    file.write("\n]}\n")
    file.flush()


def to_frame(timeline: Timeline, chosen: Sequence[Site]) -> pandas.DataFrame:
    """One line for each record of the chosen sites, in the order in which they ended."""
    return frame_of(_records(timeline, chosen), [*Record._fields])


def _records(timeline: Timeline, chosen: Sequence[Site]) -> list[Record]:
    wanted = {number for site in chosen for number in site.resources}
    numbered = zip(timeline.columns.resource, timeline, strict=True)
    return [record for number, record in numbered if number in wanted]


def write_csv(timeline: Timeline, chosen: Sequence[Site], path: str) -> None:
    """The records as CSV; times in picoseconds, bytes and FLOPs of one of ``multiplicity``."""
    with whole_file(path) as target:
        rows = [record._asdict() for record in _records(timeline, chosen)]
        target.write_text(csv_of(rows), encoding="utf-8")
