"""The deployed execution model: roofline computing, real wires, exchanges that overlap.

Devices are single cores with their slices of HBM, shards whole samples and
channels (or exact fractions), partial sums and re-laid tensors collectives on
the array's own wires (``exchanges``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import starmap

from hardware import Device, wires_of
from planners.order import Item, Kind, Phase
from planners.partition import SAME_WEIGHTS, Shard
from simulator.cost.memory import MemoryUse, memory_use, part_of_positions
from simulator.cost.operators import Operator
from simulator.cost.roofline import Core, OperatorCost, core_of, costs
from simulator.cost.training_operators import operators
from simulator.cost.zero_sharding import WHOLE, ZeroSharding
from simulator.engine.operations import Operation
from simulator.lowering.step import order
from simulator.lowering.step.exchanges import ExchangesOnWires
from simulator.lowering.step.order import FsdpUnits, units_of
from simulator.lowering.step.products import computed, lasts_ps, on_units
from simulator.sharding.blocks import Shards
from simulator.sharding.mesh import Counting, Division, Mesh
from simulator.sharding.spec import POSITIONS, Layout, read_by
from simulator.sharding.updates import Fractions, busy_cores, of_each_core, updated


class Deployed(ExchangesOnWires):
    """Rules of the deployed model, for an array of cores (``hardware.by_core``)."""

    unit = "core"

    def _prepare(self) -> None:
        self.overlap = self.execution.overlap
        self.wires = wires_of(self.array)
        self._operators = operators(self.network, **self.execution.computing)
        self._work = self._operators.nodes
        self._arithmetic = self.array.group.arithmetic
        self._made: list[tuple[Device, Core]] = []
        self._uses: dict[tuple[Device, Shards, Fractions, tuple[Operation, ...]], MemoryUse] = {}
        self.operator_of: dict[Operation, Operator] = {}  # of those on units

    def _division(self) -> Division:
        """Cores, down to single ones; alike ones in blocks."""
        counting = Counting.WHOLE if self.execution.whole_shards else Counting.EXACT
        return Division(self.graph, counting, True, self.shared, self.wires)

    def order(self) -> Iterator[Item]:
        """Gradients go in buckets while backward goes on, or, without overlap, behind it.

        Those that are kept in parts go as they come, either way. New weights go before all
        else, where their update was shared out; those in parts before each use.
        """
        graph = self.graph
        yield from self._gathers()
        apart, full = self.array.stack is not None, self.bucket_bytes
        buckets = order.Buckets(graph, self._sent_bytes, self._alike, full, apart=apart)
        fsdp, now = self._fsdp_units, self.overlap
        yield from fsdp.forward()
        for v in reversed(range(len(graph))):
            yield from fsdp.before(v)
            yield from order.recompute(graph, self._operators.again(v), self._gathered)
            yield from order.gathered(v, self._gathered(v))
            yield from order.backward(graph, v)
            yield from fsdp.behind(v)
            if not fsdp.units and (now or self.scatters(v)):
                yield from buckets.put(v)
        if not fsdp.units and not now:
            for v in reversed(range(len(graph))):
                if not self.scatters(v):
                    yield from buckets.put(v)
        yield from buckets.rest()
        yield from order.update(
            graph, self._shared, buckets.exchanged if self.updates_arrive else None
        )

    def _gathered(self, v: int) -> list[tuple[int, int]]:
        """Edges whose tensor is gathered from positions, and is not kept for backward.

        Korthikanti et al. 2022, section 4.2.2: each core keeps its part of the sequence, and
        gathers it for forward, for forward again, and for the gradient. So it is with keys and
        values of other positions (Transformer Engine, context_parallel.py). Tokens that
        experts have received are kept.
        """
        if not self._work[v].gradient and not self.graph[v].computed:
            return []
        found = []
        for e, u in enumerate(self.graph[v].producers):
            if self.graph[u].dispatches:
                continue
            made, read = self.made(u), Layout(v, read_by(self.graph, v, e))
            if any(
                made.on(types) == POSITIONS and read.on(types) != POSITIONS
                for types in self._all_types
            ):
                found.append((e, u))
        return found

    def _gathers(self) -> Iterator[Item]:
        """In buckets, in the order in which forward needs them."""
        full, size, apart = self.bucket_bytes, self._as_read, self.array.stack is not None
        buckets = order.Buckets(self.graph, size, self._alike, full, Kind.WEIGHTS, apart=apart)
        owners = sorted(self._shared - self._in_parts)
        full_ones = [item for v in owners for item in buckets.put(v)]
        yield from sorted((*full_ones, *buckets.rest()), key=lambda item: item.node)
        yield from order.retied(self.graph, self._shared)

    def _as_read(self, v: int, *, used: bool = False) -> float:
        """Bytes of weights that the core with the most of a layer's (or of what it uses) has."""
        return (
            self._sent_bytes(v, used=used)
            * self._arithmetic.weight_bytes
            / self._arithmetic.gradient_bytes
        )

    @property
    def bucket_bytes(self) -> float:
        """As large as the stack has it: with more for more members that exchange gradients."""
        stack, usual = self.array.stack, super().bucket_bytes
        if stack is None or self.execution.bucket_bytes != stack.bucket_bytes:  # asked for
            return usual
        each = stack.bucket_rank_bytes
        return max(usual, each * self._ranks) if each else usual

    @cached_property
    def _ranks(self) -> int:
        """How many cores of all replicas have the same weights, of the first layer with any."""
        first = next((v for v, work in enumerate(self._work) if work.pair_parameters), 0)
        (part, *_) = self._parts
        return self.replicas * _same_weights(part, first)

    @property
    def _fsdp_units(self) -> FsdpUnits:
        """The units of weights in parts, if they are.

        Not kept: it asks these rules, and a circle would hold an array's wires until the
        collector finds it.
        """
        graph, full = self.graph, self.bucket_bytes
        uses = [self._as_read(v, used=True) for v in range(len(graph) if self._in_parts else 0)]
        units = units_of(self.network, graph, uses.__getitem__, full) if uses else ()
        return FsdpUnits(graph, units, self._as_read, uses, self._alike, prefetch=self.overlap)

    @cached_property
    def _parts_held(self) -> ZeroSharding:
        """What memory has in parts, as the order of a step has it."""
        if not any(map(self.scatters, range(len(self.graph)))):
            return WHOLE
        buckets = [item.bucket for item in self.order() if self.scattered(item)]
        fsdp = self._fsdp_units
        return ZeroSharding(tuple(filter(None, buckets)), fsdp.units, fsdp.gathered, self.overlap)

    @cached_property
    def _updated(self) -> dict[Mesh, Fractions]:
        return updated(self.root, self._shared, busy_cores)

    def updated(self, part: Mesh) -> Sequence[float]:
        """Of each core of a block; all of its weights where it alone has them."""
        found = self._updated[part]
        return [
            of_each_core(part, v, found[v]) if v in self._shared else 1.0
            for v in range(len(self.graph))
        ]

    def product(
        self, v: int, phase: Phase, shard: Shard, device: Device, updated: float = 1.0
    ) -> Operation | None:
        """One core's operators of a node and phase, one after the other on the roofline."""
        done = self._costs(v, phase, shard, device, updated)
        core = self._core(device)
        return computed(phase, self.graph[v].name, done, device, core) if done else None

    def product_ps(
        self, v: int, phase: Phase, shard: Shard, device: Device, updated: float = 1.0
    ) -> int:
        """The same without the operation: planners ask for thousands."""
        return lasts_ps(self._costs(v, phase, shard, device, updated))

    def _costs(
        self, v: int, phase: Phase, shard: Shard, device: Device, updated: float
    ) -> list[OperatorCost]:
        """Of what the operators find on the core, of whose weights it updates a part."""
        held = self.held(v, shard)
        return costs(self._operators_of(v, phase, updated, held), held, self._core(device))

    def _operators_of(
        self, v: int, phase: Phase, updated: float, held: Shard
    ) -> tuple[Operator, ...]:
        """A node's operators of a phase; gradients may be there in parts, and what is received."""
        work = self._work[v].of(phase)
        if v in self.received_in_parts:
            part = part_of_positions(self.graph[v], held)
            work = tuple(one.on_part(part) if one.front else one for one in work)
        if phase is Phase.UPDATE and updated != 1.0:
            in_parts = self.scatters(v)
            work = tuple(operator.updating(updated, in_parts=in_parts) for operator in work)
        return work

    def units(self, device: Device) -> tuple[str, ...]:
        """Those of its spec; without overlap a core does one thing after the other."""
        return device.units.names if device.units is not None and self.overlap else ()

    def operations(
        self, v: int, phase: Phase, shard: Shard, device: Device, updated: float = 1.0
    ) -> Sequence[Operation]:
        """On units each operator by itself, on the unit that is fastest at it."""
        if not self.units(device):
            return super().operations(v, phase, shard, device, updated)
        held, core, name = self.held(v, shard), self._core(device), self.graph[v].name
        work = () if held.empty else self._operators_of(v, phase, updated, held)
        made = [on_units(operator, name, held, device, core) for operator in work]
        found = [min(choice, key=lambda one: one.duration_ps) for choice in made]
        self.choices |= {best: of for best, of in zip(found, made, strict=True) if len(of) > 1}
        self.operator_of |= {
            one: of for choice, of in zip(made, work, strict=True) for one in choice
        }
        return found

    def input_bytes(self, elements: float, readers: Iterable[int], shards: Shards) -> float:
        """The largest part that a reader's shard needs, of what is received in parts its part."""

        def samples(v: int) -> float:
            held, node = self.held(v, shards[v]), self.graph[v]
            part = part_of_positions(node, held) if v in self.received_in_parts else 1.0
            inputs = held.inputs * held.groups / node.in_channels
            return held.rows * part * (1.0 if node.kind == "embedding" else inputs)

        return max(map(samples, readers)) * elements * self._arithmetic.activation_bytes

    def memory_use(  # noqa: D102
        self,
        device: Device,
        shards: Shards,
        updated: Fractions = (),
        order: Sequence[Operation] = (),
    ) -> MemoryUse:
        held = tuple(starmap(self.held, enumerate(shards)))
        if (key := (device, held, tuple(updated), tuple(order))) not in self._uses:
            core = self._core(device)
            self._uses[key] = memory_use(
                self._operators,
                held,
                core,
                [self.operator_of[one] for one in order] if order else None,
                updated=updated,
                parts=self._parts_held,
                received=self.received_in_parts,
                scattered=self.scattered_sums,
            )
        return self._uses[key]

    def hbm_bytes_per_s(self, device: Device) -> float | None:
        """A core's own slice of its chip's HBM."""
        return self._core(device).hbm_bytes_per_s

    def _core(self, device: Device) -> Core:
        for known, core in self._made:
            if known is device:  # to compare them takes longer
                return core
        whole, inference = self.execution.whole_shards, self.execution.inference
        self._made.append((device, core_of(device, whole=whole, inference=inference)))
        return self._made[-1][1]


def _same_weights(part: Mesh, v: int) -> int:
    """How many cores of a part have the same weights of a layer; of unlike halves, the most."""
    if not part.halves:
        return int(2 ** sum(types[v] in SAME_WEIGHTS for types in part.types))
    each = [_same_weights(half, v) for half in part.working_halves]
    same = part.idle or part.partitions[v].type in SAME_WEIGHTS
    return sum(each) if same else max(each)
