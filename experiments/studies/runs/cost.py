"""What a step costs: dollars, by the price of its chips; joules, by their power.

    dollars   seconds x chips x price / 3,600
    joules    seconds x chips x (idle + computing x (busy - idle)), for each kind of chips

``computing`` is the share of the step that a mean core of the kind computes. Waiting kernels may
draw more than an idle chip, so with the joules comes what they cannot exceed, all at busy power.
Hosts, switches and cooling are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from experiments.output import UsageError
from experiments.studies.case import Case
from hardware import Array, Device

HOUR_S = 3600.0
TRILLION = 1e12


def step_cost(case: Case, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Dollars of a step of ``iteration_s`` seconds, of 10^12 tokens, and of a chip's hour.

    Of tokens None where samples are no sequences of them. Raises UsageError where a device has
    no price.
    """
    lacking(case.array, "price")
    per_hour = _sum(case.array, lambda device: device.price or 0.0)
    usd = per_hour * outputs["iteration_s"] / HOUR_S
    return {
        "usd_per_step": usd,
        "usd_per_trillion_tokens": _per_trillion(case, usd),
        "usd_per_device_hour": per_hour / _sum(case.array, lambda _: 1.0),
    }


def step_energy(case: Case, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Joules of a step that each kind of chips computes a share of (``computing_by_kind``).

    And those of 10^12 tokens; at most; mean watts: all chips' joules, and a chip's watts. Raises
    UsageError where a device has no power.
    """
    lacking(case.array, "power")
    seconds, watts = outputs["iteration_s"], idle_watts(case.array)
    busy = _sum(case.array, lambda device: device.power.busy_w if device.power else 0.0)
    kinds = zip(case.array.group.chips, outputs["computing_by_kind"], strict=True)
    for (device, count), computing in kinds:
        if device.power:
            watts += count * computing * (device.power.busy_w - device.power.idle_w)
    return {
        "j_per_step": seconds * watts,
        "j_per_trillion_tokens": _per_trillion(case, seconds * watts),
        "most_j_per_step": seconds * busy,
        "w_per_device": watts / _sum(case.array, lambda _: 1.0),
    }


def idle_watts(array: Array) -> float:
    """What all chips draw while they wait; 0 where no power is known."""
    return _sum(array, lambda device: device.power.idle_w if device.power else 0.0)


GIVEN_BY = {
    "price": "--price 2 (dollars for an hour of each chip), --set devices.0.price=2 for its entry "
    'alone, or in its spec "price = 2"',
    "power": '--set devices.0.power.busy="700 W" --set devices.0.power.idle="70 W"',
}


def lacking(array: Array, field: str) -> None:
    """Raise UsageError where a device of an array has no price, or no power."""
    for device, _ in array.group.chips:
        if getattr(device, field) is None:
            raise UsageError(
                f"device {device.name!r} of array {array.name!r} has no {field}; say "
                f"{GIVEN_BY[field]}"
            )


def _sum(array: Array, of: Callable[[Device], float]) -> float:
    return sum(count * of(device) for device, count in array.group.chips)


def _per_trillion(case: Case, of_a_step: float) -> float | None:
    tokens = case.network.tokens
    return None if tokens is None else of_a_step / (tokens * case.batch) * TRILLION
