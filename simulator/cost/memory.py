"""How full one core's HBM is while it runs a step, operator by operator.

Held all the time: weights as operators read them, their master copy in the
optimizer's format where that is another, and its moments. A parameter's
gradient is held from the operator that computes it to the update. An
activation, or a gradient of one, is held from its first operator to its last;
so what backward reads is kept from forward on. Where a consumer has another
part of a tensor than its producer, it holds a copy of its own, and the
producer's lives until the copy is made. What a collective needs on the way is
not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby

from hardware import Device
from planners.order import Phase
from planners.partition import Shard
from simulator.cost.operators import Map, Operator, Operators
from simulator.cost.roofline import Core, map_bytes, map_channels
from simulator.engine.occupancy import DeviceMemory, fullness


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """HBM in use at each operator of a step (``series``, bytes), against a core's capacity.

    ``held_bytes`` are in it before the first, ``kept`` after each operator.
    """

    operators: tuple[str, ...]
    series: tuple[float, ...]
    held_bytes: float
    capacity_bytes: float
    kept: tuple[float, ...] = ()
    products: tuple[tuple[int, Phase], ...] = ()
    """Of each operator, the node and phase, whose operators come one after the other."""
    weight_bytes: float = 0.0
    """Of ``held_bytes`` the weights as operators read them: what another version of them takes."""
    accumulated: dict[tuple[int, Phase], float] = field(default_factory=dict)
    """Gradients of weights (bytes) by the product that begins them; later ones are added."""

    @property
    def peak_bytes(self) -> float:
        """The most at any operator."""
        return max(self.series, default=self.held_bytes)

    @property
    def operator(self) -> str:
        """The first operator at the peak."""
        return self.operators[self.series.index(self.peak_bytes)] if self.series else ""

    @property
    def fits(self) -> bool:
        """Whether the peak is within the capacity."""
        return self.peak_bytes <= self.capacity_bytes

    def by_product(self) -> dict[tuple[int, Phase], tuple[float, float]]:
        """Per node and phase: the most that is held meanwhile, and what is more afterwards.

        Both against what was held before it (bytes), so that they can be added up in
        whatever order, and as often, as the products run.
        """
        found: dict[tuple[int, Phase], tuple[float, float]] = {}
        before, place = self.held_bytes, 0
        for product, members in groupby(self.products):
            end = place + len(list(members))
            found[product] = (max(self.series[place:end]) - before, self.kept[end - 1] - before)
            before, place = self.kept[end - 1], end
        return found

    def __str__(self) -> str:
        return fullness(self.peak_bytes, self.capacity_bytes, self.operator)


@dataclass(slots=True)
class _Held:
    """Something that is held from one operator to another, both included."""

    first: int
    last: int
    bytes: float


def memory_use(
    operators: Operators,
    shards: Sequence[Shard],
    core: Core,
    order: Iterable[Operator] | None = None,
) -> MemoryUse:
    """One core's HBM over a step; ``shards`` are its parts of each node, in the graph's order.

    ``order`` is the order in which it runs its operators, where it is not
    that of ``operators.schedule()``.
    """
    chosen = operators.schedule() if order is None else order
    mine = [op for op in chosen if not shards[op.node].empty]
    gradients = _gradients(operators, mine, shards, core)
    held = [*_maps(mine, shards, core), *gradients]
    accumulated: dict[tuple[int, Phase], float] = {}
    for item in gradients:
        begins = mine[item.first].node, mine[item.first].phase
        accumulated[begins] = accumulated.get(begins, 0.0) + item.bytes
    change, freed = [0.0] * (len(mine) + 1), [0.0] * len(mine)
    for item in held:
        change[item.first] += item.bytes
        change[item.last + 1] -= item.bytes
        freed[item.last] += item.bytes
    many = sum(parameters(operators, v, s) for v, s in enumerate(shards) if not s.empty)
    state = core.bytes.state * many
    series = [state + moving for moving in accumulate(change[:-1])]
    return MemoryUse(
        tuple(op.name for op in mine),
        tuple(series),
        state,
        core.hbm_capacity_bytes,
        tuple(used - gone for used, gone in zip(series, freed, strict=True)),
        tuple((op.node, op.phase) for op in mine),
        core.bytes.weight * many,
        accumulated,
    )


def device_memory(
    cores: Iterable[tuple[Device, MemoryUse, int]],
) -> tuple[DeviceMemory, ...]:
    """One entry for each device; ``cores`` are (device, their use, how many use it so)."""
    uses: dict[Device, list[tuple[MemoryUse, int]]] = {}
    for device, use, many in cores:
        uses.setdefault(device, []).append((use, many))
    return tuple(_of_device(device, found) for device, found in uses.items())


def _of_device(device: Device, uses: Sequence[tuple[MemoryUse, int]]) -> DeviceMemory:
    fullest = max((use for use, _ in uses), key=lambda use: use.peak_bytes)
    return DeviceMemory(
        device.name,
        fullest.peak_bytes,
        fullest.capacity_bytes,
        fullest.operator,
        sum(many for _, many in uses),
        sum(many for use, many in uses if not use.fits),
    )


def parameters(operators: Operators, node: int, shard: Shard) -> float:
    """Trained parameters of a shard of a node, batch norm and biases behind it included."""
    own = operators.nodes[node]
    pairs = own.pair_parameters * shard.inputs + own.channel_parameters
    return shard.outputs * shard.groups * pairs


def _maps(mine: Sequence[Operator], shards: Sequence[Shard], core: Core) -> list[_Held]:
    """Every copy of an activation or of its gradient."""
    copies: dict[tuple[str, float, float], _Held] = {}
    written: dict[str, _Held] = {}
    for i, op in enumerate(mine):
        shard = shards[op.node]
        for tensor in (*op.reads, *op.writes):
            key = (tensor.tensor, shard.rows, _elements(tensor, shard))
            if key not in copies:
                copies[key] = _Held(i, i, map_bytes(tensor, shard, core))
                if tensor.tensor in written:
                    written[tensor.tensor].last = i
            copies[key].last = i
            if tensor in op.writes:
                written[tensor.tensor] = copies[key]
    return list(copies.values())


def _elements(tensor: Map, shard: Shard) -> float:
    """Elements of a row, by which two copies are told apart."""
    return round(map_channels(tensor, shard) * tensor.area, 3)


def _gradients(
    operators: Operators, mine: Sequence[Operator], shards: Sequence[Shard], core: Core
) -> list[_Held]:
    """Gradients of each node's parameters, until their update; tied weights' once."""
    start: dict[int, int] = {}
    end: dict[int, int] = {}
    for i, op in enumerate(mine):
        if op.phase in (Phase.GRADIENT, Phase.BACKWARD):
            start.setdefault(op.node, i)
        if op.phase is Phase.GRADIENT:
            start[op.node] = i
        if op.phase is Phase.UPDATE:
            end[op.node] = i
    for v, node in enumerate(operators.graph):
        if node.tied in start and v in start:  # a weight's last use begins its gradient
            start[node.tied] = min(start[node.tied], start[v])
    return [
        _Held(start.get(v, last), last, core.bytes.gradient * parameters(operators, v, shards[v]))
        for v, last in end.items()
    ]
