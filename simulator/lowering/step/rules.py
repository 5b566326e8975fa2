"""What an execution model decides; all else about a training step is the same for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from hardware import Array, Device, Wires
from hardware.array import Unit
from planners import Plan
from planners.legality import check_nodes, check_types
from planners.order import Item, Kind, Phase
from planners.partition import Shard
from planners.plan.updates import ARRIVAL
from simulator.cost.memory import MemoryUse
from simulator.engine.operations import Operation
from simulator.lowering.execution import Execution
from simulator.sharding.blocks import Shards
from simulator.sharding.mesh import Division, Mesh
from workloads import Network, partition_graph


class Exchange(NamedTuple):
    """An exchange among all the devices of a part that have something of any of ``nodes``.

    Without ``nodes`` every device takes part. ``what`` is exchanged is for the
    rules that ask for it to say.
    """

    part: Mesh
    kind: Kind
    phase: Phase
    layer: str
    what: Any
    nodes: Sequence[int] = ()


class Rules(ABC):
    """An execution model, for one network, plan and array (as ``execution.planned`` has it).

    ``unit`` is what the bisection ends in, and a worker is one. Where
    ``overlap`` is allowed a worker's exchanges go on while it computes;
    without, all that it does waits for what it did before. ``joint`` exchanges
    are one operation for all copies of a part, whose transfers share the
    ``wires``; copies can then not follow one program (``shared``), unless they are folded.
    """

    unit: Unit
    joint: bool
    overlap: bool = False
    wires: Wires | None = None

    def __init__(
        self,
        network: Network,
        plan: Plan,
        array: Array,
        execution: Execution,
        *,
        folded: bool,
    ) -> None:
        """Raises PlanError for a plan for something else, or with types that layers cannot have."""
        self.graph = partition_graph(network)
        check_nodes(plan, network.name, self.graph)
        check_types(plan, self.graph)
        self.plan = plan
        self.array = replace(array, group=plan.group(array)) if plan.together else array
        self.execution = execution
        self.folded = folded
        self.network = network
        self.received_in_parts: frozenset[int] = frozenset()
        """Nodes that read from another stage what lies by positions, and gather it themselves."""
        self.sent_in_parts: frozenset[int] = frozenset()
        """Nodes whose sums another stage wants by positions."""
        self.replicas = 1
        """Of its stage, which sum their gradients."""
        self.choices: dict[Operation, tuple[Operation, ...]] = {}
        """Of operations that several units of a core can do, what each of these would do."""
        self._prepare()

    @cached_property
    def root(self) -> Mesh:
        """Who holds what; raises PlanError when the plan is for an array of another shape."""
        return self._division().divide(
            self.plan.root, self.array.group, self.plan.batch, self.array.first
        )

    @property
    def shared(self) -> bool:
        """Whether devices that do the same follow one program."""
        return self.folded or not self.joint

    @abstractmethod
    def _prepare(self) -> None:
        """What the rules need to know before the array is divided."""

    @abstractmethod
    def _division(self) -> Division:
        """How the array is divided."""

    @abstractmethod
    def order(self) -> Iterable[Item]:
        """The steps of forward, backward and update in the order in which they are issued."""

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """The order, of which inference is the forward part."""
        forward = self.execution.inference
        return tuple(item for item in self.order() if not forward or item.phase is Phase.FORWARD)

    @cached_property
    def dispatches(self) -> tuple[int, int]:
        """How many layers of experts a forward pass has, and how many of them run again."""
        again = {
            one.node
            for one in self.items
            if one.bucket and one.phase is Phase.RECOMPUTE and one.kind is Kind.COMPUTE
        }
        found = [v for v, node in enumerate(self.graph) if node.dispatches]
        return len(found), len(again.intersection(found))

    @abstractmethod
    def product(
        self, v: int, phase: Phase, shard: Shard, device: Device, updated: float = 1.0
    ) -> Operation | None:
        """What one worker computes of a node; None where there is nothing to do.

        Of its weights it updates the fraction ``updated``.
        """

    def product_ps(
        self, v: int, phase: Phase, shard: Shard, device: Device, updated: float = 1.0
    ) -> int:
        """What the same takes; nothing where there is nothing to do."""
        made = self.product(v, phase, shard, device, updated)
        return made.duration_ps if made else 0

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Those in which something is computed, once at least; published, nothing updates weights.

        What is computed again comes on top.
        """
        if self.execution.inference:
            return (Phase.FORWARD,)
        return tuple(Phase)[: 3 if self.execution.model == "published" else 4]

    @property
    def bucket_bytes(self) -> float:
        """Of gradients that travel together, where the execution model has buckets."""
        return self.execution.bucket_of(self.plan.bucket_bytes)

    @property
    def updates_arrive(self) -> bool:
        """Whether weights are updated as gradients arrive; else in the layers' order."""
        return self.update_order == ARRIVAL if self.update_order else bool(self.plan.updates)

    @property
    def update_order(self) -> str:
        """The order of updates that is asked for; "": none."""
        return self.execution.update_order or self.plan.update_order

    def updated(self, part: Mesh) -> Sequence[float]:
        """Of the weights of each node that a worker of a lowest part holds, what it updates."""
        del part
        return (1.0,) * len(self.graph)

    def scatters(self, v: int) -> bool:
        """Whether a node's gradients (those of a weight it uses) are scattered as they come."""
        tied, updates = self.graph[v].tied, self.plan.updates
        return bool(updates) and updates[v if tied is None else tied].scatters

    def scattered(self, item: Item) -> bool:
        """Whether a step is on the way of such gradients: it is done for every micro-batch."""
        sums = item.kind is Kind.SUMS and item.phase is Phase.GRADIENT
        return sums and not self.graph[item.node].operand and self.scatters(item.node)

    def operations(
        self, v: int, phase: Phase, shard: Shard, device: Device, updated: float = 1.0
    ) -> Sequence[Operation]:
        """The same as what each of its ``units`` does, one behind the other."""
        product = self.product(v, phase, shard, device, updated)
        return () if product is None else (product,)

    def units(self, device: Device) -> tuple[str, ...]:
        """The units of one worker that compute at the same time, by name; none where it is one."""
        del device
        return ()

    @abstractmethod
    def gradient_bytes(self, v: int, shard: Shard) -> float:
        """Bytes of the gradients of the parameters that a node brings."""

    def tied_largest(self, v: int) -> float:
        """The most bytes that a worker has of the gradient of a node's matrix alone."""
        return self.gradient_bytes(v, self.root.shards[v])

    def input_bytes(self, elements: float, readers: Iterable[int], shards: Shards) -> float:
        """What a worker with these shards holds of a tensor that nodes read; 0 where nobody says.

        The tensor has so many ``elements`` a sample.
        """
        del elements, readers, shards
        return 0.0

    @abstractmethod
    def exchanges(self, item: Item) -> Iterator[Exchange]:
        """What completes the partial sums of a product, or re-lays the tensor at a boundary."""

    def siblings(self, v: int) -> Sequence[int]:
        """Layers whose input is exchanged together with that of ``v``, in the graph's order.

        Its features for the first of them, and its errors behind the last one, which is the
        first. Itself alone where nothing is shared.
        """
        return (v,)

    @abstractmethod
    def carry(self, exchange: Exchange) -> Operation:
        """An exchange as the array's links do it."""

    def hiding(self, operation: Operation, collective: str, nodes: Sequence[int] = ()) -> Operation:
        """An exchange of a layer without the time that software hides behind products."""
        del collective, nodes
        return operation

    def memory_use(
        self,
        device: Device,
        shards: Shards,
        updated: Sequence[float],
        order: Sequence[Operation] = (),
    ) -> MemoryUse | None:
        """One worker's HBM over a step; None where the rules do not say.

        What units do is done in an ``order`` of its own.
        """
        del device, shards, updated, order
        return None

    def hbm_bytes_per_s(self, device: Device) -> float | None:
        """The bandwidth of one worker's HBM; None where its traffic is not followed."""
        del device
        return None
