"""One simulated step: its plan, its timeline, and what both say."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.table import Table

from experiments.explain.freeing import best_of, freed, steps_freeing
from experiments.files import chakra, kineto
from experiments.files.export import exported
from experiments.files.ranks import Ranks, one_a_rank
from experiments.notices import REMEDY, tell
from experiments.output import UsageError, frame_of, pairs_table, progress_bar, table_of
from experiments.pictures.figures import save
from experiments.pictures.gantt import plot_gantt
from experiments.pictures.lanes import BOARD, Chart, Site, chart, labels, sites
from experiments.pictures.pipeline_plot import plot_pipeline
from experiments.pictures.trace import memory, to_frame, trace_events, write_csv, write_trace
from experiments.progress import working
from experiments.results.error_band import ErrorBand, assumed, band_rows, banded, error_band
from experiments.results.explanation import ExplanationResult, explained
from experiments.results.formats import flat
from experiments.results.planned import PlanResult
from experiments.results.result import Result, readable
from experiments.studies import step_numbers as numbers
from experiments.studies.case import Case, in_any_memory, plan_of, simulated
from experiments.studies.difference import core_ps_by_phase, in_order
from experiments.studies.occupancy import memory_fields, memory_rows
from experiments.studies.pipelining import (
    cut_blocks,
    in_words,
    no_effect,
    other_sends,
    pipeline_fields,
    pipeline_table,
)
from experiments.studies.running.estimate import forewarn
from experiments.studies.runs.run import Run, check_run, run_fields, run_rows, spread_of
from experiments.studies.speedups import SMALL, UNCHARGED, inexact
from experiments.studies.unread import warnings
from experiments.terms import SHARES, aliased, duration
from planners import Plan, predict
from simulator import PICOSECONDS, Shares, Timeline, overflow, shares
from simulator.analysis.exposed_communication import computing_by_kind
from simulator.engine.errors import OutOfMemoryError
from simulator.engine.operations import CLASSES

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


RUN = Run()
"""Nothing is asked of a run."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class StepResult(Result):
    """One training step of a case, simulated; ``wall_s`` is what that took, in seconds."""

    case: Case
    plan: Plan
    timeline: Timeline
    wall_s: float = 0.0
    metrics: tuple[str, ...] = numbers.METRICS
    forewarned: tuple[str, ...] = ()
    """What was said before the work, of its length."""
    advice: tuple[str, ...] = ()
    """Where it does not fit in memory: what would free most, in sentences."""
    run: Run = RUN
    """What is asked of a run of such steps."""
    spread: Mapping[str, Any] | None = None
    """How its time varies by chance, where that is asked (``spread_fields``)."""

    @property
    def iteration_s(self) -> float:
        """Time of the whole step in seconds."""
        return self.timeline.iteration_s

    @property
    def shares(self) -> Shares:
        """Computing, communicating and waiting: fractions of an average core's step."""
        return shares(self.timeline)

    @property
    def energy_j(self) -> float | None:
        """Joules of the whole array, by operation; None where a device's spec has no energies.

        What chips draw by their power is in ``to_dict()["energy"]``.
        """
        return self.timeline.energy_j

    @property
    def traffic_bytes(self) -> float:
        """Bytes received in the whole array."""
        return self.timeline.traffic_bytes

    @property
    def error_band(self) -> ErrorBand | None:
        """How far measured steps like it are off; None for machines of which none is known."""
        return error_band(self.case)

    @property
    def overflow(self) -> str | None:
        """What does not fit in memory, a sentence; None where all fits, or has no memory."""
        name = self.case.planner_name
        return overflow(self.case.network.name, name, self.case.array.name, self.timeline.memory)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was not understood of the network, will take long, or does not fit in memory."""
        faults = [self.overflow] if self.overflow else []
        return (*self.case.network.notes, *self._remarks, *self.forewarned, *faults, *self.advice)

    @property
    def _remarks(self) -> list[str]:
        """Where stages are not as frameworks have them, what is said of none, and an odd MFU."""
        case, plan = self.case, self.plan
        said = cut_blocks(case.network, plan) + no_effect(case, plan)
        above = numbers.throughput(case, self.iteration_s).share_of_peak > 1
        stored, device = case.array.group.arithmetic.weight_bytes, case.array.group.kinds[0][0]
        narrow = device.product_bytes or stored
        if case.execution.inference and narrow < stored:
            said.append(numbers.STORED_WIDE.format(stored, narrow))
        return said + [numbers.ABOVE_PEAK] * above

    @property
    def unread(self) -> list[str]:
        """Which values of the array's spec the model does not read, or lacks, in sentences."""
        array, execution = self.case.array, self.case.execution
        said = warnings(array, execution)
        free = [d.name for d, _ in array.group.kinds if d.energy and not d.energy.hbm_j_per_byte]
        if free and execution.model == "deployed" and "energy" in self.metrics:
            of = " and ".join(free)
            said.append(f"Bytes of HBM take no energy here: energy.hbm of {of} is not given.")
        return said

    def export(self, target: str) -> str:
        """The plan as flags or a file: "megatron", "torchtitan", "maxtext" or "deepspeed"."""
        return exported(self.case, self.plan, target)

    def title(self) -> str:
        """The case, and the time of its step."""
        return f"{self.case}: {readable(self.iteration_s)}"

    def tables(self) -> list[Table | str]:
        """The table people read, its share of the peak, how exact its plan is, what is not read."""
        result = self.to_dict()
        said = [numbers.sentence(result), inexact(self.plan).rstrip()]
        shown = [_table(result), _operations(result)]
        if found := result.get("pipeline"):
            shown += [pipeline_table(found)] if len(found["stages"]) > 1 else []
            said += in_words(found) + other_sends(self.case.execution, self.timeline)
        said += self._remarks
        told = numbers.conventions(inference=self.case.execution.inference)
        if any(device.units for device, _ in self.case.array.group.kinds):
            told.append(AT_ONCE)
        said += numbers.whole_share(self.case) + result["assumed"]
        if (more_s := result["uncharged_s"] or 0.0) > SMALL * self.iteration_s:
            said.append(f"Left out, {more_s / self.iteration_s:.1%} of the step: {UNCHARGED}.")
        said += result["goodput"]["notes"] if "goodput" in result else []
        return [*shown, *told, *filter(None, said), *self.unread]

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray simulate --format json`` prints, with every one of its ``metrics``."""
        case, plan, timeline, spent = self.case, self.plan, self.timeline, self.shares
        kinds = computing_by_kind(timeline, case.array)
        priced = numbers.is_priced(case, plan)
        outputs = {"iteration_s": timeline.iteration_s, "computing_by_kind": kinds}
        found = {
            "network": case.network.name,
            "planner": case.planner_name,
            "objective": case.objective,
            "communication": case.communication,
            "array": case.array.name,
            "stack": case.array.stack.name if case.array.stack else None,
            "batch": case.batch,
            "execution": str(case.execution),
            "devices": case.array.group.size,
            "cores": case.array.group.cores,
            "iteration_s": timeline.iteration_s,
            "error_band": banded(case, timeline.iteration_s),
            **asdict(numbers.throughput(case, timeline.iteration_s)),
            **numbers.computed(case, timeline),
            "predicted_s": predict(case.network, plan, case.array) if priced else None,
            "uncharged_s": numbers.uncharged(case, plan, timeline.iteration_s),
            **plan.gap_fields(),
            **numbers.bound_fields(case, plan, timeline),
            "computing": spent.computing,
            "communicating": spent.communicating,
            "waiting": spent.waiting,
            **memory_fields(timeline),
            "phases": _phases(case, timeline),
            "folded": case.folded,
            "distinct_cores": sum(resource.kind == "core" for resource in timeline.resources),
            "operations": sum(total.operations for total in timeline.totals().values()),
            "events": timeline.events,
            **pipeline_fields(plan, timeline),
            **numbers.axis_fields(case, timeline),
            **run_fields(case, outputs, self.run),
            **({} if self.spread is None else {"spread": dict(self.spread)}),
            "wall_s": self.wall_s,
            "assumed": assumed(case),
            "warnings": [*self.warnings, *self.unread],
            **numbers.measured(self.metrics, timeline),
        }
        return aliased(found)

    def rows(self) -> list[dict[str, Any]]:
        """One line: what of ``to_dict`` is a single value, of a run's and its cost's, too."""
        found = self.to_dict()
        parts = ("cost", "energy", "goodput", "run", "spread")
        more = (
            (f"{one}.{key}", v) for one in parts for key, v in flat(found.get(one) or {}).items()
        )
        return [flat(found) | dict(more)]

    def to_frame(self) -> pandas.DataFrame:
        """A row for each record, in the order in which they ended.

        Times are picoseconds; bytes and FLOPs those of one of ``multiplicity``
        resources that did the same at the same time.
        """
        return to_frame(self.timeline, sites(self.timeline))

    def memory_frame(self) -> pandas.DataFrame:
        """A row for each computation of each class of cores: what a core holds at its most, when.

        Bytes by class ("weights", "optimizer", ...), with all together as "bytes"; times are
        picoseconds. Without rows where the execution model has no memory.
        """
        at, every = self.timeline, sites(self.timeline)
        names = labels(every, at, folded=self.case.folded)
        rows = [
            (names[site.name], one.start_ps, one.end_ps, *one.by_class, one.most)
            for site in every
            for one in memory(at, site)
        ]
        return frame_of(rows, ["cores", "start_ps", "end_ps", *CLASSES, "bytes"])

    def plot(self) -> Figure:
        """A Gantt chart: what each class of cores, memories and links did when."""
        return plot_gantt([self.chart()])

    def chart(self) -> Chart:
        """Its lanes, for a Gantt chart."""
        at = self.timeline
        return chart(str(self.case), at, sites(at), folded=self.case.folded)

    def planned(self) -> PlanResult:
        """Its plan, with a map and a table of it."""
        return PlanResult(self.plan, self.case)

    def explain(self) -> ExplanationResult:
        """Why it takes as long as it does, and what would help; simulates its variants."""
        return explained(self.case)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what ``accelarray timeline --output`` does; raises UsageError.

        A chart (.png, .svg, .pdf), a trace for ui.perfetto.dev (.json, .json.gz), the
        records (.csv), or a file for each rank: PyTorch's traces (.pt.trace.json, also .gz) or
        Chakra's (.et), by the ending of the name.
        """
        name = os.fspath(path)
        check_ending(name, "")
        write(name, self.case, self.plan, self.timeline, sites(self.timeline))


def stepped(case: Case, metrics: tuple[str, ...] = numbers.METRICS, run: Run = RUN) -> StepResult:
    """Plan and simulate a case; what will take long, or does not fit in memory, is a warning.

    Of a ``run`` that is asked for, its spread is simulated as well.
    """
    check_run(case, run)
    (step,) = steps([case], metrics)
    spread = spread_of(case, step.plan, run) if run.spread else None
    return replace(step, run=run, spread=spread)


def steps(cases: Sequence[Case], metrics: tuple[str, ...] = numbers.METRICS) -> list[StepResult]:
    """``stepped`` of each."""
    forewarned, found, made = forewarn(cases), [], []
    with progress_bar(2 * len(cases)) as progress:
        for case in cases:
            working(progress, f"planning {case.network.name}")
            plan = plan_of(case)
            progress(f"simulating {case.network.name}")
            started = time.perf_counter()
            timeline = simulated(in_any_memory(case), plan)
            made.append((case, plan, timeline, time.perf_counter() - started))
            progress("")
    for case, plan, timeline, wall_s in made:
        step = StepResult(case, plan, timeline, wall_s, metrics, forewarned)
        if fault := step.overflow:
            if wall_s < QUICK_S:
                with progress_bar(steps_freeing(case)) as progress:
                    frees = freed(case, plan, timeline, progress)
                combined = [] if any(one.fits for one in frees) else [COMBINATIONS]
                step = replace(step, advice=(*best_of(frees), *combined))
            told = [f"{fault}.", *step.advice] if step.advice else [fault]
            if case.execution.strict_memory:
                raise OutOfMemoryError(" ".join(told))
            tell(f"{' '.join(told)} {REMEDY}")
        found.append(step)
    return found


COMBINATIONS = "No single change lets it fit; accelarray fit tries several together."
QUICK_S = 5.0
"""Of steps that take longer to simulate, no others are simulated for advice."""


def _phases(case: Case, timeline: Timeline) -> list[dict[str, Any]]:
    """Per phase and kind: seconds that an average core spends, and sums over the array.

    Of exchanges that overlap with computing, what is exposed counts.
    """
    spent, names = core_ps_by_phase(timeline), numbers.names_of(case, timeline)
    return [
        {
            "operation": names[str(phase), str(kind)],
            "phase": str(phase),
            "kind": str(kind),
            "core_s": spent.get((phase, kind), 0) / timeline.cores / PICOSECONDS,
            "bytes": total.bytes / timeline.batches,
            "flops": total.flops / timeline.batches,
        }
        for (phase, kind), total in sorted(timeline.totals().items(), key=in_order)
    ]


def _table(result: dict[str, Any]) -> Table:
    shown = ["array", "stack", "batch", "objective", "execution", "devices", "cores"]
    if result["communication"] != "printed":
        shown.insert(3, "communication")
    about = [(key, str(result[key])) for key in shown if result[key] is not None]
    folded = " (folded)" if result["folded"] else ""
    simulated = [
        ("cores simulated", f"{result['distinct_cores']:,}"),
        ("operations", f"{result['operations']:,}"),
        ("events", f"{result['events']:,}{folded}"),
        ("wall time", f"{result['wall_s']:.2f} s"),
    ]
    title = f"{result['network']}, {result['planner']}"
    return pairs_table(title, about, _rows(result), simulated)


def _rows(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What the step comes to."""
    yield "step time", duration(result["iteration_s"])
    yield from band_rows(result["error_band"])
    if (bound_s := result["lower_bound_s"]) is not None:
        yield "lower bound", f"{duration(bound_s)}; the step is {result['step_gap']:z.1%} above"
    yield from numbers.throughput_rows(result)
    if result["predicted_s"] is not None:
        yield "planner's prediction", duration(result["predicted_s"])
    for key in ("computing", "communicating", "waiting"):
        among = _among(result) if key == "waiting" else ""
        yield SHARES[key], f"{result[key]:.2%} of the step{among}"
    yield from numbers.axis_rows(result)
    if result["fits"] is not None:
        yield "idle", f"{result['idle_cores']:,} of {result['cores']:,} cores"
        yield from memory_rows(result["memory"])
    if (energy_j := result.get("energy_j")) is not None:
        yield "energy, by operation", f"{energy_j:.6g} J"
    if (traffic := result.get("traffic_bytes")) is not None:
        yield "traffic", f"{traffic / 1e9:.6g} GB"
    yield from run_rows(result)


def _among(result: dict[str, Any]) -> str:
    """What waiting has in it beside links: the bubble, and cores with nothing to do."""
    found = ["the bubble"] if result.get("pipeline", {}).get("bubble") else []
    found += ["idle cores"] if result["idle_cores"] else []
    return f", {' and '.join(found)} among it" if found else ""


AT_ONCE = (
    "Units of a core work at once: while several operations run, the time counts for one of them."
)


def _operations(result: dict[str, Any]) -> Table:
    """What a mean core spends on each operation, and what all move or compute."""
    heads = ("operation", "time", "all devices")
    table = table_of("Operations (time of a mean core)", heads, ("operation",))
    for row in result["phases"]:
        moved = f"{row['bytes'] / 1e9:.4g} GB" if row["bytes"] else f"{row['flops']:.3e} FLOPs"
        spent = duration(row["core_s"]) if row["kind"] != "memory" else "overlapped"
        table.add_row(row["operation"], spent, moved)
    return table


ENDINGS = (".png", ".svg", ".pdf", ".json.gz", ".json", ".csv", ".pt.trace.json", ".et")
"""What ``save`` and ``accelarray timeline`` write."""


def check_ending(output: str, flag: str = "--output ") -> None:
    """Raise UsageError unless the name ends in a format that is written."""
    if not output.lower().endswith(ENDINGS):
        raise UsageError(f"{flag}{output!r}: the name must end in {', '.join(ENDINGS)}")


def write(output: str, case: Case, plan: Plan, timeline: Timeline, shown: list[Site]) -> None:
    """A chart, a trace or records, by the ending of ``output``; raises UsageError.

    The chart of a plan with stages has these as rows, unless every core is simulated. Traces of
    one rank each are of a run of every core.
    """
    about = {
        "network": case.network.name,
        "planner": case.planner_name,
        "objective": case.objective,
        "array": case.array.name,
        "batch": case.batch,
        "execution": str(case.execution),
        "iteration_ps": timeline.iteration_ps,
        "folded": case.folded,
    }
    if one_a_rank(output):
        if case.folded:
            timeline = simulated(replace(case, folded=False), plan)
            shown = sites(timeline)
        ranks = Ranks(timeline, case.array)
        chosen = [ranks.of_device[site.first] for site in shown if site.level == BOARD]
        if output.lower().endswith(".et"):
            chakra.write(ranks, timeline, chosen, output)
        else:
            kineto.write(ranks, timeline, chosen, output, about)
    elif output.lower().endswith((".json", ".json.gz")):
        write_trace(trace_events(timeline, shown, folded=case.folded), about, output)
    elif output.lower().endswith(".csv"):
        write_csv(timeline, shown, output)
    elif plan.pipeline is not None and case.folded:
        save(plot_pipeline(str(case), plan, timeline), output)
    else:
        save(plot_gantt([chart(str(case), timeline, shown, folded=case.folded)]), output)
