"""``accelarray compare``: two planners' steps, and where the difference comes from."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.commands.arguments import (
    add_axes,
    add_metrics,
    add_network,
    add_output,
    add_step,
)
from experiments.commands.resolve import case_of, forewarn, planners_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from experiments.studies.case import Case, Planned
    from experiments.studies.difference import Change, Difference
    from simulator import Timeline

MOST_LAYERS = 10
"""Layers in the table; the rest are summed up in one row."""


def configure(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "compare", help="two planners' steps, and where the difference comes from"
    )
    add_network(parser)
    parser.add_argument("--planners", metavar="P1,P2", default="", help="see: list planners")
    parser.add_argument(
        "--plan",
        metavar="FILE",
        action="append",
        default=[],
        help="one's own plan in the place of a planner, as plan --format json prints it; or two",
    )
    add_axes(parser)
    add_step(parser)
    add_metrics(parser)
    add_output(parser)
    parser.add_argument(
        "--plot", metavar="FILE", help="both Gantt charts on one time axis (.png, .svg or .pdf)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Plan and simulate twice, then deliver."""
    from experiments.formats import Shown, written
    from experiments.output import UsageError, check_writable, deliver
    from experiments.pictures.figures import check_plot, save
    from experiments.studies.case import step_of
    from experiments.studies.difference import difference
    from experiments.studies.occupancy import warn_overflow
    from experiments.studies.speedups import warn_inexact
    from experiments.studies.step_numbers import check_metrics, measured, parse_metrics
    from experiments.studies.unread import warnings

    chosen = _compared(args)
    if len(chosen) != 2:
        raise UsageError(
            f"--planners {args.planners!r}{' and --plan' * bool(args.plan)}: name two different "
            "ones, as owt,accpar; a --plan FILE stands for one"
        )
    if args.plot:
        check_plot(args.plot)
    check_writable(args.output, args.plot)
    names, planners = [*chosen], [*chosen.values()]
    first = case_of(args, planners[0])
    cases, metrics = [first, replace(first, planner=planners[1])], parse_metrics(args.metrics)
    check_metrics(metrics, first.array)
    said = [*first.network.notes, *forewarn(*cases)]
    steps = [step_of(case) for case in cases]
    unread, overflows = warnings(first.array, first.execution), list[str]()
    for case, (plan, step) in zip(cases, steps, strict=True):
        overflows += warn_overflow(case, step)
        warn_inexact(case.network.name, plan)
    timelines = [step for _, step in steps]
    result = difference((names[0], names[1]), (timelines[0], timelines[1]))
    if args.plot:
        save(_picture(cases, timelines), args.plot)
    both = [measured(metrics, step) for step in timelines]
    whole = {key: [values[key] for values in both] for key in both[0]}
    data = about(first) | to_dict(result) | whole
    data["warnings"] = [*said, *overflows, *unread]
    shown = Shown(data, lambda: _rows(result), lambda: [*tables(result, first, whole), *unread])
    deliver(written(shown, args.format), args.output)
    return 0


def _compared(args: argparse.Namespace) -> dict[str, str | Planned]:
    """What is compared, by name: planners, then plans, by their files where names are taken."""
    from experiments.studies.case import Planned
    from planners import Plan

    found: dict[str, str | Planned] = {}
    if args.planners or not args.plan:
        found |= {name: name for name in planners_of(args)}
    for file in args.plan:
        plan = Plan.read(file)
        name = file if plan.planner in found else plan.planner
        found[name] = Planned(name, plan)
    return found


def about(case: Case) -> dict[str, Any]:
    """What both steps have in common."""
    return {
        "network": case.network.name,
        "array": case.array.name,
        "batch": case.batch,
        "objective": case.objective,
        "execution": str(case.execution),
    }


def _picture(cases: list[Case], steps: list[Timeline]) -> Figure:
    from experiments.pictures.gantt import plot_gantt
    from experiments.pictures.lanes import chart, sites

    return plot_gantt(
        [
            chart(str(case), step, sites(step), folded=True)
            for case, step in zip(cases, steps, strict=True)
        ]
    )


def to_dict(result: Difference) -> dict[str, Any]:
    """What ``--format json`` prints: seconds an average core spends, all rows."""

    def row(part: Change, **label: str) -> dict[str, Any]:
        return label | {
            "core_s": [result.seconds(core_ps) for core_ps in part.core_ps],
            "difference_s": result.seconds(part.change_ps),
        }

    whole = _whole(result)
    return {
        "planners": list(result.planners),
        "cores": result.cores,
        "iteration_s": [result.seconds(core_ps) for core_ps in whole.core_ps],
        "difference_s": result.seconds(whole.change_ps),
        "phases": [row(part, phase=part.phase, kind=part.kind) for part in result.phases],
        "layers": [row(part, layer=part.layer or part.kind) for part in result.layers],
    }


def _rows(result: Difference) -> list[dict[str, Any]]:
    """The layers as a spreadsheet: seconds an average core spends on each under both."""
    return [
        {
            "layer": part.layer or part.kind,
            **{
                f"{planner}_s": result.seconds(core_ps)
                for planner, core_ps in zip(result.planners, part.core_ps, strict=True)
            },
            "difference_s": result.seconds(part.change_ps),
        }
        for part in result.layers
    ]


def _whole(result: Difference) -> Change:
    from experiments.studies.difference import Change

    first, second = result.iteration_ps
    return Change((first * result.cores, second * result.cores))


def tables(
    result: Difference, case: Case, whole: dict[str, list[float]] | None = None
) -> list[Table | str]:
    """By phase and kind, then the layers that contribute most; ``whole`` has other metrics."""
    title = f"{case.network.name} on {case.array.name}, batch {case.batch}, {case.execution}"
    phases = _table(result, title, "what")
    for part in result.phases:
        _add(phases, result, f"{part.phase} {part.kind}".strip(), part)
    layers = _table(result, None, "layer")
    for name, part in _most(result):
        _add(layers, result, name, part)
    for table in (phases, layers):
        table.add_section()
        _add(table, result, "iteration", _whole(result))
    others = [_measured(result, whole)] if whole else []
    return [phases, layers, "Seconds that an average core spends.", *others]


def _measured(result: Difference, whole: dict[str, list[float]]) -> Table:
    """Joules and gigabytes of the whole step."""
    table = _table(result, None, "whole step", "change")
    words = {"energy_j": ("energy [J]", 1.0), "traffic_bytes": ("traffic [GB]", 1e9)}
    for key, values in whole.items():
        name, unit = words[key]
        first, second = (value / unit for value in values)
        part = f"{second / first - 1:+.1%}" if first else "-"
        table.add_row(name, f"{first:.6g}", f"{second:.6g}", f"{second - first:+.6g}", part)
    return table


def _most(result: Difference) -> list[tuple[str, Change]]:
    """The layers that contribute most, what the others do together, and waiting."""
    from experiments.studies.difference import Change

    *layers, waiting = result.layers
    rows = [(part.layer, part) for part in layers[:MOST_LAYERS]]
    if rest := layers[MOST_LAYERS:]:
        first, second = (sum(part.core_ps[i] for part in rest) for i in (0, 1))
        rows.append((f"{len(rest)} others", Change((first, second))))
    return [*rows, (waiting.kind, waiting)]


def _table(result: Difference, title: str | None, what: str, part: str = "of the whole") -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column(what)
    for planner in result.planners:
        table.add_column(planner, justify="right")
    table.add_column("difference", justify="right")
    table.add_column(part, justify="right")
    return table


def _add(table: Table, result: Difference, name: str, part: Change) -> None:
    whole = _whole(result).change_ps
    seconds = [f"{result.seconds(core_ps):.9f}" for core_ps in part.core_ps]
    share = f"{part.change_ps / whole:.1%}" if whole else "-"
    table.add_row(name, *seconds, f"{result.seconds(part.change_ps):+.9f}", share)
