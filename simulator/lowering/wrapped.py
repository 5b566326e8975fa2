"""Weights that are kept in parts, gathered unit by unit for each use (ZeRO 3, FSDP).

A unit is a block that the network repeats; other layers, one after the other, are one until
their weights fill a bucket. While one computes, the next one's weights are gathered, and no
more: two units are whole at most. Backward begins with the last one, which is kept (as FSDP
does not reshard it). Of units a, b, c, with g for gathering and s for scattering gradients:

    computes    F a   F b   F c   B c   B b     B a
    meanwhile   g b   g c         g b   s c g a s b    (before: g a; behind: s a)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from planners.order import Item, Kind, Phase
from simulator.lowering import order
from workloads import Graph, Network
from workloads.network import blocks

Unit = tuple[int, ...]


def units_of(
    network: Network, graph: Graph, size: Callable[[int], float], full_bytes: float
) -> tuple[Unit, ...]:
    """All nodes in units; ``size`` gives the bytes that are gathered of a node."""
    number = {name: k for k, names in enumerate(blocks(network)) for name in names}
    found: list[list[int]] = []
    of: int | None = None
    room = 0.0
    for v, node in enumerate(graph):
        block = number.get(node.name)
        if not found or block != of or (block is None and room <= 0):
            found.append([])
            of, room = block, full_bytes
        found[-1].append(v)
        room -= size(v) if full_bytes else float(size(v) > 0)
    return tuple(map(tuple, found))


class Wrapped:
    """The steps that weights in parts need, around those of the nodes of their ``units``.

    Nodes that are exchanged by the same groups (``alike``) go together; those whose gradients
    have no ``size``, or that use no weights (``uses``, bytes), need no exchange. With
    ``ahead`` a unit is gathered while the one before computes.
    """

    def __init__(
        self,
        graph: Graph,
        units: tuple[Unit, ...],
        size: Callable[[int], float],
        uses: Sequence[float],
        alike: Callable[[int, int], bool],
        *,
        ahead: bool,
    ) -> None:
        self._graph = graph
        self._size = size
        self._uses = uses
        self._alike = alike
        self._ahead = ahead
        self.units = units
        self._ends = {unit[-1]: k for k, unit in enumerate(units)}
        self._begins = {unit[0]: k for k, unit in enumerate(units)}

    @cached_property
    def gathered(self) -> tuple[Unit, ...]:
        """Of each unit the nodes whose weights are gathered."""
        return tuple(tuple(v for v in unit if self._uses[v]) for unit in self.units)

    def forward(self) -> Iterator[Item]:
        """The forward pass."""
        if not self.units:
            yield from order.forward(self._graph)
        for k, unit in enumerate(self.units):
            if not self._ahead or not k:
                yield from self._gather(k, Phase.FORWARD)
            if self._ahead and k + 1 < len(self.units):
                behind = self.units[k - 1][-1] if k else -1
                yield from self._gather(k + 1, Phase.FORWARD, behind)
            yield from order.forward(self._graph, unit)

    def before(self, v: int) -> Iterator[Item]:
        """What goes before a node's backward: at the last of a unit."""
        k, last = self._ends.get(v, -1), len(self.units) - 1
        if k >= 0 and not self._ahead and k < last:
            yield from self._gather(k, Phase.BACKWARD)
        elif k > 0 and self._ahead:
            behind = self.units[k + 1][0] if k < last else v
            yield from self._gather(k - 1, Phase.BACKWARD, behind)

    def behind(self, v: int) -> Iterator[Item]:
        """What goes behind a node's backward: at the first of a unit its gradients."""
        if (k := self._begins.get(v, -1)) < 0:
            return
        unit = self.units[k][::-1]
        for u in unit:
            if self._graph[u].tied is not None:
                yield Item(Kind.SUMS, Phase.GRADIENT, u)
        for some in self._together(u for u in unit if self._size(u)):
            yield Item(Kind.SUMS, Phase.GRADIENT, some[0], bucket=some)

    def _gather(self, k: int, phase: Phase, behind: int = -1) -> Iterator[Item]:
        """Of the unit's weights, once the last product of node ``behind`` is done."""
        for some in self._together(self.gathered[k]):
            yield Item(Kind.WEIGHTS, phase, some[0], behind, bucket=some)

    def _together(self, nodes: Iterable[int]) -> list[Unit]:
        found: list[Unit] = []
        for v in nodes:
            alike = next((k for k, some in enumerate(found) if self._alike(some[0], v)), None)
            if alike is None:
                found.append((v,))
            else:
                found[alike] += (v,)
        return found
