"""Why the drawn step takes as long as it does, what would help, and another planner beside it."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.explain.paths import Part
from experiments.explain.study import Explanation, messages
from experiments.explain.tables import called
from experiments.explain.whatif import Knob
from experiments.report.page.markup import Markup, number, section, table, tag
from experiments.studies.difference import Change, Difference
from simulator import PICOSECONDS
from simulator.analysis.critical_path import BOUNDS

MOST_ROWS = 10
WIDTH, HEIGHT = 640, 28
WORDS = {
    "FLOPs": "computing, bound by FLOPs",
    "HBM": "computing, bound by HBM traffic",
    "overhead": "overhead of operators",
    "links": "exchanges: bytes",
    "latency": "exchanges: latency",
}


def critical_path(result: Explanation) -> Markup:
    """What the step waits for: as a strip, by what it goes to, by kind of layer, by block."""
    paths = result.paths
    bounds = {bound: ps for bound, ps in paths.by_bound().items() if ps}
    largest = max(bounds, key=bounds.__getitem__, default="")
    said = f"{result.case}: {result.iteration_s:.9f} s"
    if largest:
        share = f"{paths.share(bounds[largest]):.1%}"
        said += f", {share} of it {WORDS.get(largest, largest)}"
    about = (
        "The chain of operations that decides how long the step takes: each began when the one "
        "before it ended. An average core computes meanwhile, or waits."
    )
    rows = [
        (WORDS.get(bound, bound), number(ps / PICOSECONDS, ".9f"), _share(paths.share(ps)))
        for bound, ps in bounds.items()
    ]
    return section(
        "path",
        "Why the step takes so long",
        tag("p", f"{said}."),
        tag("p", about),
        _strip(result, bounds),
        table(f"Critical path of {result.case}", ("what", "seconds", "of the step"), rows),
        _parts(result, "Kinds of layers", "kind", result.kinds),
        _parts(result, "Layers and blocks", "layer", result.blocks),
        *(tag("p", one, class_="note") for one in messages(result)),
    )


def _strip(result: Explanation, bounds: dict[str, int]) -> Markup:
    """A bar as long as the step, cut by what it goes to; its parts are in the table too."""
    at, parts = 0.0, []
    for bound, ps in bounds.items():
        width = WIDTH * result.paths.share(ps)
        words = f"{WORDS.get(bound, bound)}: {result.paths.share(ps):.1%}"
        place = {"x": round(at, 2), "y": 0, "width": round(width, 2), "height": HEIGHT}
        parts.append(tag("rect", tag("title", words), class_=f"s{_place(bound)}", **place))
        at += width
    keys = [
        tag("li", tag("span", class_=f"key s{_place(bound)}"), WORDS.get(bound, bound))
        for bound in bounds
    ]
    size = {"width": WIDTH, "height": HEIGHT, "viewBox": f"0 0 {WIDTH} {HEIGHT}"}
    drawn = tag("svg", *parts, role="img", aria_label="critical path", class_="chart", **size)
    caption = tag("figcaption", tag("ul", *keys, class_="legend"))
    return tag("figure", caption, tag("div", drawn, class_="scroll"))


def _place(bound: str) -> int:
    return BOUNDS.index(bound) if bound in BOUNDS else len(BOUNDS)


def _share(value: float) -> Markup:
    return number(value, ".1%")


def _parts(result: Explanation, title: str, what: str, parts: tuple[Part, ...]) -> Markup:
    head = (what, "critical path [s]", "of the step", "computing [s]", "exposed [s]", "waiting [s]")
    rows = [_cells(result, called(part), (part,)) for part in parts[:MOST_ROWS]]
    if rest := parts[MOST_ROWS:]:
        rows.append(_cells(result, f"{len(rest)} others", rest))
    foot = [_cells(result, "all", parts)]
    return table(f"{title} of {result.case}", head, rows, foot)


def _cells(result: Explanation, name: str, parts: tuple[Part, ...]) -> list[object]:
    paths, path_ps = result.paths, sum(part.path_ps for part in parts)
    spent = [
        sum(getattr(part, f"{what}_ps") for part in parts)
        for what in ("computing", "exposed", "waiting")
    ]
    return [
        name,
        number(path_ps / PICOSECONDS, ".9f"),
        _share(paths.share(path_ps)),
        *(number(paths.seconds(ps), ".9f") for ps in spent),
    ]


def what_helps(result: Explanation) -> Markup:
    """The step with links, HBM or cores twice as fast."""
    best = min(result.knobs, key=_shortest)
    gain = result.iteration_s / _shortest(best)
    said = (
        "Nothing of these: none twice as fast changes the step by more than 0.1 %."
        if all(knob.reason for knob in result.knobs)
        else f"With {best.what} twice as fast the step takes {_shortest(best):.6g} s: it is "
        f"{gain:.3g} times as fast."
    )
    head = ("twice as fast", "same plan [s]", "speedup", "planned anew [s]", "speedup", "why not")
    rows = [
        (
            knob.what,
            number(knob.same_plan_s, ".9f"),
            number(result.iteration_s / knob.same_plan_s, ".3f"),
            number(knob.replanned_s, ".9f"),
            number(result.iteration_s / knob.replanned_s, ".3f"),
            knob.reason or "",
        )
        for knob in result.knobs
    ]
    caption = f"{result.case}, with one part twice as fast"
    return section("helps", "What would help", tag("p", said), table(caption, head, rows))


def _shortest(knob: Knob) -> float:
    return min(knob.same_plan_s, knob.replanned_s)


def versus(about: str, result: Difference) -> Markup:
    """Two planners' steps, and where the difference comes from; ``about`` is the case."""
    first, second = result.planners
    ours, theirs = (ps / PICOSECONDS for ps in result.iteration_ps)
    slower, ratio = (first, ours / theirs) if ours > theirs else (second, theirs / ours)
    words = f"{first} takes {ours:.6g} s, {second} {theirs:.6g} s"
    words += f": {slower} takes {ratio:.3g} times as long" if ours != theirs else ": as long"
    *layers, waiting = result.layers
    shown = [*((part.layer, part) for part in layers[:MOST_ROWS])]
    if rest := layers[MOST_ROWS:]:
        pair = sum(part.core_ps[0] for part in rest), sum(part.core_ps[1] for part in rest)
        shown.append((f"{len(rest)} others", Change(pair)))
    shown.append((waiting.kind, waiting))
    phases = [(f"{part.phase} {part.kind}".strip(), part) for part in result.phases]
    head = (f"{first} [s]", f"{second} [s]", "difference [s]")
    return section(
        "compare",
        f"{first} and {second}",
        tag("p", f"{about}: {words}. Seconds that an average core spends:"),
        table(f"By phase, {about}", ("phase", *head), _changes(result, phases)),
        table(f"By layer, {about}", ("layer", *head), _changes(result, shown)),
    )


def _changes(result: Difference, rows: list[tuple[str, Change]]) -> Iterator[list[object]]:
    for name, part in rows:
        both = (number(result.seconds(ps), ".9f") for ps in part.core_ps)
        yield [name, *both, number(result.seconds(part.change_ps), "+.9f")]
