"""What the drawn step comes to, and its memory by class: at the peak, over time, and with less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from experiments.explain.alternatives import Freed
from experiments.explain.study import Explanation
from experiments.pictures.lanes import labels, sites
from experiments.report.page.area import stacked
from experiments.report.page.markup import Markup, number, section, table, tag
from experiments.studies import occupancy
from experiments.studies.step_numbers import conventions
from simulator.analysis.memory_timeline import at_rest, filled, fullest
from simulator.engine.operations import CLASSES

GIB = 2.0**30
ALL = "all"
WRAP = "numbers wrap"
"""Of a table whose last column is words, which may be long."""


def numbers(result: Explanation) -> Markup:
    """Rates, shares of the peak, the bubble, and what is exposed along each axis."""
    said = conventions(inference=result.case.execution.inference)
    return section(
        "numbers",
        "The step in numbers",
        table(f"{result.case}", ("", "value"), _numbers(result)),
        *(tag("p", one, class_="note") for one in said),
    )


def _numbers(result: Explanation) -> Iterator[tuple[str, Markup]]:
    found = result.answers
    yield "seconds", number(result.iteration_s, ".9f")
    yield "samples a second", number(found["samples_per_s"], ",.4g")
    if found["tokens_per_s"] is not None:
        yield "tokens a second", number(found["tokens_per_s"], ",.0f")
        yield "tokens a second of a chip", number(found["tokens_per_s_per_chip"], ",.0f")
    yield "share of peak (MFU)", number(found["share_of_peak"], ".2%")
    yield "with all computed (HFU)", number(found["computed_share_of_peak"], ".2%")
    if result.pipeline is not None:
        bubble = result.pipeline.fields["bubble"]
        yield "bubble, of the busiest stage's work", number(bubble, ".1%")
    for axis, seconds in found.get("exposed_by_axis_s", {}).items():
        yield f"exposed along {axis}, seconds of an average core", number(seconds, ".9f")


def memory(result: Explanation) -> Markup | None:
    """Memory by class, and what would free some; None where the model has no memory."""
    found = result.answers["memory"]
    if not found:
        return None
    said = (
        "What a core of each device, or stage, holds at its peak, in GiB. Weights are as operators "
        "read them, with the optimizer are master copies and moments; activations wait for "
        "backward, buffers live within one pass."
    )
    head = ("on", *CLASSES, ALL, "capacity", "at")
    return section(
        "memory",
        "Memory",
        tag("p", said),
        table(
            f"Memory by class at the peak [GiB], {result.case}", head, map(_row, found), kind=WRAP
        ),
        _over_time(result),
        _frees(result.frees),
    )


def _row(one: dict[str, Any]) -> list[object]:
    sizes = [*one["by_class"].values(), one["peak_bytes"], one["capacity_bytes"]]
    return [one["device"], *(number(size / GIB, ".3f") for size in sizes), one["operator"]]


def _over_time(result: Explanation) -> Markup:
    """The fullest core's."""
    timeline = result.timeline
    worker = fullest(timeline)
    names = labels(sites(timeline), timeline, folded=result.case.folded)
    name = names[timeline.stations.workers[worker].name]
    device = timeline.program.workers[worker].device
    place = occupancy.fullest(result.answers["memory"])["device"]
    return stacked(
        f"Memory by class over time, the fullest, {place}: {name}",
        CLASSES,
        _in_gib(at_rest(timeline, worker)),
        ((one.start_ps, _in_gib(one.by_class)) for one in filled(timeline, worker)),
        timeline.makespan_ps,
        device.hbm_capacity_bytes / device.cores_per_chip / GIB,
    )


def _in_gib(by_class: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(size / GIB for size in by_class)


def _frees(frees: tuple[Freed, ...]) -> Markup:
    rows = [
        (
            one.what,
            number(_gib(one.frees_bytes), ".3f"),
            number(_gib(one.peak_bytes), ".3f"),
            "" if one.fits is None else "yes" if one.fits else "no",
            one.reason or "",
        )
        for one in frees
    ]
    head = ("change", "frees [GiB]", "peak then [GiB]", "fits", "why not")
    return table("What would free memory on the fullest core", head, rows, kind=WRAP)


def _gib(size: float | None) -> float | None:
    return None if size is None else size / GIB
