"""Counters and arrows of traces, read back, against the timeline that they are of."""

import tempfile
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from experiments.cli import main
from experiments.pictures.lanes import chosen, sites
from experiments.pictures.trace import trace_events, write_trace
from experiments.studies.case import Case, step_of
from hardware import Wires, load_array
from planners import Staging
from simulator import DEPLOYED, Execution, Timeline
from simulator.engine.operations import CLASSES
from simulator.engine.records import NO_ROW
from tests import trace_checker
from tests.experiments.pictures.test_trace import event
from tests.strategies import timelines
from tests.trace_checker import Trace
from workloads import load_network

NS = 1000


def traced(timeline: Timeline, devices: str = "") -> Trace:
    every = sites(timeline)
    shown = chosen(every, devices) if devices else every
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.json"
        write_trace(trace_events(timeline, shown, folded=not devices), {}, str(path))
        return trace_checker.check_all(path)


def arrows_of(timeline: Timeline) -> Counter[tuple[Any, ...]]:
    """What should be drawn, from the columns: layer, kind and start of cause and of row."""

    def end(row: int) -> tuple[Any, ...]:
        operation = timeline.operations[timeline.columns.operation[row]]
        return operation.layer, str(operation.kind), timeline.columns.start[row]

    columns, found = timeline.columns, Counter[tuple[Any, ...]]()
    for row, cause in enumerate(columns.cause):
        if cause == NO_ROW or columns.resource[row] == columns.resource[cause]:
            continue
        operations = [timeline.operations[columns.operation[i]] for i in (row, cause)]
        shown = all(op.level < 0 or any(op.received) for op in operations)
        long = all(columns.end[i] // NS > columns.start[i] // NS for i in (row, cause))
        if shown and long:
            found[(*end(cause), *end(row))] += 1
    return found


@settings(max_examples=40, deadline=None)
@given(timelines())
def test_arrows_are_what_was_waited_for(timeline: Timeline) -> None:
    drawn = Counter(
        tuple(end[key] for end in arrow for key in ("layer", "kind", "start_ps"))
        for arrow in traced(timeline).arrows
    )
    assert drawn == arrows_of(timeline)


@settings(max_examples=40, deadline=None)
@given(timelines("deployed"))
def test_links_carry_all_bytes_and_nothing_in_the_end(timeline: Timeline) -> None:
    """The area under each kind's counter is what the engine counted on its links."""
    wires = timeline.program.wires
    assert isinstance(wires, Wires)
    wanted: dict[str, float] = defaultdict(float)
    if timeline.moved:
        for subnet in wires.subnets:
            wanted[f"links: {subnet.joins}"] += float(timeline.link_bytes[subnet.links].sum())
    found = {k: v for k, v in traced(timeline).counters.items() if k.startswith("links: ")}
    for name, samples in found.items():
        assert samples[-1][1] == 0
        area = sum((after - at) / 1e9 * rate for (at, rate), (after, _) in pairwise(samples))
        fastest = max(rate for _, rate in samples)
        rounding = 1e-9 * fastest * len(samples)  # of nanoseconds
        assert area == pytest.approx(wanted[name], rel=1e-6, abs=rounding)
    assert found.keys() >= {name for name, amount in wanted.items() if amount > 1e-9}


def step(name: str, *, folded: bool = True) -> Timeline:
    array = load_array("tpu-mixed", ["devices.0.count=4", "devices.1.count=4"])
    deployed = Execution("deployed")
    case = Case(load_network(name), "accpar", array, 64, execution=deployed, folded=folded)
    return step_of(case)[1]


def test_memories_fill_to_their_peak() -> None:
    """Each class' counter is at a computation's start what it holds; their tops are the step's."""
    timeline = step("vgg11")
    trace = traced(timeline)
    found = {k: v for k, v in trace.counters.items() if k.startswith("memory of a core: ")}
    own = [track for track in trace.tracks if track.name.startswith("core, ")]
    assert len(found) == sum(bool(track.slices) for track in own)
    tops: dict[str, float] = {}
    for name, samples in found.items():
        process = name.removeprefix("memory of a core: ")
        (track,) = (track for track in own if track.process == process)
        starts = sorted(done["start_ps"] // NS for done in track.slices)
        assert [at for at, _ in samples] == starts
        device = process.split(" of ")[1].partition(",")[0]
        tops[device] = max(tops.get(device, 0.0), *(value for _, value in samples))
    assert tops == {memory.device: memory.peak_bytes for memory in timeline.memory}


def test_classes_are_stacked_up_to_what_is_held() -> None:
    """A counter of several values beside each class' counter of all: at each moment as much."""
    for timeline in (step("vgg11"), _in_stages()):
        trace = traced(timeline)
        whole = {k: v for k, v in trace.counters.items() if k.startswith("memory of a core: ")}
        assert trace.stacked.keys() == {
            name.replace("memory of a core", "memory by class") for name in whole
        }
        for name, samples in whole.items():
            parts = trace.stacked[name.replace("memory of a core", "memory by class")]
            assert [at for at, _ in parts] == [at for at, _ in samples]
            assert all(tuple(args) == CLASSES for _, args in parts)
            sums = [sum(args.values()) for _, args in parts]
            assert sums == pytest.approx([value for _, value in samples])


def _in_stages() -> Timeline:
    execution = replace(DEPLOYED, staging=Staging(2, 4))
    array = load_array("tpu-v3-8")
    case = Case(load_network("alexnet"), "data_parallel", array, 64, execution=execution)
    return step_of(case)[1]


def test_the_published_models_levels_are_kinds_and_it_has_no_memory() -> None:
    array = load_array("accpar-mixed", ["devices.0.count=4", "devices.1.count=4"])
    timeline = step_of(Case(load_network("alexnet"), "accpar", array, 64))[1]
    counters = traced(timeline).counters
    assert set(counters) == {f"links: level {level}" for level in range(3)}
    area = sum(
        (after - at) / 1e9 * rate
        for samples in counters.values()
        for (at, rate), (after, _) in pairwise(samples)
    )
    assert area == pytest.approx(timeline.traffic_bytes, rel=1e-5)


def test_folding_changes_no_links_use() -> None:
    folded, each = (traced(step("lenet", folded=folded)).counters for folded in (True, False))
    kinds = {name for name in folded if name.startswith("links: ")}
    assert kinds == {name for name in each if name.startswith("links: ")} != set()
    for kind in kinds:
        assert np.allclose(folded[kind], each[kind], rtol=1e-6)


def test_chosen_boards_have_arrows_among_themselves(tmp_path: Path) -> None:
    timeline = step("lenet", folded=False)
    few, whole = traced(timeline, "0,5"), traced(timeline)
    assert 0 < len(few.arrows) < len(whole.arrows)
    path = tmp_path / "a.json"
    args = ["timeline", "lenet", "--planner", "owt", "--array", "ring-8", "--execution", "deployed"]
    assert main([*args, "--output", str(path)]) == 0
    trace = trace_checker.check_all(path)
    assert trace.arrows
    assert any(name.startswith("memory of a core: ") for name in trace.counters)


@pytest.mark.parametrize(
    "wrong",
    [
        [{"ph": "s", "id": 1, "ts": 0.0}],
        [{"ph": "s", "id": 1, "ts": 0.0}, {"ph": "f", "bp": "e", "id": 1, "ts": 0.5}],
        [{"ph": "s", "id": 1, "ts": 0.001}, {"ph": "f", "bp": "e", "id": 1, "ts": 0.0}],
        [{"ph": "C", "ts": 0.002, "args": {"n": 1}}, {"ph": "C", "ts": 0.0, "args": {"n": 1}}],
        [{"ph": "C", "ts": 0.0, "args": {"n": -1}}],
    ],
    ids=["one end", "in no slice", "back in time", "counter back in time", "negative"],
)
def test_the_checker_refuses(wrong: list[dict[str, Any]], tmp_path: Path) -> None:
    from tests.experiments.pictures.test_trace import checked

    rest = {"name": "n", "pid": 1, "tid": 2}
    with pytest.raises((AssertionError, ValueError)):
        checked(tmp_path / "t.json", event(), *({**rest, **one} for one in wrong))
