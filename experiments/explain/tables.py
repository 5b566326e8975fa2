"""Layers by kind and block, and links by kind, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from simulator import PICOSECONDS

if TYPE_CHECKING:
    from rich.table import Table

    from experiments.explain.paths import Part, Paths
    from experiments.explain.study import Explanation

MOST_ROWS = 8
"""Rows of a table, and of a block's parts in it; ``--format json`` has all."""
TIMES = ("critical path", "computing", "exposed", "waiting")


def layer_tables(result: Explanation) -> Iterator[Table]:
    """By kind of layer, then by block and layer."""
    yield _parts_table("Kinds of layers", "kind", result.paths, result.kinds)
    title = "Layers: seconds on the critical path, and of an average core"
    yield _parts_table(title, "layer", result.paths, result.blocks)


def _parts_table(title: str, what: str, paths: Paths, parts: Sequence[Part]) -> Table:
    """Largest parts, what the others come to, and all; a block's own parts stand indented."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column(what)
    for column in TIMES:
        table.add_column(column, justify="right")

    name = _kind if what == "kind" else called

    def add(indent: str, shown: Sequence[Part]) -> None:
        for part in shown[:MOST_ROWS]:
            table.add_row(indent + name(part), *_cells(paths, [part]))
            add(indent + "  ", part.parts)
        if rest := shown[MOST_ROWS:]:
            table.add_row(f"{indent}{len(rest)} others", *_cells(paths, rest))

    add("", parts)
    table.add_section()
    table.add_row("all", *_cells(paths, parts))
    return table


def called(part: Part) -> str:
    """A part's name; a block's with how often it is repeated."""
    return f"{part.name} ({part.count} x)" if part.count > 1 else part.name


def _kind(part: Part) -> str:
    return f"{part.name} ({len(part.layers)})" if len(part.layers) > 1 else part.name


def _cells(paths: Paths, parts: Sequence[Part]) -> list[str]:
    return [f"{value:.9f}" for value in _seconds(paths, parts).values()]


def _seconds(paths: Paths, parts: Sequence[Part]) -> dict[str, float]:
    """Seconds on the critical path, and of an average core."""
    return {
        "critical_path_s": sum(part.path_ps for part in parts) / PICOSECONDS,
        "computing_s": paths.seconds(sum(part.computing_ps for part in parts)),
        "exposed_s": paths.seconds(sum(part.exposed_ps for part in parts)),
        "waiting_s": paths.seconds(sum(part.waiting_ps for part in parts)),
    }


def links_table(result: Explanation) -> Table:
    """Links by kind; the kind with the busiest link first."""
    from rich.table import Table

    table = Table(title="Kinds of links", title_justify="left")
    table.add_column("kind")
    for column in ("links", "used", "GB in all", "average", "busiest"):
        table.add_column(column, justify="right")
    for kind in result.link_kinds:
        counts = f"{kind.count:,}", f"{kind.used:,}", f"{kind.bytes / 1e9:.4g}"
        table.add_row(kind.kind, *counts, f"{kind.utilisation:.1%}", f"{kind.busiest:.1%}")
    if not result.link_kinds:
        table.add_row("none carries anything")
    return table


def parts_dict(paths: Paths, name: str, parts: Sequence[Part]) -> list[dict[str, Any]]:
    """What ``--format json`` has of parts; ``name`` is the key of what they are called."""
    return [
        {name: part.name, "count": part.count, "layers": list(part.layers)}
        | _seconds(paths, [part])
        | ({"parts": parts_dict(paths, "part", part.parts)} if part.parts else {})
        for part in parts
    ]


def alternatives_table(result: Explanation) -> Table:
    """What a pipeline would take with one thing otherwise."""
    from rich.table import Table

    table = Table(title="Otherwise", title_justify="left")
    for name in ("what", "seconds", "speedup", "why not"):
        table.add_column(name, justify="left" if name in ("what", "why not") else "right")
    for one in result.pipeline.alternatives if result.pipeline else ():
        cells = ("", "")
        if one.seconds is not None:
            cells = (f"{one.seconds:.9f}", f"{result.iteration_s / one.seconds:.3f}x")
        table.add_row(one.what, *cells, one.reason or "")
    return table


def answers_table(result: Explanation) -> Table:
    """What the step comes to: rates, shares of the peak, the bubble, exposed axes, memory."""
    from rich.table import Table

    table = Table(title="Speed and memory", title_justify="left", show_header=False)
    for row in answer_rows(result):
        table.add_row(*row)
    return table


def answer_rows(result: Explanation) -> Iterator[tuple[str, str]]:
    """Its rows; of memory that of the fullest device, or stage."""
    from experiments.studies.occupancy import fullest, memory_rows
    from experiments.studies.pipelining import bubble_in_words
    from experiments.studies.step_numbers import axis_rows, throughput_rows

    found = result.answers
    yield from throughput_rows(found)
    if result.pipeline is not None:
        yield "bubble", bubble_in_words(result.pipeline.fields)
    yield from axis_rows(found)
    if found["memory"]:
        yield from memory_rows([fullest(found["memory"])])


def frees_table(result: Explanation) -> Table:
    """What each change would free on the fullest core."""
    from rich.table import Table

    from simulator.engine.operations import readable

    table = Table(title="What would free memory on the fullest core", title_justify="left")
    for name in ("what", "frees", "peak then", "fits", "why not"):
        table.add_column(name, justify="right" if name in ("frees", "peak then") else "left")
    for one in result.frees:
        if one.peak_bytes is None or one.frees_bytes is None:
            table.add_row(one.what, "", "", "", one.reason or "")
            continue
        sign = "-" if one.frees_bytes < 0 else ""
        frees = f"{sign}{readable(abs(one.frees_bytes))}"
        table.add_row(one.what, frees, readable(one.peak_bytes), "yes" if one.fits else "no", "")
    return table
