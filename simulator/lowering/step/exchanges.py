"""What is exchanged under the deployed model: collectives and swaps on real wires.

A tensor that several layers read in one layout is exchanged once for all of them (siblings).
Query, key and value of a block, each of type III, read the whole of one tensor. It is
gathered once, before the first of them; and its error is the sum of theirs: partial
sums are added up on each device before they are exchanged, once, behind the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from hardware import Arithmetic, Wires
from planners.errors import PlanError
from planners.order import Item, Kind, Phase, consumers
from planners.partition import SAME_WEIGHTS, Shard, is_operand
from planners.plan.updates import kept_in_parts, sharded
from simulator.collectives.cache import cached
from simulator.collectives.choice import offer
from simulator.collectives.offers import Jobs, cheapest
from simulator.collectives.swaps import swap
from simulator.cost.energy import receiving_j
from simulator.cost.operators import NodeOperators
from simulator.engine.operations import Operation
from simulator.lowering.step.rules import Exchange, Rules
from simulator.sharding.blocks import Shards
from simulator.sharding.mesh import Mesh, exchanged_alike, working
from simulator.sharding.redistribute import PartialSums, Request, redistribute
from simulator.sharding.spec import (
    OPERAND_ERROR,
    PARTIAL,
    POSITIONS,
    RESULT,
    Change,
    Layout,
    Types,
    backward_change,
    by_positions,
    forward_change,
    made_by,
    read_by,
    tied_changes,
    tied_gradient,
)
from workloads import Graph, Network


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
    def _parts(self) -> list[Mesh]:
        """Where somebody works; idle blocks have shards, too, with all of a layer's weights."""
        return [part for part in working(self.root) if not part.idle]

    @cached_property
    def _all_types(self) -> list[Types]:
        """The types of all nodes at each split."""
        found: list[Types] = []
        for part in self._parts:
            if part.halves:
                found.append(tuple(one.type for one in part.partitions))
            else:
                found += part.types
        return list(dict.fromkeys(found))

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
            held = Layout(nodes[0], RESULT[item.phase])
            sums = PartialSums(nodes, held, size, self._wanted_by(item), self._alone_ps)
            in_pieces = item.phase is Phase.GRADIENT and item.node in self._shared
            requests = (sums.scatter if in_pieces else sums.complete)(self.root.innermost())
            yield from self._carried(requests, Kind.SUMS, item.phase, nodes)

    def _operand_sums(self, item: Item) -> Iterator[Exchange]:
        """The errors of keys and values, of which all positions leave partial sums."""
        v = item.node
        groups = self.graph[v].groups

        def size(shards: Shards) -> float:
            operand = self.graph[v].operand / groups * shards[v].groups
            return shards[v].rows * operand * self._arithmetic.activation_bytes

        held = Layout(v, OPERAND_ERROR)
        sums = PartialSums((v,), held, size, self._wanted_by(item), self._alone_ps)
        requests = sums.complete(self.root.innermost())
        return self._carried(requests, Kind.SUMS, Phase.BACKWARD, (v,))

    def _wanted_by(self, item: Item) -> list[Layout]:
        """How those who need the sums of a product want them."""
        v, graph = item.node, self.graph
        if item.phase.computes_features:
            if v in self.scattered_sums:
                return [self.made(v)]
            return [Layout(w, read_by(graph, w, e)) for w, e in self._readers[v]]
        if item.bucket:
            return []
        if v in self.received_in_parts and item.phase is Phase.BACKWARD:
            return [Layout(v, by_positions(read_by(graph, v)))]
        return [
            self.made(u)
            for e, u in enumerate(graph[v].producers)
            if is_operand(graph[v], e) == (item.phase is Phase.GRADIENT)
        ]

    @cached_property
    def scattered_sums(self) -> frozenset[int]:
        """Nodes whose partial sums are scattered by positions although a reader wants the whole.

        Another one wants a part: so Megatron's embedding under sequence parallelism.
        """
        found = {v for v in self.sent_in_parts if not self._readers[v]}
        for v, readers in enumerate(self._readers):
            partial = [t for t in self._all_types if RESULT[Phase.FORWARD][t[v]] == PARTIAL]
            reads = [Layout(w, read_by(self.graph, w, e)) for w, e in readers]
            parts = [[one.on(t) == POSITIONS for one in reads] for t in partial]
            if all(map(any, parts)) and not all(map(all, parts)):
                found.add(v)
        return frozenset(found)

    def made(self, v: int) -> Layout:
        """How a node's output lies once its partial sums are completed."""
        by_type = made_by(self.graph, v)
        return Layout(v, by_positions(by_type) if v in self.scattered_sums else by_type)

    def _weights(self, item: Item) -> Iterator[Exchange]:
        """Weights, as operators read them, of those who updated, or keep, a piece each."""
        as_read = self._arithmetic.weight_bytes / self._arithmetic.gradient_bytes
        of = self.gradient_bytes if item.phase is Phase.UPDATE else self._used_bytes

        def size(shards: Shards) -> float:
            return as_read * math.fsum(of(v, shards[v]) for v in item.bucket)

        if size(self.root.shards):  # planners ask for what joins gather, too
            gradient = Layout(item.bucket[0], RESULT[Phase.GRADIENT])
            sums = PartialSums(item.bucket, gradient, size, (), self._alone_ps)
            requests = sums.gather(self.root.innermost())
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

        held = tied_gradient(v, self.graph[v].tied or 0)
        sums = PartialSums((v,), held, size, (), self._alone_ps)
        requests = sums.complete(self.root.innermost())
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
        """Redistribute a gradient for the weight's owner, or the new weight for its other use."""
        change = tied_changes(self.graph, v)[item.phase is Phase.UPDATE]  # there, or back
        whole = self.tied_bytes(v, self.root.shards[v])
        if item.phase is Phase.UPDATE:
            whole *= self._arithmetic.weight_bytes / self._arithmetic.gradient_bytes
        nodes = [layout.node for layout in change]
        return self._redistributed(item.phase, change, nodes, whole)

    def _boundary(self, item: Item) -> Iterator[Exchange]:
        """Redistribute the tensor between two nodes for the one that reads it."""
        whole = self.plan.batch * self.graph[item.consumer].reads[item.edge].elements
        find = forward_change if item.phase.computes_features else backward_change
        change = find(self.graph, item.node, item.consumer, item.edge)
        if item.phase.computes_features:
            change = self.made(item.node), change[1]
        nodes = [item.node, item.consumer]
        return self._redistributed(item.phase, change, nodes, whole * self._moved_bytes(item))

    def _moved_bytes(self, item: Item) -> float:
        """Of a number on its way to a product: what it was cast to, where that was done before.

        So Transformer Engine gathers what sequence parallelism splits (NVIDIA,
        module/layernorm_linear.py and base.py: ``grad_output_preprocess``), and torchtitan.
        Experts' tokens go as they are.
        """
        ahead = item.phase.computes_features
        v, phase = (item.consumer, Phase.FORWARD) if ahead else (item.node, Phase.BACKWARD)
        narrow = self.array.group.kinds[0][0].product_bytes
        of = next((one for one in self._work[v].of(phase) if one.narrow), None)
        if narrow and of and not of.casts and self.graph[v].groups == 1:
            return min(narrow, self._arithmetic.activation_bytes)
        return self._arithmetic.activation_bytes

    def _redistributed(
        self, phase: Phase, change: Change, nodes: Sequence[int], whole: float
    ) -> Iterator[Exchange]:
        """Bring a tensor of ``whole`` bytes from how it is held to how it is wanted."""
        requests = redistribute(change, self.root.innermost(), whole, self._alone_ps)
        return self._carried(requests, Kind.BOUNDARY, phase, nodes)

    def _alone_ps(self, request: Request) -> int:
        """How long a request takes when nobody else uses its links."""
        jobs, _ = carried(request, self.wires, self.execution.algorithm)
        known = (replace(job, load=job.load.unfolded()) for job in jobs)
        return sum(job.alone_ps(self.wires.bandwidth) for job in known)

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
            yield Exchange(request.mesh, kind, phase, layer, request, nodes)

    def shown(self, phase: Phase, collective: str, nodes: Sequence[int] = ()) -> float:
        """Which part of what layers exchange is not hidden behind products, by their software.

        All of it where nothing may overlap. Gradients are hidden as far as the engine finds them
        to be; between two ``nodes`` may be tokens on their way to experts, or back.
        """
        stack = self.array.stack
        beside = self.execution.overlap and (phase.computes_features or phase is Phase.BACKWARD)
        if stack is None or not beside:
            return 1.0
        routed = self._choices(nodes)
        return 1 - (stack.hidden_experts if routed else self.array.hidden_tensor(collective))

    def _choices(self, nodes: Sequence[int]) -> float:
        """To how many experts each token goes between two nodes; 0 where none goes to any."""
        if len(nodes) != 2:
            return 0.0
        first, last = (self.graph[v] for v in nodes)
        if last.routes and last.out_channels < last.in_channels:  # and not its gates
            out = last.out_channels * last.out_area
            return last.reads[0].elements / out if last.producers[0] == nodes[0] else 0.0
        if first.dispatches:
            # another stage may send what it reads
            own = first.reads[0].elements if first.reads else first.in_channels * first.in_area
            return first.out_channels * first.out_area / own
        return 0.0

    def copies(self, nodes: Sequence[int], ways: int = 2) -> float:
        """Which part of the copies of a token for its experts goes, these being so many ``ways``.

        To each of k experts one, of which 1 - 1/n leave one of n ranks; or ("once") one to each
        other rank that has any of them, (n - 1) (1 - (1 - 1/n)^k) of n: 4.6 of 7 for k = 8 on 8
        ranks. Ranks that are far from each other count by domains: DeepEP and HybridEP send
        each token once to a domain, which spreads it. Of 2 ways it is the least.
        """
        stack, k = self.array.stack, self._choices(nodes)
        if stack is None or stack.dispatcher != "once" or k <= 1:
            return 1.0
        reached: float = 1 - (1 - 1 / ways) ** k
        return ways * reached / k

    def _ways(self, request: Request) -> int:
        """Domains of the machine that have the members of a request's groups, or their number."""
        copies = request.mesh.copies
        first = np.concatenate([some.at(copies).rows()[0] for some in request.groups])
        regions = [subnet.region[first] for subnet in self.wires.subnets]
        counts = [len(np.unique(one)) for one in regions if one.min() >= 0]
        return min((many for many in counts if many > 1), default=len(first))

    def hiding(self, operation: Operation, collective: str, nodes: Sequence[int] = ()) -> Operation:
        """Without the time that software hides behind products (``Stack.hidden_tensor``).

        What is hidden crosses the links all the same, and takes none of their time.
        """
        if (shown := self.shown(Phase(operation.phase), collective, nodes)) == 1:
            return operation
        jobs = tuple(
            replace(job, flow_bytes=shown * job.flow_bytes, crossing=job.crosses)
            for job in operation.jobs
        )
        return replace(operation, jobs=jobs)

    def carry(self, exchange: Exchange) -> Operation:
        """The jobs of the request, for all copies of the part.

        Copies of tokens for experts that are not sent do not count.
        """
        part, kind, phase, layer, request, nodes = exchange
        jobs, received = carried(request, self.wires, self.execution.algorithm)
        if kind is Kind.BOUNDARY and self.copies(nodes) < 1:
            sent = self.copies(nodes, self._ways(request))
            jobs = tuple(job.fewer(sent) for job in jobs)
            received = sent * received[0], sent * received[1]
        energy_j = receiving_j(part.group.halves(), received)
        at = () if request.collective == "swap" else (request.groups[0].at(request.mesh.copies),)
        of = kind, phase, layer, part.level
        made = Operation(*of, received=received, energy_j=energy_j, jobs=jobs, groups=at)
        return made if kind is Kind.WEIGHTS else self.hiding(made, request.collective, nodes)

    def sum_bytes(self, v: int, shard: Shard, phase: Phase) -> float:  # noqa: D102
        node = self.graph[v]
        if phase.computes_features:
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
        """Gradients of the parameters that a node brings, of norms and biases at it too."""
        work, held = self._work[v], self.held(v, shard)
        rest = work.channel_parameters * held.outputs + work.entry_parameters * held.inputs
        rest *= held.groups * self._arithmetic.gradient_bytes
        return self._matrix_bytes(work.pair_parameters, held) + rest

    def tied_bytes(self, v: int, shard: Shard) -> float:
        """Gradients of the weights that a node uses and another brings."""
        return self._matrix_bytes(self._work[v].shared_parameters, shard)

    def tied_largest(self, v: int) -> float:  # noqa: D102
        shards = (part.block.largest[v] for part in self._parts if part.block is not None)
        pairs = self._work[v].pair_parameters
        return max((self._matrix_bytes(pairs, shard) for shard in shards), default=0.0)

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


Siblings = dict[int, tuple[int, ...]]
"""Of a layer with siblings all of them, in the order of the graph, itself among them."""


def siblings_of(network: Network, graph: Graph, parts: Sequence[Mesh]) -> Siblings:
    """Layers with weights that read one tensor, and nothing else, split by the same types."""
    layers = {layer.name: layer for layer in network.layers}
    found: dict[tuple[object, ...], list[int]] = {}
    for v, node in enumerate(graph):
        inputs = layers[node.name].inputs
        if not node.join and not node.computed and len(inputs) == 1:
            sort = node.producers, inputs[0], _splits(parts, v)
            found.setdefault(sort, []).append(v)
    return {v: tuple(some) for some in found.values() if len(some) > 1 for v in some}


def _splits(parts: Sequence[Mesh], v: int) -> tuple[object, ...]:
    """How a node is split, and who has something of it, in all parts."""
    return tuple(
        (part.partitions[v].type, part.partitions[v].share)
        if part.halves
        else (*(types[v] for types in part.types), part.mask((v,)).tobytes())
        for part in parts
    )


def carried(request: Request, wires: Wires, algorithm: str) -> tuple[Jobs, tuple[float, float]]:
    """The jobs for all copies of a request's mesh, and the bytes that one copy's halves get.

    A collective's bytes are those of one that moves no more than it must,
    half of them each half's.
    """
    copies = request.mesh.copies
    if request.collective == "swap":
        first, second = (half.at(copies).rows().ravel() for half in request.groups)
        amounts = [np.tile(bytes_, copies.count) for bytes_ in request.bytes]
        to_first, to_second = (float(bytes_.sum()) for bytes_ in request.bytes)
        return swap(wires, first, second, *amounts), (to_first, to_second)
    groups, size = request.groups[0], float(request.bytes[0])
    n = groups.size
    laps = 2 if request.collective == "all-reduce" else 1
    half = laps * size * (n - 1) / n * (groups.count * n) / 2
    ways = [groups.at(copies), *([request.padded.at(copies)] if request.padded else [])]
    # there is one way to do an all-to-all: the algorithm that is named is for the others
    by = "auto" if request.collective == "all-to-all" else algorithm

    def jobs() -> Jobs:
        """The cheaper way, where cores that hold nothing may stand between the others."""
        return cheapest(offer(wires, request.collective, way, size, by) for way in ways).jobs()

    key = wires.key, *(way.key for way in ways), request.collective, size, by
    return cached("jobs", key, jobs), (half, half)
