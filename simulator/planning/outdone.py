"""Kinds of device that another kind of an array outdoes: their layouts need no look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hardware import Device

RATES = (
    "chip_peak_flops_per_s",
    "chip_attention_flops_per_s",
    "chip_vector_flops_per_s",
    "hbm_bytes_per_s",
    "hbm_capacity_bytes",
    "network_bytes_per_s",
)
"""Of a device; its links have one more."""


def outdoes(one: Device, other: Device) -> bool:
    """Whether a device is faster or larger than another in something, and as good in all else."""
    rates = [(getattr(one, rate) or 0.0, getattr(other, rate) or 0.0) for rate in RATES]
    if one.links and other.links:
        rates.append((one.links.bytes_per_s, other.links.bytes_per_s))
    better = any(a > b for a, b in rates) and all(a >= b for a, b in rates)
    return better and _but_for_rates(one) == _but_for_rates(other)


def _but_for_rates(device: Device) -> Device:
    links = device.links and replace(device.links, bytes_per_s=1.0)
    rates: dict[str, Any] = {rate: getattr(device, rate) and 1.0 for rate in RATES}
    return replace(device, name="", energy=None, links=links, **rates)
