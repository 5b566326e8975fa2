"""What every step of a training step reads and makes, by name."""

from __future__ import annotations

from planners.order import Item, Kind, Phase, consumers
from planners.plan.updates import Updates, kept_in_parts, sharded
from simulator.lowering.step.worker_program import Key
from workloads import Graph

STREAM: Key = ("stream",)
"""The last gradient exchange of a core: they run one after the other."""
MADE = {
    Phase.FORWARD: "features",
    Phase.BACKWARD: "errors",
    Phase.GRADIENT: "gradient",
    Phase.RECOMPUTE: "features again",
}
"""What the product of each phase makes."""


class Dataflow:
    """Features, errors, gradients and weights of a graph, followed by name through the step.

    An exchange of a tensor depends on what makes it; what reads the tensor depends on its
    last exchange alone. Weights whose update is shared out are gathered for forward.
    """

    def __init__(self, graph: Graph, updates: Updates = ()) -> None:
        self._graph = graph
        self._gathered = sharded(updates)
        self._in_parts = kept_in_parts(updates)
        self._consumers = consumers(graph)
        self._tied: dict[int, list[Key]] = {}
        for v, node in enumerate(graph):
            if node.tied is not None:
                self._tied.setdefault(node.tied, []).append(("tied", v))

    def of(self, item: Item) -> tuple[list[Key], list[Key]]:
        """What a step waits for, and what is made when it is over."""
        if item.kind is Kind.COMPUTE:
            return self._product(item)
        if item.kind is Kind.BOUNDARY:
            keys = [self.moved(item)]
        elif item.kind is Kind.WEIGHTS:
            keys = [*(("weights", v) for v in item.bucket), STREAM]
            return self._room(item) or keys, keys
        else:
            keys = self._sums(item)
        return keys, keys

    def _room(self, item: Item) -> list[Key]:
        """What weights that are gathered for a use wait for: so that two units are there at most.

        The exchange before, and the last product of ``consumer``, where there is one.
        """
        if item.phase is Phase.UPDATE:
            return []
        last = item.consumer
        return [STREAM, *((what, last) for what in ("features", "errors", "gradient") if last >= 0)]

    def moved(self, item: Item) -> Key:
        """What a boundary hands over."""
        if item.phase is Phase.UPDATE:
            return ("weights", item.node)
        return ("moved", item.phase, item.node, item.consumer, item.edge)

    def sources(self, item: Item) -> list[Key]:
        """What a boundary re-lays: features of the producer, or errors of the consumer.

        What is gathered again was there all the time: it goes when errors come.
        """
        if item.phase is Phase.RECOMPUTE and item.bucket:
            return self.errors(item.consumer)
        return [(MADE[item.phase], item.node if item.phase.computes_features else item.consumer)]

    def errors(self, v: int) -> list[Key]:
        """Those of a node's output that its readers send; of the last node there are none."""
        errors: list[Key] = [("moved", Phase.BACKWARD, v, w, e) for w, e in self._consumers[v]]
        return errors or [("features", v)]

    def _product(self, item: Item) -> tuple[list[Key], list[Key]]:
        v, phase = item.node, item.phase
        edges = list(enumerate(self._graph[v].producers))
        if phase.computes_features:
            reads: list[Key] = [("moved", phase, u, v, e) for e, u in edges]
            # a norm rides on what is before its block; frameworks gather its weights with the block
            rides = phase is Phase.RECOMPUTE and not item.bucket
            weights = [] if rides else self._weights(v, self._gathered)
            return [*reads, *weights], [(MADE[phase], v)]
        if phase is Phase.UPDATE:
            return [("gradient", v), *self._tied.get(v, ())], [("weights", v)]
        inputs = [*self.errors(v), (MADE[Phase.RECOMPUTE], v)]
        node = self._graph[v]
        values = node.join or node.computed or node.operand  # else errors need weights alone
        if phase is Phase.GRADIENT or values:
            inputs += [("moved", Phase.RECOMPUTE, u, v, e) for e, u in edges]
        made: list[Key] = [("gradient", v), ("tied", v)]
        if phase is Phase.BACKWARD:
            return [*inputs, *self._weights(v, self._in_parts)], [("errors", v), *made]
        if self._graph[v].operand:  # its "gradient" is its second operand's error
            made.append(("errors", v))
        return [*inputs, *made], made

    def _weights(self, v: int, gathered: frozenset[int]) -> list[Key]:
        """Those that a node uses, of which these are gathered."""
        return [("weights", u) for u in (v, self._graph[v].tied) if u in gathered]

    def _sums(self, item: Item) -> list[Key]:
        if item.phase is not Phase.GRADIENT:
            return [(MADE[item.phase], item.node)]
        if self._graph[item.node].operand:
            return [("errors", item.node)]
        if not item.bucket:  # of a later use of a weight
            return [("tied", item.node), STREAM]
        tied = (key for v in item.bucket for key in self._tied.get(v, ()))
        return [*(("gradient", v) for v in item.bucket), STREAM, *tied]
