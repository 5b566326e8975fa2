"""``accelarray explain``: why a step takes as long as it does, and what would help."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import (
    add_metrics,
    add_network,
    add_output,
    add_planner,
    add_step,
)
from experiments.commands.resolve import case_of, forewarn

if TYPE_CHECKING:
    from rich.table import Table

    from experiments.explain.study import Explanation

MOST_ROWS = 8
"""Single links in the table; ``--format json`` has all."""


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "explain", help="why a step takes as long as it does, and what would help"
    )
    add_network(parser)
    add_planner(parser)
    add_step(parser)
    add_metrics(parser)
    add_output(parser)
    parser.add_argument("--plot", metavar="FILE", help="draw a picture (.png, .svg or .pdf)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Simulate the step and its variants, then deliver."""
    from experiments.explain.picture import plot_explanation
    from experiments.explain.study import explain, steps_of
    from experiments.formats import Shown, written
    from experiments.output import check_writable, deliver, progress_bar
    from experiments.pictures.figures import check_plot, save
    from experiments.studies.step_numbers import check_metrics, parse_metrics

    if args.plot:
        check_plot(args.plot)
    check_writable(args.output, args.plot)
    case, metrics = case_of(args), parse_metrics(args.metrics)
    check_metrics(metrics, case.array)
    steps = steps_of(case, args.set)
    forewarned = forewarn(*[case] * steps)
    with progress_bar(steps) as progress:
        result = explain(case, args.array, args.set, progress)
    if args.plot:
        save(plot_explanation(result), args.plot)
    data = to_dict(result)
    data["warnings"] += forewarned
    shown = Shown(data, lambda: data["layers"], lambda: tables(result, metrics))
    deliver(written(shown, args.format), args.output)
    return 0


def to_dict(result: Explanation) -> dict[str, Any]:
    """What ``--format json`` prints: all of it, times in seconds."""
    from dataclasses import asdict

    from experiments.explain.study import messages
    from experiments.explain.tables import parts_dict

    paths, over = result.paths, [result.overflow] if result.overflow else []
    return result.case.inputs | {
        "array": result.case.array.name,
        "iteration_s": result.iteration_s,
        **result.answers,
        "energy_j": result.energy_j,
        "traffic_bytes": result.traffic_bytes,
        **result.plan.gap_fields(),
        "cores": paths.cores,
        "idle_cores": paths.idle_cores,
        "critical_path": _path_dict(result),
        "layers": [
            {
                "layer": spent.layer,
                "computing_s": paths.seconds(spent.computing_ps),
                "exposed_s": paths.seconds(spent.exposed_ps),
                "waiting_s": paths.seconds(spent.waiting_ps),
            }
            for spent in paths.layers
        ],
        "blocks": parts_dict(paths, "block", result.blocks),
        "kinds": parts_dict(paths, "kind", result.kinds),
        "links": [asdict(link) for link in result.links],
        "link_kinds": [asdict(kind) for kind in result.link_kinds],
        "units": [asdict(unit) for unit in result.units],
        "twice_as_fast": [
            asdict(knob)
            | {
                "same_plan_speedup": result.iteration_s / knob.same_plan_s,
                "replanned_speedup": result.iteration_s / knob.replanned_s,
            }
            for knob in result.knobs
        ],
        "frees": [asdict(one) for one in result.frees],
        "set": [asdict(setting) for setting in result.settings],
        "pipeline": _pipeline_dict(result),
        "data_parallel_s": result.data_parallel_s,
        "fast_alone_s": result.fast_alone_s,
        "notes": messages(result),
        "warnings": [*result.case.network.notes, *over, *_unread(result)],
    }


def _pipeline_dict(result: Explanation) -> dict[str, Any] | None:
    """A pipeline's stages, what to know of them, and what else could be done."""
    from dataclasses import asdict

    side = result.pipeline
    if side is None:
        return None
    others = [asdict(one) for one in side.alternatives]
    return side.fields | {"notes": list(side.sentences), "alternatives": others}


def _unread(result: Explanation) -> list[str]:
    """What of the spec the step's execution model does not read."""
    from experiments.studies.unread import warnings

    return warnings(result.case.array, result.case.execution)


def _path_dict(result: Explanation) -> dict[str, Any]:
    from simulator import PICOSECONDS

    paths = result.paths
    return {
        "segments": [
            {
                "layer": segment.operation.layer,
                "phase": str(segment.operation.phase),
                "kind": str(segment.operation.kind),
                "level": segment.operation.level,
                "start_ps": segment.start_ps,
                "end_ps": segment.end_ps,
                "share": paths.share(segment.duration_ps),
                "bounds_ps": segment.bounds_ps(),
            }
            for segment in paths.path
        ],
        "bounds_s": {bound: ps / PICOSECONDS for bound, ps in paths.by_bound().items()},
        "kinds": [
            {"phase": phase, "kind": kind, "seconds": ps / PICOSECONDS, "share": paths.share(ps)}
            for (phase, kind), ps in paths.by_kind().items()
        ],
        "layers": [
            {"layer": layer, "seconds": ps / PICOSECONDS, "share": paths.share(ps)}
            for layer, ps in paths.by_layer().items()
        ],
    }


def tables(result: Explanation, metrics: Sequence[str] = ("time",)) -> list[Table | str]:
    """The tables people read."""
    from experiments.explain.study import messages
    from experiments.explain.tables import answers_table, frees_table, layer_tables, links_table
    from experiments.studies.speedups import inexact
    from experiments.studies.step_numbers import conventions

    title = f"{result.case}: {result.iteration_s:.9f} s"
    found: list[Table | str] = [answers_table(result)]
    found += [frees_table(result)] if result.frees else []
    found += [_path(result), *layer_tables(result), links_table(result), _links(result)]
    found += [_units(result), _knobs(result)]
    about: list[str] = []
    if result.pipeline is not None:
        from experiments.explain.tables import alternatives_table
        from experiments.studies.pipelining import pipeline_table

        about = list(result.pipeline.sentences)
        found = [pipeline_table(result.pipeline.fields), *found, alternatives_table(result)]
    if result.settings:
        found.append(_settings(result))
    head = [title]
    if "energy" in metrics:
        head.append(f"energy {result.energy_j:.6g} J")
    if "traffic" in metrics:
        head.append(f"traffic {result.traffic_bytes / 1e9:.6g} GB")
    said = [
        *conventions(inference=result.case.execution.inference),
        *about,
        *messages(result),
        *filter(None, [inexact(result.plan).rstrip()]),
        *_unread(result),
    ]
    return [", ".join(head), str(result.throughput), "", *found, *said]


def _table(title: str, *columns: str, words: int = 1) -> Table:
    """A table whose first ``words`` columns are text, the others numbers."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < words else "right")
    return table


def _path(result: Explanation) -> Table:
    paths = result.paths
    table = _table("Critical path", "what it does", "seconds", "of the step")
    for bound, ps in paths.by_bound().items():
        if ps:
            table.add_row(_WORDS[bound], _seconds(ps), f"{paths.share(ps):.1%}")
    table.add_section()
    for (phase, kind), ps in paths.by_kind().items():
        table.add_row(f"{phase} {kind}", _seconds(ps), f"{paths.share(ps):.1%}")
    return table


_WORDS = {
    "FLOPs": "computes, bound by FLOPs",
    "HBM": "computes, bound by HBM traffic",
    "overhead": "overhead of operators",
    "links": "exchanges: bytes",
    "latency": "exchanges: latency",
}


def _seconds(ps: int) -> str:
    from simulator import PICOSECONDS

    return f"{ps / PICOSECONDS:.9f}"


def _links(result: Explanation) -> Table:
    table = _table("Busiest links", "link", "alike", "GB over one", "GB/s", "utilisation")
    for link in result.links[:MOST_ROWS]:
        rate = "" if link.bytes_per_s is None else f"{link.bytes_per_s / 1e9:.4g}"
        moved = f"{link.bytes / 1e9:.4g}"
        table.add_row(link.name, f"{link.count:,}", moved, rate, f"{link.utilisation:.1%}")
    if not result.links:
        table.add_row("none carries anything")
    return table


def _units(result: Explanation) -> Table:
    columns = ("unit", "count", "busy", "the busiest", "of its peak")
    table = _table("Busiest units", *columns)
    for unit in result.units:
        shares = (unit.busy, unit.busiest, unit.of_peak)
        name = {"hbm": "HBM", "core": "cores"}.get(unit.unit, unit.unit)
        table.add_row(
            f"{name} of {unit.device}", f"{unit.count:,}", *(f"{share:.2%}" for share in shares)
        )
    return table


def _knobs(result: Explanation) -> Table:
    table = _table("Twice as fast", "what", "same plan", "planned anew", "why nothing changes")
    table.columns[3].justify = "left"
    for knob in result.knobs:
        speedups = (result.iteration_s / s for s in (knob.same_plan_s, knob.replanned_s))
        table.add_row(knob.what, *(f"{x:.3f}x" for x in speedups), knob.reason or "")
    return table


def _settings(result: Explanation) -> Table:
    columns = ("--set", "seconds without it", "speedup by it", "why nothing changes")
    table = _table("What was changed", *columns)
    table.columns[3].justify = "left"
    for setting in result.settings:
        before = setting.unchanged_s
        cells = (
            ("", "")
            if before is None
            else (
                f"{before:.9f}",
                f"{before / result.iteration_s:.3f}x",
            )
        )
        table.add_row(setting.assignment, *cells, setting.reason or "")
    return table
