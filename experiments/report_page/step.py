"""The timeline of one step: data for the page's script, and totals for everybody."""

from __future__ import annotations

from typing import Any

from experiments.report_page.markup import Markup, data_block, number, section, table, tag
from planners.steps import Kind, Phase
from simulator import PICOSECONDS, Timeline

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
    return tag("ul", *phases, striped, class_="legend")


def step_data(timeline: Timeline) -> dict[str, Any]:
    """Lanes, layers, operations and records as the script reads them; times in picoseconds.

    Only lanes on which something takes time; the longest ``MOST_RECORDS`` operations.
    """
    columns = zip(*timeline.columns, strict=True)
    records = [(r, op, start, end - start) for r, op, start, end in columns if end > start]
    longest = sorted(records, key=lambda record: -record[3])[:MOST_RECORDS]
    operations = timeline.program.operations
    used = {record[0] for record in longest}
    lanes = [i for i in range(len(timeline.resources)) if i in used]
    place = {resource: lane for lane, resource in enumerate(lanes)}
    layers = list(dict.fromkeys(op.layer for op in operations))
    layer = {name: i for i, name in enumerate(layers)}
    return {
        "end": timeline.iteration_ps,
        "lanes": [_lane(timeline, i) for i in lanes],
        "layers": layers,
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
            for op in operations
        ],
        "records": sorted(
            ([place[r], op, start, length] for r, op, start, length in longest),
            key=lambda record: (record[2], record[0], record[1]),
        ),
        "instant": len(timeline) - len(records),
        "left_out": len(records) - len(longest),
    }


def _lane(timeline: Timeline, index: int) -> str:
    resource = timeline.resources[index]
    device = f", {resource.device}" if resource.device else ""
    return f"{resource.name}{device} ×{resource.multiplicity:,}"  # noqa: RUF001


def _left_out(data: dict[str, Any]) -> str:
    text = (
        f"{len(data['records']):,} operations; {data['instant']:,} that take no time are not drawn."
    )
    if data["left_out"]:
        text += f" The {data['left_out']:,} shortest others are not drawn either."
    return text


def _totals(title: str, timeline: Timeline) -> Markup:
    rows = [
        [
            f"{phase} {kind}",
            number(total.core_ps / timeline.cores / PICOSECONDS, ".9f"),
            number(total.bytes, ".4g"),
            number(total.flops, ".4g"),
        ]
        for (phase, kind), total in sorted(timeline.totals().items())
    ]
    shares = timeline.shares()
    foot = [
        [name, number(share, ".3%"), "", ""]
        for name, share in zip(shares._fields, shares, strict=True)
    ]
    head = ["", "seconds of an average core", "bytes", "FLOPs"]
    return table(f"Where the time of {title} goes", head, rows, foot)
