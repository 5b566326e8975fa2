"""Traces pass a strict check of their own, and hold exactly what the timeline does."""

import csv
import gzip
import io
import json
import math
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelarray
from experiments.cli import main
from experiments.pictures.lanes import chosen, sites
from experiments.pictures.trace import to_frame, trace_events, write_trace
from hardware import load_array
from planners import load_planner
from simulator import Record, Timeline, simulate
from tests import trace_checker
from tests.strategies import arrays, networks, plans, timelines
from tests.trace_checker import Track
from workloads import load_network

SMALL = ["--set", "devices.0.count=2", "--set", "devices.1.count=2"]


def write(timeline: Timeline, folder: Path, *, folded: bool) -> Path:
    path = folder / "step.json"
    write_trace(trace_events(timeline, sites(timeline), folded=folded), {}, str(path))
    return path


def sums(rows: list[dict[str, Any]]) -> tuple[int, int, float, float]:
    """Slices, picoseconds, bytes and FLOPs, multiplicities included."""
    return (
        sum(row["multiplicity"] for row in rows),
        sum(row["multiplicity"] * row["duration_ps"] for row in rows),
        math.fsum(row["multiplicity"] * float(row["bytes"]) for row in rows),
        math.fsum(row["multiplicity"] * float(row["flops"]) for row in rows),
    )


def holds(tracks: list[Track], timeline: Timeline) -> None:
    """One track per resource and direction, in order, with its records, and all totals."""
    records: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for record, index in zip(timeline, timeline.columns.operation, strict=True):
        row = record._asdict() | {"duration_ps": record.end_ps - record.start_ps}
        if record.level < 0:
            records[record.resource, 0].append(row)
            continue
        for direction, moved in enumerate(timeline.operations[index].received):
            if moved:
                records[record.resource, direction].append(row | {"bytes": moved})
    wanted_tracks = [
        (resource.name, direction)
        for resource in timeline.resources
        for direction in range(2 if resource.kind == "link" else 1)
    ]
    for track, key in zip(tracks, wanted_tracks, strict=True):
        assert sums(track.slices) == sums(records[key])
        for done, wanted in zip(track.slices, records[key], strict=True):
            for name in ("layer", "phase", "kind", "level", "start_ps", "multiplicity"):
                assert done[name] == wanted[name]
    every = sums([done for track in tracks for done in track.slices])
    totals = timeline.totals().values()
    assert every[2] == pytest.approx(math.fsum(total.bytes for total in totals), rel=1e-12)
    assert every[3] == pytest.approx(math.fsum(total.flops for total in totals), rel=1e-12)
    ends = [s["start_ps"] + s["duration_ps"] for track in tracks for s in track.slices]
    assert max(ends, default=0) == timeline.iteration_ps


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 16), st.booleans())
def test_any_network_array_and_plan(data: st.DataObject, batch: int, folded: bool) -> None:
    network, array = data.draw(networks()), data.draw(arrays())
    plan = data.draw(plans(network, array, batch))
    timeline = simulate(network, plan, array, folded=folded)
    with tempfile.TemporaryDirectory() as folder:
        holds(trace_checker.check(write(timeline, Path(folder), folded=folded)), timeline)


@settings(max_examples=40, deadline=None)
@given(timelines("deployed", folded=False))
def test_exchanges_that_overlap_have_threads_of_their_own(timeline: Timeline) -> None:
    """The checker demands slices that nest; every record and byte is there."""
    with tempfile.TemporaryDirectory() as folder:
        tracks = trace_checker.check(write(timeline, Path(folder), folded=False))
    shown = [done for track in tracks for done in track.slices]
    totals = timeline.totals().values()
    assert sums(shown)[2] == pytest.approx(math.fsum(t.bytes for t in totals), rel=1e-9)
    assert sums(shown)[3] == pytest.approx(math.fsum(t.flops for t in totals), rel=1e-12)
    on_units = [done for done in shown if done["level"] < 0]
    assert len(on_units) == sum(record.level < 0 for record in timeline)


@pytest.mark.parametrize("folded", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_papers_array(folded: bool, tmp_path: Path) -> None:
    network, array = load_network("alexnet"), load_array("accpar-mixed")
    plan = load_planner("accpar")(network, array, 512)
    timeline = simulate(network, plan, array, folded=folded)
    tracks = trace_checker.check(write(timeline, tmp_path, folded=folded))
    holds(tracks, timeline)
    kinds = [resource.kind for resource in timeline.resources]
    assert kinds.count("core") == (2 if folded else 2048)
    if folded:
        assert "128 x accpar-tpu-v2, 1,024 cores" in {track.process for track in tracks}
    else:
        assert tracks[-2].name == "board255.chip3.core1"


def event(**changes: Any) -> dict[str, Any]:
    args = {"layer": "a", "phase": "forward", "kind": "compute", "multiplicity": 1}
    args |= {"start_ps": 0, "duration_ps": 2000}
    whole = {"ph": "X", "name": "a: forward compute", "pid": 1, "tid": 2, "ts": 0.0, "dur": 0.002}
    return whole | {"args": args} | changes


NAMES = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "p"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "t"}},
]
LATER = event(ts=0.001, args=event()["args"] | {"start_ps": 1000})


def checked(path: Path, *events: dict[str, Any]) -> list[Track]:
    path.write_text(json.dumps({"traceEvents": [*NAMES, *events]}))
    return trace_checker.check(path)


@pytest.mark.parametrize(
    "events",
    [
        [event(pid=3)],
        [event(tid=3)],
        [event(dur=-0.002, args=event()["args"] | {"duration_ps": -2000})],
        [event(ts=0.0004)],
        [event(), LATER],
        [event(ph="B")],
        [event(dur=math.nan)],
        [NAMES[1]],
    ],
    ids=["process", "thread", "negative", "part of ns", "overlap", "phase", "NaN", "named twice"],
)
def test_the_checker_refuses(events: list[dict[str, Any]], tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert len(checked(path, event())[0].slices) == 1
    with pytest.raises((AssertionError, KeyError, ValueError)):
        checked(path, *events)


def test_not_a_number_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.json.gz"
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_trace(iter([{"ts": math.inf}]), {}, str(path))
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_traces(tmp_path: Path) -> None:
    args = ["timeline", "lenet", "--planner", "owt", *SMALL]
    paths = [tmp_path / name for name in ("a.json.gz", "b.json.gz", "c.json", "d.json")]
    for path in paths[:3]:
        assert main([*args, "--output", str(path)]) == 0
    assert main([*args, "--unfolded", "--output", str(paths[3])]) == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert gzip.decompress(paths[0].read_bytes()) == paths[2].read_bytes()
    about = trace_checker.read(paths[2])["otherData"]
    assert (about["network"], about["planner"], about["folded"]) == ("lenet", "owt", True)
    folded, unfolded = (trace_checker.check(path) for path in paths[2:])
    assert len(unfolded) == 32 + 16 + 2 * 3 > len(folded) == 2 + 2 + 2 * 3
    busy = [sums([s for track in tracks for s in track.slices]) for tracks in (folded, unfolded)]
    assert busy[0][:2] == busy[1][:2]
    assert busy[0][2:] == pytest.approx(busy[1][2:], rel=1e-12)


def test_records_as_csv(tmp_path: Path) -> None:
    path = tmp_path / "step.csv"
    args = ["timeline", "lenet", "--planner", "owt", *SMALL, "--output", str(path)]
    assert main(args) == 0
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    network, array = load_network("lenet"), load_array("accpar-mixed", SMALL[1::2])
    timeline = simulate(network, load_planner("owt")(network, array, 512), array)
    assert list(rows[0]) == list(Record._fields)
    for row, record in zip(rows, timeline, strict=True):
        assert {k: type(getattr(record, k))(v) for k, v in row.items()} == record._asdict()
    assert main([*args, "--devices", "3"]) == 0
    names = {row["resource"] for row in csv.DictReader(io.StringIO(path.read_text()))}
    assert {name.partition(".")[0] for name in names} == {"board3", "link0", "link1"}
    unfolded = simulate(network, load_planner("owt")(network, array, 512), array, folded=False)
    frame = to_frame(unfolded, chosen(sites(unfolded), "board3"))
    assert set(frame["resource"]) == names


@pytest.mark.slow
def test_exact_picoseconds_would_lose_slices() -> None:
    """Why ``ts`` and ``dur`` are whole nanoseconds: the count that docs/how-to/timeline.md gives.

    Perfetto rounds a start and a duration apart from each other, and drops a
    slice that begins within the one before it and ends behind that one's end.
    """
    network, array = load_network("resnet50"), load_array("accpar-mixed")
    plan = load_planner("data_parallel")(network, array, 512)
    timeline = simulate(network, plan, array, folded=False)
    dropped = {"exact": 0, "whole": 0}
    ends: dict[tuple[str, int], int] = {}
    for number, _, _, start, end, _ in zip(*timeline.columns, strict=True):
        whole = (start // 1000, end // 1000 - start // 1000)
        for how, ts, dur in (
            ("exact", round(start / 1e6 * 1000.0), round((end - start) / 1e6 * 1000.0)),
            ("whole", round(whole[0] / 1000 * 1000.0), round(whole[1] / 1000 * 1000.0)),
        ):
            if ts < ends.get((how, number), 0) < ts + dur:
                dropped[how] += 1
            else:
                ends[how, number] = ts + dur
    assert dropped == {"exact": 29_696, "whole": 0}
    assert len(timeline) == 345_546


def test_what_stages_send_is_there_too() -> None:
    """Every record is in the frame, and each send a slice of one track with all of its bytes."""
    step: Any = {"array": "h100-cluster", "set": {"nodes": 1, "devices.0.count": 4}}
    step |= {"parallel": "pp=2,dp=2", "batch": 8, "micro_batch": 1}
    result = accelarray.simulate("gpt2:layers=2:seq=64", **step)
    frame, timeline = result.to_frame(), result.timeline
    assert len(frame) == len(timeline)
    sends = frame[frame["kind"] == "send"]
    assert len(sends) == 2 * 4  # of a replica's four micro-batches, there and back
    events = [
        event
        for event in trace_events(timeline, sites(timeline), folded=True)
        if event["ph"] == "X" and event["args"]["kind"] == "send"
    ]
    assert len(events) == len(sends)
    assert len({event["tid"] for event in events}) == 2
    assert sum(e["args"]["bytes"] for e in events) == sends["bytes"].sum()
