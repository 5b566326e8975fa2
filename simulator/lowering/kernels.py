"""What moves an exchange beside computing runs on the cores itself, and takes a share of them.

NCCL's kernels hold 16 to 24 of a GPU's 108 to 132 multiprocessors for as long as they exchange,
and products have the others. Here cores compute that share of the exchange's time more, where it
stands in their order: with products of 10 ms beside an exchange of 6, a share of 0.15 makes
them 10.9. Where cores have nothing to do but to wait for the exchange, that costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from hardware import Device
from planners.order import Item, Kind, Phase
from simulator.engine.operations import Operation
from simulator.engine.picoseconds import whole_ps
from simulator.lowering.rules import Rules
from simulator.lowering.so_far import alone_s


class Kernel(NamedTuple):
    """Of which exchange a kernel is, on which device."""

    exchange: Operation
    device: Device


def beside(rules: Rules, item: Item) -> bool:
    """Whether cores compute while an exchange goes on: of weights, or of their gradients."""
    if not rules.overlap:
        return False
    gradients = item.kind is Kind.SUMS and item.phase is Phase.GRADIENT
    return item.kind is Kind.WEIGHTS or (gradients and not rules.graph[item.node].operand)


def operation(rules: Rules, of: Kernel, layer: str) -> Operation | None:
    """What a core computes for it; None on a device whose exchanges take nothing."""
    share = of.device.roofline.exchanging
    if not share:
        return None
    seconds = share * alone_s(rules, of.exchange)
    duration_ps, bound_s = whole_ps(seconds), (0.0, 0.0, seconds)
    return Operation(
        Kind.COMPUTE, of.exchange.phase, layer, duration_ps=duration_ps, bound_s=bound_s
    )
