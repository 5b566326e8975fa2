"""The deployed execution model: roofline computing, real wires, exchanges that overlap.

Devices are single cores with their slices of HBM, shards whole samples and
channels (or exact fractions), partial sums and re-laid tensors collectives on
the array's own wires.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import starmap

from hardware import Device, Wires, wires_of
from planners.order import SUMMED_IN, Item, Kind, Phase
from planners.partition import I, Shard
from simulator.collectives.kept import wiring
from simulator.cost.energy import computing_j, receiving_j
from simulator.cost.memory import MemoryUse, device_memory, memory_use
from simulator.cost.roofline import Core, bounds, core_of, costs
from simulator.cost.training_operators import operators
from simulator.engine.errors import OutOfMemoryError
from simulator.engine.occupancy import DeviceMemory, overflow
from simulator.engine.operations import Operation
from simulator.engine.picoseconds import duration_ps
from simulator.lowering import order
from simulator.lowering.blocks import Shards
from simulator.lowering.layouts import (
    Layout,
    TiedLayout,
    backward_layouts,
    forward_layouts,
    tied_layouts,
)
from simulator.lowering.placement import Counting, Division, Part, parts
from simulator.lowering.requests import Request
from simulator.lowering.reshard import Relay
from simulator.lowering.rules import Exchange, Rules
from simulator.lowering.sums import Sums
from simulator.lowering.transport import carried
from simulator.lowering.written import apart_from_speeds, splits_of


class Deployed(Rules):
    """Rules of the deployed model, for an array of cores (``hardware.by_core``)."""

    unit = "core"
    joint = True
    wires: Wires

    def _prepare(self) -> None:
        self.overlap = self.execution.overlap
        self.wires = wires_of(self.array)
        self._operators = operators(self.network, inference=self.execution.inference)
        self._work = self._operators.nodes
        self._arithmetic = self.array.group.arithmetic
        self._cores: dict[int, Core] = {}
        self._uses: dict[tuple[Device, Shards], MemoryUse] = {}

    @property
    def apart_from_speeds(self) -> Hashable | None:
        """Folded, all but speeds: network, splits, wiring, devices and how it is executed."""
        if not self.folded:
            return None
        devices = apart_from_speeds([device for device, _ in self.array.group.kinds])
        splits, plan = splits_of(self.plan), self.plan
        return (
            self.network,
            (splits, plan.batch, plan.communication),
            (wiring(self.wires), devices, self.array.group.leaf, self.array.first),
            self.execution,
        )

    def _division(self) -> Division:
        """Cores, down to single ones; alike ones in blocks."""
        counting = Counting.WHOLE if self.execution.whole_shards else Counting.EXACT
        return Division(self.graph, counting, True, self.shared, self.wires)

    @cached_property
    def _parts(self) -> list[Part]:
        return list(parts(self.root))

    def order(self) -> Iterator[Item]:
        """Gradients go in buckets while backward goes on, or, without overlap, behind it."""
        graph = self.graph
        buckets = order.Buckets(
            graph,
            self._sent_bytes,
            lambda u, v: _alike(self._parts, u, v),
            self.execution.bucket_bytes,
        )
        yield from order.forward(graph)
        for v in reversed(range(len(graph))):
            yield from order.backward(graph, v)
            if self.overlap:
                yield from buckets.put(v)
        if not self.overlap:
            for v in reversed(range(len(graph))):
                yield from buckets.put(v)
        yield from buckets.rest()
        yield from order.update(graph)

    def product(self, v: int, phase: Phase, shard: Shard, device: Device) -> Operation | None:
        """One core's operators of a node and phase, one after the other on the roofline."""
        core = self._core(device)
        done = costs(self._work[v].of(phase), self.held(v, shard), core)
        if not done:
            return None
        flops, moved = math.fsum(c.flops for c in done), math.fsum(c.bytes for c in done)
        return Operation(
            Kind.COMPUTE,
            phase,
            self.graph[v].name,
            duration_ps=duration_ps(math.fsum(cost.seconds for cost in done), 1.0),
            flops=flops,
            hbm_bytes=moved,
            energy_j=computing_j(device, flops, moved),
            bound_s=bounds(done, core),
        )

    def exchanges(self, item: Item) -> Iterator[Exchange]:
        """Collectives where all cores of a block do the same, swaps where halves differ."""
        if item.kind is Kind.BOUNDARY and item.phase is Phase.UPDATE:
            return self._tied(item, item.consumer)
        if item.kind is Kind.BOUNDARY:
            return self._boundary(item)
        if item.phase is Phase.GRADIENT and not item.bucket:
            return self._tied_sums(item)
        return self._sums(item)

    def _sums(self, item: Item) -> Iterator[Exchange]:
        """Complete the partial sums of a product."""
        nodes = item.bucket or (item.node,)
        layer = self.graph[item.node].name
        if len(nodes) > 1:
            layer += f" and {len(nodes) - 1} more"

        def size(shards: Shards) -> float:
            return math.fsum(self.sum_bytes(v, shards[v], item.phase) for v in nodes)

        if size(self.root.shards):
            requests: list[Request] = []
            Sums(nodes, SUMMED_IN[item.phase], size, requests.append).all_reduce(self.root)
            yield from self._carried(requests, Kind.SUMS, item.phase, layer, nodes)

    def _tied_sums(self, item: Item) -> Iterator[Exchange]:
        """The gradient of a later use of a weight, on its way to the sums of its owner."""
        v = item.node
        node = self.graph[v]

        def size(shards: Shards) -> float:
            return self._matrix_bytes(self._work[v].shared_parameters, shards[v])

        requests: list[Request] = []
        Sums((v,), I, size, requests.append, node.tied).all_reduce(self.root)
        yield from self._carried(requests, Kind.SUMS, Phase.GRADIENT, node.name, (v,))
        yield from self._tied(item, v)

    def _tied(self, item: Item, v: int) -> Iterator[Exchange]:
        """Re-lay a gradient for the weight's owner, or the new weight for its other use."""
        forth, back = tied_layouts(self.graph, v)
        layouts = forth if item.phase is Phase.GRADIENT else back
        whole = self._matrix_bytes(self._work[v].shared_parameters, self.root.shards[v])
        if item.phase is Phase.UPDATE:
            whole *= self._arithmetic.weight_bytes / self._arithmetic.gradient_bytes
        return self._relaid(item.phase, layouts, [layouts[0].node, layouts[1].node], whole)

    def _boundary(self, item: Item) -> Iterator[Exchange]:
        """Re-lay the tensor between two nodes for the one that reads it."""
        whole = self.plan.batch * self.graph[item.consumer].reads[item.edge].elements
        find = forward_layouts if item.phase is Phase.FORWARD else backward_layouts
        layouts = find(self.graph, item.node, item.consumer)
        nodes = [item.node, item.consumer]
        return self._relaid(item.phase, layouts, nodes, whole * self._arithmetic.activation_bytes)

    def _relaid(
        self,
        phase: Phase,
        layouts: tuple[Layout | TiedLayout, Layout],
        nodes: Sequence[int],
        whole: float,
    ) -> Iterator[Exchange]:
        """Bring a tensor of ``whole`` bytes from the first layout to the second."""
        layer = " to ".join(self.graph[node].name for node in nodes)
        requests: list[Request] = []
        Relay(*layouts, whole, requests.append).move(self.root, whole)
        return self._carried(requests, Kind.BOUNDARY, phase, layer, nodes)

    def _carried(
        self,
        requests: Iterable[Request],
        kind: Kind,
        phase: Phase,
        layer: str,
        nodes: Sequence[int],
    ) -> Iterator[Exchange]:
        """Requests on the wires: those who have something of the nodes take part."""
        for request in requests:
            yield Exchange(request.part, kind, phase, layer, request, nodes)

    def carry(self, exchange: Exchange) -> Operation:
        """The jobs of the request, for all copies of the part."""
        part, kind, phase, layer, request, _ = exchange
        jobs, received = carried(request, self.wires, self.execution.algorithm)
        return Operation(
            kind,
            phase,
            layer,
            part.level,
            received=received,
            energy_j=receiving_j(part.group.halves(), received),
            jobs=jobs,
        )

    def sum_bytes(self, v: int, shard: Shard, phase: Phase) -> float:  # noqa: D102
        node = self.graph[v]
        if phase is Phase.FORWARD:
            outputs = shard.outputs * shard.groups
            return shard.rows * outputs * node.out_area * self._arithmetic.activation_bytes
        if phase is Phase.BACKWARD and not self._work[v].passes_errors:
            return 0.0
        if phase is Phase.BACKWARD:
            inputs = shard.inputs * shard.groups
            return shard.rows * inputs * node.in_area * self._arithmetic.activation_bytes
        return self.gradient_bytes(v, shard)

    def gradient_bytes(self, v: int, shard: Shard) -> float:
        """Gradients of the parameters that a node brings, of norms and biases behind it too."""
        work, held = self._work[v], self.held(v, shard)
        rest = work.channel_parameters * held.outputs * held.groups
        rest *= self._arithmetic.gradient_bytes
        return self._matrix_bytes(work.pair_parameters, held) + rest

    def _sent_bytes(self, v: int) -> float:
        """Of a layer's gradient, what the core with the most of it has to exchange."""
        summed = any(
            part.partitions[v].type is I if part.halves else any(t[v] is I for t in part.types)
            for part in self._parts
        )
        blocks = (part.block for part in self._parts if summed and part.block is not None)
        return max((self.gradient_bytes(v, block.largest[v]) for block in blocks), default=0.0)

    def _matrix_bytes(self, pairs: float, shard: Shard) -> float:
        elements = pairs * shard.inputs * shard.outputs * shard.groups
        return elements * self._arithmetic.gradient_bytes

    def held(self, v: int, shard: Shard) -> Shard:
        """What operators of a node find on a core: joins are split by what they read."""
        node = self.graph[v]
        if not node.join or not shard.outputs:
            return shard
        return shard._replace(outputs=shard.inputs * node.out_channels / node.in_channels)

    def input_bytes(self, nodes: Iterable[int], shards: Shards) -> float:
        """Maps of their shards, without tiles."""
        each = self._arithmetic.activation_bytes
        return math.fsum(
            shards[v].rows * shards[v].inputs * shards[v].groups * self.graph[v].in_area * each
            for v in nodes
        )

    def memory(self, classes: Iterable[tuple[Device, Shards, int]]) -> tuple[DeviceMemory, ...]:
        """The fullest core of each device; raises OutOfMemoryError where strictness asks for it."""
        found = device_memory(
            (device, self.memory_use(device, shards), many) for device, shards, many in classes
        )
        if self.execution.strict_memory and (
            fault := overflow(self.plan.network, self.plan.planner, self.array.name, found)
        ):
            raise OutOfMemoryError(fault)
        return found

    def memory_use(self, device: Device, shards: Shards) -> MemoryUse:  # noqa: D102
        held = tuple(starmap(self.held, enumerate(shards)))
        if (key := (device, held)) not in self._uses:
            self._uses[key] = memory_use(self._operators, held, self._core(device))
        return self._uses[key]

    def hbm_bytes_per_s(self, device: Device) -> float | None:
        """A core's own slice of its chip's HBM."""
        return self._core(device).hbm_bytes_per_s

    def _core(self, device: Device) -> Core:
        if id(device) not in self._cores:
            how = {"whole": self.execution.whole_shards, "inference": self.execution.inference}
            self._cores[id(device)] = core_of(device, **how)
        return self._cores[id(device)]


def _alike(found: Iterable[Part], u: int, v: int) -> bool:
    """Whether two layers' gradients are summed over the same groups of all parts."""
    return all(
        part.partitions[u].type is part.partitions[v].type
        if part.halves
        else part.block is not None
        and (part.block.busy((u,)) == part.block.busy((v,))).all()
        and all(types[u] is types[v] for types in part.types)
        for part in found
    )
