"""Lowering under the deployed model: roofline computing, real wires, exchanges that overlap.

Every class of cores that do the same has a script. Features, errors and gradients are followed
by name through the step; what is re-laid or summed waits for whoever makes
it, and whoever needs it waits for that alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from hardware import Array, Wires, wires_of
from planners import Plan, PlanError
from planners.partition import II, III, I
from planners.steps import Kind, Phase, consumers
from simulator.cost.memory import device_memory
from simulator.cost.operators import GRADIENT_BYTES, MAP_BYTES
from simulator.cost.roofline import Core, bounds, core_of, costs
from simulator.cost.training_operators import operators
from simulator.engine.errors import OutOfMemoryError
from simulator.engine.occupancy import DeviceMemory, overflow
from simulator.engine.operations import COMPUTE_LEVEL, Branch, Leaf, Operation, Program
from simulator.engine.picoseconds import duration_ps
from simulator.lowering.execution import Execution
from simulator.lowering.placement import Part, Shard, Shards, divide
from simulator.lowering.reshard import (
    Relay,
    Request,
    Sums,
    backward_layouts,
    forward_layouts,
    tied_layouts,
)
from simulator.lowering.tasks import Key, Script
from simulator.lowering.transport import carried
from workloads import Graph, Network, partition_graph

ORDER: Key = ("order",)
"""The last operation of a core, for those that follow strictly."""
STREAM: Key = ("stream",)
"""The last gradient exchange of a core: they run one after the other."""
MADE_BY = {
    Phase.FORWARD: ("features", II),
    Phase.BACKWARD: ("errors", III),
    Phase.GRADIENT: ("gradient", I),
}
"""What the product of each phase makes, and the type that leaves partial sums of it."""


def lower_deployed(
    network: Network, plan: Plan, array: Array, execution: Execution, *, folded: bool = True
) -> Program:
    """The program of one training step; ``array`` is one of cores (``hardware.by_core``).

    Raises PlanError when the plan is for another network, or for an array
    that is bisected differently; OutOfMemoryError where that is asked for.
    """
    graph = partition_graph(network)
    if tuple(node.name for node in graph) != plan.nodes:
        raise PlanError(f"the plan is for {plan.network!r}, not for {network.name!r}")
    wires = wires_of(array)
    root = divide(
        graph,
        plan.root,
        array.group,
        plan.batch,
        whole=execution.whole_shards,
        folded=folded,
        wires=wires,
    )
    step = _Step(network, graph, plan.batch, root, wires, execution, folded=folded)
    memory = step.memory()
    if execution.strict_memory and (
        fault := overflow(network.name, plan.planner, array.name, memory)
    ):
        raise OutOfMemoryError(fault)
    step.write()
    return Program(tuple(step.operations), step.tree(root), wires, memory)


class _Step:
    """One training step being written."""

    def __init__(
        self,
        network: Network,
        graph: Graph,
        batch: int,
        root: Part,
        wires: Wires,
        execution: Execution,
        *,
        folded: bool,
    ) -> None:
        self.graph = graph
        self.batch = batch
        self.element_bytes = root.group.arithmetic.element_bytes
        self.root = root
        self.execution = execution
        self.folded = folded
        self.operators = operators(network)
        self.work = self.operators.nodes
        self.wires = wires
        self.operations: list[Operation] = []
        self.under: dict[int, tuple[Script, ...]] = {}
        self._open_scripts(root)
        self.consumers = consumers(graph)
        self.tied: dict[int, list[Key]] = {}
        for v, node in enumerate(graph):
            if node.tied is not None:
                self.tied.setdefault(node.tied, []).append(("tied", v))

    def _open_scripts(self, part: Part) -> tuple[Script, ...]:
        """A script for every class of cores; ``under`` has those of each part."""
        if part.halves:
            found = tuple(s for half in part.distinct() for s in self._open_scripts(half))
        else:
            device = part.group.kinds[0][0]
            found = tuple(
                Script(
                    device, shards, len(cores) * len(part.firsts), int(part.firsts[0] + cores[0])
                )
                for shards, cores in part.classes(folded=self.folded)
            )
        self.under[id(part)] = found
        return found

    def write(self) -> None:
        """Forward, backward with gradients, update."""
        for v in range(len(self.graph)):
            self._forward(v)
        bucket: list[int] = []
        for v in reversed(range(len(self.graph))):
            self._backward(v)
            if self.execution.overlap:
                bucket = self._fill(bucket, v)
        if not self.execution.overlap:
            for v in reversed(range(len(self.graph))):
                bucket = self._fill(bucket, v)
        self._exchange_gradients(bucket)
        for v in range(len(self.graph)):
            after = [("gradient", v), *self.tied.get(v, ())]
            self._compute(v, Phase.UPDATE, after, [("weights", v)])
        for v, node in enumerate(self.graph):
            if node.tied is not None:
                self._move_tied(v, Phase.UPDATE, [("weights", node.tied)])

    def _forward(self, v: int) -> None:
        node = self.graph[v]
        edges = [(u, v, e) for e, u in enumerate(node.producers)]
        for edge in edges:
            self._relay(Phase.FORWARD, *edge)
        inputs = [("moved", Phase.FORWARD, *edge) for edge in edges]
        self._compute(v, Phase.FORWARD, inputs, [("features", v)])
        if not node.join:
            self._sum(Phase.FORWARD, (v,))

    def _backward(self, v: int) -> None:
        """Errors first, on their way to the producers while the gradient is computed.

        A matmul's "gradient" is the error of its second operand.
        """
        node = self.graph[v]
        inputs: list[Key] = [("moved", Phase.BACKWARD, v, w, e) for w, e in self.consumers[v]]
        inputs = inputs or [("features", v)]
        made: list[Key] = [("gradient", v), ("tied", v)]
        self._compute(v, Phase.BACKWARD, inputs, [("errors", v), *made])
        if not node.join:
            self._sum(Phase.BACKWARD, (v,))
        if node.kind == "matmul":
            made.append(("errors", v))
            self._compute(v, Phase.GRADIENT, [*inputs, *made], made)
        for e, u in enumerate(node.producers):
            self._relay(Phase.BACKWARD, u, v, e)
        if not node.join and node.kind != "matmul":
            self._compute(v, Phase.GRADIENT, [*inputs, *made], made)

    def _fill(self, bucket: list[int], v: int) -> list[int]:
        """Put a layer's gradient into the bucket, exchanged first where it cannot join."""
        if self.graph[v].tied is not None:
            self._sum_tied(v)
        if not self._gradient_bytes(v, self.root.shards[v]):
            return bucket
        if bucket and not self._alike(bucket[0], v):
            self._exchange_gradients(bucket)
            bucket = []
        bucket = [*bucket, v]
        size = sum(self._gradient_bytes(u, self.root.shards[u]) for u in bucket)
        if size >= self.execution.bucket_bytes:
            self._exchange_gradients(bucket)
            return []
        return bucket

    def _alike(self, u: int, v: int) -> bool:
        """Whether two layers' gradients are summed over the same groups."""
        return all(
            part.partitions[u].type is part.partitions[v].type
            if part.halves
            else (part.mask((u,)) == part.mask((v,))).all()
            and all(types[u] is types[v] for types in part.types)
            for part in _parts(self.root)
        )

    def _exchange_gradients(self, bucket: Sequence[int]) -> None:
        if bucket:
            self._sum(Phase.GRADIENT, tuple(bucket))

    def _sum(self, phase: Phase, nodes: tuple[int, ...]) -> None:
        """Complete the partial sums of a product, on the wires."""
        name, kind = MADE_BY[phase]
        keys: list[Key] = [(name, v) for v in nodes]
        if phase is Phase.GRADIENT:
            keys += [STREAM, *(key for v in nodes for key in self.tied.get(v, ()))]
        layer = self.graph[nodes[0]].name
        if len(nodes) > 1:
            layer += f" and {len(nodes) - 1} more"

        def size(shards: Shards) -> float:
            return math.fsum(self._sum_bytes(v, shards[v], phase) for v in nodes)

        def emit(request: Request) -> None:
            self._send(request, Kind.SUMS, phase, layer, nodes, keys)

        if size(self.root.shards):
            Sums(nodes, kind, size, emit).all_reduce(self.root)

    def _sum_tied(self, v: int) -> None:
        """The gradient of a later use of a weight, on its way to the sums of its owner."""
        node, keys = self.graph[v], [("tied", v), STREAM]

        def size(shards: Shards) -> float:
            return self._matrix_bytes(self.work[v].shared_parameters, shards[v])

        def emit(request: Request) -> None:
            self._send(request, Kind.SUMS, Phase.GRADIENT, node.name, (v,), keys)

        Sums((v,), I, size, emit, node.tied).all_reduce(self.root)
        self._move_tied(v, Phase.GRADIENT, keys)

    def _move_tied(self, v: int, phase: Phase, keys: Sequence[Key]) -> None:
        """Re-lay a gradient for the weight's owner, or the new weight for its other use."""
        forth, back = tied_layouts(self.graph, v)
        layouts = forth if phase is Phase.GRADIENT else back
        nodes = layouts[0].node, layouts[1].node
        layer = " to ".join(self.graph[node].name for node in nodes)

        def emit(request: Request) -> None:
            self._send(request, Kind.BOUNDARY, phase, layer, nodes, keys)

        whole = self._matrix_bytes(self.work[v].shared_parameters, self.root.shards[v])
        if phase is Phase.UPDATE:
            whole *= MAP_BYTES / GRADIENT_BYTES
        Relay(*layouts, emit).move(self.root, whole)

    def _sum_bytes(self, v: int, shard: Shard, phase: Phase) -> float:
        node = self.graph[v]
        if phase is Phase.FORWARD:
            outputs = shard.outputs * shard.groups
            return shard.rows * outputs * node.out_area * self.element_bytes
        if phase is Phase.BACKWARD and not self.work[v].passes_errors:
            return 0.0
        if phase is Phase.BACKWARD:
            inputs = shard.inputs * shard.groups
            return shard.rows * inputs * node.in_area * self.element_bytes
        return self._gradient_bytes(v, shard)

    def _gradient_bytes(self, v: int, shard: Shard) -> float:
        """Gradients of the parameters that a node brings, of norms and biases behind it too."""
        work, held = self.work[v], self._held(v, shard)
        rest = work.channel_parameters * held.outputs * held.groups * GRADIENT_BYTES
        return self._matrix_bytes(work.pair_parameters, held) + rest

    @staticmethod
    def _matrix_bytes(pairs: float, shard: Shard) -> float:
        return pairs * shard.inputs * shard.outputs * shard.groups * GRADIENT_BYTES

    def _relay(self, phase: Phase, producer: int, consumer: int, edge: int) -> None:
        """Re-lay the tensor between two nodes for the one that reads it."""
        forward = phase is Phase.FORWARD
        made = ("features", producer) if forward else ("errors", consumer)
        moved = ("moved", phase, producer, consumer, edge)
        for script in self.under[id(self.root)]:
            script.hand_on([made], [moved])
        node = self.graph[consumer]
        layer = f"{self.graph[producer].name} to {node.name}"

        def emit(request: Request) -> None:
            self._send(request, Kind.BOUNDARY, phase, layer, (producer, consumer), [moved])

        whole = self.batch * node.reads[edge].elements * self.element_bytes
        layouts = forward_layouts if forward else backward_layouts
        Relay(*layouts(self.graph, producer, consumer), emit).move(self.root, whole)

    def _send(
        self,
        request: Request,
        kind: Kind,
        phase: Phase,
        layer: str,
        nodes: Sequence[int],
        keys: Sequence[Key],
    ) -> None:
        """An exchange on the wires: the cores of its part that take part wait for it."""
        jobs, received = carried(request, self.wires, self.execution.algorithm)
        operation = self._new(kind, phase, layer, request.part.level, jobs=jobs, received=received)
        for script in self.under[id(request.part)]:
            if any(not script.shards[node].empty for node in nodes):
                self._add(script, operation, keys, keys)

    def _compute(self, v: int, phase: Phase, after: list[Key], makes: list[Key]) -> None:
        made: dict[tuple[int, Shard], Operation | None] = {}
        for script in self.under[id(self.root)]:
            device, shard = script.device, self._held(v, script.shards[v])
            key = (id(device), shard)
            if key not in made:
                made[key] = self._product(v, phase, shard, core_of(device))
            operation = made[key]
            if operation is None:
                script.hand_on(after, makes)
            else:
                self._add(script, operation, after, makes)

    def _held(self, v: int, shard: Shard) -> Shard:
        """What operators of a node find on a core: joins are split by what they read."""
        node = self.graph[v]
        if not node.join or not shard.outputs:
            return shard
        return shard._replace(outputs=shard.inputs * node.out_channels / node.in_channels)

    def memory(self) -> tuple[DeviceMemory, ...]:
        """How full the HBM of each device's fullest core gets."""
        return device_memory(
            self.operators,
            (
                (s.device, tuple(itertools.starmap(self._held, enumerate(s.shards))), s.cores)
                for s in self.under[id(self.root)]
            ),
        )

    def _product(self, v: int, phase: Phase, shard: Shard, core: Core) -> Operation | None:
        """One core's operators of a node and phase as one operation; None where there is none."""
        done = costs(self.work[v].of(phase), shard, core)
        if not done:
            return None
        moved = math.fsum(cost.bytes for cost in done)
        layer = self.graph[v].name
        memory = self._new(
            Kind.MEMORY,
            phase,
            layer,
            COMPUTE_LEVEL,
            duration=duration_ps(moved, core.hbm_bytes_per_s),
            received=(moved, 0.0),
        )
        return self._new(
            Kind.COMPUTE,
            phase,
            layer,
            COMPUTE_LEVEL,
            duration=duration_ps(math.fsum(cost.seconds for cost in done), 1.0),
            flops=math.fsum(cost.flops for cost in done),
            memory=memory,
            bound_s=bounds(done, core),
        )

    def _add(
        self, script: Script, operation: Operation, after: Sequence[Key], makes: Sequence[Key]
    ) -> None:
        if not self.execution.overlap:
            after, makes = [*after, ORDER], [*makes, ORDER]
        script.add(operation, after, makes)

    def _new(
        self, kind: Kind, phase: Phase, layer: str, level: int, duration: int = 0, **more: Any
    ) -> Operation:
        operation = Operation(len(self.operations), kind, phase, layer, level, duration, **more)
        self.operations.append(operation)
        return operation

    def tree(self, part: Part) -> Branch | Leaf:
        """The program's tree: parts, and the classes of cores of each block."""
        if part.halves:
            below: list[Branch | Leaf] = [self.tree(half) for half in part.distinct()]
        else:
            below = [
                Leaf(s.device, tuple(s.operations), 0, 1, s.cores, tuple(s.needs), s.first)
                for s in self.under[id(part)]
            ]
        if not part.halves and not part.types:
            return below[0]
        return Branch(part.level, tuple(below), len(part.firsts))


def _parts(part: Part) -> Iterator[Part]:
    """Every distinct part, parents first."""
    yield part
    for half in part.distinct():
        yield from _parts(half)
