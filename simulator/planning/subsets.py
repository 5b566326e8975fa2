"""Layouts of the first cores of one kind, by estimate: the likely best ones, and better ones near.

Layouts are compared by what a step should take (``schedule``), which takes a fiftieth of
the time that lowering and simulating one does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product

from hardware import Device
from planners.partition import I
from simulator.planning.chain import Chain
from simulator.planning.floor import floor_s
from simulator.planning.judge import Judge
from simulator.planning.layouts import first_cores, layouts, tables_of
from simulator.planning.local import FEW, MANY, Effort, Judged, Picks, improve
from simulator.planning.narrowed import by_themselves
from simulator.planning.placements import Piece
from simulator.planning.schedule import Schedule
from simulator.planning.states import MANY_LEVELS, Types
from simulator.planning.tables import Tables

FAR = 1.2
"""Layouts are looked for that should take at most so many times as long as the best."""
MOST_LAYOUTS = 8
"""Of a subset that are estimated."""
ALL_LAYOUTS = 3**6
"""Up to so many are all estimated: six choices of a type, as of two nodes at three levels."""
FEW_CORES = 8
"""Up to which layouts may leave cores without some nodes: with more, that is not worth a look."""
ESTIMATED_NODES = 20_000
"""What improving one may estimate: about half a second."""

Layout = tuple[int, ...]
"""The number of every node's state."""


@dataclass(frozen=True, slots=True, eq=False)
class Subset:
    """The first cores of a kind: their costs, and its likely best layouts."""

    device: Device
    size: int
    kind: int
    chain: Chain
    schedule: Schedule
    loose: Chain
    """With layouts that leave cores without some nodes, where there are few cores."""
    _better: dict[Layout, Layout] = field(default_factory=dict, init=False)

    def piece(self, picks: Layout) -> Piece:
        """What a plan is made of."""
        return Piece(self.device, self.size, self.types(picks))

    def types(self, picks: Layout) -> tuple[Types, ...]:
        """Of every node, outermost first."""
        pairs = zip(self.chain.nodes, picks, strict=True)
        return tuple(costs.states.at(pick) for costs, pick in pairs)

    def number(self, types: Sequence[Types]) -> Layout:
        """The layout with these types."""
        pairs = zip(self.chain.nodes, types, strict=True)
        return tuple(costs.states.numbers[of_node] for costs, of_node in pairs)

    def least_s(self, enough_s: float) -> float:
        """What any of its layouts should take, or less if that is more than enough.

        0 where some may leave cores without some nodes.
        """
        if self.loose is not self.chain or any(costs.hollow.all() for costs in self.chain.nodes):
            return 0.0
        first_s = self.chain.least(0.0).bound_s
        return first_s if first_s > enough_s else self.chain.best()[0].bound_s

    def judged(self, most_nodes: int = ESTIMATED_NODES, size: float | None = None) -> Judged:
        """Estimates of so many nodes together, with buckets of a size (None: the usual)."""
        schedule = self.schedule

        def judgement(one: Picks) -> float:
            return schedule.seconds(one[self.kind], size)

        return Judged(judgement, lambda: schedule.spent, schedule.spent + most_nodes)

    def estimated(self) -> list[tuple[float, Layout]]:
        """Layouts with what they should take, the best first."""
        found = [
            (self.schedule.seconds(picks), picks)
            for chain in dict.fromkeys((self.chain, self.loose))
            for picks in _candidates(chain)
        ]
        return sorted(dict.fromkeys(found))

    def improved(self, picks: Layout, judged: Judged | None = None, effort: Effort = FEW) -> Layout:
        """What is better by estimate, or the layout itself."""
        start, chains = {self.kind: picks}, {self.kind: self.loose}
        return improve(start, chains, judged or self.judged(), effort=effort)[self.kind]

    def better(self, picks: Layout) -> Layout:
        """What is better with the usual buckets and effort: found once."""
        if picks not in self._better:
            self._better[picks] = self.improved(picks)
        return self._better[picks]

    def refined(self, picks: Layout) -> tuple[Subset, Layout]:
        """A better layout than one, by estimate: many more changes of its nodes are tried.

        Many cores have then also states near its own, which they have not else.
        """
        if self.chain.tables.cores.levels <= MANY_LEVELS:
            return self, self.improved(picks, effort=MANY)
        near = self._near(picks)
        start = near.number(self.types(picks))
        _, likely = min((near.schedule.seconds(start), start), *near.estimated())
        return near, near.improved(likely, effort=MANY)

    def _near(self, picks: Layout) -> Subset:
        known, near = self.chain.tables, self.types(picks)
        tables = Tables(known.network, known.batch, known.cores, known.execution, near=near)
        chain = Chain(tables, filled=True, byte_s=self.chain.byte_s)
        return replace(self, chain=chain, schedule=Schedule(tables), loose=chain)


def subset_of(
    judge: Judge, device: Device, size: int, samples: int, byte_s: float, enough_s: float
) -> Subset | None:
    """So many cores, unless they surely take ``enough_s`` without any re-laid tensor.

    None, too, where they are not alike all the way down.
    """
    cores = first_cores(judge.array, device, size)
    if cores is None:
        return None
    tables = tables_of(judge.network, samples, cores, judge.execution)
    if tables.products_s >= enough_s:
        return None
    chain, loose = _chains(tables, size, byte_s)
    if floor_s(loose) >= enough_s:
        return None
    if not judge.execution.strict_memory:
        near_s = enough_s if enough_s < math.inf else _by_samples_s(chain)
        fewer = by_themselves(loose, FAR * near_s)
        if fewer is None:
            return None
        chain, loose = _chains(fewer, size, byte_s)
    kinds = [kind for kind, _ in judge.array.group.kinds]
    return Subset(device, size, kinds.index(device), chain, Schedule(chain.tables), loose)


def _chains(tables: Tables, size: int, byte_s: float) -> tuple[Chain, Chain]:
    """Of filled layouts, and with others where there are few cores."""
    chain = Chain(tables, filled=True, byte_s=byte_s)
    return chain, Chain(tables, byte_s=byte_s) if size <= FEW_CORES else chain


def _by_samples_s(chain: Chain) -> float:
    """What the layout of type I alone should take."""
    picks = [costs.states.numbers[(I,) * chain.tables.cores.levels] for costs in chain.nodes]
    return Schedule(chain.tables).seconds(picks)


def _candidates(chain: Chain) -> Iterable[Layout]:
    """Layouts to estimate: all where they are few, else the likely best."""
    many = [len(costs.states) for costs in chain.nodes]
    if math.prod(many) <= ALL_LAYOUTS:
        return product(*map(range, many))
    return islice(layouts(chain), MOST_LAYOUTS)
