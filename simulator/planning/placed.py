"""The search's own plans: layouts of subsets of a kind, or of all kinds, and improved ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from hardware import Device
from planners import Objective, Plan
from simulator.planning.candidates import proportions
from simulator.planning.chain import Chain
from simulator.planning.judge import Judge
from simulator.planning.layouts import first_cores, layouts, tables_of
from simulator.planning.lifting import leaves_of, powers_of_two, whole
from simulator.planning.local import Budget, improve
from simulator.planning.placements import Piece, Placement, blank
from simulator.planning.work_bound import work_bound_s
from workloads import partition_graph

MOST_LAYOUTS = 6
"""Of a subset that are judged."""
ALL_LAYOUTS = 3**6
"""Up to so many are all judged: six choices of a type, of networks that compute next to nothing."""
FEW_CORES = 8
"""Up to which layouts may leave cores without some nodes: with more, that is not worth a look."""
MOST_IMPROVED = 3
"""Choices of cores whose best placements are improved."""
LINES, PLANS = 6_000, 200
"""What improving one may simulate at most: about a second."""
BYTE_PRICES = (0.1, 0.4, 1.6, 6.4, 25.6)
"""Of a core's whole memory, in the seconds of a step, tried in turn where a plan must fit."""


@dataclass(slots=True)
class _Placing:
    """One run: of every choice of cores the best placement, what it takes, and its chains."""

    judge: Judge
    batch: int
    like: Plan
    best: dict[tuple[int, ...], tuple[float, Placement, dict[int, Chain]]] = field(
        default_factory=dict
    )

    def judged(self, placement: Placement, chains: dict[int, Chain]) -> None:
        """Simulate it, and keep it if it is the best on as many cores."""
        found_s = self.judge.seconds(placement.plan(self.judge.array, self.like))
        key = tuple(piece.size if piece else 0 for piece in placement.pieces)
        if key not in self.best or found_s < self.best[key][0]:
            self.best[key] = found_s, placement, chains

    def subsets(self, byte_s: float = 0.0) -> None:
        """Layouts of the first cores of one kind, all other devices idle."""
        judge = self.judge
        kinds = [device for device, _ in judge.array.group.kinds]
        for device, size in (*whole(judge.array), *powers_of_two(judge.array)):
            chain = self._chain(device, size, self.batch, byte_s)
            if chain is None or chain.tables.products_s >= judge.best_s:
                continue
            weights = tuple(float(kind == device) for kind in kinds)
            chains = [chain, Chain(chain.tables, byte_s=byte_s)][: 1 + (size <= FEW_CORES)]
            for one in chains:
                for picks in _candidates(one):
                    piece = _piece(device, size, chain, picks)
                    pieces = tuple(piece if kind == device else None for kind in kinds)
                    self.judged(Placement(pieces, weights), {kinds.index(device): chains[-1]})

    def together(self, weights: Sequence[float], byte_s: float = 0.0) -> None:
        """All cores of every kind, each kind with its share of the samples."""
        group, total = self.judge.array.group, sum(weights)
        pieces, chains = list[Piece](), dict[int, Chain]()
        for kind, ((device, _), weight) in enumerate(zip(group.kinds, weights, strict=True)):
            samples = max(1, round(self.batch * weight / total))
            chain = self._chain(device, leaves_of(group, device), samples, byte_s)
            if chain is None:
                return
            chains[kind] = chain
            picks = next(iter(layouts(chain)))
            pieces.append(_piece(device, leaves_of(group, device), chain, picks))
        self.judged(Placement(tuple(pieces), tuple(weights)), chains)

    def _chain(self, device: Device, size: int, samples: int, byte_s: float) -> Chain | None:
        judge = self.judge
        cores = first_cores(judge.array, device, size)
        if cores is None:
            return None
        tables = tables_of(judge.network, samples, cores, judge.execution)
        return Chain(tables, filled=True, byte_s=byte_s)


def best_placed(judge: Judge, batch: int, objective: Objective) -> None:
    """Judge layouts of every subset, and of all kinds together, then what can be made of the best.

    For the deployed model alone.
    """
    names = [node.name for node in partition_graph(judge.network)]
    placing = _Placing(judge, batch, blank(judge.network.name, names, batch, objective))
    group = judge.array.group
    _all(placing, 0.0)
    if judge.execution.strict_memory:
        for price in BYTE_PRICES:
            least_s = min(
                judge.best_s, work_bound_s(judge.network, judge.array, batch, judge.execution) * 4
            )
            _all(placing, price * least_s / capacity_bytes(group.kinds))
    ranked = sorted(placing.best.values(), key=lambda found: found[0])[:MOST_IMPROVED]
    for _, placement, chains in ranked:
        budget = Budget(judge, judge.spent + LINES, judge.evaluations + PLANS)
        improve(placement, chains, judge, placing.like, budget)


def _all(placing: _Placing, byte_s: float) -> None:
    group = placing.judge.array.group
    placing.subsets(byte_s)
    if len(group.kinds) > 1:
        for weights in proportions(group):
            placing.together(weights, byte_s)


def capacity_bytes(kinds: Sequence[tuple[Device, int]]) -> float:
    """The least HBM of a core of any kind."""
    return min(device.hbm_capacity_bytes / device.cores_per_chip for device, _ in kinds)


def _candidates(chain: Chain) -> Iterable[tuple[int, ...]]:
    """Layouts to judge: all where they are few, else the likely best."""
    many = [len(costs.states) for costs in chain.nodes]
    if math.prod(many) <= ALL_LAYOUTS:
        return product(*map(range, many))
    return islice(layouts(chain), MOST_LAYOUTS)


def _piece(device: Device, size: int, chain: Chain, picks: Sequence[int]) -> Piece:
    types = [costs.states.at(pick) for costs, pick in zip(chain.nodes, picks, strict=True)]
    return Piece(device, size, tuple(types))
