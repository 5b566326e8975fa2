"""The published comparison: planners' speedups over data parallelism, network by network."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

from experiments.studies.metrics import measured
from experiments.studies.occupancy import COLUMNS as OCCUPANCY
from experiments.studies.occupancy import occupancy
from experiments.studies.step import run_step
from hardware import Array, Device, Group, SpecError, load_array
from planners import TIME, Objective, Plan
from simulator import PUBLISHED, Execution, Timeline, overflow
from workloads import ZOO, Network, NetworkError, load_network

if TYPE_CHECKING:
    import pandas

BASELINE = "data_parallel"
PUBLISHED_BATCH = 512
METRIC_OF = {"energy_j": "energy", "energy_efficiency": "energy", "traffic_bytes": "traffic"}
"""The metric that a column of a comparison belongs to, if it is not time."""


@dataclass(frozen=True, slots=True)
class Row:
    """One network under one planner.

    On arrays of unlike devices, ``slow_share`` is the fraction of all FLOPs
    that the slowest kind does, and ``fast_alone_speedup`` the speedup (over
    data parallelism on the whole array) of the same planner on the fastest kind
    alone; the latter only where the plan is not spread evenly. Joules and bytes
    are those of the whole array, where asked for; ``energy_efficiency`` is over
    data parallelism. Under the deployed model it has the fullest core's peak
    memory, and how many cores overflow or are idle. Where the graph was too
    wide for an exact plan ``exact`` is False and ``gap`` the plan's, if known.
    """

    network: str
    planner: str
    iteration_s: float
    speedup: float
    slow_share: float | None = None
    fast_alone_speedup: float | None = None
    energy_j: float | None = None
    energy_efficiency: float | None = None
    traffic_bytes: float | None = None
    peak_memory_bytes: float | None = None
    cores_over_memory: int | None = None
    idle_cores: int | None = None
    exact: bool | None = None
    gap: float | None = None

    def metric(self, name: str) -> float:
        """Speedup, energy efficiency or bytes, for ``time``, ``energy`` or ``traffic``."""
        value = {
            "time": self.speedup,
            "energy": self.energy_efficiency,
            "traffic": self.traffic_bytes,
        }[name]
        return math.nan if value is None else value

    def values(self) -> dict[str, Any]:
        """The values that apply, by name."""
        return {key: value for key, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Published:
    """A paper's geometric mean, and whether it is ``printed`` there or ``recalled``."""

    speedup: float
    certainty: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All rows of one array and batch, and what the paper printed for exactly these."""

    array: str
    batch: int
    rows: tuple[Row, ...]
    published: dict[str, Published]
    complete: bool = True
    """False when the keyboard interrupted it: some networks are missing."""
    metrics: tuple[str, ...] = ("time",)
    """What its rows have and tables show."""
    communication: str = "printed"
    execution: str = str(PUBLISHED)
    cores: int = 0
    overflows: tuple[str, ...] = ()
    """Where a step does not fit in memory, a sentence each."""

    @property
    def case(self) -> str:
        """Array, batch and whatever is not the default: communication table, execution model."""
        words = [self.array, f"batch {self.batch}"]
        if self.communication != "printed":
            words.append(f"{self.communication} communication")
        if self.execution != str(PUBLISHED):
            words.append(self.execution)
        return ", ".join(words)

    @property
    def networks(self) -> list[str]:
        """Networks in the order of the rows."""
        return list(dict.fromkeys(row.network for row in self.rows))

    @property
    def planners(self) -> list[str]:
        """Planners in the order of the rows."""
        return list(dict.fromkeys(row.planner for row in self.rows))

    def of(self, planner: str) -> list[Row]:
        """One planner's rows."""
        return [row for row in self.rows if row.planner == planner]

    def to_frame(self) -> pandas.DataFrame:
        """One line a row; NaN where a value does not apply."""
        import pandas

        columns = [f.name for f in fields(Row)]
        shown = [c for c in columns if METRIC_OF.get(c, "time") in (*self.metrics, "time")]
        if self.execution == str(PUBLISHED):
            shown = [c for c in shown if c not in OCCUPANCY]
        if all(row.exact is None for row in self.rows):
            shown = [c for c in shown if c not in ("exact", "gap")]
        return pandas.DataFrame(map(asdict, self.rows), columns=shown)

    @property
    def geomean(self) -> dict[str, float]:
        """Geometric mean of each planner's speedups."""
        return self.means("time")

    def means(self, metric: str) -> dict[str, float]:
        """Geometric mean of one metric (see ``Row.metric``) for each planner."""
        return {p: geometric_mean([r.metric(metric) for r in self.of(p)]) for p in self.planners}


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean of positive numbers."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def compare(
    array: Array,
    networks: Sequence[Network],
    planners: Sequence[str],
    batch: int = PUBLISHED_BATCH,
    progress: Callable[[str], None] = lambda done: None,
    *,
    execution: Execution = PUBLISHED,
    folded: bool = True,
    objective: Objective = TIME,
    metrics: tuple[str, ...] = ("time",),
) -> Comparison:
    """Plan and simulate every network under every planner; ``progress`` hears of each case done.

    ``folded`` simulates one of each class of devices (see ``simulator.simulate``);
    ``metrics`` (see ``experiments.studies.metrics``) are what its rows will have.
    Interrupted by the keyboard, it returns the networks finished so far.
    """
    refuse_twins(networks)
    rows: list[Row] = []
    overflows: list[str] = []
    complete = True
    step = partial(
        _step,
        batch=batch,
        objective=objective,
        execution=execution,
        folded=folded,
        overflows=overflows,
    )
    for network in networks:
        try:
            rows += list(_rows(array, network, planners, step, progress, metrics))
        except KeyboardInterrupt:
            if not rows:
                raise
            complete = False
            break
    usual = execution == PUBLISHED and objective == TIME
    paper = published(array) if complete and usual and _papers_case(networks, batch) else {}
    table = str(objective.communication)
    return Comparison(
        array.name,
        batch,
        tuple(rows),
        paper,
        complete,
        metrics,
        table,
        str(execution),
        array.group.cores,
        tuple(overflows),
    )


def refuse_twins(networks: Sequence[Network]) -> None:
    """Raise NetworkError when two networks have one name: results go by it."""
    names = [network.name for network in networks]
    if twins := sorted({name for name in names if names.count(name) > 1}):
        raise NetworkError(f"several networks are called {', '.join(twins)}; rename a file")


def _papers_case(networks: Sequence[Network], batch: int) -> bool:
    """Whether these are the paper's nine networks and its batch."""
    zoo = {name: load_network(name) for name in ZOO}
    return {network.name: network for network in networks} == zoo and batch == PUBLISHED_BATCH


def _rows(
    array: Array,
    network: Network,
    planners: Sequence[str],
    step: Callable[[Array, Network, str], tuple[Plan, Timeline]],
    progress: Callable[[str], None],
    metrics: tuple[str, ...],
) -> Iterator[Row]:
    fixed, baseline = step(array, network, BASELINE)
    for planner in planners:
        if planner == BASELINE:
            plan, timeline, alone = fixed, baseline, None
        else:
            plan, timeline = step(array, network, planner)
            alone = (
                step(fastest_alone(array), network, planner)[1] if _uneven(plan, array) else None
            )
        progress(f"{network.name} {planner}")
        measures = measured(metrics, timeline)
        if energy_j := measures.get("energy_j"):
            measures["energy_efficiency"] = (baseline.energy_j or math.nan) / energy_j
        yield Row(
            network.name,
            planner,
            timeline.iteration_s,
            baseline.iteration_s / timeline.iteration_s,
            slow_share(timeline, array),
            None if alone is None else baseline.iteration_s / alone.iteration_s,
            **measures,
            **occupancy(timeline),
            **_gap(plan),
        )


def _gap(plan: Plan) -> dict[str, Any]:
    """Of a plan that is not exact, that it is not, and its gap where that is known."""
    if plan.gap is None:
        return {}
    return {"exact": False, "gap": plan.gap if math.isfinite(plan.gap) else None}


def _step(
    array: Array,
    network: Network,
    planner: str,
    *,
    batch: int,
    objective: Objective,
    execution: Execution,
    folded: bool,
    overflows: list[str],
) -> tuple[Plan, Timeline]:
    plan, timeline = run_step(network, planner, array, batch, objective, execution, folded=folded)
    if fault := overflow(network.name, planner, array.name, timeline.memory):
        overflows.append(fault)
    return plan, timeline


def _uneven(plan: Plan, array: Array) -> bool:
    """Whether a plan gives unlike devices shares that do not follow their number."""
    if len(array.group.kinds) == 1 or plan.root is None:
        return False
    even = array.group.halves()[0].size / array.group.size
    return any(partition.share != even for partition in plan.root.partitions)


def fastest_alone(array: Array) -> Array:
    """The array's fastest kind of device alone."""
    fastest = max(array.group.kinds, key=lambda kind: _speed(kind[0]))
    name = f"{array.name}, {fastest[0].name} alone"
    topology = replace(array.topology, shape=())
    return Array(name, "", Group((fastest,)), topology=topology)


def slow_share(timeline: Timeline, array: Array) -> float | None:
    """Fraction of all FLOPs done by the slowest kind of device; None if there is one kind."""
    if len(array.group.kinds) == 1:
        return None
    slowest = min((device for device, _ in array.group.kinds), key=_speed)
    work = timeline.flops_by_device()
    total = math.fsum(work.values())
    return work[slowest] / total if total else 0.0


def _speed(device: Device) -> tuple[float, float]:
    """Devices in order of their peaks; those of one peak, of their links."""
    return device.peak_flops_per_s, device.network_bytes_per_s


def published(array: Array) -> dict[str, Published]:
    """The AccPar paper's averages for an array, if it is one of the paper's, unchanged."""
    text = (resources.files("experiments") / "published" / "accpar_speedups.csv").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    rows = [row for row in csv.DictReader(lines) if row["array"] == array.name]
    try:
        unchanged = bool(rows) and load_array(array.name).group == array.group
    except SpecError:
        unchanged = False
    return {
        row["planner"]: Published(float(row["speedup"]), row["certainty"])
        for row in rows
        if unchanged
    }


def notes(result: Comparison) -> list[str]:
    """What to know about a comparison, in sentences."""
    found = [
        f"The paper's averages for this array are {certainty}, not verified."
        for certainty in sorted({value.certainty for value in result.published.values()})
        if certainty != "printed"
    ]
    for planner in result.planners:
        rows = result.of(planner)
        found += slower(result, planner)
        if faster := [
            r.network for r in rows if r.fast_alone_speedup and r.fast_alone_speedup > r.speedup
        ]:
            found.append(
                f"{planner} on the fastest devices alone beats {planner} on the whole array for "
                f"{', '.join(faster)}."
            )
        found += _inexact(planner, rows)
        found += _occupied(planner, rows, result.cores)
    return found


def slower(result: Comparison, *planners: str) -> Iterator[str]:
    """For which networks planners (all, unless named) lose to data parallelism, a sentence each."""
    for planner in planners or result.planners:
        if losing := [row.network for row in result.of(planner) if row.speedup < 1]:
            yield f"{planner} is slower than data parallelism for {', '.join(losing)}."


def _inexact(planner: str, rows: Sequence[Row]) -> Iterator[str]:
    """For which networks a planner's graph was too wide for an exact search."""
    for row in rows:
        if row.exact is False:
            above = "an unknown amount" if row.gap is None else f"at most {row.gap:.2%}"
            yield (
                f"{planner}'s plan for {row.network} is not exact (its graph is too wide): a split "
                f"costs {above} more than a lower bound on the least."
            )


def _occupied(planner: str, rows: Sequence[Row], cores: int) -> Iterator[str]:
    """For which networks a planner leaves cores idle, or overfills them."""
    for idle in sorted({row.idle_cores for row in rows if row.idle_cores}):
        networks = ", ".join(row.network for row in rows if row.idle_cores == idle)
        yield f"{planner} leaves {idle:,} of {cores:,} cores idle for {networks}."
    if over := [row.network for row in rows if row.cores_over_memory]:
        networks = ", ".join(over)
        yield f"{planner} does not fit in memory for {networks}: this array cannot run it."
