"""A plan of given types: what somebody else chose, or one point of a search space."""

from __future__ import annotations

from collections.abc import Sequence

from hardware import Array
from planners.errors import PlanError
from planners.hierarchy import check_table
from planners.objective import TIME, Objective
from planners.partition import PartitionType
from planners.plan import Plan
from planners.search import Search
from planners.sizing import whole
from workloads import Network, partition_graph


def given(
    network: Network,
    array: Array,
    batch: int,
    levels: Sequence[Sequence[PartitionType]],
    objective: Objective = TIME,
) -> Plan:
    """The plan with these types, one sequence a level from the top, a type for each node.

    Shares follow the number of accelerators; the objective only prices the
    result. Raises PlanError where the types do not fit network or array.
    """
    graph = partition_graph(network)
    depth = (array.group.size - 1).bit_length()
    if len(array.group.kinds) > 1:
        raise PlanError(f"given types for {array.name!r}: it must have devices of one kind")
    if len(levels) != depth or any(len(types) != len(graph) for types in levels):
        raise PlanError(
            f"given types for {network.name!r} on {array.name!r}: expected {depth} levels of "
            f"{len(graph)} types, found {[len(types) for types in levels]}"
        )
    domains = [[(one,) for one in types] for types in levels]
    for domain in domains:
        check_table("given", graph, domain, objective.communication)
    root = Search(graph, domains, batch, objective, array).split(array.group, whole(graph))
    names = tuple(node.name for node in graph)
    return Plan("given", network.name, batch, objective.name, names, root, objective.communication)
