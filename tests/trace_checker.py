"""A strict reader of Chrome trace events, sharing no code with what writes them.

It demands what Perfetto needs to show every slice where it was: known
processes and threads, whole nanoseconds, and slices of one thread that nest
or are disjoint, both in exact picoseconds and as Perfetto reads them. Arrows
have two ends, each within one slice, and do not go back; counters go on in time.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

Args = dict[str, Any]


@dataclass
class Track:
    process: str
    name: str
    slices: list[Args] = field(default_factory=list)


def read(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")

    def refuse(constant: str) -> None:
        raise AssertionError(f"not JSON: {constant}")

    data = json.loads(text, parse_constant=refuse, parse_float=Decimal)
    assert isinstance(data, dict)
    return data


@dataclass
class Trace:
    """Tracks in the order of their numbers; arrows from slice to slice; counters' (ns, value).

    Counters of several values, drawn one upon the other, are ``stacked``.
    """

    tracks: list[Track]
    arrows: list[tuple[Args, Args]]
    counters: dict[str, list[tuple[int, float]]]
    stacked: dict[str, list[tuple[int, dict[str, float]]]]


def check(path: Path) -> list[Track]:
    """Every thread with its slices' arguments, in the order of their numbers."""
    return check_all(path).tracks


def check_all(path: Path) -> Trace:
    """Everything that a viewer shows."""
    processes: dict[int, str] = {}
    threads: dict[tuple[int, int], Track] = {}
    order: dict[str, set[Any]] = {"process_sort_index": set(), "thread_sort_index": set()}
    events = read(path)["traceEvents"]
    ends: dict[str, dict[int, Args]] = {"s": {}, "f": {}}
    counters: dict[tuple[int, str], list[tuple[int, dict[str, float]]]] = {}
    for event in events:
        assert type(event["pid"]) is type(event["tid"]) is int
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            name, args = event["name"], event["args"]
            if name == "process_name":
                assert event["pid"] > 0
                assert event["pid"] not in processes
                processes[event["pid"]] = args["name"]
            elif name == "thread_name":
                key = (event["pid"], event["tid"])
                assert key not in threads
                threads[key] = Track(processes[event["pid"]], args["name"])
            else:
                assert args["sort_index"] not in order[name]
                order[name].add(args["sort_index"])
        elif event["ph"] == "C":
            assert event["pid"] in processes
            assert all(value >= 0 for value in event["args"].values())
            samples = counters.setdefault((event["pid"], event["name"]), [])
            at = Fraction(event["ts"]) * 1000
            assert at.denominator == 1
            assert not samples or samples[-1][0] <= at
            samples.append((int(at), {k: float(v) for k, v in event["args"].items()}))
        elif event["ph"] in ends:
            assert event["id"] not in ends[event["ph"]]
            assert event.get("bp") == ("e" if event["ph"] == "f" else None)
            ends[event["ph"]][event["id"]] = event
        else:
            assert event["ph"] == "X", event
            track = threads[event["pid"], event["tid"]]
            track.slices.append(_slice(event))
    numbers = [tid for _, tid in threads]
    assert len(set(numbers)) == len(numbers)
    assert not set(numbers) & set(processes), "a thread with a process's number is its main thread"
    assert len(set(processes.values())) == len(processes)
    for track in threads.values():
        _nest([(s["start_ps"], s["start_ps"] + s["duration_ps"]) for s in track.slices])
        _nest([s["perfetto_ns"] for s in track.slices])
    assert ends["s"].keys() == ends["f"].keys()
    arrows = [
        (_enclosing(threads, ends["s"][key]), _enclosing(threads, ends["f"][key]))
        for key in ends["s"]
    ]
    assert all(
        before["start_ps"] + before["duration_ps"] <= after["start_ps"] for before, after in arrows
    )
    assert len({name for _, name in counters}) == len(counters)
    tracks = [threads[key] for key in sorted(threads, key=lambda key: key[1])]
    single = {name: found for (_, name), found in counters.items() if len(found[0][1]) == 1}
    stacked = {name: found for (_, name), found in counters.items() if len(found[0][1]) > 1}
    lines = {
        name: [(at, value) for at, args in some for value in args.values()]
        for name, some in single.items()
    }
    return Trace(tracks, arrows, lines, stacked)


def _enclosing(threads: dict[tuple[int, int], Track], event: Args) -> Args:
    """The one slice of an arrow's thread that is open at its time."""
    at = Fraction(event["ts"]) * 1000
    assert at.denominator == 1
    slices = threads[event["pid"], event["tid"]].slices
    (found,) = (s for s in slices if s["perfetto_ns"][0] <= at < s["perfetto_ns"][1])
    return found


def _slice(event: dict[str, Any]) -> Args:
    args: Args = dict(event["args"])
    start, duration = args["start_ps"], args["duration_ps"]
    assert type(start) is type(duration) is type(args["multiplicity"]) is int
    assert start >= 0
    assert duration >= 0
    assert args["multiplicity"] >= 1
    assert event["dur"] >= 0
    for key in ("layer", "phase", "kind"):
        assert args[key] in event["name"]
    ts_ns, dur_ns = (Fraction(event[key]) * 1000 for key in ("ts", "dur"))
    assert ts_ns.denominator == dur_ns.denominator == 1
    assert 0 <= start - 1000 * ts_ns < 1000
    assert 0 <= start + duration - 1000 * (ts_ns + dur_ns) < 1000
    seen = [round(float(event[key]) * 1000.0) for key in ("ts", "dur")]  # as Perfetto does
    args["perfetto_ns"] = (seen[0], seen[0] + seen[1])
    return args


def _nest(spans: list[tuple[int, int]]) -> None:
    """Each span lies within an earlier, longer one or after it."""
    open_ends: list[int] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1], "slices of one track overlap"
        open_ends.append(end)
