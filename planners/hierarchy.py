"""Planning: what a planner allows every layer, searched over the whole bisected array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from hardware import Array
from planners.errors import PlanError
from planners.objective import Objective
from planners.partition import III, IV, LAYOUTS, Communication, PartitionType, legal
from planners.plan import Plan
from workloads import Graph, Network, Node, partition_graph

if TYPE_CHECKING:
    from planners.terms import Domains

Allowed = Callable[[Node], Sequence[PartitionType]]
"""Which types a planner lets a weighted layer take, in ascending order."""

LARGEST_BATCH = 1 << 24


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
    from planners.search import Search  # and NumPy, which lists of planners do without
    from planners.sizing import whole

    if not 1 <= batch <= LARGEST_BATCH:
        raise PlanError(f"batch {batch} is out of range; it must be within 1...{LARGEST_BATCH}")
    graph = partition_graph(network)
    domains = [LAYOUTS if node.join else _types(planner, node, allowed(node)) for node in graph]
    check_table(planner, graph, domains, objective.communication)
    search = Search(graph, [domains], batch, objective, array, balance=balance)
    root = search.split(array.group, whole(graph))
    names = tuple(node.name for node in graph)
    return Plan(planner, network.name, batch, objective.name, names, root, objective.communication)


def _types(planner: str, node: Node, allowed: object) -> tuple[PartitionType, ...]:
    """What a planner allows a layer; raises PlanError unless they are types, at least one."""
    types = tuple(allowed) if isinstance(allowed, Iterable) else ()
    if not types or not all(isinstance(one, PartitionType) for one in types):
        raise PlanError(
            f"planner {planner!r} allows layer {node.name!r} {allowed!r}; it must give some of "
            f"{', '.join(f'PartitionType.{one}' for one in PartitionType)}"
        )
    return types


def check_table(
    planner: str,
    graph: Graph,
    domains: Domains,
    table: Communication,
) -> None:
    """Raise PlanError where a communication table has no entry for what may come up."""
    if table is Communication.PLOTTED:
        hint = f"the '{table}' communication table is of types I and II in a chain; use 'printed'"
        for node, domain in zip(graph, domains, strict=True):
            if node.join:
                raise PlanError(f"{node.name!r} joins paths: {hint}")
            for unknown in sorted({III, IV} & {*domain} & {*legal(node)}):
                raise PlanError(f"planner {planner!r} chooses type {unknown}: {hint}")
