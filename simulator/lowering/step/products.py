"""What a core computes of a node, found once for all nodes and plans where it is the same.

What a core computes as operations: an operator, or several one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hardware import Device
from planners.order import Kind, Phase
from planners.partition import Shard
from simulator.cost.energy import computing_j
from simulator.cost.operators import Operator, sorts_of
from simulator.cost.roofline import Core, OperatorCost, bounds, by_work, core_of, cost, costs
from simulator.cost.training_operators import operators
from simulator.cost.units.pricing import price
from simulator.engine.operations import Operation
from simulator.engine.picoseconds import duration_ps
from simulator.lowering.execution import Execution
from workloads import Network
from workloads.cache import Weighed

MOST = 200_000
"""Operators whose costs are kept in one process, some 200 bytes each, of all networks."""
LEAST = 1000
"""What the products of a network count for besides: so not more than 200 are kept."""


class Products:
    """The products of one network on the cores of one kind of device, executed in one way.

    A node's cost depends on its sort, not on its name (``sorts_of``): 24 blocks of a
    transformer cost what one does, and a plan that differs in one layer from the one
    before makes only that layer's anew.
    """

    def __init__(self, network: Network, device: Device, execution: Execution) -> None:
        whole, inference = execution.whole_shards, execution.inference
        self.core: Core = core_of(device, whole=whole, inference=inference)
        self._device = device
        self._step = operators(network, **execution.computing)
        self.sorts = sorts_of(self._step)
        self._known: dict[tuple[int, Phase, Shard, float], tuple[list[OperatorCost], int]] = {}
        """Costs of the operators of a product, and picoseconds of all of them."""
        self._operators = 0

    @property
    def kept(self) -> int:
        """How much is kept: in operators."""
        return LEAST + len(self.sorts) + self._operators

    def of(self, v: int, phase: Phase, held: Shard, updated: float = 1.0) -> Operation | None:
        """A node's operators of a phase, one after the other on the roofline; None without any.

        ``held`` is what the operators find on the core (``Deployed.held``), of whose
        weights it updates a part.
        """
        done, name = self._costs(v, phase, held, updated)[0], self._step.graph[v].name
        return computed(phase, name, done, self._device, self.core) if done else None

    def lasts_ps(self, v: int, phase: Phase, held: Shard, updated: float = 1.0) -> int:
        """How long that operation takes; 0 without any."""
        return self._costs(v, phase, held, updated)[1]

    def _costs(
        self, v: int, phase: Phase, held: Shard, updated: float
    ) -> tuple[list[OperatorCost], int]:
        key = self.sorts[v], phase, held, updated
        if key not in self._known:
            if self._operators >= MOST:
                self._known.clear()
                self._operators = 0
            done = costs(self.operators(v, phase, updated), held, self.core)
            self._known[key] = done, lasts_ps(done)
            self._operators += 1 + len(done)
        return self._known[key]

    def operators(self, v: int, phase: Phase, updated: float) -> tuple[Operator, ...]:
        """A node's operators of a phase, of which an update is of a part of the weights."""
        work = self._step.nodes[v].of(phase)
        if phase is Phase.UPDATE and updated != 1.0:
            work = tuple(operator.updating(updated) for operator in work)
        return work


_KEPT = Weighed[Products](MOST, lambda products: products.kept)


def products_of(network: Network, device: Device, execution: Execution) -> Products:
    """Those of a network that are kept in this process."""
    key = network, device, execution.whole_shards, *execution.computing.values()
    return _KEPT.get(key, lambda: Products(network, device, execution))


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
