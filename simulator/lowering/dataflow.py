"""What every step of a training step reads and makes, by name."""

from __future__ import annotations

from planners.order import Item, Kind, Phase, consumers
from simulator.lowering.tasks import Key
from workloads import Graph

STREAM: Key = ("stream",)
"""The last gradient exchange of a core: they run one after the other."""
MADE = {Phase.FORWARD: "features", Phase.BACKWARD: "errors", Phase.GRADIENT: "gradient"}
"""What the product of each phase makes."""


class Dataflow:
    """Features, errors, gradients and weights of a graph, followed by name through the step.

    Who re-lays or sums something waits for whoever makes it, and what needs it
    waits for that alone.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._consumers = consumers(graph)
        self._tied: dict[int, list[Key]] = {}
        for v, node in enumerate(graph):
            if node.tied is not None:
                self._tied.setdefault(node.tied, []).append(("tied", v))

    def of(self, item: Item) -> tuple[list[Key], list[Key]]:
        """What a step waits for, and what is made when it is over."""
        if item.kind is Kind.COMPUTE:
            return self._product(item.node, item.phase)
        keys = self._sums(item) if item.kind is Kind.SUMS else [self.moved(item)]
        return keys, keys

    def moved(self, item: Item) -> Key:
        """What a boundary hands over."""
        if item.phase is Phase.UPDATE:
            return ("weights", item.node)
        return ("moved", item.phase, item.node, item.consumer, item.edge)

    def source(self, item: Item) -> Key:
        """What a boundary re-lays: features of the producer, or errors of the consumer."""
        forward = item.phase is Phase.FORWARD
        return (MADE[item.phase], item.node if forward else item.consumer)

    def _product(self, v: int, phase: Phase) -> tuple[list[Key], list[Key]]:
        if phase is Phase.FORWARD:
            edges = enumerate(self._graph[v].producers)
            return [("moved", phase, u, v, e) for e, u in edges], [("features", v)]
        if phase is Phase.UPDATE:
            return [("gradient", v), *self._tied.get(v, ())], [("weights", v)]
        inputs: list[Key] = [("moved", Phase.BACKWARD, v, w, e) for w, e in self._consumers[v]]
        inputs = inputs or [("features", v)]
        made: list[Key] = [("gradient", v), ("tied", v)]
        if phase is Phase.BACKWARD:
            return inputs, [("errors", v), *made]
        if self._graph[v].kind == "matmul":  # its "gradient" is its second operand's error
            made.append(("errors", v))
        return [*inputs, *made], made

    def _sums(self, item: Item) -> list[Key]:
        if item.phase is not Phase.GRADIENT:
            return [(MADE[item.phase], item.node)]
        if not item.bucket:  # of a later use of a weight
            return [("tied", item.node), STREAM]
        tied = (key for v in item.bucket for key in self._tied.get(v, ()))
        return [*(("gradient", v) for v in item.bucket), STREAM, *tied]
