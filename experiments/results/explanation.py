"""Why a step takes as long as it does, to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.table import Table

from experiments.explain import tables
from experiments.explain.picture import plot_explanation
from experiments.explain.study import Explanation, explain, messages, steps_of
from experiments.explain.whatif import KNOBS, Asked
from experiments.output import frame_of, hearing, table_of
from experiments.results.error_band import ErrorBand, error_band
from experiments.results.result import Result, readable
from experiments.studies.case import Case
from experiments.studies.pipelining import pipeline_table
from experiments.studies.running.estimate import forewarn
from experiments.studies.speedups import BASELINE, inexact
from experiments.studies.step_numbers import conventions, names_of, throughput
from experiments.studies.unread import warnings
from experiments.terms import BOUNDS, aliased, duration
from planners import Plan
from simulator import PICOSECONDS, Timeline

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ExplanationResult(Result):
    """A step's critical path, what its cores wait for, and what it would be otherwise."""

    explanation: Explanation
    metrics: tuple[str, ...] = ("time",)
    forewarned: tuple[str, ...] = ()

    @property
    def case(self) -> Case:
        """What was explained."""
        return self.explanation.case

    @property
    def plan(self) -> Plan:
        """Its plan."""
        return self.explanation.plan

    @property
    def timeline(self) -> Timeline:
        """What happened in its step, when."""
        return self.explanation.timeline

    @property
    def iteration_s(self) -> float:
        """Time of the step in seconds."""
        return self.explanation.iteration_s

    @property
    def error_band(self) -> ErrorBand | None:
        """How far measured steps like it are off; None for machines of which none is known."""
        return error_band(self.case)

    @property
    def messages(self) -> list[str]:
        """What to know about the plan, in sentences."""
        return messages(self.explanation)

    def title(self) -> str:
        """The case, the time of its step, and what most of its critical path goes to."""
        paths = self.explanation.paths
        bound, ps = max(paths.by_bound().items(), key=lambda item: item[1])
        most = f"{readable(self.iteration_s)}, {paths.share(ps):.0%} {bound}"
        return f"{self.case}: {most}"

    def tables(self) -> list[Table | str]:
        """What ``accelarray explain`` prints."""
        of = self.explanation
        title = f"{of.case}: {duration(of.iteration_s)}"
        found: list[Table | str] = [tables.answers_table(of)]
        found += [tables.frees_table(of)] if of.frees else []
        found += [path_table(of), *tables.layer_tables(of), tables.links_table(of), _links(of)]
        found += [_units(of), knobs_table(of)]
        about: list[str] = []
        if of.pipeline is not None:
            about = list(of.pipeline.sentences)
            several = len(of.pipeline.fields["stages"]) > 1
            found = [*([pipeline_table(of.pipeline.fields)] if several else []), *found]
            found += [tables.alternatives_table(of)] if of.pipeline.alternatives else []
        if of.settings:
            found.append(_settings(of))
        head = [title]
        if "energy" in self.metrics:
            head.append(f"energy {of.timeline.energy_j:.6g} J")
        if "traffic" in self.metrics:
            head.append(f"traffic {of.timeline.traffic_bytes / 1e9:.6g} GB")
        said = [
            *conventions(inference=of.case.execution.inference),
            *about,
            *messages(of),
            *filter(None, [inexact(of.plan).rstrip()]),
            *warnings(of.case.array, of.case.execution),
        ]
        return [", ".join(head), str(throughput(of.case, of.iteration_s)), "", *found, *said]

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray explain --format json`` prints: all of it, times in seconds."""
        of = self.explanation
        case, paths, over = of.case, of.paths, [of.overflow] if of.overflow else []
        unread = warnings(case.array, case.execution)
        found = case.inputs | {
            "array": case.array.name,
            "iteration_s": of.iteration_s,
            **of.answers,
            "energy_j": of.timeline.energy_j,
            "traffic_bytes": of.timeline.traffic_bytes,
            **of.plan.gap_fields(),
            "cores": paths.cores,
            "idle_cores": paths.idle_cores,
            "critical_path": _path_dict(of),
            "layers": [
                {
                    "layer": spent.layer,
                    "computing_s": paths.seconds(spent.computing_ps),
                    "exposed_s": paths.seconds(spent.exposed_ps),
                    "waiting_s": paths.seconds(spent.waiting_ps),
                }
                for spent in paths.layers
            ],
            "blocks": tables.parts_dict(paths, "block", of.blocks),
            "kinds": tables.parts_dict(paths, "kind", of.kinds),
            "links": [asdict(link) for link in of.links],
            "link_kinds": [asdict(kind) for kind in of.link_kinds],
            "units": [asdict(unit) for unit in of.units],
            "twice_as_fast": [
                asdict(knob)
                | {
                    "same_plan_speedup": of.iteration_s / knob.same_plan_s,
                    "replanned_speedup": of.iteration_s / knob.replanned_s,
                }
                for knob in of.knobs
            ],
            "frees": [asdict(one) for one in of.frees],
            "set": [asdict(setting) for setting in of.settings],
            "pipeline": _pipeline_dict(of),
            "data_parallel_s": of.data_parallel_s,
            "fast_alone_s": of.fast_alone_s,
            "notes": messages(of),
            "warnings": [*case.network.notes, *over, *unread, *self.forewarned],
        }
        return aliased(found)

    def rows(self) -> list[dict[str, Any]]:
        """The layers as a spreadsheet: what an average core spends on each, in seconds."""
        rows: list[dict[str, Any]] = self.to_dict()["layers"]
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """A row for each layer or boundary, the largest part of the critical path first.

        Seconds on the critical path (``path_s``), and those that an average core
        computes, waits for its exchanges (``exposed_s``) and for other cores.
        """
        spent = self.to_dict()
        on_path = {part["layer"]: part["seconds"] for part in spent["critical_path"]["layers"]}
        rows = [
            {"layer": part["layer"], "path_s": on_path.get(part["layer"], 0.0), **part}
            for part in spent["layers"]
        ]
        columns = ["layer", "path_s", "computing_s", "exposed_s", "waiting_s"]
        rows.sort(key=lambda row: -row["path_s"])
        return frame_of(rows, columns)

    def plot(self) -> Figure:
        """The path as a strip through the step, and an average core's time by layer."""
        return plot_explanation(self.explanation)


def explained(
    case: Case,
    changes: Sequence[str] = (),
    asked: Asked | None = None,
    progress: Callable[[str], None] | None = None,
    metrics: tuple[str, ...] = ("time",),
) -> ExplanationResult:
    """Explain a case; ``asked`` makes it, with ``changes`` of its array's spec or fewer."""
    steps = steps_of(case, changes)
    planned = 1 + len(KNOBS) + len(changes)  # others mostly have a plan
    others = [replace(case, planner=BASELINE)] * (steps - planned)
    forewarned = forewarn([case] * planned + others)
    with hearing(progress, steps) as heard:
        return ExplanationResult(explain(case, changes, asked, heard), metrics, forewarned)


MOST_ROWS, WHY = 8, "why nothing changes"
"""Single links in the table; ``--format json`` has all."""


def _pipeline_dict(result: Explanation) -> dict[str, Any] | None:
    """A pipeline's stages, what to know of them, and what else could be done."""
    side = result.pipeline
    if side is None:
        return None
    others = [asdict(one) for one in side.alternatives]
    return side.fields | {"notes": list(side.sentences), "alternatives": others}


def _path_dict(result: Explanation) -> dict[str, Any]:
    paths = result.paths

    def part(ps: int) -> dict[str, Any]:
        return {"seconds": ps / PICOSECONDS, "share": paths.share(ps)}

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
            {"phase": phase, "kind": kind} | part(ps)
            for (phase, kind), ps in paths.by_kind().items()
        ],
        "layers": [{"layer": layer} | part(ps) for layer, ps in paths.by_layer().items()],
    }


def path_table(result: Explanation) -> Table:
    """What the step waits for, by what bounds it and by operation."""
    paths = result.paths
    run = "run" if result.timeline.makespan_s > result.iteration_s else "step"
    table = table_of("Critical path", ("operation", "time", f"of the {run}"), ("operation",))
    for bound, ps in paths.by_bound().items():
        if ps:
            table.add_row(BOUNDS[bound], duration(ps / PICOSECONDS), f"{paths.share(ps):.1%}")
    table.add_section()
    names = names_of(result.case, result.timeline)
    for key, ps in paths.by_kind().items():
        table.add_row(names[key], duration(ps / PICOSECONDS), f"{paths.share(ps):.1%}")
    return table


def _links(result: Explanation) -> Table:
    heads = ("link", "count", "GB over each", "GB/s", "utilization")
    table = table_of("Busiest links", heads, ("link",))
    for link in result.links[:MOST_ROWS]:
        rate = "" if link.bytes_per_s is None else f"{link.bytes_per_s / 1e9:.4g}"
        moved = f"{link.bytes / 1e9:.4g}"
        table.add_row(link.name, f"{link.count:,}", moved, rate, f"{link.utilisation:.1%}")
    if not result.links:
        table.add_row("none carries anything")
    return table


def _units(result: Explanation) -> Table:
    columns = ("unit", "count", "busy", "busiest one", "of its peak")
    table = table_of("Busiest units", columns, ("unit",))
    for unit in result.units:
        name = {"hbm": "HBM", "core": "cores"}.get(unit.unit, unit.unit)
        shares = (
            "" if share is None else f"{share:.2%}"
            for share in (unit.busy, unit.busiest, unit.of_peak)
        )
        table.add_row(f"{name} of {unit.device}", f"{unit.count:,}", *shares)
    return table


def knobs_table(result: Explanation) -> Table:
    """The step with one part twice as fast."""
    heads = ("part", "same plan", "new plan", WHY)
    table = table_of("Twice as fast", heads, ("part", WHY))
    for knob in result.knobs:
        speedups = (result.iteration_s / s for s in (knob.same_plan_s, knob.replanned_s))
        table.add_row(knob.what, *(f"{x:.3f}x" for x in speedups), knob.reason or "")
    return table


def _settings(result: Explanation) -> Table:
    columns = ("--set", "step time without it", "speedup by it", WHY)
    table = table_of("What was changed", columns, ("--set", WHY))
    for setting in result.settings:
        before = setting.unchanged_s
        cells = ("", "")
        if before is not None:
            cells = duration(before), f"{before / result.iteration_s:.3f}x"
        table.add_row(setting.assignment, *cells, setting.reason or "")
    return table
