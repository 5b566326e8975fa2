"""What tables can show of a step: time, energy, traffic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.output import UsageError

if TYPE_CHECKING:
    from hardware import Array
    from simulator import Timeline

METRICS = ("time", "energy", "traffic")


def parse_metrics(text: str) -> tuple[str, ...]:
    """``time,energy`` to metrics, order kept; raises UsageError."""
    chosen = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not chosen or not set(chosen) <= set(METRICS):
        raise UsageError(f"--metrics {text!r}: expected one or more of {', '.join(METRICS)}")
    return chosen


def check_metrics(metrics: tuple[str, ...], array: Array) -> None:
    """Raise UsageError where energy is asked for and a device's spec has none."""
    if "energy" in metrics:
        for i, (device, _) in enumerate(array.group.kinds):
            if device.energy is None:
                raise UsageError(
                    f"--metrics energy: device {device.name!r} of array {array.name!r} has no "
                    f'[energy]; give it one, as --set devices.{i}.energy.mac="4.6 pJ" '
                    f'--set devices.{i}.energy.transfer="640 pJ/B"'
                )


def metrics_of(text: str, array: Array) -> tuple[str, ...]:
    """``parse_metrics``, which an array must be able to tell; raises UsageError."""
    metrics = parse_metrics(text)
    check_metrics(metrics, array)
    return metrics


def measured(metrics: tuple[str, ...], timeline: Timeline) -> dict[str, Any]:
    """Joules and bytes of a whole step, where asked for."""
    values: dict[str, Any] = {}
    if "energy" in metrics:
        values["energy_j"] = timeline.energy_j
    if "traffic" in metrics:
        values["traffic_bytes"] = timeline.traffic_bytes
    return values
