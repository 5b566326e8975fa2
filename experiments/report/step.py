"""Sections about the drawn step: numbers, memory, why it takes so long, what helps, timeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from experiments import terms
from experiments.explain.study import Explanation, messages
from experiments.explain.tables import answers_table, frees_table, layer_tables
from experiments.pictures.lanes import chart, labels, sites
from experiments.report.charts import Chart, shape, stacked
from experiments.report.page import WRAP, Number, Table, four_digits, printed
from experiments.results.difference import difference_tables
from experiments.results.explanation import knobs_table, path_table
from experiments.studies import occupancy
from experiments.studies.difference import Difference, core_ps_by_phase
from experiments.studies.step_numbers import conventions
from experiments.terms import duration
from planners.order import Kind, Phase
from simulator import PICOSECONDS, Timeline, shares
from simulator.analysis.critical_path import BOUNDS
from simulator.analysis.memory_timeline import at_rest, filled, fullest
from simulator.engine.operations import CLASSES

GIB = 2.0**30
MOST_RECORDS = 50_000
WIDTH, HEIGHT = 640, 28
WORDS = terms.BOUNDS
PHASES = tuple(map(str, Phase))
KINDS = tuple(map(str, Kind))


def numbers(result: Explanation) -> dict[str, Any]:
    """Rates, MFU and HFU, the bubble, and the exposed communication of each axis."""
    table = printed(answers_table(result), f"{result.case}")
    return {
        "table": table._replace(rows=[["step time", duration(result.iteration_s)], *table.rows]),
        "notes": conventions(inference=result.case.execution.inference),
    }


def memory(result: Explanation) -> dict[str, Any] | None:
    """Memory by class, and what would free some; None where the model has no memory."""
    found = result.answers["memory"]
    if not found:
        return None
    peaks = [
        [
            one["device"],
            *map(_gib, [*one["by_class"].values(), one["peak_bytes"], one["capacity_bytes"]]),
            one["operator"],
        ]
        for one in found
    ]
    caption = f"Memory by class at the peak [GiB], {result.case}"
    timeline = result.timeline
    worker = fullest(timeline)
    names = labels(sites(timeline), timeline, folded=result.case.folded)
    name = names[timeline.all_resources.workers[worker].name]
    device = timeline.program.workers[worker].device

    def in_gib(by_class: Iterable[float]) -> tuple[float, ...]:
        return tuple(size / GIB for size in by_class)

    over_time = stacked(
        f"Memory by class over time, the fullest, {occupancy.fullest(found)['device']}: {name}",
        CLASSES,
        in_gib(at_rest(timeline, worker)),
        ((one.start_ps, in_gib(one.by_class)) for one in filled(timeline, worker)),
        timeline.makespan_ps,
        device.hbm_capacity_bytes / device.cores_per_chip / GIB,
    )
    return {
        "peaks": Table(caption, ("on", *CLASSES, "all", "capacity", "at"), peaks, kind=WRAP),
        "over_time": over_time,
        "frees": printed(frees_table(result)),
    }


def _gib(size: float | None) -> Number:
    return Number(None if size is None else size / GIB, ".3f")


def critical_path(result: Explanation) -> dict[str, Any]:
    """What the step waits for: as a strip, by what it goes to, by kind of layer, by block."""
    paths = result.paths
    bounds = {bound: ps for bound, ps in paths.by_bound().items() if ps}
    said = f"{result.case}: {duration(result.iteration_s)}"
    if bounds:
        largest = max(bounds, key=bounds.__getitem__)
        said += f", {paths.share(bounds[largest]):.1%} of it {WORDS[largest]}"
    return {
        "said": said,
        "strip": _strip(result, bounds),
        "tables": [printed(path_table(result)), *map(printed, layer_tables(result))],
        "notes": messages(result),
    }


def _strip(result: Explanation, bounds: dict[str, int]) -> Chart:
    """A bar as long as the step, cut by what it goes to; its parts are in the table too."""
    at, parts, keys = 0.0, [], []
    for bound, ps in bounds.items():
        share = result.paths.share(ps)
        colour = f"b{BOUNDS.index(bound)}"
        name, x, width = WORDS[bound], round(at, 2), round(WIDTH * share, 2)
        said = f"{name}: {share:.1%}"
        parts.append(shape("rect", "", said, x=x, y=0, width=width, height=HEIGHT, class_=colour))
        keys.append((colour, name))
        at += WIDTH * share
    return Chart("critical path", WIDTH, HEIGHT, parts, keys, kind="chart strip")


def what_helps(result: Explanation) -> dict[str, Any]:
    """The step with links, HBM or cores twice as fast."""
    whole_s = result.iteration_s
    shortest = {knob.what: min(knob.same_plan_s, knob.replanned_s) for knob in result.knobs}
    best = min(shortest, key=shortest.__getitem__)
    said = (
        "No part that is twice as fast changes the step by more than 0.1 %."
        if all(knob.reason for knob in result.knobs)
        else f"With {best} twice as fast the step takes {duration(shortest[best])}: a speedup of "
        f"{whole_s / shortest[best]:.3g}."
    )
    return {"said": said, "table": printed(knobs_table(result))}


def versus(about: str, result: Difference, names: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Two planners' steps, and where the difference comes from; ``about`` is the case."""
    first, second = result.planners
    ours, theirs = (ps / PICOSECONDS for ps in result.iteration_ps)
    slower, ratio = (first, ours / theirs) if ours > theirs else (second, theirs / ours)
    words = f"{first} takes {duration(ours)}, {second} {duration(theirs)}"
    words += f": {slower} takes {ratio:.3g} times as long" if f"{ratio:.3g}" != "1" else ""
    return {
        "planners": result.planners,
        "said": f"{about}: {words}",
        "tables": [
            printed(table, f"By {what}, {about}")
            for what, table in zip(
                ("operation", "layer"), difference_tables(result, names, about), strict=True
            )
        ],
    }


def step(title: str, timeline: Timeline, *, folded: bool = True) -> dict[str, Any]:
    """The zoomable timeline, and its totals by phase and kind."""
    data = step_data(timeline, folded=folded)
    left_out = f"{len(data['records']):,} operations."
    if data["instant"]:
        left_out += f" {data['instant']:,} that take no time are not drawn."
    if data["left_out"]:
        left_out += f" The {data['left_out']:,} shortest others are not drawn either."
    return {
        "title": title,
        "seconds": duration(timeline.iteration_s),
        "phases": [
            *((phase, phase) for phase in PHASES),
            ("light", "lighter: communication"),
            ("striped", "redistribution"),
            ("low", "half as high: HBM traffic"),
        ],
        "step": data,
        "left_out": left_out,
        "totals": _totals(title, timeline),
    }


def step_data(timeline: Timeline, *, folded: bool = True) -> dict[str, Any]:
    """Lanes, layers, operations and records as the script reads them; times in picoseconds.

    Only lanes on which something takes time; the longest ``MOST_RECORDS`` operations.
    """
    lanes = chart("", timeline, sites(timeline), folded=folded).lanes
    records = [
        (number, done)
        for number, lane in enumerate(lanes)
        for done in lane.slices
        if done.end_ps > done.start_ps
    ]
    names = terms.operation_names(timeline)
    kept = sorted(records, key=lambda record: record[1].start_ps - record[1].end_ps)[:MOST_RECORDS]
    shown = sorted({lane for lane, _ in kept})
    place = {lane: i for i, lane in enumerate(shown)}
    drawn = {done.operation for _, done in kept}
    places = {op: i for i, op in enumerate(op for op in timeline.operations if op in drawn)}
    layer = {name: i for i, name in enumerate(dict.fromkeys(op.layer for op in places))}
    return {
        "end": timeline.makespan_ps,
        "lanes": [lanes[i].label for i in shown],
        "layers": list(layer),
        "phases": PHASES,
        "kinds": KINDS,
        "names": [[names.get((phase, kind), "") for kind in KINDS] for phase in PHASES],
        "operations": [
            [
                layer[op.layer],
                PHASES.index(str(op.phase)),
                KINDS.index(str(op.kind)),
                op.level,
                op.bytes,
                op.flops,
            ]
            for op in places
        ],
        "records": sorted(
            (
                [
                    *(place[i], places[one.operation], one.start_ps, one.end_ps - one.start_ps),
                    *(() if one.version is None else (one.micro_batch, one.version)),
                ]
                for i, one in kept
            ),
            key=lambda record: (record[2], record[0], record[1]),
        ),
        "instant": sum(len(lane.slices) for lane in lanes) - len(records),
        "left_out": len(records) - len(kept),
    }


def _totals(title: str, timeline: Timeline) -> Table:
    spent, names = core_ps_by_phase(timeline), terms.operation_names(timeline)
    rows = [
        [
            names[str(phase), str(kind)],
            four_digits(spent.get((phase, kind), 0) / timeline.cores / PICOSECONDS, 1e3),
            four_digits(total.bytes / timeline.batches, 1e-6),
            four_digits(total.flops / timeline.batches, 1e-9),
        ]
        for (phase, kind), total in sorted(timeline.totals().items())
    ]
    foot = [
        [terms.SHARES[name], Number(share, ".1%"), "", ""]
        for name, share in shares(timeline)._asdict().items()
    ]
    head = ["", "time of a mean core [ms]", "traffic [MB]", "GFLOP"]
    return Table(f"Where the time of {title} goes", head, rows, foot)
