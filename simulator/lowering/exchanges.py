"""What is exchanged under the deployed model: collectives and swaps on real wires."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from hardware import Arithmetic, Wires
from planners.errors import PlanError
from planners.order import SUMMED_IN, Item, Kind, Phase, consumers
from planners.partition import SAME_WEIGHTS, Shard, V, is_operand
from planners.plan.updates import kept_in_parts, sharded
from simulator.cost.energy import receiving_j
from simulator.cost.operators import NodeOperators
from simulator.engine.operations import Operation
from simulator.lowering.blocks import Shards
from simulator.lowering.layouts import (
    Layout,
    TiedLayout,
    backward_layouts,
    forward_layouts,
    tied_layouts,
)
from simulator.lowering.placement import Part, exchanged_alike, working
from simulator.lowering.requests import Request, Types
from simulator.lowering.reshard import Relay
from simulator.lowering.rules import Exchange, Rules
from simulator.lowering.siblings import Siblings, siblings_of
from simulator.lowering.sums import Sums
from simulator.lowering.transport import carried


class ExchangesOnWires(Rules):
    """Who exchanges what with whom, how many bytes that is, and as which jobs of the links.

    ``_work`` has what each node's operators are, ``_arithmetic`` the formats of numbers.
    """

    joint = True
    wires: Wires
    _work: Sequence[NodeOperators]
    _arithmetic: Arithmetic

    @cached_property
    def _shared(self) -> frozenset[int]:
        """The nodes whose update is shared out."""
        return sharded(self.plan.updates)

    @cached_property
    def _in_parts(self) -> frozenset[int]:
        """The nodes whose weights are gathered for each use."""
        return kept_in_parts(self.plan.updates)

    @cached_property
    def _siblings(self) -> Siblings:
        return siblings_of(self.network, self.graph, self._parts)

    def siblings(self, v: int) -> Sequence[int]:  # noqa: D102
        return self._siblings.get(v, (v,))

    @cached_property
    def _readers(self) -> list[list[tuple[int, int]]]:
        return consumers(self.graph)

    @cached_property
    def _parts(self) -> list[Part]:
        """Where somebody works; idle blocks have shards, too, with all of a layer's weights."""
        return [part for part in working(self.root) if not part.idle]

    def exchanges(self, item: Item) -> Iterator[Exchange]:
        """Collectives where all cores of a block do the same, swaps where halves differ."""
        if item.kind is Kind.WEIGHTS:
            return self._weights(item)
        if item.kind is Kind.BOUNDARY and item.phase is Phase.UPDATE:
            return self._new_tied(item)
        if item.kind is Kind.BOUNDARY:
            return self._boundary(item)
        if item.phase is not Phase.GRADIENT or item.bucket:
            return self._sums(item)
        return self._operand_sums(item) if self.graph[item.node].operand else self._tied_sums(item)

    def _sums(self, item: Item) -> Iterator[Exchange]:
        """Complete the partial sums of a product."""
        nodes = item.bucket or (item.node,)

        def size(shards: Shards) -> float:
            return math.fsum(self.sum_bytes(v, shards[v], item.phase) for v in nodes)

        if size(self.root.shards):
            requests: list[Request] = []
            scattered = self._by_positions(item)
            sums = Sums(nodes, SUMMED_IN[item.phase], size, requests.append, scattered=scattered)
            in_pieces = item.phase is Phase.GRADIENT and item.node in self._shared
            (sums.scatter if in_pieces else sums.complete)(self.root.innermost())
            yield from self._carried(requests, Kind.SUMS, item.phase, nodes)

    def _operand_sums(self, item: Item) -> Iterator[Exchange]:
        """The errors of keys and values, of which all positions leave partial sums."""
        v = item.node
        groups = self.graph[v].groups

        def size(shards: Shards) -> float:
            operand = self.graph[v].operand / groups * shards[v].groups
            return shards[v].rows * operand * self._arithmetic.activation_bytes

        requests: list[Request] = []
        scattered = self._by_positions(item)
        Sums((v,), (V,), size, requests.append, scattered=scattered).complete(self.root.innermost())
        return self._carried(requests, Kind.SUMS, Phase.GRADIENT, (v,))

    def _by_positions(self, item: Item) -> Callable[[Types], bool]:
        """Whether all who need the sums of a product need them by positions at a split."""
        v, sides = item.node, list[Layout]()
        if item.phase.ahead:
            sides = [forward_layouts(self.graph, v, *edge)[1] for edge in self._readers[v]]
        elif not item.bucket:
            for e, u in enumerate(self.graph[v].producers):
                if is_operand(self.graph[v], e) == (item.phase is Phase.GRADIENT):
                    sides.append(forward_layouts(self.graph, u, v, e)[0])
        return lambda types: bool(sides) and all(side.of(types) is V for side in sides)

    def _weights(self, item: Item) -> Iterator[Exchange]:
        """Weights, as operators read them, of those who updated, or keep, a piece each."""
        as_read = self._arithmetic.weight_bytes / self._arithmetic.gradient_bytes
        of = self.gradient_bytes if item.phase is Phase.UPDATE else self._used_bytes

        def size(shards: Shards) -> float:
            return as_read * math.fsum(of(v, shards[v]) for v in item.bucket)

        if size(self.root.shards):  # planners ask for what joins gather, too
            requests: list[Request] = []
            Sums(item.bucket, SAME_WEIGHTS, size, requests.append).gather(self.root.innermost())
            yield from self._carried(requests, Kind.WEIGHTS, item.phase, item.bucket)

    def _named(self, kind: Kind, nodes: Sequence[int]) -> str:
        names = [self.graph[node].name for node in nodes]
        if kind is Kind.BOUNDARY:
            return " to ".join(names)
        return names[0] + (f" and {len(nodes) - 1} more" if len(nodes) > 1 else "")

    def _tied_sums(self, item: Item) -> Iterator[Exchange]:
        """The gradient of a later use of a weight, on its way to the sums of its owner."""
        v = item.node

        def size(shards: Shards) -> float:
            return self.tied_bytes(v, shards[v])

        requests: list[Request] = []
        sums = Sums((v,), SAME_WEIGHTS, size, requests.append, self.graph[v].tied)
        sums.complete(self.root.innermost())
        yield from self._carried(requests, Kind.SUMS, Phase.GRADIENT, (v,))
        yield from self._tied(item, v)

    def _new_tied(self, item: Item) -> Iterator[Exchange]:
        """New weights for their other use; raises PlanError where that would need other parts."""
        for exchange in self._tied(item, item.consumer):
            if item.node in self._in_parts:
                raise PlanError(
                    f"zero=3: {self.graph[item.consumer].name!r} uses the weights of "
                    f"{self.graph[item.node].name!r}, but not the same parts; take zero=2"
                )
            yield exchange

    def _tied(self, item: Item, v: int) -> Iterator[Exchange]:
        """Re-lay a gradient for the weight's owner, or the new weight for its other use."""
        layouts = tied_layouts(self.graph, v)[item.phase is Phase.UPDATE]  # there, or back
        whole = self.tied_bytes(v, self.root.shards[v])
        if item.phase is Phase.UPDATE:
            whole *= self._arithmetic.weight_bytes / self._arithmetic.gradient_bytes
        return self._relaid(item.phase, layouts, [layouts[0].node, layouts[1].node], whole)

    def _boundary(self, item: Item) -> Iterator[Exchange]:
        """Re-lay the tensor between two nodes for the one that reads it."""
        whole = self.plan.batch * self.graph[item.consumer].reads[item.edge].elements
        find = forward_layouts if item.phase.ahead else backward_layouts
        layouts = find(self.graph, item.node, item.consumer, item.edge)
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
        requests: list[Request] = []
        Relay(*layouts, whole, requests.append).move(self.root.innermost(), whole)
        return self._carried(requests, Kind.BOUNDARY, phase, nodes)

    def _carried(
        self,
        requests: Iterable[Request],
        kind: Kind,
        phase: Phase,
        nodes: Sequence[int],
    ) -> Iterator[Exchange]:
        """Requests on the wires: those who have something of the nodes take part."""
        layer = self._named(kind, nodes)
        for request in requests:
            yield Exchange(request.part, kind, phase, layer, request, nodes)

    def carry_here(self, exchange: Exchange) -> Operation:  # noqa: D102
        request = exchange.what._replace(part=self.root)
        layer = self._named(exchange.kind, exchange.nodes)
        return self.carry(exchange._replace(part=self.root, layer=layer, what=request))

    def shown(self, phase: Phase) -> float:
        """Which part of what layers exchange is not hidden behind products, by their software.

        Gradients are hidden as far as the engine finds them to be.
        """
        hidden = self.array.stack.hidden_tensor if self.array.stack else 0.0
        return 1 - hidden if phase.ahead or phase is Phase.BACKWARD else 1.0

    def carry(self, exchange: Exchange) -> Operation:
        """The jobs of the request, for all copies of the part.

        What software hides of them behind products (``Stack.hidden_tensor``) takes no time;
        its bytes count, and are on no link.
        """
        part, kind, phase, layer, request, _ = exchange
        jobs, received = carried(request, self.wires, self.execution.algorithm)
        if kind is not Kind.WEIGHTS and (shown := self.shown(phase)) < 1:
            jobs = tuple(replace(job, flow_bytes=shown * job.flow_bytes) for job in jobs)
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
        if phase.ahead:
            made = self.held(v, shard)
            outputs = made.outputs * made.groups
            return made.rows * outputs * node.out_area * self._arithmetic.activation_bytes
        if phase is Phase.BACKWARD and not self._work[v].passes_errors:
            return 0.0
        if phase is Phase.BACKWARD:
            read = self.held(v, shard)
            inputs = read.inputs * read.groups
            return read.rows * inputs * node.in_area * self._arithmetic.activation_bytes
        return self.gradient_bytes(v, shard)

    def gradient_bytes(self, v: int, shard: Shard) -> float:
        """Gradients of the parameters that a node brings, of norms and biases behind it too."""
        work, held = self._work[v], self.held(v, shard)
        rest = work.channel_parameters * held.outputs * held.groups
        rest *= self._arithmetic.gradient_bytes
        return self._matrix_bytes(work.pair_parameters, held) + rest

    def tied_bytes(self, v: int, shard: Shard) -> float:
        """Gradients of the weights that a node uses and another brings."""
        return self._matrix_bytes(self._work[v].shared_parameters, shard)

    def _used_bytes(self, v: int, shard: Shard) -> float:
        """The same of all parameters that a node uses, those that another one brings, too."""
        return self.gradient_bytes(v, shard) + self.tied_bytes(v, self.held(v, shard))

    def _sent_bytes(self, v: int, *, used: bool = False) -> float:
        """Of a layer's gradient (or all ``used``), what the core with the most has to exchange."""
        of = self._used_bytes if used else self.gradient_bytes
        summed = any(
            part.partitions[v].type in SAME_WEIGHTS
            if part.halves
            else any(types[v] in SAME_WEIGHTS for types in part.types)
            for part in self._parts
        )
        blocks = (part.block for part in self._parts if summed and part.block is not None)
        return max((of(v, block.largest[v]) for block in blocks), default=0.0)

    def _matrix_bytes(self, pairs: float, shard: Shard) -> float:
        return pairs * shard.inputs * shard.outputs * shard.groups * self._arithmetic.gradient_bytes

    def held(self, v: int, shard: Shard) -> Shard:
        """What operators of a node find on a core: joins are split by what they read.

        Where it has a part of all positions, as many samples less: half of two
        sequences is one, with half of the ``positions``.
        """
        node, outputs = self.graph[v], shard.outputs
        if node.join and outputs:
            outputs = shard.inputs * node.out_channels / node.in_channels
        if shard.positions == node.out_area:
            return Shard(shard.rows, shard.inputs, outputs, shard.groups, 1.0)
        part = shard.positions / node.out_area
        return Shard(shard.rows * part, shard.inputs, outputs, shard.groups, part)

    def _alike(self, u: int, v: int) -> bool:
        """Whether two layers' gradients, or new weights, are exchanged by the same groups."""
        updates = self.plan.updates
        return (not updates or updates[u] is updates[v]) and exchanged_alike(self._parts, u, v)
