"""What is asked of a run of many steps, and what is told of it, as JSON and as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.runs.cost import HOUR_S, step_cost, step_energy

DAY_S = 24 * HOUR_S
MOST_TOKENS = 1e18


@dataclass(frozen=True, slots=True)
class Run:
    """So many ``tokens`` are trained on (None: nothing is asked of a whole run)."""

    tokens: float | None = None

    def __post_init__(self) -> None:
        if self.tokens is not None and not 1 <= self.tokens <= MOST_TOKENS:
            raise UsageError(f"--tokens {self.tokens:g}: a number from 1 to {MOST_TOKENS:g}")


def run_of(options: Mapping[str, Any]) -> Run:
    """What is asked for by options of these names; raises UsageError."""
    given = {field.name: options.get(field.name) for field in fields(Run)}
    return Run(**{name: value for name, value in given.items() if value is not None})


def run_fields(case: Case, outputs: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """``cost``, ``energy`` and ``run`` of a step's outputs; what is not known is left out.

    Raises UsageError for tokens that a network does not have.
    """
    found: dict[str, Any] = {}
    devices = [device for device, _ in case.array.group.chips]
    if all(device.price is not None for device in devices):
        found["cost"] = asdict(step_cost(case, outputs))
    if all(device.power is not None for device in devices):
        found["energy"] = asdict(step_energy(case, outputs))
    if run.tokens is not None:
        found["run"] = _whole(case, outputs["iteration_s"], run.tokens, found)
    return found


def _whole(case: Case, iteration_s: float, tokens: float, found: Mapping[str, Any]) -> Any:
    """Steps, days, dollars and megawatt-hours of a run."""
    if case.network.tokens is None:
        raise UsageError(f"--tokens {tokens:g}: samples of {case.network.name} are not of tokens")
    steps = math.ceil(tokens / (case.network.tokens * case.batch))
    usd = steps * found["cost"]["usd_per_step"] if "cost" in found else None
    joules = steps * found["energy"]["j_per_step"] if "energy" in found else None
    return {
        "tokens": tokens,
        "steps": steps,
        "days": steps * iteration_s / DAY_S,
        "usd": usd,
        "mwh": None if joules is None else joules / (1e6 * HOUR_S),
    }


def run_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Rows of a table, of what ``run_fields`` found."""
    if cost := found.get("cost"):
        of = cost["usd_per_trillion_tokens"]
        more = "" if of is None else f"; {dollars(of)} per trillion tokens"
        price = f"at {dollars(cost['usd_per_device_hour'])} a device-hour"
        yield "cost", f"{dollars(cost['usd_per_step'])} a step{more}, {price}"
    if energy := found.get("energy"):
        most = energy["most_j_per_step"] / energy["j_per_step"]
        watts = f"{energy['w_per_device']:,.0f} W per device"
        yield (
            "energy, by power",
            f"{energy['j_per_step'] / 1e3:,.4g} kJ a step, {watts}; at most {most:.2f}x",
        )
    if run := found.get("run"):
        said = [f"{run['steps']:,} steps", f"{run['days']:,.1f} days"]
        said += [] if run["usd"] is None else [dollars(run["usd"])]
        said += [] if run["mwh"] is None else [f"{run['mwh']:,.4g} MWh"]
        yield f"run of {run['tokens']:.4g} tokens", ", ".join(said)


def dollars(usd: float) -> str:
    """Dollars: whole ones of a thousand or more, else in four digits at most."""
    return f"${usd:,.0f}" if usd >= 1000 else f"${usd:.4g}"
