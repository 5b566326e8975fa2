"""Speedups over data parallelism, their means, and what to know about them in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from experiments.notices import tell
from experiments.output import frame_of
from experiments.studies.occupancy import COLUMNS as OCCUPANCY
from experiments.studies.published_values import Published
from experiments.studies.step_numbers import MEASURES
from planners import Plan
from simulator import Execution

if TYPE_CHECKING:
    import pandas


RATES = ("samples_per_s", "share_of_peak")
BOUND = ("lower_bound_s", "step_gap")
BASELINE = "data_parallel"
SMALL = 1e-3
"""Of a step: less is not worth a sentence."""
UNCHARGED = "the published model moves tensors between layers of unlike shares for free"
METRIC_OF = {column: metric for metric, column in MEASURES.items()}
METRIC_OF["energy_efficiency"] = "energy"
"""The metric that a column of a comparison belongs to, if it is not time."""


@dataclass(frozen=True, slots=True)
class Row:
    """One network under one planner.

    On arrays of unlike devices, ``slow_share`` is the fraction of all FLOPs
    that the slowest kind does, and ``fast_alone_speedup`` the speedup (over
    data parallelism on the whole array) of the same planner on the fastest kind
    alone; the latter only where the plan is not spread evenly. Joules and bytes
    are those of the whole array, where asked for; ``energy_efficiency`` is over
    data parallelism, where both steps take joules. Under the deployed model it
    has the fullest core's peak memory, and how many cores overflow or are idle.
    Where the graph was too wide for an exact plan ``exact`` is False and
    ``gap`` the plan's, if known. ``samples_per_s`` and the two behind it are ``throughput``'s.
    No plan that the row's bound covers takes less than ``lower_bound_s``, and the step is
    ``step_gap`` of it longer; both are None where the bound says little (``step_numbers.NEAR``),
    or where none is known: where the row is not ``bounded``, either. ``uncharged_s`` are seconds
    that the published model leaves out of the step (``planners.uncharged_s``).
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
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    share_of_peak: float | None = None
    lower_bound_s: float | None = None
    step_gap: float | None = None
    bounded: bool | None = None
    uncharged_s: float | None = None

    def metric(self, name: str) -> float | None:
        """Speedup, energy efficiency or bytes, for ``time``, ``energy`` or ``traffic``."""
        values = {
            "time": self.speedup,
            "energy": self.energy_efficiency,
            "traffic": self.traffic_bytes,
        }
        return values[name]

    def values(self, metrics: Sequence[str] = ()) -> dict[str, Any]:
        """The values that apply, by name; those of ``metrics`` are None where they do not."""
        return {
            key: value
            for key, value in asdict(self).items()
            if value is not None or METRIC_OF.get(key) in metrics
        }


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
    execution: str = str(Execution())
    cores: int = 0
    overflows: tuple[str, ...] = ()
    """Where a step does not fit in memory, a sentence each."""
    unread: tuple[str, ...] = ()
    """Which values of the array's spec the execution model does not read, in sentences."""
    base_full: tuple[str, ...] = ()
    """Networks for which data parallelism does not fit in memory."""

    @property
    def full(self) -> dict[str, list[str]]:
        """By planner the networks for which it does not fit in memory; the baseline first."""
        found = {BASELINE: list(self.base_full)} | {
            planner: [row.network for row in self.of(planner) if row.cores_over_memory]
            for planner in self.planners
            if planner != BASELINE
        }
        return {planner: networks for planner, networks in found.items() if networks}

    def mark(self, planner: str, *networks: str) -> str:
        """A star where it does not fit for one of some networks, or its baseline does not."""
        full = {*self.base_full, *self.full.get(planner, ())}
        return "*" * (not full.isdisjoint(networks))

    @property
    def case(self) -> str:
        """Array, batch, the communication table if it is not the default, execution model."""
        words = [self.array, f"batch {self.batch}"]
        if self.communication != "printed":
            words.append(f"{self.communication} communication")
        return ", ".join([*words, self.execution])

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
        columns = [f.name for f in fields(Row) if f.name != "bounded"]
        shown = [c for c in columns if METRIC_OF.get(c, "time") in (*self.metrics, "time")]
        for told in (
            OCCUPANCY,
            ("exact", "gap"),
            RATES,
            ("tokens_per_s",),
            ("bounded", *BOUND),
            ("uncharged_s",),
        ):
            if all(getattr(row, column) is None for row in self.rows for column in told):
                shown = [c for c in shown if c not in told]
        frame = frame_of(map(asdict, self.rows), shown)
        empty = [column for column in shown if frame[column].isna().all()]
        return frame.astype(dict.fromkeys(empty, float))  # NaN, as where some rows have a value

    @property
    def geomean(self) -> dict[str, float]:
        """Geometric mean of each planner's speedups."""
        return {p: geometric_mean([row.speedup for row in self.of(p)]) for p in self.planners}

    def means(self, metric: str) -> dict[str, float | None]:
        """Geometric mean of one metric for each planner; None where a row has no value."""
        return {p: mean_of([row.metric(metric) for row in self.of(p)]) for p in self.planners}


def geometric_mean(values: Sequence[float]) -> float:
    """Geometric mean of numbers that are not negative."""
    if 0 in values:
        return 0.0
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def mean_of(values: Sequence[float | None]) -> float | None:
    """Geometric mean of values that are all known, else None."""
    known = [value for value in values if value is not None]
    return geometric_mean(known) if len(known) == len(values) else None


def inexact(plan: Plan) -> str:
    """A sentence where a split was too wide for an exact search, else nothing."""
    if plan.gap is None:
        return ""
    if math.isinf(plan.gap):
        return "Not exact: the graph is too wide, and nothing is known about the least cost.\n"
    return (
        "Not exact: the graph is too wide for an exact search; "
        f"no split costs more than {plan.gap:.2%} above a lower bound on the least.\n"
    )


def warn_inexact(network: str, plan: Plan) -> None:
    """The same sentence as a warning."""
    if said := inexact(plan):
        tell(f"{network}, {plan.planner}: {said[0].lower()}{said[1:].rstrip()}")


def messages(result: Comparison) -> list[str]:
    """What to know about a comparison."""
    found = [
        f"The paper's averages for this array are {certainty}, not verified."
        for certainty in sorted({value.certainty for value in result.published.values()})
        if certainty != "printed"
    ]
    for planner in result.planners:
        found += [*slower(result, planner), *_of_planner(planner, result.of(planner), result.cores)]
    found += over_memory(result)
    if "energy" in result.metrics:
        found += _without_energy(result)
    return found


def slower(result: Comparison, *planners: str) -> Iterator[str]:
    """For which networks planners (all, unless named) lose to data parallelism, a sentence each.

    Where that does not fit in memory nothing loses to it.
    """
    for planner in planners or result.planners:
        rows = [row for row in result.of(planner) if row.network not in result.base_full]
        if losing := [row.network for row in rows if row.speedup < 1]:
            yield f"{planner} is slower than data parallelism for {', '.join(losing)}."


def over_memory(result: Comparison) -> Iterator[str]:
    """Which planners do not fit in memory, for which networks, a sentence each."""
    for planner, networks in result.full.items():
        tail = " No speedup over it can be had." if planner == BASELINE else ""
        names = ", ".join(networks)
        yield f"* {planner} does not fit in memory for {names}: this array cannot run it.{tail}"


def _of_planner(planner: str, rows: Sequence[Row], cores: int) -> Iterator[str]:
    """What to know about one planner's rows: their devices, exactness and bounds."""
    alone = [r.network for r in rows if r.fast_alone_speedup and r.fast_alone_speedup > r.speedup]
    if alone:
        yield (
            f"{planner} on the fastest devices alone beats {planner} on the whole array for "
            f"{', '.join(alone)}."
        )
    for row in rows:
        if row.exact is False:
            above = "an unknown amount" if row.gap is None else f"at most {row.gap:.2%}"
            yield (
                f"{planner}'s plan for {row.network} is not exact (its graph is too wide): a split "
                f"costs {above} more than a lower bound on the least."
            )
    more = {row.network: (row.uncharged_s or 0.0) / row.iteration_s for row in rows}
    if rows and (share := more[longest := max(more, key=more.__getitem__)]) > SMALL:
        mean = geometric_mean([row.speedup / (1 + more[row.network]) for row in rows])
        yield (
            f"{planner}: {UNCHARGED}. Charged, a step of {longest} takes {share:.1%} longer, and "
            f"the geometric mean is {mean:.3f}."
        )
    gaps = {row.network: row.step_gap for row in rows if row.step_gap is not None}
    if len(gaps) == len(rows) and rows:
        least, most = (pick(gaps, key=gaps.__getitem__) for pick in (min, max))
        to = f" to {gaps[most]:.1%} ({most})" if len(gaps) > 1 else ""
        yield (
            f"{planner}: {gaps[least]:.1%} ({least}){to} above the lower bound "
            "(docs/explanation/search.md)."
        )
    for idle in sorted({row.idle_cores for row in rows if row.idle_cores}):
        networks = ", ".join(row.network for row in rows if row.idle_cores == idle)
        yield f"{planner} leaves {idle:,} of {cores:,} cores idle for {networks}."


def _without_energy(result: Comparison) -> Iterator[str]:
    """For which networks, under which planners, energy efficiency cannot be said."""
    unknown: dict[tuple[str, ...], list[str]] = {}
    for network in result.networks:
        rows = [row for row in result.rows if row.network == network]
        planners = tuple(row.planner for row in rows if row.energy_efficiency is None)
        unknown.setdefault(planners, []).append(network)
    for planners, networks in unknown.items():
        if planners:
            yield (
                f"No energy efficiency of {', '.join(planners)} for {', '.join(networks)}: "
                "a step, or the one under data parallelism, takes no joules."
            )
