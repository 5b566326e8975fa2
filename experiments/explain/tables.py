"""Layers by kind and block, and links by kind, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from experiments.explain.paths import Part, Paths
from experiments.explain.study import Explanation
from experiments.output import pairs_table, table_of
from experiments.results.error_band import band_rows
from experiments.studies.occupancy import fullest, memory_rows
from experiments.studies.pipelining import bubble_in_words
from experiments.studies.step_numbers import axis_rows, throughput_rows
from experiments.terms import SHARES, duration
from simulator import PICOSECONDS
from simulator.engine.operations import readable

MOST_ROWS = 8
"""Rows of a table, and of a block's parts in it; ``--format json`` has all."""
TIMES = ("critical path", *(SHARES[name] for name in ("computing", "exposed", "waiting")))


def layer_tables(result: Explanation) -> Iterator[Table]:
    """By kind of layer, then by block and layer.

    Largest parts, what the others come to, and all; a block's own parts stand indented.
    """
    paths = result.paths
    for title, what, parts in (
        ("Kinds of layers", "kind", result.kinds),
        ("Layers: time on the critical path, and of a mean core", "layer", result.blocks),
    ):
        table = table_of(title, (what, *TIMES), (what,))
        for name, shown in _rows("", parts):
            count = len(shown[0].layers) if what == "kind" and len(shown) == 1 else 1
            many = f" ({count})" if count > 1 else ""
            table.add_row(name + many, *map(duration, _seconds(paths, shown).values()))
        table.add_section()
        table.add_row("all", *map(duration, _seconds(paths, parts).values()))
        yield table


def _rows(indent: str, parts: Sequence[Part]) -> Iterator[tuple[str, Sequence[Part]]]:
    for part in parts[:MOST_ROWS]:
        repeats = f" ({part.count} x)" if part.count > 1 else ""
        yield f"{indent}{part.name}{repeats}", [part]
        yield from _rows(indent + "  ", part.parts)
    if rest := parts[MOST_ROWS:]:
        yield f"{indent}{others(len(rest))}", rest


def others(count: int) -> str:
    """How many more rows there are, in a row's name."""
    return f"{count} other{'s' * (count > 1)}"


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
    columns = ("kind", "links", "used", "total GB", "average", "busiest")
    table = table_of("Kinds of links", columns, ("kind",))
    for kind in result.link_kinds:
        counts = f"{kind.count:,}", f"{kind.used:,}", f"{kind.bytes / 1e9:.4g}"
        name = "HBM, for exchanges" if kind.kind == "HBM" else kind.kind
        table.add_row(name, *counts, f"{kind.utilisation:.1%}", f"{kind.busiest:.1%}")
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
    """What a pipeline would take with one change."""
    table = table_of(
        "Changes", ("change", "step time", "speedup", "why not"), ("change", "why not")
    )
    for one in result.pipeline.alternatives if result.pipeline else ():
        cells = ("", "")
        if one.seconds is not None:
            cells = (duration(one.seconds), f"{result.iteration_s / one.seconds:.3f}x")
        table.add_row(one.what, *cells, one.reason or "")
    return table


def answers_table(result: Explanation) -> Table:
    """What the step comes to: error band, rates, MFU, HFU, bubble, exposed communication, memory.

    Of memory that of the fullest device, or stage.
    """
    found = result.answers
    rows = [*band_rows(found["error_band"]), *throughput_rows(found)]
    if result.pipeline is not None and len(result.pipeline.fields["stages"]) > 1:
        rows.append(("bubble", bubble_in_words(result.pipeline.fields)))
    rows += axis_rows(found)
    rows += memory_rows([fullest(found["memory"])]) if found["memory"] else ()
    return pairs_table("Speed and memory", rows)


def frees_table(result: Explanation) -> Table:
    """What each change would free on the fullest core, and what as many samples take then."""
    whole = f"{result.case.batch:,} samples"
    columns = ("change", "frees", "new peak", whole, "fits", "why not")
    title = "Changes that free memory on the fullest core"
    table = table_of(title, columns, ("change", "fits", "why not"))
    refused = dict[str, list[str]]()
    for one in result.frees:
        if one.peak_bytes is None or one.frees_bytes is None:
            refused.setdefault(one.reason or "", []).append(one.what)
            continue
        sign = "-" if one.frees_bytes < 0 else ""
        frees = f"{sign}{readable(abs(one.frees_bytes))}"
        cost = "not run" if one.seconds is None else f"{one.seconds * 1e3:+.4g} ms"
        fits = "yes" if one.fits else "no"
        table.add_row(one.what, frees, readable(one.peak_bytes), cost, fits, "")
    for reason, changes in refused.items():
        table.add_row("\n".join(changes), "", "", "", "", reason)
    return table
