"""Errors as they are: by source, by chip and by kind of model, controls beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from experiments.measured.choosing import choices
from experiments.measured.controls import CONTROLS
from experiments.measured.errors import (
    Outcome,
    Spread,
    architecture,
    counted,
    of_control,
    spreads,
    to_json,
)
from experiments.measured.rows import Row
from experiments.measured.study import Study
from experiments.validate.section import Section

FEW = 4
"""Rows by name in the sentence about those left out; JSON has all of them."""


def sections(study: Study) -> list[Section]:
    """A table for models, one for sources, one for chips; memory where it is known."""
    outcomes = study.outcomes
    data = {
        "rows": [to_json(outcome) for outcome in outcomes],
        "constants": study.constants.to_json(),
        "factors": dict(study.factors),
        "errors": _data(outcomes),
    }
    parts = [
        Section("Measured steps of large models", _models(outcomes), _remarks(study), data),
        Section("By source", _grouped(outcomes, lambda row: row.source, "source"), (), {}),
        Section("By chip", _grouped(outcomes, lambda row: row.hw, "chip"), (), {}),
    ]
    parts += [part for part in (_choosing(outcomes), _memory(outcomes)) if part]
    return parts


def _models(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Dense models and mixtures of experts, the predictions' errors and the controls'."""
    rows = []
    for name, spread in spreads(outcomes, architecture).items():
        rows.append({"model": name, "by": "simulated", **_cells(spread)})
        own = [one for one in outcomes if architecture(one.row) == name]
        rows += [
            {"model": name, "by": control, **_cells(Spread.of(errors))}
            for control in CONTROLS
            if (errors := of_control(own, control))
        ]
    stated = [one for one in outcomes if not one.assumed]
    rows += [
        {"model": f"{name}, all stated", "by": "simulated", **_cells(spread)}
        for name, spread in spreads(stated, architecture).items()
    ]
    return rows


def _grouped(
    outcomes: Sequence[Outcome], group: Callable[[Row], str], what: str
) -> list[dict[str, Any]]:
    """A line for each group, its dense models and its mixtures of experts apart."""
    found = spreads(outcomes, lambda row: f"{group(row)}\n{architecture(row)}")
    rows = []
    for name, spread in found.items():
        one, kind = name.split("\n")
        own = [o for o in outcomes if group(o.row) == one and architecture(o.row) == kind]
        share = Spread.of(of_control(own, CONTROLS[1])).median
        line = {what: one, "model": kind, **_cells(spread)}
        rows.append({**line, CONTROLS[1]: f"{share:.1%}"})
    return rows


def _cells(spread: Spread) -> dict[str, Any]:
    return {
        "rows": spread.rows,
        "median": f"{spread.median:.1%}",
        "90 %": f"{spread.p90:.1%}",
        "bias": f"{spread.signed:+.1%}",
    }


def _data(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    groups: dict[str, Callable[[Row], str | None]] = {
        "by_model": architecture,
        "by_source": lambda row: row.source,
        "by_chip": lambda row: row.hw,
    }
    found: dict[str, Any] = {
        name: {key: spread.to_json() for key, spread in spreads(outcomes, group).items()}
        for name, group in groups.items()
    }
    controls = {name: of_control(outcomes, name) for name in CONTROLS}
    found["controls"] = {k: Spread.of(v).to_json() for k, v in controls.items() if v}
    return found


def _choosing(outcomes: Sequence[Outcome]) -> Section | None:
    """Models of which several plans were measured."""
    found = choices(outcomes)
    rows = [
        {
            "model": one.model,
            "chips": f"{one.chips:,} {one.chip}",
            "plans": one.plans,
            "slowest": f"{one.spread:.2f}x",
            "chosen": f"{one.slower:+.1%}",
        }
        for one in found
    ]
    said = (
        "chosen: the measured step of the plan that is predicted to be the fastest, over the "
        "fastest measured; slowest: the slowest measured over that.",
    )
    data = {"choosing": [asdict(one) for one in found]}
    return Section("Choosing a plan", rows, said, data) if found else None


def _memory(outcomes: Sequence[Outcome]) -> Section | None:
    """Rows whose memory is known."""
    known = [(one, error) for one in outcomes if (error := one.memory_error) is not None]
    if not known:
        return None
    rows = [
        {
            "row": one.row.id,
            "measured [GiB]": f"{one.row.mem_gib:.1f}",
            "predicted [GiB]": f"{one.memory_gib:.1f}",
            "error": f"{error:+.1%}",
        }
        for one, error in known
    ]
    spread = Spread.of([error for _, error in known])
    said = f"Memory of the fullest chip: median {spread.median:.1%}, 90 % within {spread.p90:.1%}."
    return Section("Memory of a chip", rows, (said,), {"memory_errors": spread.to_json()})


def _remarks(study: Study) -> tuple[str, ...]:
    constants = ", ".join(
        f"{name} {value:.3f}" for name, value in study.constants.to_json().items()
    )
    lines = [
        f"Constants: {constants}: the share of their peak that products reach, of a chip in a "
        "format; what a stack makes of it.",
        "median, 90 %: of the errors' sizes; bias: their median with its sign (negative: "
        "predicted too fast).",
        *_left_out(study.outcomes),
    ]
    if study.factors:
        lines.insert(
            1, "Some rows of each source set a factor for it, and are left out of the errors."
        )
    assumed = Counter(word for one in counted(study.outcomes) for word in one.assumed)
    if assumed:
        named = ", ".join(f"{word} ({many})" for word, many in assumed.most_common(8))
        lines.append(f"Taken where rows do not say: {named}.")
    return tuple(lines)


def _left_out(outcomes: Sequence[Outcome]) -> list[str]:
    """A sentence for each reason, the first rows by name."""
    reasons: dict[str, list[str]] = {}
    for one in outcomes:
        if one.left_out is not None:
            reasons.setdefault(one.left_out, []).append(one.row.id)
    return [
        f"Left out, {why}: {', '.join(ids[:FEW])}"
        + (f" and {len(ids) - FEW} more." if len(ids) > FEW else ".")
        for why, ids in reasons.items()
    ]
