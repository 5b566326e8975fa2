"""What every state of every node takes among like cores, and every pair of states of an edge.

By the simulator's own rules: products on the roofline, sums and re-laid tensors as
collectives. What is here is what one core, the first, cannot be spared: it has the
largest shard of everything. Where a node has fewer samples or channels than it is halved
into (a hollow state) re-laying it and exchanging its gradient count nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from hardware import Array, Device, Wires
from planners import Plan
from planners.order import Phase
from planners.partition import AS_MADE, AS_READ, II, III, IV, I, PartitionType, Shard, usual
from simulator.collectives.algorithms import CollectiveError
from simulator.collectives.choice import members_of, offer
from simulator.collectives.groups import Groups, StridedGroups
from simulator.cost.memory import parameters
from simulator.cost.operators import sorts_of
from simulator.cost.roofline import core_of, map_bytes
from simulator.cost.training_operators import operators
from simulator.engine.jobs import Floats, Ints
from simulator.engine.picoseconds import PICOSECONDS
from simulator.lowering.execution import Execution
from simulator.lowering.step.deployed import Deployed
from simulator.search.states import States, Types, moves, states_near, states_of, whole_of
from workloads import Network, partition_graph

SAMPLES = np.array([0.0, 1.0, *(4.0**i for i in range(4, 20)), 4.0**24])
"""Bytes at which collectives are timed. A way's time is concave in its size, so that lines
between two samples lie below it."""


@dataclass(slots=True)
class Curves:
    """Collectives among 2^levels cores, from core ``first`` on, over any set of levels at once.

    A set is a bit mask, bit i the level whose halves are 2^i cores each: of
    eight cores mask 5 makes groups 0 1 4 5 and 2 3 6 7. All groups run at once,
    as the simulator runs them, and alone.
    """

    wires: Wires
    first: int
    levels: int
    algorithm: str = "auto"
    _known: dict[str, Floats] = field(default_factory=dict)
    _groups: dict[int, Groups] = field(default_factory=dict)

    def of_masks(self, collective: str, masks: Ints, size_bytes: Floats) -> Floats:
        """What a collective takes at least, each of its own size among groups of its own mask.

        Nothing where there is no group, or nothing to move.
        """
        found = np.zeros(masks.shape)
        busy = (masks > 0) & (size_bytes > 0)
        sizes, which = size_bytes[busy], masks[busy]
        above = np.clip(np.searchsorted(SAMPLES, sizes), 1, len(SAMPLES) - 1)
        curves = self._curves(collective, which, above)
        low, high = curves[which, above - 1], curves[which, above]
        far = np.minimum(sizes, SAMPLES[-1]) - SAMPLES[above - 1]
        far /= SAMPLES[above] - SAMPLES[above - 1]
        with np.errstate(invalid="ignore"):  # forever less forever
            between = low + far * (high - low)
        found[busy] = np.where(np.isinf(high), np.inf, between)
        return found

    def _curves(self, collective: str, masks: Ints, above: Ints) -> Floats:
        """By mask and sample, seconds: of those that are asked for, and of others what is known."""
        if collective not in self._known:
            self._known[collective] = np.full((1 << self.levels, len(SAMPLES)), np.nan)
        curves = self._known[collective]
        for samples in (above - 1, above):
            new = np.isnan(curves[masks, samples])
            for mask, sample in set(zip(masks[new].tolist(), samples[new].tolist(), strict=True)):
                size_bytes = float(SAMPLES[max(sample, 1)])
                curves[mask, sample] = self._timed(collective, mask, size_bytes)
        return curves

    def _timed(self, collective: str, mask: int, size_bytes: float) -> float:
        by = "auto" if collective == "all-to-all" else self.algorithm
        try:
            found = offer(self.wires, collective, self._members(mask), size_bytes, by)
        except CollectiveError:  # an algorithm that was asked for does not apply
            return np.inf
        rounding = 2 * found.phases  # up, of bytes and of latency in each phase
        return max(0, found.alone_ps - rounding) / PICOSECONDS

    def _members(self, mask: int) -> Groups:
        if mask not in self._groups:
            self._groups[mask] = members_of(self.wires, self.groups(mask))
        return self._groups[mask]

    def groups(self, mask: int) -> StridedGroups:
        """The groups over the levels of a mask."""
        strides = [1 << i for i in range(self.levels)]
        return StridedGroups(
            self.first,
            tuple(stride for stride in strides if mask & stride),
            tuple(stride for stride in strides if not mask & stride),
        )


class Costs(NamedTuple):
    """Of one node, seconds by state: its products, their sums, and its gradient's bytes.

    ``stream_s`` is the least that its gradient adds to the all-reduces of all.
    """

    states: States
    empty: Any
    forward_s: Floats
    backward_s: Floats
    gradient_s: Floats
    update_s: Floats
    forward_sums_s: Floats
    backward_sums_s: Floats
    stream_s: Floats
    gradient_bytes: Floats
    reads: Floats
    """Fraction of its input's tensor that the first core reads."""
    makes: Floats
    """Fraction of its output's tensor that the first core's errors come as."""
    held_bytes: Floats
    """Of its weights, what the optimizer keeps of them, and what it makes forward."""


def fraction(shard: Shard, whole: Shard, kinds: Sequence[PartitionType]) -> float:
    """Which part of a whole a shard is that these types cut."""
    part = 1.0
    for kind in kinds:
        part *= shard[kind] / whole[kind]
    return part


PRODUCTS = (Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT, Phase.UPDATE)


@dataclass(frozen=True, slots=True)
class Cores:
    """2^levels like cores of an array, the ``first`` of them by its number."""

    array: Array
    device: Device
    first: int
    levels: int


class Tables:
    """Costs of a network's nodes and edges on like cores, worked out when asked for.

    States are the usual ones (of so many ``runs`` of a type, if that is said), and, where a
    layout is given, those ``near`` its nodes' own. Exchanges of hollow states count nothing.
    """

    def __init__(
        self,
        network: Network,
        batch: int,
        cores: Cores,
        execution: Execution,
        *,
        near: Sequence[Types] = (),
        runs: int | None = None,
    ) -> None:
        self.network, self.graph = network, partition_graph(network)
        nothing = Plan("", network.name, batch, "time", tuple(n.name for n in self.graph), None)
        self.rules = Deployed(network, nothing, cores.array, execution, folded=True)
        self.batch, self.cores, self.execution = batch, cores, execution
        self.curves = Curves(self.rules.wires, cores.first, cores.levels, execution.algorithm)
        self.operators = operators(network, inference=execution.inference)
        self._near, self._runs = near, runs
        self.sorts = sorts_of(operators(network, **execution.computing))
        """A number for each node: equal for nodes that cost the same."""
        self.core = core_of(
            cores.device, whole=execution.whole_shards, inference=execution.inference
        )
        self._first = {sort: v for v, sort in reversed(list(enumerate(self.sorts)))}
        """A node of each sort."""
        shards = [self._shard(v) for v in range(len(self.graph))]
        gradients = [
            0.0 if node.join else self.rules.sum_bytes(v, shards[v], Phase.GRADIENT)
            for v, node in enumerate(self.graph)
        ]
        self.bucket_bytes = execution.bucket_of()
        most = self.bucket_bytes + max(gradients, default=0.0)
        self.largest_bucket = min(sum(gradients), most)

    @cached_property
    def nodes(self) -> list[Costs]:
        """The costs of every node."""
        found = {sort: self._made(v) for sort, v in self._first.items()}
        return [found[sort] for sort in self.sorts]

    @cached_property
    def products_s(self) -> float:
        """What the first core, or its busiest unit, computes at least, whatever the types."""
        units = max(1, len(self.rules.units(self.cores.device)))
        found = {sort: self._least(v) for sort, v in self._first.items()}
        return sum(found[sort] for sort in self.sorts) / units

    def forward_relay(self, edge: int, consumer: int) -> Floats:
        """Seconds to re-lay an input's features, by the producer's and the consumer's state."""
        producer = self.graph[consumer].producers[edge]
        held = AS_READ if self.graph[producer].join else AS_MADE
        whole = self.whole_bytes(edge, consumer)
        return self._relay(producer, held, consumer, AS_READ, whole, self.nodes[consumer].reads)

    def backward_relay(self, edge: int, consumer: int) -> Floats:
        """The same for its errors on their way back, by the producer's and the consumer's state."""
        producer = self.graph[consumer].producers[edge]
        if Phase.BACKWARD not in self.rules.phases:
            return np.zeros((len(self.nodes[producer].states), len(self.nodes[consumer].states)))
        read = AS_READ if self.graph[producer].join else AS_MADE
        whole, makes = self.whole_bytes(edge, consumer), self.nodes[producer].makes
        return self._relay(consumer, AS_READ, producer, read, whole, makes).T

    def whole_bytes(self, edge: int, consumer: int) -> float:
        """Bytes of the tensor that a node reads through an edge."""
        elements = self.batch * self.graph[consumer].reads[edge].elements
        ends = self.graph[consumer].producers[edge], consumer
        shown = self.rules.shown(Phase.FORWARD, "swap", ends) * self.rules.copies(ends)
        return shown * elements * self.cores.array.group.arithmetic.activation_bytes

    def _relay(
        self,
        holder: int,
        held: Sequence[PartitionType],
        reader: int,
        read: Sequence[PartitionType],
        whole_bytes: float,
        fraction: Floats,
    ) -> Floats:
        """By the holder's and the reader's state; ``fraction`` is what the reader's core reads."""
        one, other = self.nodes[holder], self.nodes[reader]
        busy = ~(one.empty[:, np.newaxis] | other.empty)
        size = np.where(busy, whole_bytes * fraction, 0.0)
        return self.relaid_s(*moves(one.states, held, other.states, read), size)

    def relaid_s(self, changes: Ints, gathers: Ints, size_bytes: Floats) -> Floats:
        """Seconds until cores have so many bytes, of parts that change places and are gathered."""
        pieces = 2.0 ** np.bitwise_count(gathers.astype(np.uint64))
        exchanged_s = self.curves.of_masks("all-to-all", changes, size_bytes / pieces)
        return exchanged_s + self.curves.of_masks("all-gather", gathers, size_bytes)

    def _shard(self, v: int, cuts: Sequence[int] = (0,) * len(PartitionType)) -> Shard:
        """The largest shard of a node whose dimensions are halved so often."""
        whole = whole_of(self.graph[v], self.batch)
        if self.execution.whole_shards:
            return Shard(*(-(-int(n) // (1 << cut)) for n, cut in zip(whole, cuts, strict=True)))
        return Shard(*(n / (1 << cut) for n, cut in zip(whole, cuts, strict=True)))

    def _least(self, v: int) -> float:
        """The least that the products of a node take, by how often each dimension is halved."""
        shards = {
            self._shard(v, self._cuts(v, taken))
            for taken in combinations_with_replacement(usual(self.graph[v]), self.cores.levels)
            if taken.count(IV) <= self._fours(v)
        }
        each = (self._products_ps(v, shard, tuple(Phase)) for shard in shards)
        return min(map(sum, each)) / PICOSECONDS

    def _products_ps(self, v: int, shard: Shard, phases: Sequence[Phase]) -> list[int]:
        """What a core takes for its shard of a node in each of these phases."""
        device = self.cores.device
        return [self.rules.product_ps(v, phase, shard, device) for phase in phases]

    def _cuts(self, v: int, types: Sequence[PartitionType]) -> list[int]:
        """How often each dimension is halved; type III replicates a join."""
        kept = (kind for kind in types if not (self.graph[v].join and kind is III))
        found = [0] * len(PartitionType)
        for kind in kept:
            found[kind] += 1
        return found

    def _fours(self, v: int) -> int:
        """How many levels can part groups or heads."""
        return int(self.graph[v].groups).bit_length() - 1

    def _made(self, v: int) -> Costs:
        node = self.graph[v]
        states = self.states_of_node(v)
        cuts = states.counts.copy()
        if node.join:  # type III replicates it
            cuts[III] = 0
        which, number = np.unique(cuts.T, axis=0, return_inverse=True)
        number = number.ravel()
        shards = [self._shard(v, cut) for cut in which.tolist()]
        whole = self._shard(v)

        def each(values: Sequence[float]) -> Floats:
            return np.array(values, dtype=np.float64)[number]

        def sums(phase: Phase) -> Floats:
            none = node.join or phase not in self.rules.phases
            shown = 0.0 if none else self.rules.shown(phase, "all-reduce")
            return each([shown and shown * self.rules.sum_bytes(v, s, phase) for s in shards])

        empty = each(
            [
                self.execution.whole_shards
                and any(n < 1 << cut for n, cut in zip(whole, cuts_, strict=True))
                for cuts_ in which.tolist()
            ]
        ).astype(bool)
        taken = zip(*(self._products_ps(v, shard, PRODUCTS) for shard in shards), strict=True)
        products = {of: each(ps) / PICOSECONDS for of, ps in zip(PRODUCTS, taken, strict=True)}
        forward, backward, gradient = map(sums, (Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT))
        return Costs(
            states,
            empty,
            products[Phase.FORWARD],
            products[Phase.BACKWARD],
            products[Phase.GRADIENT],
            products[Phase.UPDATE],
            self._sums_s(states, empty, II, forward),
            self._sums_s(states, empty, III, backward),
            self._stream(states.masks[I], gradient * ~empty),
            gradient,
            each([fraction(s, whole, (I, II, IV)) for s in shards]),
            each([fraction(s, whole, (I, II) if node.join else (I, III, IV)) for s in shards]),
            each([self._held_bytes(v, s) for s in shards]),
        )

    def states_of_node(self, v: int) -> States:
        """The states of a node."""
        legal, levels, fours = usual(self.graph[v]), self.cores.levels, self._fours(v)
        if not self._near:
            return states_of(legal, levels, fours, self._runs)
        pairs = zip(self.sorts, self._near, strict=True)
        near = frozenset(types for sort, types in pairs if sort == self.sorts[v])
        return states_near(near, legal, levels, fours)

    def _held_bytes(self, v: int, shard: Shard) -> float:
        held = self.rules.held(v, shard)
        state = self.core.bytes.state * parameters(self.operators, v, held)
        kept = () if self.execution.inference else self.operators.nodes[v].forward
        made = (tensor for operator in kept for tensor in operator.writes)
        return state + sum(map_bytes(tensor, held, self.core) for tensor in made)

    def _sums_s(self, states: States, empty: Any, kind: PartitionType, size: Floats) -> Floats:
        """Seconds of the sums over the levels of a type, by state."""
        return self.curves.of_masks("all-reduce", states.masks[kind], size * ~empty)

    def _stream(self, masks: Ints, size_bytes: Floats) -> Floats:
        """What gradients add at least: in the largest bucket there may be, or alone.

        A bucket's seconds for a byte fall as it grows, so none takes less for a
        byte than the largest.
        """
        if not self.bucket_bytes:
            return self.curves.of_masks("all-reduce", masks, size_bytes)
        most = np.full(masks.shape, max(self.largest_bucket, 1.0))
        with np.errstate(invalid="ignore"):  # of nothing, by an algorithm that does not apply
            found = self.curves.of_masks("all-reduce", masks, most) / most * size_bytes
        return np.where(size_bytes > 0, found, 0.0)
