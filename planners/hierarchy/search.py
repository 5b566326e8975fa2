"""Planning: what a planner allows every layer, searched over the whole bisected array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from hardware import Array, Section, bisection_of
from planners.cost.objective import Objective
from planners.cost.shared_medium import check_array
from planners.errors import PlanError, check_batch
from planners.hierarchy.cost_table import CostTable, Domains, Terms
from planners.partition import III, IV, LAYOUTS, Communication, I, PartitionType, Shard, legal
from planners.plan import Plan
from planners.plan.split import Split, one_of
from planners.sizing import Floats, kept, shares_of, sizing, types_of, whole
from workloads import Graph, Network, Node, partition_graph

Allowed = Callable[[Node], Sequence[PartitionType]]
"""Which types a planner lets a weighted layer take, in ascending order."""


def plan_hierarchy(
    planner: str,
    network: Network,
    array: Array,
    batch: int,
    objective: Objective,
    allowed: Allowed,
    *,
    balance: bool = False,
) -> Plan:
    """Search every split of ``array`` for the cheapest allowed types, top-down.

    Shares follow the number of accelerators on each side: one half where the
    sides are alike or equally many. With ``balance``, sides that differ share
    each layer so that both finish together (AccPar).
    """
    check_batch(batch)
    graph = partition_graph(network)
    domains = [LAYOUTS if node.join else _types(planner, node, allowed(node)) for node in graph]
    check_table(planner, graph, domains, objective.communication)
    search = Search(graph, [domains], batch, objective, array, balance=balance)
    root = search.split(search.root, whole(graph))
    return replace(Plan.blank(planner, network, batch, objective), root=root)


def _types(planner: str, node: Node, allowed: object) -> tuple[PartitionType, ...]:
    """What a planner allows a layer; raises PlanError unless they are types, at least one."""
    types = tuple(allowed) if isinstance(allowed, Iterable) else ()
    if not types or not all(isinstance(one, PartitionType) for one in types):
        raise PlanError(
            f"planner {planner!r} allows layer {node.name!r} {allowed!r}; it must give some of "
            f"{', '.join(f'PartitionType.{one}' for one in PartitionType)}"
        )
    return types


def check_table(planner: str, graph: Graph, domains: Domains, table: Communication) -> None:
    """Raise PlanError where a communication table has no entry for what may come up."""
    if table is Communication.PLOTTED:
        hint = f"the '{table}' communication table is of types I and II in a chain; use 'printed'"
        for node, domain in zip(graph, domains, strict=True):
            if node.join:
                raise PlanError(f"{node.name!r} joins paths: {hint}")
            for unknown in sorted({III, IV} & {*domain} & {*legal(node)}):
                raise PlanError(f"planner {planner!r} chooses type {unknown}: {hint}")


class Search:
    """One planning run: what stays the same at every split, and the splits solved so far.

    ``levels`` are the domains of each level from the top; the last one holds below too.
    ``shards`` are arrays, a row for each node (``planners.sizing``).
    """

    def __init__(
        self,
        graph: Graph,
        levels: Sequence[Domains],
        batch: int,
        objective: Objective,
        array: Array,
        *,
        balance: bool = False,
    ) -> None:
        check_array(array)
        self.root = bisection_of(array).section(array.group, array.first)
        """The whole array."""
        self.graph = graph
        self.batch = batch
        self.objective = objective
        self.balance = balance
        self._fused = array.group.arithmetic.fused
        self._levels = levels
        self._terms: dict[tuple[Domains, bool], Terms] = {}
        self._solved: dict[tuple[Section, bytes, int], Split] = {}

    def split(self, section: Section, shards: Floats, depth: int = 0) -> Split | None:
        """The cheapest split of a group that earlier splits have left so much; None for one."""
        if not section.halves:
            return None
        level = min(depth, len(self._levels) - 1)
        key = (section, shards.tobytes(), level)
        if key not in self._solved:
            self._solved[key] = self._solve(section, shards, depth, level)
        return self._solved[key]

    def _solve(self, section: Section, shards: Floats, depth: int, level: int) -> Split:
        group, halves = section.group, section.halves
        first, second = (half.group for half in halves)
        prices = (self.objective.prices(halves[0]), self.objective.prices(halves[1]))
        share = None if self.balance and first != second else first.size / group.size
        size = sizing(self.graph).of(self.batch, shards, fused=self._fused)
        balanced = share is None
        domains = self._domains(shards, level)
        key = (domains, balanced)
        if key not in self._terms:
            table = self.objective.communication
            self._terms[key] = Terms(self.graph, domains, table, balanced=balanced)
        problem = CostTable(self._terms[key], size, prices, share, self.objective)
        cost, partitions, lower = problem.solve()
        left = kept(shards, types_of(partitions), shares_of(partitions))
        below = [self.split(*item, depth + 1) for item in zip(section.below, left, strict=True)]
        same = one_of(*below) if first == second else None  # with shares of one half
        return Split(tuple(partitions), cost, tuple(below) if same is None else same, lower)

    def _domains(self, shards: Floats, level: int) -> Domains:
        """The wanted types that are legal; where none is, the batch is split."""
        groups = shards[:, IV].tolist()
        return tuple(
            tuple(one for one in legal(node, Shard(groups=left)) if one in wanted) or (I,)
            for node, left, wanted in zip(self.graph, groups, self._levels[level], strict=True)
        )
