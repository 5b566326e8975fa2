"""What HBM holds of weights and gradients that several cores keep in parts (ZeRO stages 2 and 3).

A gradient is whole from the operator that computes it until it is scattered. That goes on
while the next ones are computed: so until the last of those that are scattered behind it, or,
without overlap, of those that are scattered with it. The part that is left is held from
its first operator on to the update.

A unit's gathered weights are held, beside the parts, from the first operator of the unit
before (so long they are on their way; without overlap its own) to its last one, forward
and again backward. The last unit's are kept from forward on, as backward begins with it.
Of units a, b, c (F: forward, B: backward):

    F a   F b   F c   B c   B b   B a
    a b   b c   c     c b   b a   a       whole at each, at the most
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from planners.order import Phase
from simulator.cost.operators import Operator

Nodes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ZeroSharding:
    """Which nodes' gradients are ``scattered`` together, in their order, and weights gathered.

    All nodes are in ``units``, in the order of forward; of each ``gathered`` has those whose
    weights are. With ``prefetch`` exchanges go on while others are computed.
    """

    scattered: tuple[Nodes, ...] = ()
    units: tuple[Nodes, ...] = ()
    gathered: tuple[Nodes, ...] = ()
    prefetch: bool = True

    @property
    def gradients(self) -> frozenset[int]:
        """Nodes whose gradients are kept in parts."""
        return frozenset(v for some in self.scattered for v in some)

    @property
    def weights(self) -> frozenset[int]:
        """Nodes whose weights are."""
        return frozenset(v for some in self.gathered for v in some)


WHOLE = ZeroSharding()
"""All that a core uses it keeps."""


class Window(NamedTuple):
    """The numbers of the first and of the last operator at which so many bytes are held."""

    first: int
    last: int
    bytes: float


def until_scattered(parts: ZeroSharding, mine: Sequence[Operator]) -> dict[int, int]:
    """Per node the number of the last of ``mine`` operators at which its gradient is whole.

    That one computes a gradient, too: errors may be of a pass of their own, long before.
    """
    made = {op.node: i for i, op in enumerate(mine) if op.phase is Phase.GRADIENT}
    ends = [max((made[v] for v in some if v in made), default=-1) for some in parts.scattered]
    if parts.prefetch and ends:
        ends = [max(here, behind) for here, behind in pairwise([*ends, max(ends)])]
    return {v: end for some, end in zip(parts.scattered, ends, strict=True) for v in some}


def gathered(
    parts: ZeroSharding, mine: Sequence[Operator], weight_bytes: Callable[[int], float]
) -> Iterator[Window]:
    """When each unit's weights are whole, forward and backward; ``weight_bytes`` are a node's."""
    spans = [_spans(mine, forward=forward) for forward in (True, False)]
    forth, back = ([_span(unit, some) for unit in parts.units] for some in spans)
    last = len(parts.units) - 1
    for k, nodes in enumerate(parts.gathered):
        size = sum(map(weight_bytes, nodes))
        own, again = forth[k], back[k]
        if own and size:
            begins = forth[k - 1] if parts.prefetch and k else own
            ends = again if k == last and again else own
            yield Window((begins or own)[0], ends[1], size)
        if again and size and k < last:
            begins = back[k + 1] if parts.prefetch else again
            yield Window((begins or again)[0], again[1], size)


def _spans(mine: Iterable[Operator], *, forward: bool) -> dict[int, tuple[int, int]]:
    """Per node its first and last operator of forward, or of what is between that and update.

    What rides on it and is computed again, for the next block, needs none of its weights.
    """
    found: dict[int, tuple[int, int]] = {}
    for i, op in enumerate(mine):
        if op.phase is Phase.RECOMPUTE and not op.macs:
            continue
        if op.phase is not Phase.UPDATE and (op.phase is Phase.FORWARD) is forward:
            found[op.node] = found.get(op.node, (i, i))[0], i
    return found


def _span(nodes: Nodes, spans: Mapping[int, tuple[int, int]]) -> tuple[int, int] | None:
    own = [spans[v] for v in nodes if v in spans]
    return (min(first for first, _ in own), max(last for _, last in own)) if own else None
