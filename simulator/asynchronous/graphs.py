"""Who talks to whom: the communication graphs of decentralised methods.

All have a way from everybody to everybody; only a file's edges may be one-way.
``ring-based`` and ``double-ring`` are Hop's (ASPLOS 2019), as recalled: a ring
whose nodes also talk to the opposite one, and two such graphs joined node to node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from os.path import isfile

from hardware.reader import hint, read_text
from hardware.topology import near_square
from simulator.asynchronous.errors import TrainingError

Edges = Iterable[tuple[int, int]]
MOST_EDGES = 1 << 20
MOST_BYTES = 64 << 20
"""Of a graph from a file."""


@dataclass(frozen=True)
class Graph:
    """To whom every node sends, ascending; raises TrainingError unless it is connected."""

    name: str
    neighbours: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for ways, words in ((self.neighbours, "from worker 0 to"), (self.sources, "to it from")):
            apart = [node for node, far in enumerate(_distances(ways, 0)) if far < 0]
            if apart:
                more = f" and {len(apart) - 1} more" if len(apart) > 1 else ""
                raise TrainingError(
                    f"graph {self.name!r} is not connected: no way leads {words} worker "
                    f"{apart[0]}{more}"
                )

    @staticmethod
    def of(name: str, workers: int, edges: Edges, one_way: Edges = ()) -> Graph:
        """From pairs of nodes, in any order and repeated as they like."""
        found: list[set[int]] = [set() for _ in range(workers)]
        for a, b in edges:
            found[a].add(b)
            found[b].add(a)
        for a, b in one_way:
            found[a].add(b)
        near = (tuple(sorted(one - {node})) for node, one in enumerate(found))
        return Graph(name, tuple(near))

    @cached_property
    def sources(self) -> tuple[tuple[int, ...], ...]:
        """From whom every node receives, ascending: its neighbours where all edges go both ways."""
        found: list[list[int]] = [[] for _ in self.neighbours]
        for node, others in enumerate(self.neighbours):
            for other in others:
                found[other].append(node)
        return tuple(map(tuple, found))

    @property
    def one_way(self) -> bool:
        """Whether some edge goes one way only."""
        return self.sources != self.neighbours

    def __len__(self) -> int:
        return len(self.neighbours)

    def distances(self, start: int) -> list[int]:
        """Edges on the shortest way from ``start`` to every node."""
        return _distances(self.neighbours, start)

    @cached_property
    def weights(self) -> tuple[dict[int, float], ...]:
        """How much of whose model each takes: each row sums to 1.

        Metropolis, which is symmetric: w_ij = 1 / (1 + max(deg i, deg j)), the rest
        is one's own; of a complete graph 1/n everywhere. Where edges go one
        way, the degrees are numbers of sources, and columns do not sum to 1.
        """
        degree = [len(one) for one in self.sources]
        found = []
        for node, others in enumerate(self.sources):
            row = {other: 1 / (1 + max(degree[node], degree[other])) for other in others}
            row[node] = 1 - sum(row.values())
            found.append(row)
        return tuple(found)

    @cached_property
    def sides(self) -> tuple[frozenset[int], tuple[tuple[int, ...], ...]]:
        """Two sides of the nodes, and each one's neighbours on the other side.

        A graph that has two sides keeps all its edges. Of another, even and odd
        numbers are the sides where the edges between them connect everybody;
        or else even and odd distances from node 0, which always do: a shortest
        path changes sides at every step.
        """
        by_distance = [d % 2 for d in self.distances(0)]
        by_number = [node % 2 for node in range(len(self))]
        side = by_distance
        if self._between(by_distance) != self.neighbours:
            connected = min(_distances(self._between(by_number), 0)) >= 0
            side = by_number if connected else by_distance
        first = frozenset(node for node, of in enumerate(side) if of == 0)
        return first, self._between(side)

    def _between(self, side: list[int]) -> tuple[tuple[int, ...], ...]:
        return tuple(
            tuple(other for other in others if side[other] != side[node])
            for node, others in enumerate(self.neighbours)
        )


def _distances(neighbours: Sequence[Sequence[int]], start: int) -> list[int]:
    far = [-1] * len(neighbours)
    far[start] = 0
    todo = deque([start])
    while todo:
        node = todo.popleft()
        for other in neighbours[node]:
            if far[other] < 0:
                far[other] = far[node] + 1
                todo.append(other)
    return far


def _ring(n: int) -> Edges:
    return ((i, (i + 1) % n) for i in range(n))


def _ring_based(n: int) -> Edges:
    yield from _ring(n)
    yield from ((i, (i + n // 2) % n) for i in range(n))


def _double_ring(n: int) -> Edges:
    half = n // 2
    for first, size in ((0, half), (half, n - half)):
        yield from ((first + a, first + b) for a, b in _ring_based(size))
    yield from ((i, half + i) for i in range(half))


def _torus(n: int) -> Edges:
    rows, columns = near_square(n)
    for i in range(n):
        row, column = divmod(i, columns)
        yield i, row * columns + (column + 1) % columns
        yield i, (row + 1) % rows * columns + column


def _exponential(n: int) -> Edges:
    return ((i, (i + (1 << k)) % n) for i in range(n) for k in range((n - 1).bit_length()))


def _complete(n: int) -> Edges:
    return ((i, j) for i in range(n) for j in range(i))


GRAPHS: dict[str, Callable[[int], Edges]] = {
    "ring": _ring,
    "ring-based": _ring_based,
    "double-ring": _double_ring,
    "torus": _torus,
    "exponential": _exponential,
    "complete": _complete,
}
"""The graphs by name."""


def load_graph(name: str, workers: int) -> Graph:
    """The graph of that name, or of the file at that path: two workers a line, as '0 3' or '0 > 3'.

    Raises TrainingError, with the line, for a file that is no such list.
    """
    if name in GRAPHS:
        return Graph.of(name, workers, GRAPHS[name](workers))
    if not isfile(name):
        raise TrainingError(f"graph {name!r}: {hint(name, GRAPHS)}, or a file")
    text = read_text(name, TrainingError, "a graph", MOST_BYTES)
    both, one = list[tuple[int, int]](), list[tuple[int, int]]()
    for a, b, one_way in _edges(name, text, workers):
        (one if one_way else both).append((a, b))
    return Graph.of(name, workers, both, one)


def _edges(name: str, text: str, workers: int) -> Iterable[tuple[int, int, bool]]:
    """Of each line the two workers, and whether the edge is one-way."""
    lines = text.splitlines()
    if len(lines) > MOST_EDGES:
        raise TrainingError(f"graph {name!r}: more than {MOST_EDGES:,} lines")
    for number, line in enumerate(lines, 1):
        text, one_way = line.partition("#")[0].replace(",", " "), ">" in line
        words = text.replace(">", " ", 1).split()
        if not words:
            continue
        if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
            raise TrainingError(f"graph {name!r}, line {number}: two workers, as '0 3', or '0 > 3'")
        a, b = (int(word[:9]) for word in words)
        if max(a, b) >= workers:
            raise TrainingError(
                f"graph {name!r}, line {number}: worker {max(a, b)}, but they are 0 to "
                f"{workers - 1}"
            )
        yield a, b, one_way
