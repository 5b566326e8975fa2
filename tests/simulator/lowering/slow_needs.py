"""What each operator of a step on one core waits for, written a second time from the graph."""

from collections.abc import Sequence

from planners.order import consumers
from simulator.cost.operators import Operator, Operators


class Needs:
    """Operators of a step in order, each with the numbers of those that it waits for.

    Forward of a node needs its producers'. Backward needs its consumers' (the last
    nodes' their own forward), the gradient of weights the same and what backward does
    before its product, the update the gradients of all that share the weights.
    """

    def __init__(self, operators: Operators) -> None:
        self.operators: list[Operator] = []
        self.needs: list[tuple[int, ...]] = []
        graph = operators.graph
        made: list[tuple[int, ...]] = []
        for v, node in enumerate(graph):
            before = tuple(i for u in node.producers for i in made[u])
            made.append(self.chain(operators.nodes[v].forward, before))
        readers = consumers(graph)
        errors: list[tuple[int, ...]] = [()] * len(graph)
        gradients: list[list[int]] = [[] for _ in graph]
        for v in reversed(range(len(graph))):
            work = operators.nodes[v]
            after = tuple(i for c, _ in readers[v] for i in errors[c]) if readers[v] else made[v]
            parts = list(work.backward)
            product = [parts.pop()] if parts and parts[-1].macs else []
            ready = self.chain(parts, after)
            errors[v] = self.chain(product, ready)
            own = self.chain(work.gradient, ready)
            if graph[v].kind == "matmul":
                errors[v] = (*errors[v], *own)
            for owner in {v, graph[v].tied} - {None}:
                gradients[owner].extend(own)  # type: ignore[index]
        for v, work in enumerate(operators.nodes):
            self.chain(work.update, gradients[v])

    def chain(self, operators: Sequence[Operator], before: Sequence[int]) -> tuple[int, ...]:
        """One operator after the other; what is to be waited for behind them."""
        last = tuple(dict.fromkeys(before))
        for operator in operators:
            self.operators.append(operator)
            self.needs.append(last)
            last = (len(self.operators) - 1,)
        return last


def before(needs: Sequence[Sequence[int]]) -> list[set[int]]:
    """All that each waits for, whatever lies between; needs come before."""
    found: list[set[int]] = []
    for some in needs:
        found.append(set(some).union(*(found[i] for i in some)))
    return found
