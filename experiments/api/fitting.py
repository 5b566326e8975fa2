"""``accelarray.fit``: the fastest combinations of axes of parallelism and options, that fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING, Any, Unpack

from rich.table import Table

from experiments.api.argument_types import (
    ArrayLike,
    Changes,
    ExecutionLike,
    FitOptions,
    NetworkLike,
    Progress,
    explicit,
)
from experiments.api.inputs import array_of, execution_of, network_of
from experiments.api.requests import BATCH, changed, running, transforms_of
from experiments.files.export import exported
from experiments.notices import tell
from experiments.output import UsageError, table_of
from experiments.pictures.plots import plot_fit
from experiments.progress import working
from experiments.results.error_band import SGD, ErrorBand, band_rows, banded, error_band
from experiments.results.result import Result
from experiments.studies.case import Case, plan_of
from experiments.studies.fits.asked import (
    OBJECTIVES,
    VARIED_OR_GIVEN,
    AtMost,
    at_most_of,
    batch_of_tokens,
    best_of,
    check_told,
    score,
)
from experiments.studies.fits.choices import Choice, Choices, check_varied, held_of, varied_of
from experiments.studies.fits.fit import EVERY, Fit, differences, passed, row_of, run_choice
from experiments.studies.options import parse_vary
from experiments.studies.pipelining import fitted_inference
from experiments.studies.running.runner import Runner
from experiments.studies.runs.cost import lacking
from experiments.studies.step_numbers import least_of, readable
from experiments.terms import aliased, duration
from hardware import Array
from planners.errors import check_batch
from planners.pipeline.staging import usual_schedule
from planners.plan.updates import ZERO_STAGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEEDS = {"cost": "price", "energy": "power"}
"""What devices must have for an objective."""
SHOWN = 15
COLUMNS = ("size", "micro_batch", "update")
RATES = {
    "tokens": ("tokens_per_s_each", "tokens/s per chip", 1),
    "samples": ("samples_per_s", "samples/s", 1),
    "cost": ("usd_per_trillion_tokens", "$ per 10^12 tokens", 1),
    "energy": ("j_per_trillion_tokens", "GJ per 10^12 tokens", 1e9),
}
"""What tables have beside the time: the column, its title and its unit."""

FAR = 0.05
"""A first pass that is so far off in the median may have left out the fastest plan."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class FitResult(Result):
    """The fastest combinations of axes that fit in memory, in order, and why others do not."""

    asked: tuple[Choices, ...]
    """One for each size of the array."""
    objective: str
    at_most: AtMost
    counted: dict[str, int]
    """Legal combinations, those that the first pass estimated, and those too large by it."""
    found: tuple[dict[str, Any], ...]
    """A row for each that was simulated."""
    best: Case | None = None
    """The best combination as a step; None where none fits."""

    @property
    def fits(self) -> list[dict[str, Any]]:
        """Combinations that fit, the best first."""
        fitting = [row for row in self.found if not row["reason"]]
        return sorted(fitting, key=lambda row: score(row, self.objective))

    @property
    def others(self) -> list[dict[str, Any]]:
        """Combinations that the engine found not to fit, each with its reason."""
        return [row for row in self.found if row["reason"]]

    @property
    def error_band(self) -> ErrorBand | None:
        """How far measured steps like the best are off; None where none is known."""
        return error_band(self.best) if self.best else None

    def _banded(self) -> dict[str, Any] | None:
        return banded(self.best, self.fits[0]["iteration_s"]) if self.best else None

    @property
    def bound_s(self) -> float:
        """Of several kinds of devices, what no plan on the best's array undercuts (s); else 0."""
        several = len(self.asked[0].array.group.kinds) > 1
        return least_of(self.best, 0.0)[0] if several and self.best else 0.0

    def title(self) -> str:
        """Network, array and batch."""
        first = self.asked[0]
        array = first.array.name if len(self.asked) == 1 else f"{len(self.asked)} arrays"
        return f"{first.network.name} on {array}, batch {first.batch}"

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray fit --format json`` prints."""
        first = self.asked[0]
        return {
            "network": first.network.name,
            "array": first.array.name,
            "batch": first.batch,
            "execution": str(first.execution),
            "varied": list(first.varied),
            "held": dict(first.held),
            "objective": self.objective,
            "combinations": self.counted["every"],
            "estimated": self.counted["estimated"],
            "simulated": len(self.fits) + len(self._simulated_others),
            "first_pass_difference": differences(self.fits),
            "lower_bound_s": self.bound_s or None,
            "error_band": self._banded(),
            "fits": [aliased(row) for row in self.fits],
            "others": [aliased(row) for row in self.others],
        }

    def rows(self) -> list[dict[str, Any]]:
        """A row for each combination that was simulated: those that fit first."""
        return [aliased(row) for row in (*self.fits, *self.others)]

    def export(self, target: str) -> str:
        """The best as flags or a file: "megatron", "torchtitan", "maxtext" or "deepspeed"."""
        if self.best is None:
            raise UsageError(f"{self.title()}: nothing fits that could be exported")
        return exported(self.best, plan_of(self.best), target)

    def plot(self) -> Figure:
        """Rate against memory of the combinations that were simulated, with the Pareto front."""
        first = self.asked[0]
        sizes = [(1 - first.execution.memory_reserve) * one for one in first.capacities_bytes]
        names = list(map(name_of, self.fits))
        return plot_fit(self.fits, names, self.title(), sizes[0] if len(sizes) == 1 else None)

    @property
    def _simulated_others(self) -> list[dict[str, Any]]:
        """What was simulated, and does not fit or breaks a limit."""
        return [row for row in self.others if _was_simulated(row)]

    def _counts(self, shown: Sequence[dict[str, Any]]) -> Iterator[str]:
        """How many combinations there are, and what became of them."""
        every, estimated = self.counted["every"], self.counted["estimated"]
        large = self.counted["too_large"]
        of_them = f", of which {large:,} {_do(large)} not fit" if large else ""
        others = "; the others are slower, or do not fit" if every > estimated > 0 else ""
        others = others or "; of none do weights, gradients and optimizer fit" * (not estimated)
        if unknown := self.counted["unknown"]:
            others = f"; {unknown:,} have no formula: they come last, unranked"
        if name := self.asked[0].without_formula:
            others += f". Schedule {name} has no formula: they are ranked as with 1f1b"
        staged = sum(bool(row["stage_hw"]) for row in self.fits)
        if every or not staged:
            yield (
                f"{every:,} combination{'s' * (every != 1)}: the first pass estimated "
                f"{estimated:,}{of_them}{others}."
            )
        kinds = (
            f" ({staged} with stages on kinds of devices, whatever --axes and --best say)"
            if staged
            else ""
        )
        over = len(self._simulated_others)
        limited = " and keeps the limits" if self.at_most != AtMost() else ""
        broken = f" or {'breaks' if over == 1 else 'break'} a limit" if limited else ""
        more = f", of which {over} {_do(over)} not fit{broken}" if over else ""
        best = "the best of each size" if len(self.asked) > 1 else f"the best {len(shown)}"
        rest = len(shown) < len(self.fits)
        table = f" The table has {best}; --format json has all." if rest else ""
        if self.fits or self.others:
            yield f"The engine simulated {len(self.fits) + over}{kinds}{more}.{table}"
        if refused := len(self.others) - over:
            why = next(row["reason"] for row in self.others if not _was_simulated(row))
            yield f"{refused:,} {'were' if refused > 1 else 'was'} not run; the first: {why}"
        if "micro-batch" not in (*self.asked[0].varied, *self.asked[0].held):
            yield "Micro-batches are of 1 sample; with micro-batch in --axes others are tried."
        first = self.asked[0]
        late = [row["iteration_s"] for row in self.others if self.at_most.late(row)]
        if late and not self.fits:
            yield (
                f"None takes less than {duration(self.at_most.time)} (--at-most): the fastest that "
                f"the engine simulated takes {duration(min(late))}."
            )
        elif not self.fits and (over or not self.others):
            each = ", ".join(map(self._room, self.asked))
            yield (
                f"None fits in {each} of a device{limited}. What may help: "
                f"{'; '.join(self._remedies())}."
            )
        one_moment = len(first.array.group.arithmetic.moment_bytes) == 1
        if one_moment and first.network.sizes is not None and not first.execution.inference:
            yield SGD
        staged = any(row["pp"] > 1 for row in shown)
        yield from fitted_inference(first.array, first.execution, staged=staged)
        if off := differences(self.fits):
            more = " A larger --best simulates more of them." if off["median"] > FAR else ""
            yield (
                f"First pass and engine differ by {off['median']:.1%} in the median, "
                f"{off['largest']:.1%} at most.{more}"
            )

    def _room(self, asked: Choices) -> str:
        """What a step may fill of a device of each size."""
        share = min(1 - asked.execution.memory_reserve, self.at_most.memory)
        return " or ".join(f"{share * one / 2**30:.3g} GiB" for one in asked.capacities_bytes)

    def _remedies(self) -> list[str]:
        """What may make a combination fit, of what is not tried already."""
        first, times = self.asked[0], self._too_few()
        trained, tried = not first.execution.inference, (*first.varied, *first.held)
        given = {"update": first.execution.update, "recompute": first.execution.recompute != "none"}
        more = [name for name in ("tp", "pp") if name not in tried]
        for name in ("update", "recompute") if trained else ():
            free = name not in tried and not given[name]
            more += [name] if free and (name == "update" or times == 1) else []
        smaller = ["a smaller --micro-batch"] if first.held.get("micro-batch", 1) > 1 else []
        count = f"at least {times} times as many" if times > 1 else "more"
        devices = f"{count} devices (--set nodes, or devices.0.count), or larger ones"
        named = ", ".join("zero" if name == "update" else name for name in more)
        less = f"formats {'and an optimizer ' * trained}that hold less"
        return [*smaller, *([f"{named} in --axes"] if more else []), devices, less]

    def _too_few(self) -> int:
        """By how many times there are too few devices, by what they hold at least.

        A power of two; 1 where weights, gradients and optimizer would fit.
        """
        least = min(
            (
                of.state_share(one) / (1 - of.execution.memory_reserve)
                for of in self.asked
                for one in of.choices()
            ),
            default=1.0,
        )
        return 1 << max(math.ceil(math.log2(least)), 0)

    def _shown(self) -> list[dict[str, Any]]:
        """The best rows; of several sizes of the array, as many of each."""
        each, shown = max(SHOWN // len(self.asked), 1), list[dict[str, Any]]()
        for row in self.fits:
            if sum(one["size"] == row["size"] for one in shown) < each:
                shown.append(row)
        return shown

    def tables(self) -> list[Table | str]:
        """The best, and how many there were in all."""
        shown, bound_s = self._shown(), self.bound_s
        said = [*self._counts(shown)]
        if not shown:
            return [self.title(), *said, *sorted({row["reason"] for row in self.others})[:1]]
        best = shown[0]
        said.append(f"The best again: {_flags(best)}")
        if bound_s:
            more = best["iteration_s"] / bound_s - 1
            of_size = f" with {best['size']}" if best["size"] else ""
            said.append(
                f"No plan{of_size} takes less than {duration(bound_s)}: the step's work, spread "
                f"over all devices without loss. The fastest takes {more:.1%} more."
            )
        kept = [name for name in COLUMNS if len({row[name] for row in shown}) > 1]
        rate = self.objective if self.objective in RATES else "tokens"
        rate = "samples" if best["tokens_per_s_each"] is None else rate
        column, heading, unit = RATES[rate]
        # sizes take the place of MFU, which is as many tokens/s of a device in another unit
        share = ["MFU"] * (len(self.asked) == 1)
        titles = {"update": "ZeRO", "size": best["size"].partition("=")[0]}
        named = [titles.get(name, name.replace("_", " ")) for name in kept]
        heads = ("plan", *named, "step time", heading, *share, "GiB")
        table = table_of(self.title(), heads, ("plan",))
        for row in shown:
            table.add_row(
                "\n".join([_axes(row), *_options(row)]),
                *(ZERO_STAGE.get(row[name], f"{row[name]}".rpartition("=")[2]) for name in kept),
                duration(row["iteration_s"]),
                readable(row[column] / unit),
                *(f"{row['share_of_peak']:.1%}" for _ in share),
                f"{row['peak_memory_bytes'] / 2**30:.1f}",
            )
        bands = band_rows(self._banded())
        band = [f"{name.capitalize()} of the best: {words}." for name, words in bands]
        return [table, *band, *said]


def _was_simulated(row: Mapping[str, Any]) -> bool:
    return row["out_of_memory"] or row["iteration_s"] is not None


def _do(many: int) -> str:
    return "does" if many == 1 else "do"


def _axes(row: dict[str, Any]) -> str:
    """Axes as --parallel has them, or stages on kinds of devices."""
    if row["stage_hw"]:
        return "; ".join(row["stage_hw"].split(";"))
    return ",".join(_degrees(row, "dp", "tp", "cp", "pp", "vp", "ep")) or "dp=1"


def _degrees(row: dict[str, Any], *names: str) -> list[str]:
    """The axes of these names, etp and sp, where they split anything."""
    whole = [f"etp={row['etp']}"] if row["etp"] and row["ep"] > 1 else []
    return [
        *(f"{name}={row[name]}" for name in names if row[name] > 1),
        *whole,
        *["sp"] * row["sp"],
    ]


def _options(row: dict[str, Any]) -> Iterator[str]:
    """What of a combination is not as usual, in words."""
    if row["stage_hw"]:
        yield ", ".join([f"layers {row['stage_layers']}", *_degrees(row, "ep")])
    elif row["stage_layers"]:
        counts = row["stage_layers"].split(";")
        yield f"{counts[0]} layers first, {counts[-1]} last"
    if row["recompute"] != "none":
        yield f"recompute {row['recompute']}"
    if row["schedule"] != usual_schedule(row["vp"]):
        yield row["schedule"]


def name_of(row: dict[str, Any]) -> str:
    """All of a combination for readers: its axes, and a line of its options."""
    said = [f"micro-batch {row['micro_batch']}", *_options(row)]
    if (stage := ZERO_STAGE.get(row["update"])) is not None:
        said.insert(1, f"ZeRO {stage}")
    return f"{_axes(row)}\n{', '.join(said)}"


def _flags(row: dict[str, Any]) -> str:
    """All of a combination as options."""
    where = "cuts" if row["cuts"] else "stage_layers"
    usual = {"recompute": "none", "update": "replicated", where: "", "stage_hw": ""}
    said = [f"--set {quote(row['size'])}"] if row["size"] else []
    if row["stage_hw"]:
        said.append("--planner axes")
        beside = ",".join(_degrees(row, "ep"))
        said += [f"--parallel {beside}"] if beside else []
    else:
        said.append(f"--parallel {_axes(row)}")
    said.append(f"--micro-batch {row['micro_batch']}")
    for name, none in usual.items():
        if row[name] != none:
            flag, value = f"--{name.replace('_', '-')}", row[name]
            said.append(
                f"--zero {ZERO_STAGE[value]}" if value in ZERO_STAGE else f'{flag} "{value}"'
            )
    if row["schedule"] != usual_schedule(row["vp"]):
        said.append(f"--schedule {quote(row['schedule'])}")
    return " ".join(said)


@explicit(
    parallel="axes that all combinations have, as tp=8,sp",
    **dict.fromkeys(("zero", "micro_batch", "recompute", "schedule"), VARIED_OR_GIVEN),
)
def fit(
    network: NetworkLike,
    array: ArrayLike,
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    axes: str | Iterable[str] | None = None,
    best: str | int | None = None,
    at_most: str | None = None,
    tokens_per_step: int | None = None,
    objective: str = "time",
    vary: str | None = None,
    set: Changes = (),  # noqa: A002
    **options: Unpack[FitOptions],
) -> FitResult:
    """Rank all combinations of axes and options in closed form, and simulate the best.

    Raises NetworkError, SpecError or UsageError.
    """
    if objective not in OBJECTIVES:
        raise UsageError(f"--objective {objective}: one of {', '.join(OBJECTIVES)}")
    check_told(options)
    limits, most = at_most_of(at_most), best_of(best)
    texts = axes if axes is None or isinstance(axes, str) else ",".join(axes)
    held = held_of(options.pop("parallel", None), options.pop("micro_batch", None))
    given = ["recompute"] if options.get("recompute") == "none" else []
    varied = varied_of(texts, (*held, *given))
    every, rows, asked = list[Any](), list[dict[str, Any]](), list[Choices]()
    cases = list[Case]()
    for label, changes in _sizes(vary, changed(set, options)):
        choices = _choices(network, array_of(array, changes), batch, execution, options)
        check_varied(choices.execution, varied if axes is not None else ())
        if tokens_per_step is not None:
            if batch is not None:
                raise UsageError("--batch and --tokens-per-step: say one of the two")
            choices = replace(choices, batch=batch_of_tokens(choices.network, tokens_per_step))
        choices = replace(choices, varied=varied, held=held)
        if objective in NEEDS:
            lacking(choices.array, NEEDS[objective])
        with running(options, None if most == EVERY else most) as (runner, progress, _):
            found, ran = _simulated(runner, choices, limits, most, progress)
        if label and not found.passed.every and not ran:
            tell(f"{label} is left out: {_nothing_legal(choices)}")
        every.append(found.passed)
        asked.append(choices)
        rows += [row | {"size": label} for row in ran.values()]
        cases += [choices.case(choice) for choice in ran]
    counted = {
        name: sum(getattr(one, name) for one in every)
        for name in ("every", "estimated", "too_large")
    } | {"unknown": sum(len(one.unknown) for one in every)}
    if not counted["every"] and not rows:
        raise UsageError(_nothing_legal(asked[0]))
    result = FitResult(tuple(asked), objective, limits, counted, tuple(rows))
    return replace(result, best=cases[rows.index(result.fits[0])]) if result.fits else result


def _choices(
    network: NetworkLike,
    place: Array,
    batch: int | None,
    execution: ExecutionLike | None,
    options: FitOptions,
) -> Choices:
    """A network on an array under the deployed model; raises UsageError for another."""
    model = execution_of(execution, options, place)
    if model.model != "deployed":
        raise UsageError(
            "fit: the published model has no memory; take --execution deployed, or an array "
            "that is for it, as --array h100-cluster (see: list arrays)"
        )
    given = network_of(network, transforms_of(options), place)
    size = BATCH if batch is None else int(batch)
    check_batch(size)
    return Choices(given, place, size, model)


def _nothing_legal(asked: Choices) -> str:
    """Why there is no combination at all."""
    if asked.held:
        held = ", ".join(f"{name}={many}" for name, many in asked.held.items())
        return f"fit: no combination with {held} is legal; simulate with the same flags says why"
    return (
        f"fit: no combination is legal: no dp divides a batch of {asked.batch}; take "
        "another --batch, as a multiple of the devices, or more --axes"
    )


def _sizes(vary: str | None, changes: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each size of the array, and the changes of its spec."""
    if not vary:
        yield "", [*changes]
        return
    axis = parse_vary(vary)
    if axis.key in ("array", "batch"):
        raise UsageError(f"--vary {vary}: fit is of one {axis.key}; ask for each by --{axis.key}")
    for value in axis.values:
        yield f"{axis.key}={value.label}", [*changes, f"{axis.key}={value.label}"]


def _simulated(
    runner: Runner, choices: Choices, limits: AtMost, most: int, progress: Progress
) -> tuple[Fit, dict[Choice, dict[str, Any]]]:
    """The first pass, and a row for each combination that the engine ran."""
    working(progress, "first pass")
    room = min(1 - choices.execution.memory_reserve, limits.memory)
    fit = Fit(choices, passed(runner, choices, most, room), most)
    rows: dict[Choice, dict[str, Any]] = {}
    for wave in (fit.cases, lambda: fit.unsure(rows)):
        for done in runner.run(wave(), fit.after, run_choice):
            case, estimate = choices.case(done.name), fit.passed.fitting.get(done.name)
            row = row_of(done.name, case, done.outputs, estimate)
            shares = (one["peak_bytes"] / one["capacity_bytes"] for one in done.outputs["memory"])
            if not row["reason"] and (why := limits.broken(row, max(shares, default=0.0))):
                row |= {"reason": why}
            rows[done.name] = row
            progress(f"{done.name.axes}, micro-batch {done.name.micro_batch}")
    # whichever finished first: those that take as long stand as the first pass has them
    return fit, dict(
        sorted(rows.items(), key=lambda one: (one[1]["first_pass_s"] or 0, str(one[0])))
    )
