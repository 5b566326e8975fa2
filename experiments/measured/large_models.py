"""Errors as they are: by source, by chip and by kind of model, controls beside them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas

from experiments.measured.case import RowCase, chips_of, ready
from experiments.measured.machine import MACHINES
from experiments.measured.section import Column, Record, Section, grouped, lines
from experiments.measured.study import CONTROLS, SHARE, Outcome, Study, counted
from experiments.output import UsageError
from experiments.pictures.figures import TITLE_SIZE, panels
from experiments.pictures.palette import SERIES
from experiments.results.error_band import INSIDE, share_within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEW = 4
"""Rows by name in the sentence about those left out; JSON has all of them."""
SHOWN = 20
"""Up to so many rows are shown by name; JSON has all of them."""
PLANS = 5
"""From so many measured plans on there is something to choose."""
WITHIN = 0.2
"""How far the picture's grey band reaches on either side."""

BY_MODEL = (Column("model", "model"), Column("by", "by"))
SPREAD = (
    Column("rows", "rows"),
    Column("median", "median", "{:.1%}"),
    Column("90 %", "p90", "{:.1%}"),
    Column("bias", "signed", "{:+z.1%}"),
)
CHOOSING = (
    Column("model", "model"),
    Column("chips", "machine"),
    Column("plans", "plans"),
    Column("slowest", "spread", "{:.2f}x"),
    Column("chosen", "slower", "{:+z.1%}"),
)


def spread(errors: Sequence[float]) -> Record:
    """How many errors (one at least), median and 90th percentile of their sizes, signed median."""
    sizes = np.abs(errors)
    return {
        "rows": len(sizes),
        "median": float(np.median(sizes)),
        "p90": float(np.quantile(sizes, 0.9)),
        "signed": float(np.median(errors)),
    }


def errors_of(outcomes: Iterable[Outcome]) -> pandas.DataFrame:
    """A line for each row in the statistics: its groups, its error and those of the controls."""
    return pandas.DataFrame(
        [
            (
                one.architecture,
                one.row.source,
                chips_of(one.row),
                not one.assumed,
                one.error,
                *(
                    one.controls.get(name, math.nan) / (one.row.step_s or math.nan) - 1
                    for name in CONTROLS
                ),
            )
            for one in counted(outcomes)
        ],
        columns=["model", "source", "chip", "stated", "error", *CONTROLS],
    )


def spreads(errors: pandas.DataFrame, group: str) -> dict[str, Record]:
    """The spread of each group's errors, in the order in which groups come up."""
    groups = errors.groupby(group, sort=False)["error"]
    return {str(name): spread(own.tolist()) for name, own in groups}


def sections(study: Study) -> list[Section]:
    """A table for models, one for sources, one for chips; memory where it is known."""
    outcomes, errors = study.outcomes, errors_of(study.outcomes)
    groups = {f"by_{group}": spreads(errors, group) for group in ("model", "source", "chip")}
    controls = {name: spread(errors[name].tolist()) for name in CONTROLS if len(errors)}
    banded, share = within_bands(outcomes)
    data = {
        "rows": [outcome.to_json() for outcome in outcomes],
        "constants": study.constants.to_json(),
        "factors": dict(study.factors),
        "errors": groups | {"controls": controls},
        "estimated": study.estimated,
        "within_band": {"rows": banded, "share": share if banded else None},
    }
    parts = [
        Section(
            "Measured steps of large models", _models(errors), _remarks(study, banded, share), data
        ),
        Section("By source", _grouped(errors, "source"), (), {}),
        Section("By chip", _grouped(errors, "chip"), (), {}),
    ]
    return [parts[0], *few(outcomes), *parts[1:], *_choosing(outcomes), *_memory(outcomes)]


def few(outcomes: Sequence[Outcome]) -> list[Section]:
    """The rows themselves, where there are few."""
    found = counted(outcomes)
    if not 0 < len(found) <= SHOWN:
        return []
    steps = [(one.row.id, one.row.step_s, one.predicted_s, one.error) for one in found]
    return [Section("Steps", _each("s", "{:.4g}", steps), (), {})]


def _each(unit: str, spec: str, rows: Iterable[tuple[Any, ...]]) -> list[Record]:
    """Rows by name: measured, predicted, and the error."""
    names = ("row", f"measured [{unit}]", f"predicted [{unit}]", "error")
    columns = [
        Column(*both) for both in zip(names, names, ("", spec, spec, "{:+z.1%}"), strict=True)
    ]
    return lines([dict(zip(names, row, strict=True)) for row in rows], columns)


def _models(errors: pandas.DataFrame) -> list[Record]:
    """Dense models and mixtures of experts, the predictions' errors and the controls'."""
    records = [
        {"model": name, "by": by, **spread(own[column].tolist())}
        for name, own in errors.groupby("model", sort=False)
        for by, column in (("simulated", "error"), *zip(CONTROLS, CONTROLS, strict=True))
    ]
    records += [
        {"model": f"{name}, all stated", "by": "simulated", **found}
        for name, found in spreads(errors.query("stated == True"), "model").items()
    ]
    return lines(records, (*BY_MODEL, *SPREAD))


def _grouped(errors: pandas.DataFrame, what: str) -> list[Record]:
    """A line for each group, its dense models and its mixtures of experts apart."""
    records = [
        {
            what: name,
            "model": model,
            **spread(own["error"].tolist()),
            SHARE: spread(own[SHARE].tolist())["median"],
        }
        for (name, model), own in errors.groupby([what, "model"], sort=False)
    ]
    columns = (Column(what, what), BY_MODEL[0], *SPREAD, Column(SHARE, SHARE, "{:.1%}"))
    return lines(records, columns)


def choices(outcomes: Iterable[Outcome]) -> list[Record]:
    """Of several measured plans of one model on one machine: how good is the one we choose.

    One for each group of at least PLANS rows that differ in their plan alone. ``slower`` is how
    much longer the step of the fastest predicted takes than that of the fastest measured, as a
    share; ``spread`` is the slowest measured over the fastest measured. Rows with no prediction
    are not among the plans; those whose source's factor they set are, for a factor does not
    change an order.
    """
    known = [one for one in outcomes if one.predicted_s is not None and one.row.step_s is not None]
    keys = ("source", "hw", "array", "gpus", "model", "network", "gbs", "seq", "precision")
    groups = grouped(known, lambda one: tuple(getattr(one.row, key) for key in keys))
    return [_choice(group) for group in groups.values() if len(group) >= PLANS]


def _choice(group: Sequence[Outcome]) -> Record:
    measured = [one.row.step_s or 0.0 for one in group]
    row = min(group, key=lambda one: (one.predicted_s or 0.0, one.row.id)).row
    steps = pandas.DataFrame([(one.predicted_s, one.row.step_s) for one in group]).rank()
    return {
        "model": row.model,
        "chips": row.gpus,
        "chip": chips_of(row),
        "plans": len(group),
        "spread": max(measured) / min(measured),
        "slower": (row.step_s or 0.0) / min(measured) - 1,
        "spearman": float(steps[0].corr(steps[1])) if len(group) > 1 else None,
        "chosen": row.id,
    }


def _choosing(outcomes: Sequence[Outcome]) -> list[Section]:
    """Models of which several plans were measured, if there are any."""
    found = choices(outcomes)
    records = [one | {"machine": f"{one['chips']:,} {one['chip']}"} for one in found]
    said = (
        "chosen: the measured step of the plan that is predicted to be the fastest, over the "
        "fastest measured; slowest: the slowest measured over that.",
    )
    data = {"choosing": found}
    return [Section("Choosing a plan", lines(records, CHOOSING), said, data)] if found else []


RANKING = (
    Column("group", "group"),
    Column("plans", "plans"),
    Column("Spearman", "spearman", "{:.3f}"),
    Column("regret", "regret", "{:.1%}"),
    Column("chosen", "chosen"),
)


def ranking(outcomes: Sequence[Outcome]) -> list[Section]:
    """How well plans for one job (rows of one ``group``) are ordered; raises UsageError for none.

    ``spearman`` is the rank correlation of predicted and measured steps, ``regret`` is
    ``slower`` of ``choices``.
    """
    known = [
        one for one in outcomes if one.row.group and one.predicted_s and one.row.step_s is not None
    ]
    groups = grouped(known, lambda one: one.row.group)
    found = {name: _choice(group) for name, group in groups.items()}
    records = [{"group": name, **one, "regret": one["slower"]} for name, one in found.items()]
    if not records:
        out = [f"{one.row.id} is left out: {one.left_out}" for one in outcomes if one.left_out]
        why = out[0] if out else "name plans for one job, in column group"
        raise UsageError(f"--rank: no row with a group can be compared; {why}")
    said = (
        "Spearman: rank correlation of predicted and measured steps; regret: the measured step of "
        "the plan that is predicted to be the fastest, over the fastest measured.",
    )
    return [Section("Ranking of plans", lines(records, RANKING), said, {"ranking": records})]


def _memory(outcomes: Sequence[Outcome]) -> list[Section]:
    """Rows whose memory is known, if there are any."""
    rows = [
        (one.row.id, one.row.mem_gib, one.memory_gib, one.memory_error)
        for one in outcomes
        if one.memory_error is not None
    ]
    if not rows:
        return []
    found = spread([error for *_, error in rows])
    said = (
        f"Memory of the fullest chip: median {found['median']:.1%}, 90 % within "
        f"{found['p90']:.1%}. Counted are tensors; the stack's reserve, too, where a framework "
        "reports what its allocator has reserved (torchtitan, Megatron-DeepSpeed)."
    )
    data = {"memory_errors": found}
    return [Section("Memory of a chip", _each("GiB", "{:.1f}", rows), (said,), data)]


def _remarks(study: Study, banded: int, share: float) -> tuple[str, ...]:
    said = []
    if constants := _constants(study):
        said.append(
            f"Constants: {', '.join(constants)}: the share of their peak that products reach, of a "
            "chip in a format; what a stack makes of it."
        )
    if study.estimated:
        said.insert(0, "Steps are estimates of the first pass (--estimate): none was simulated.")
    if study.factors:
        said.append("Some rows of each source set a factor for it, and are left out of the errors.")
    said.append(
        "median, 90 %: of the errors' sizes; bias: their median with its sign (negative: "
        "predicted too fast)."
    )
    if banded:
        said.append(
            f"Error bands, each from the errors of other sources, hold {share:.0%} of {banded} "
            f"rows; they are made to hold {INSIDE:.0%}."
        )
    ran = counted(study.outcomes)
    if full := [one.row.id for one in ran if one.fits is False]:
        said.append(
            f"{len(full)} of {len(ran)} steps were run, although their tensors alone are predicted "
            f"not to fit: {_some(full)}"
        )
    without = (one for one in study.outcomes if one.left_out is not None)
    for why, left_out in grouped(without, lambda one: one.left_out).items():
        said.append(f"Left out, {why}: {_some([one.row.id for one in left_out])}")
    assumed = Counter(word for one in ran for word in one.assumed)
    if assumed:
        named = ", ".join(f"{word} ({many})" for word, many in assumed.most_common(8))
        said.append(f"Taken where rows do not say: {named}.")
    return tuple(said)


def _constants(study: Study) -> list[str]:
    """Those of the rows' chips, and of chips with the same cores."""
    asked = {hw for one in study.outcomes for hw in chips_of(one.row).split("+")}
    asked = {*asked, *(MACHINES[hw].cores for hw in asked if hw in MACHINES)} - {""}
    return [
        f"{name} {value:.3f}"
        for name, value in study.constants.to_json().items()
        if (name.rpartition(" on ")[2] if " on " in name else name.partition(" ")[0]) in asked
    ]


def _some(ids: Sequence[str]) -> str:
    """FEW of them by name, the others by their number; a sentence's end."""
    more = len(ids) - FEW
    return ", ".join(ids[:FEW]) + (f" and {more} more." if more > 0 else ".")


def within_bands(outcomes: Sequence[Outcome]) -> tuple[int, float]:
    """How many rows have an error band, and which share of them is in it (``error_band``)."""
    by_source = grouped(counted(outcomes), lambda one: one.row.source)
    return share_within(
        {
            source: [
                (case.case, 1 / (1 + one.error))
                for one in own
                if isinstance(case := ready(one.row), RowCase)
            ]
            for source, own in by_source.items()
        }
    )


def plot(outcomes: Sequence[Outcome]) -> Figure:
    """Predicted against measured seconds, both axes logarithmic.

    A dot or square for each row in the statistics; mixtures of experts are crosses.
    Raises UsageError where there is none.
    """
    known = counted(outcomes)
    if not known:
        raise UsageError("--plot: no row can be compared")
    figure, (axes,) = panels(6.4, 5.6)
    chips = list(dict.fromkeys(chips_of(one.row) for one in known))
    for number, chip in enumerate(chips):
        again = number // len(SERIES) % 2  # the second chip of a colour has squares
        for dense, marker in ((True, "os"[again]), (False, "x+"[again])):
            own = [one for one in known if chips_of(one.row) == chip and one.row.dense is dense]
            axes.plot(
                [one.row.step_s or 0.0 for one in own],
                [one.predicted_s or 0.0 for one in own],
                marker,
                ms=3.5,
                mew=0.9,
                color=SERIES[number % len(SERIES)],
                alpha=0.75,
                label=chip if dense else None,
                linestyle="none",
            )
    both = [s for one in known for s in (one.row.step_s, one.predicted_s) if s]
    low, high = min(both) / 1.3, max(both) * 1.3
    axes.fill_between(
        [low, high],
        [low * (1 - WITHIN), high * (1 - WITHIN)],
        [low * (1 + WITHIN), high * (1 + WITHIN)],
        color="#eeeeee",
        lw=0,
        zorder=0,
    )
    axes.plot([low, high], [low, high], color="#777777", lw=0.7, zorder=1)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    axes.set_xlabel("measured step time [s]")
    axes.set_ylabel("predicted step time [s]")
    said = f"{len(known)} measured steps; grey: within {WITHIN:.0%}; crosses: experts"
    axes.set_title(said, fontsize=TITLE_SIZE)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=7, fontsize=7
    )
    return figure
