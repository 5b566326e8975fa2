"""How full one core's HBM is while it runs a step, operator by operator.

Held all the time: weights as operators read them, their master copy in the
optimizer's format where that is another, and its moments: the two latter only of the
part that a core updates, as of weights and gradients that are kept in parts (``in_parts``). A
parameter's
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
from simulator.cost import dummies
from simulator.cost.operators import Map, Operator, Operators
from simulator.cost.roofline import Core, map_bytes, map_channels, map_rows
from simulator.cost.zero_sharding import WHOLE, ZeroSharding, gathered, until_scattered
from simulator.engine.operations import MOVING, Holding
from workloads.graph import Node


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """HBM in use at each operator of a step (``series``, bytes).

    ``held_bytes`` are in it before the first, ``kept`` after each operator.
    """

    operators: tuple[str, ...]
    series: tuple[float, ...]
    held_bytes: float
    kept: tuple[float, ...] = ()
    products: tuple[tuple[int, Phase], ...] = ()
    """Of each operator, the node and phase, whose operators come one after the other.

    In an order of its own each is by itself: its number, and its phase.
    """
    weight_bytes: float = 0.0
    """Of ``held_bytes`` the weights as operators read them: what another version of them takes."""
    accumulated: dict[tuple[int, Phase], float] = field(default_factory=dict)
    """Gradients of weights (bytes) by the product that begins them; later ones are added."""
    moving: tuple[tuple[float, ...], ...] = ()
    """The series of each class of what comes and goes (MOVING), and of what is kept of it."""
    moving_kept: tuple[tuple[float, ...], ...] = ()
    gradient_bytes: float = 0.0
    """Of ``held_bytes`` the gradients of weights, where they have a buffer."""

    @property
    def peak_bytes(self) -> float:
        """The most at any operator."""
        return max(self.series, default=self.held_bytes)

    @property
    def operator(self) -> str:
        """The first operator at the peak."""
        return self.operators[self.series.index(self.peak_bytes)] if self.series else ""

    def by_product(self) -> dict[tuple[int, Phase], Holding]:
        """Per node and phase: the most that is held meanwhile, and what is more afterwards.

        Both against what was held before it (bytes), so that they can be added up in
        whatever order, and as often, as the products run.
        """
        found: dict[tuple[int, Phase], Holding] = {}
        before, place, by = self.held_bytes, 0, (0.0,) * len(self.moving)
        for product, members in groupby(self.products):
            end = place + len(list(members))
            most, more = max(self.series[place:end]), self.kept[end - 1]
            at = self.series.index(most, place)
            name = self.operators[at]
            full = tuple(s[at] - b for s, b in zip(self.moving, by, strict=True))
            left = tuple(s[end - 1] for s in self.moving_kept)
            after = tuple(n - b for n, b in zip(left, by, strict=True))
            found[product] = Holding(most - before, more - before, full, after, name)
            before, place, by = more, end, left
        return found


@dataclass(slots=True)
class _Held:
    """Something that is held from one operator to another, both included."""

    first: int
    last: int
    bytes: float
    what: str = "gradients"


def _accumulated(
    gradients: Iterable[_Held], products: Sequence[tuple[int, Phase]]
) -> dict[tuple[int, Phase], float]:
    """Bytes of gradients, by the product that begins to make them."""
    found: dict[tuple[int, Phase], float] = {}
    for item in gradients:
        begins = products[item.first]
        found[begins] = found.get(begins, 0.0) + item.bytes
    return found


def memory_use(
    operators: Operators,
    shards: Sequence[Shard],
    core: Core,
    order: Iterable[Operator] | None = None,
    updated: Sequence[float] = (),
    parts: ZeroSharding = WHOLE,
    received: frozenset[int] = frozenset(),
    scattered: frozenset[int] = frozenset(),
) -> MemoryUse:
    """One core's HBM over a step; ``shards`` are its parts of each node, in the graph's order.

    ``order`` is the order in which it runs its operators, where it is not
    that of ``operators.schedule()``. Of the weights that it holds of each node it
    updates the fraction ``updated`` (none: all of them); that is what it keeps of gradients and
    weights that are kept in ``parts``. What nodes ``received`` from another stage by positions, or
    ``scattered`` when they had summed it, is kept so, and gathered for each product.
    """
    chosen = operators.schedule() if order is None else order
    mine = [op for op in chosen if not shards[op.node].empty]
    products = [(op.node if order is None else i, op.phase) for i, op in enumerate(mine)]
    own = [0.0 if s.empty else parameters(operators, v, s) for v, s in enumerate(shards)]
    rest = [*(1.0 - part for part in updated), *[0.0] * (len(own) - len(updated))]
    gradients, passing = _gradients(operators, mine, shards, core, parts, rest)
    gradients = [] if core.bytes.buffer else gradients
    held = [*_maps(operators, mine, shards, core, received, scattered), *gradients, *passing]

    def whole(v: int) -> float:
        """Bytes of a node's weights, as they are gathered to be used."""
        return core.bytes.weight * (own[v] + _lent(operators, v, shards[v])) if rest[v] else 0.0

    held += [_Held(*window, "buffers") for window in gathered(parts, mine, whole)]
    apart, dummy = parts.gradients, core.bytes.dummy
    if dummy:
        made = dummies.made(operators, mine, shards, apart)
        held += [_Held(i, i, dummy * elements) for i, elements in made]
    series, kept = _over_time(held, len(mine))
    by_class = [_over_time((h for h in held if h.what == one), len(mine)) for one in MOVING]
    many = sum(own)
    brought = sum(_brought(operators, v, shards) for v in range(len(own)) if v not in parts.weights)
    others = sum(part * held for part, held in zip(rest, own, strict=True))
    away = core.bytes.weight * sum(rest[v] * own[v] for v in sorted(parts.weights))
    buffer = core.bytes.buffer * (many - sum(rest[v] * own[v] for v in sorted(apart)))
    buffer += dummy * dummies.kept(operators, shards, apart) if dummy else 0.0
    state = buffer + core.bytes.state * many - (core.bytes.state - core.bytes.weight) * others
    state += core.bytes.weight * brought - away
    return MemoryUse(
        tuple(op.name for op in mine),
        tuple(state + moving for moving in series),
        state,
        tuple(state + moving for moving in kept),
        tuple(products),
        core.bytes.weight * (many + brought) - away,
        _accumulated(gradients, products),
        tuple(tuple(one) for one, _ in by_class),
        tuple(tuple(one) for _, one in by_class),
        buffer,
    )


def capacity_bytes(kinds: Sequence[tuple[Device, int]]) -> float:
    """The least HBM of a core of any kind."""
    return min(device.hbm_capacity_bytes / device.cores_per_chip for device, _ in kinds)


def _over_time(held: Iterable[_Held], operators: int) -> tuple[list[float], list[float]]:
    """Bytes of all of these at each operator, and of those that are kept behind it."""
    change, freed = [0.0] * (operators + 1), [0.0] * operators
    for item in held:
        change[item.first] += item.bytes
        change[item.last + 1] -= item.bytes
        freed[item.last] += item.bytes
    series = [max(used, 0.0) for used in accumulate(change[:-1])]  # of nothing rounding leaves less
    return series, [max(used - gone, 0.0) for used, gone in zip(series, freed, strict=True)]


def parameters(operators: Operators, node: int, shard: Shard) -> float:
    """Trained parameters of a shard of a node, norms in front and behind it and biases too."""
    own = operators.nodes[node]
    pairs = own.pair_parameters * shard.inputs + own.channel_parameters
    return (shard.outputs * pairs + shard.inputs * own.entry_parameters) * shard.groups


def _lent(operators: Operators, node: int, shard: Shard) -> float:
    """Parameters of a shard of a node that another node brings."""
    return operators.nodes[node].shared_parameters * shard.inputs * shard.outputs * shard.groups


def _brought(operators: Operators, node: int, shards: Sequence[Shard]) -> float:
    """Parameters that a core has for a node that uses another's, beside those of their owner.

    Of rows and of columns the fewer are taken to be among the more. A head on two cores, each
    with all of its words, whose embedding has half of them on each: the other half.
    """
    tied, shard = operators.graph[node].tied, shards[node]
    if tied is None or shard.empty:
        return 0.0
    owner, theirs = operators.graph[tied], shards[tied]
    mine, other = _parts_of(operators.graph[node], shard), _parts_of(owner, theirs)
    if operators.graph[node].type.gathers != owner.type.gathers:  # rows of one are columns
        other = other[::-1]
    if theirs.empty:
        other = (0.0, 0.0)
    both = min(1.0, other[0] / mine[0]) * min(1.0, other[1] / mine[1])
    return _lent(operators, node, shard) * (1.0 - both)


def _parts_of(node: Node, shard: Shard) -> tuple[float, float]:
    """Which parts of a node's rows and columns of weights a shard has."""
    return (
        shard.inputs * shard.groups / node.in_channels,
        shard.outputs * shard.groups / node.out_channels,
    )


def _maps(
    operators: Operators,
    mine: Sequence[Operator],
    shards: Sequence[Shard],
    core: Core,
    received: frozenset[int],
    scattered: frozenset[int],
) -> list[_Held]:
    """Every copy of an activation or of its gradient.

    What is gathered from the positions of several cores, where it was ``received`` or
    ``scattered`` too, is not kept from forward on: of it there is another copy in backward,
    gathered again. Operators in front of a product work on their part of the sequence, ungathered.
    What experts have received is kept.
    """
    copies: dict[tuple[str, float, float, Phase | None], _Held] = {}
    written: dict[str, _Held] = {}
    positions: dict[str, float] = {}
    in_parts = set[str]()
    for i, op in enumerate(mine):
        shard = shards[op.node]
        for tensor in (*op.reads, *op.writes):
            name = tensor.tensor
            part = 1.0
            front = op.front and op.node in received
            if front or (op.node in received and tensor in op.reads and name not in written):
                part = part_of_positions(operators.graph[op.node], shard)
            elif op.node in scattered and tensor in op.writes and op.phase is Phase.FORWARD:
                part = shard.inputs * shard.groups / operators.graph[op.node].in_channels
            if part < 1.0:
                size = part * map_bytes(tensor, shard, core)
                kept = copies.setdefault((name, part, 0.0, None), _Held(i, i, size, ""))
                written[name], positions[name], kept.last = kept, part * shard.positions, i
                in_parts.add(name)
                if front:
                    continue
            sums = operators.graph[op.node].join and name in in_parts
            if sums and map_bytes(tensor, shard, core) == written[name].bytes:
                written[name].last = i  # it adds to the part that its core has
                continue
            gathered = positions.get(name, 1.0) < (1.0 if tensor.whole else shard.positions)
            again = op.phase if gathered and op.phase is not Phase.FORWARD else None
            again = Phase.GRADIENT if again is Phase.BACKWARD else again
            key = (name, map_rows(tensor, shard), _elements(tensor, shard), again)
            if key not in copies:
                logits = op.node == operators.logits and op.phase is Phase.FORWARD
                what = "logits" if logits and tensor in op.writes else ""
                copies[key] = _Held(i, i, map_bytes(tensor, shard, core), what)
                if tensor.tensor in written:
                    written[tensor.tensor].last = i
            copies[key].last = i
            if tensor in op.writes and part == 1.0:
                written[tensor.tensor] = copies[key]
                if not operators.graph[op.node].dispatches:
                    positions[tensor.tensor] = shard.positions
    found = list(copies.values())
    for item in found:
        item.what = item.what or _class_of(item, mine)
    return found


def part_of_positions(node: Node, shard: Shard) -> float:
    """Which part of a sequence a core receives whose shard of the product reads all of it."""
    return shard.outputs * shard.groups / node.out_channels


def _class_of(item: _Held, mine: Sequence[Operator]) -> str:
    """What a map is held for that is none of logits."""
    begins, ends = mine[item.first], mine[item.last]
    goes_on = begins.phase is Phase.FORWARD and ends.phase is not Phase.FORWARD
    return "activations" if goes_on else "buffers"


def _elements(tensor: Map, shard: Shard) -> float:
    """Elements of a row, by which two copies are told apart."""
    return round(map_channels(tensor, shard) * tensor.area, 3)


def _gradients(
    operators: Operators,
    mine: Sequence[Operator],
    shards: Sequence[Shard],
    core: Core,
    parts: ZeroSharding,
    rest: Sequence[float],
) -> tuple[list[_Held], list[_Held]]:
    """Gradients of each node's parameters, until their update; tied weights' once.

    Of those that are scattered the part that others do not keep (``rest``); apart, whole ones.
    """
    start: dict[int, int] = {}
    given: dict[int, int] = {}
    end: dict[int, int] = {}
    for i, op in enumerate(mine):
        if op.phase is Phase.BACKWARD:
            start.setdefault(op.node, i)
        if op.phase is Phase.GRADIENT:
            given.setdefault(op.node, i)
        if op.phase is Phase.UPDATE:
            end[op.node] = i
    start |= given
    for v, node in enumerate(operators.graph):
        if node.tied in start and v in start:  # a weight's last use begins its gradient
            start[node.tied] = min(start[node.tied], start[v])
    until = until_scattered(parts, mine)
    lasting, passing = list[_Held](), list[_Held]()
    for v, last in end.items():
        first, size = start.get(v, last), core.bytes.gradient * parameters(operators, v, shards[v])
        if v in until and rest[v]:
            passing.append(_Held(first, max(first, until[v]), size))
            size *= 1.0 - rest[v]
        lasting.append(_Held(first, last, size))
    return lasting, passing
