"""The timeline of one step: data for the page's script, and totals for everybody."""

from __future__ import annotations

from typing import Any

from experiments.pictures.lanes import Slice, alike, rows_of, sites, slices_by_resource, tracks
from experiments.report.page.markup import Markup, data_block, number, section, table, tag
from experiments.studies.difference import core_ps_by_phase
from planners.order import Kind, Phase
from simulator import PICOSECONDS, Timeline, shares

MOST_RECORDS = 50_000
PHASES = tuple(map(str, Phase))
KINDS = tuple(map(str, Kind))
BUTTONS = (
    ("in", "+", "zoom in"),
    ("out", "−", "zoom out"),  # noqa: RUF001  (a minus sign)
    ("left", "←", "earlier"),
    ("right", "→", "later"),
    ("all", "whole step", "show the whole step"),
    ("previous", "‹ operation", "previous operation"),  # noqa: RUF001  (an arrow)
    ("next", "operation ›", "next operation"),  # noqa: RUF001  (an arrow)
)


def step(title: str, timeline: Timeline) -> Markup:
    """The zoomable timeline, and its totals by phase and kind."""
    data = step_data(timeline)
    buttons = [
        tag("button", face, type="button", data_do=do, title=name, aria_label=name)
        for do, face, name in BUTTONS
    ]
    canvas = tag("canvas", tabindex=0, role="img", aria_label=f"timeline of {title}", id="step")
    about = (
        f"{title}: {timeline.iteration_s:.9f} s. A lane is a class of alike cores or links; "
        "the number behind it is how many it stands for. Wheel or pinch zooms, dragging pans; "
        "with the keyboard + − ← → and Home, and ↑ ↓ from operation to operation."  # noqa: RUF001
    )
    return section(
        "timeline",
        "Timeline of one step",
        tag("p", about),
        tag("noscript", tag("p", "The timeline needs JavaScript; its totals are below.")),
        _legend(),
        tag("div", *buttons, class_="buttons", role="group", aria_label="timeline"),
        tag("p", tag("output", id="range"), class_="range"),
        tag("div", canvas, tag("div", id="tip", role="status", hidden=""), class_="timeline"),
        tag("p", _left_out(data), class_="note"),
        _totals(title, timeline),
        data_block("step-data", data),
    )


def _legend() -> Markup:
    phases = [tag("li", tag("span", class_=f"key {phase}"), phase) for phase in PHASES]
    striped = tag("li", tag("span", class_="key striped"), "re-laid at a boundary")
    low = tag("li", tag("span", class_="key low"), "half as high: HBM traffic")
    return tag("ul", *phases, striped, low, class_="legend")


def step_data(timeline: Timeline) -> dict[str, Any]:
    """Lanes, layers, operations and records as the script reads them; times in picoseconds.

    Only lanes on which something takes time; the longest ``MOST_RECORDS`` operations.
    """
    lanes = _lanes(timeline)
    records = [
        (lane, done) for lane, (_, row) in enumerate(lanes) for done in row if done[1] > done[0]
    ]
    kept = sorted(records, key=lambda record: record[1].start_ps - record[1].end_ps)[:MOST_RECORDS]
    shown = sorted({lane for lane, _ in kept})
    place = {lane: i for i, lane in enumerate(shown)}
    drawn = {done.operation for _, done in kept}
    places = {op: i for i, op in enumerate(op for op in timeline.operations if op in drawn)}
    layer = {name: i for i, name in enumerate(dict.fromkeys(op.layer for op in places))}
    return {
        "end": timeline.makespan_ps,
        "lanes": [lanes[i][0] for i in shown],
        "layers": list(layer),
        "phases": PHASES,
        "kinds": KINDS,
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
        "instant": sum(len(row) for _, row in lanes) - len(records),
        "left_out": len(records) - len(kept),
    }


def _lanes(timeline: Timeline) -> list[tuple[str, list[Slice]]]:
    """Name and slices of every lane; a link has as many as its exchanges need not to overlap."""
    slices = slices_by_resource(timeline)
    found: list[tuple[str, list[Slice]]] = []
    for site in alike(sites(timeline), slices):
        for i in site.resources:
            resource = timeline.resources[i]
            count = site.multiplicity if site.unit == "core" else resource.multiplicity
            device = f", {resource.device.name}" if resource.device else ""
            name = f"{resource.name}{device} ×{count:,}"  # noqa: RUF001
            rows = tracks(slices[i]) if resource.kind == "link" else rows_of(slices[i])
            again = ["", *(f", row {row}" for row in range(2, len(rows) + 1))]
            found += [(name + more, row) for more, row in zip(again, rows, strict=False)]
    return found


def _left_out(data: dict[str, Any]) -> str:
    text = (
        f"{len(data['records']):,} operations; {data['instant']:,} that take no time are not drawn."
    )
    if data["left_out"]:
        text += f" The {data['left_out']:,} shortest others are not drawn either."
    return text


def _totals(title: str, timeline: Timeline) -> Markup:
    spent = core_ps_by_phase(timeline)
    rows = [
        [
            f"{phase} {kind}",
            number(spent.get((phase, kind), 0) / timeline.cores / PICOSECONDS, ".9f"),
            number(total.bytes, ".4g"),
            number(total.flops, ".4g"),
        ]
        for (phase, kind), total in sorted(timeline.totals().items())
    ]
    foot = [
        [name, number(share, ".3%"), "", ""] for name, share in shares(timeline)._asdict().items()
    ]
    head = ["", "seconds of an average core", "bytes", "FLOPs"]
    return table(f"Where the time of {title} goes", head, rows, foot)
