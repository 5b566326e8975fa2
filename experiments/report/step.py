"""Sections about the drawn step: numbers, memory, why it takes so long, what helps, timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from experiments import terms
from experiments.explain.paths import Part
from experiments.explain.study import Explanation, messages
from experiments.explain.tables import called, others
from experiments.pictures.lanes import chart, labels, sites
from experiments.report.charts import Chart, shape, stacked
from experiments.report.page import Number, Table, four_digits
from experiments.studies import occupancy
from experiments.studies.difference import Change, Difference, core_ps_by_phase
from experiments.studies.step_numbers import conventions
from experiments.terms import duration, operation_name
from planners.order import Kind, Phase
from simulator import PICOSECONDS, Timeline, shares
from simulator.analysis.critical_path import BOUNDS
from simulator.analysis.memory_timeline import at_rest, filled, fullest
from simulator.engine.operations import CLASSES

GIB = 2.0**30
WRAP = "numbers wrap"
"""Of a table whose last column is words, which may be long."""
MOST_ROWS = 10
MOST_RECORDS = 50_000
WIDTH, HEIGHT = 640, 28
WORDS = terms.BOUNDS
PHASES = tuple(map(str, Phase))
KINDS = tuple(map(str, Kind))


def numbers(result: Explanation) -> dict[str, Any]:
    """Rates, MFU and HFU, the bubble, and the exposed communication of each axis."""
    return {
        "table": Table(f"{result.case}", ("", "value"), _numbers(result)),
        "notes": conventions(inference=result.case.execution.inference),
    }


def _numbers(result: Explanation) -> Iterator[tuple[str, Number]]:
    found = result.answers
    yield "step time [ms]", _ms(result.iteration_s)
    yield "samples/s", four_digits(found["samples_per_s"])
    if found["tokens_per_s"] is not None:
        yield "tokens/s", four_digits(found["tokens_per_s"])
        yield "tokens/s per device", four_digits(found["tokens_per_s_per_chip"])
    yield "MFU", Number(found["share_of_peak"], ".2%")
    yield "model TFLOP/s per device", four_digits(found["model_tflops_per_s_per_device"])
    yield "HFU", Number(found["computed_share_of_peak"], ".2%")
    yield "hardware TFLOP/s per device", four_digits(found["hardware_tflops_per_s_per_device"])
    if result.pipeline is not None:
        bubble = result.pipeline.fields["bubble"]
        yield "bubble, of the busiest stage's work", Number(bubble, ".1%")
    for axis, seconds in found.get("exposed_by_axis_s", {}).items():
        yield f"exposed communication, {axis} [ms]", _ms(seconds)


def _ms(seconds: float) -> Number:
    """Seconds, shown as milliseconds."""
    return four_digits(seconds, 1e3)


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
    frees = [
        (
            one.what,
            _gib(one.frees_bytes),
            _gib(one.peak_bytes),
            "" if one.fits is None else "yes" if one.fits else "no",
            one.reason or "",
        )
        for one in result.frees
    ]
    caption = f"Memory by class at the peak [GiB], {result.case}"
    head = ("change", "frees [GiB]", "new peak [GiB]", "fits", "why not")
    return {
        "peaks": Table(caption, ("on", *CLASSES, "all", "capacity", "at"), peaks, kind=WRAP),
        "over_time": _over_time(result),
        "frees": Table("Changes that free memory on the fullest core", head, frees, kind=WRAP),
    }


def _gib(size: float | None) -> Number:
    return Number(None if size is None else size / GIB, ".3f")


def _over_time(result: Explanation) -> Chart:
    """The fullest core's."""
    timeline = result.timeline
    worker = fullest(timeline)
    names = labels(sites(timeline), timeline, folded=result.case.folded)
    name = names[timeline.all_resources.workers[worker].name]
    device = timeline.program.workers[worker].device
    place = occupancy.fullest(result.answers["memory"])["device"]

    def in_gib(by_class: Iterable[float]) -> tuple[float, ...]:
        return tuple(size / GIB for size in by_class)

    return stacked(
        f"Memory by class over time, the fullest, {place}: {name}",
        CLASSES,
        in_gib(at_rest(timeline, worker)),
        ((one.start_ps, in_gib(one.by_class)) for one in filled(timeline, worker)),
        timeline.makespan_ps,
        device.hbm_capacity_bytes / device.cores_per_chip / GIB,
    )


def critical_path(result: Explanation) -> dict[str, Any]:
    """What the step waits for: as a strip, by what it goes to, by kind of layer, by block."""
    paths = result.paths
    bounds = {bound: ps for bound, ps in paths.by_bound().items() if ps}
    said = f"{result.case}: {duration(result.iteration_s)}"
    if bounds:
        largest = max(bounds, key=bounds.__getitem__)
        said += f", {paths.share(bounds[largest]):.1%} of it {WORDS.get(largest, largest)}"
    rows = [
        (WORDS.get(bound, bound), _ms(ps / PICOSECONDS), Number(paths.share(ps), ".1%"))
        for bound, ps in bounds.items()
    ]
    return {
        "said": said,
        "strip": _strip(result, bounds),
        "tables": [
            Table(f"Critical path of {result.case}", ("what", "time [ms]", "of the step"), rows),
            _parts(result, "Kinds of layers", "kind", result.kinds),
            _parts(result, "Layers and blocks", "layer", result.blocks),
        ],
        "notes": messages(result),
    }


def _strip(result: Explanation, bounds: dict[str, int]) -> Chart:
    """A bar as long as the step, cut by what it goes to; its parts are in the table too."""
    at, parts, keys = 0.0, [], []
    for bound, ps in bounds.items():
        share = result.paths.share(ps)
        colour = f"b{BOUNDS.index(bound)}" if bound in BOUNDS else "s6"
        name, x, width = WORDS.get(bound, bound), round(at, 2), round(WIDTH * share, 2)
        said = f"{name}: {share:.1%}"
        parts.append(shape("rect", "", said, x=x, y=0, width=width, height=HEIGHT, class_=colour))
        keys.append((colour, name))
        at += WIDTH * share
    return Chart("critical path", WIDTH, HEIGHT, parts, keys, kind="chart strip")


def _parts(result: Explanation, title: str, what: str, parts: tuple[Part, ...]) -> Table:
    spent = (f"{terms.SHARES[name]} [ms]" for name in ("computing", "exposed", "waiting"))
    head = (what, "critical path [ms]", "of the step", *spent)
    rows = [_cells(result, called(part), (part,)) for part in parts[:MOST_ROWS]]
    if rest := parts[MOST_ROWS:]:
        rows.append(_cells(result, others(len(rest)), rest))
    return Table(f"{title} of {result.case}", head, rows, [_cells(result, "all", parts)])


def _cells(result: Explanation, name: str, parts: tuple[Part, ...]) -> list[object]:
    paths, path_ps = result.paths, sum(part.path_ps for part in parts)
    spent = [
        sum(getattr(part, f"{what}_ps") for part in parts)
        for what in ("computing", "exposed", "waiting")
    ]
    return [
        name,
        _ms(path_ps / PICOSECONDS),
        Number(paths.share(path_ps), ".1%"),
        *(_ms(paths.seconds(ps)) for ps in spent),
    ]


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
    head = ("twice as fast", "same plan [ms]", "speedup", "new plan [ms]", "speedup", "why not")
    rows = [
        (
            knob.what,
            _ms(knob.same_plan_s),
            Number(whole_s / knob.same_plan_s, ".3f"),
            _ms(knob.replanned_s),
            Number(whole_s / knob.replanned_s, ".3f"),
            knob.reason or "",
        )
        for knob in result.knobs
    ]
    return {
        "said": said,
        "table": Table(f"{result.case}, with one part twice as fast", head, rows),
    }


def versus(about: str, result: Difference) -> dict[str, Any]:
    """Two planners' steps, and where the difference comes from; ``about`` is the case."""
    first, second = result.planners
    ours, theirs = (ps / PICOSECONDS for ps in result.iteration_ps)
    slower, ratio = (first, ours / theirs) if ours > theirs else (second, theirs / ours)
    words = f"{first} takes {duration(ours)}, {second} {duration(theirs)}"
    words += f": {slower} takes {ratio:.3g} times as long" if f"{ratio:.3g}" != "1" else ""
    *layers, waiting = result.layers
    shown = [(part.layer, part) for part in layers[:MOST_ROWS]]
    if rest := layers[MOST_ROWS:]:
        pair = sum(part.core_ps[0] for part in rest), sum(part.core_ps[1] for part in rest)
        shown.append((others(len(rest)), Change(pair)))
    shown.append((terms.SHARES[waiting.kind], waiting))
    phases = [(_name(part.phase, part.kind), part) for part in result.phases]
    return {
        "planners": result.planners,
        "said": f"{about}: {words}",
        "tables": [
            Table(
                f"By {what}, {about}",
                (what, f"{first} [ms]", f"{second} [ms]", "difference [ms]"),
                [
                    [
                        name,
                        *(_ms(result.seconds(ps)) for ps in part.core_ps),
                        four_digits(result.seconds(part.change_ps), 1e3, "+"),
                    ]
                    for name, part in rows
                ],
            )
            for what, rows in (("phase", phases), ("layer", shown))
        ],
    }


def _name(phase: str, kind: str) -> str:
    """An operation's name; that of waiting has no phase."""
    return operation_name(phase, kind) if phase else terms.SHARES[kind]


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
                [place[i], places[one.operation], one.start_ps, one.end_ps - one.start_ps]
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
            _ms(spent.get((phase, kind), 0) / timeline.cores / PICOSECONDS),
            four_digits(total.bytes, 1e-6),
            four_digits(total.flops, 1e-9),
        ]
        for (phase, kind), total in sorted(timeline.totals().items())
    ]
    foot = [
        [terms.SHARES[name], Number(share, ".1%"), "", ""]
        for name, share in shares(timeline)._asdict().items()
    ]
    head = ["", "time of a mean core [ms]", "traffic [MB]", "GFLOP"]
    return Table(f"Where the time of {title} goes", head, rows, foot)
