"""What a core computes as operations: an operator, or several one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hardware import Device
from planners.order import Kind, Phase
from planners.partition import Shard
from simulator.cost.energy import computing_j
from simulator.cost.operators import Operator
from simulator.cost.roofline import Core, OperatorCost, bounds, by_work, cost
from simulator.cost.units.pricing import price
from simulator.engine.operations import Operation
from simulator.engine.picoseconds import duration_ps


def computed(
    phase: Phase,
    layer: str,
    done: Sequence[OperatorCost],
    device: Device,
    core: Core,
    unit: int = 0,
) -> Operation:
    """Operators one after the other as one operation of a ``unit`` of a core."""
    flops, moved = math.fsum(c.flops for c in done), math.fsum(c.bytes for c in done)
    return Operation(
        Kind.COMPUTE,
        phase,
        layer,
        duration_ps=lasts_ps(done),
        flops=flops,
        hbm_bytes=moved,
        energy_j=computing_j(device, flops, moved),
        bound_s=bounds(done, core),
        work_s=by_work(done),
        unit=unit,
    )


def lasts_ps(done: Sequence[OperatorCost]) -> int:
    """Picoseconds of operators one after the other."""
    return duration_ps(math.fsum([one.seconds for one in done]), 1.0)


def on_units(
    operator: Operator, layer: str, shard: Shard, device: Device, core: Core
) -> tuple[Operation, ...]:
    """A product on each matrix unit of a core, or element-wise work on its vector units.

    These are the last of its units. Of block-circulant weights it is on the best of all.
    """
    units = core.units
    if units is None:
        raise AssertionError
    if not operator.macs or operator.block > 1:
        best = price(operator, shard, units, core.whole, core.bytes.activation).unit
        unit = len(units.matrix) if best is None else best
        return (computed(operator.phase, layer, [cost(operator, shard, core)], device, core, unit),)
    each = (replace(core, units=replace(units, matrix=(unit,))) for unit in units.matrix)
    return tuple(
        computed(operator.phase, layer, [cost(operator, shard, one)], device, one, unit)
        for unit, one in enumerate(each)
    )
