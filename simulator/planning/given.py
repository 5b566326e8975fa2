"""What plans of like cores take at least that treat them all alike: bounds of single layouts.

The chain has a layout's own sum as well as the least of all. A plan whose sum is above the
best step need not be simulated, which takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Sequence

from hardware import Array
from planners import Plan
from planners.partition import USUAL, PartitionType
from simulator.lowering.execution import Execution
from simulator.planning.chain import Chain
from simulator.planning.hollow import filled
from simulator.planning.layouts import first_cores
from simulator.planning.states import Types
from simulator.planning.tables import Cores, Tables
from workloads import Network, partition_graph

Layout = tuple[Cores, tuple[Types, ...]]
"""Which cores work, and the types of every node, outermost first."""


def layout_of(plan: Plan, array: Array) -> Layout | None:
    """The first 2^j cores of a kind, halved alike all the way down; None of any other plan."""
    group, split, first = array.group, plan.root, 0
    while split is not None and split.idle and len(split.working) == 1:
        (working,) = split.working
        first += working * group.halves()[0].size
        group, split = group.halves()[working], split.halves[working]
    (device, _), *others = group.kinds
    cores = first_cores(array, device, group.size)
    if others or plan.updates or cores is None or cores.first != first:
        return None
    levels: list[Sequence[PartitionType]] = []
    while split is not None:
        if len(split.halves) == 2 and split.halves[0] != split.halves[1]:
            return None
        if {partition.share for partition in split.partitions} != {0.5}:
            return None
        levels.append(split.types)
        split = split.halves[0]
    if group.size != 1 << len(levels):
        return None
    types: tuple[Types, ...] = tuple(zip(*levels, strict=True)) or ((),) * len(plan.nodes)
    return (cores, types) if all(one in USUAL for of in types for one in of) else None


def is_filled(network: Network, plan: Plan, array: Array) -> bool:
    """Whether a plan is such a layout, and leaves none of its cores without any layer."""
    layout = layout_of(plan, array)
    pairs = [] if layout is None else zip(partition_graph(network), layout[1], strict=True)
    return layout is not None and all(filled(node, plan.batch, types) for node, types in pairs)


def least_s(
    network: Network, plans: Sequence[Plan], array: Array, execution: Execution
) -> list[float]:
    """Seconds that the steps of these plans do not undercut; 0 where nothing is known.

    Something is on cores without units.
    """
    found = [0.0] * len(plans)
    if any(device.units for device, _ in array.group.kinds):
        return found
    of_cores = dict[Cores, dict[int, tuple[Types, ...]]]()
    for number, plan in enumerate(plans):
        layout = layout_of(plan, array)
        if layout is not None:
            cores, types = layout
            of_cores.setdefault(cores, {})[number] = types
    for cores, layouts in of_cores.items():
        batch = plans[next(iter(layouts))].batch
        each = [frozenset(of_node) for of_node in zip(*layouts.values(), strict=True)]
        chain = Chain(Tables(network, batch, cores, execution, only=each), sure=True)
        for number, types in layouts.items():
            found[number] = _least_s(chain, types)
    return found


def _least_s(chain: Chain, types: Sequence[Types]) -> float:
    """A line over the weight is highest at one of its ends."""
    pairs = zip(chain.nodes, types, strict=True)
    picks = [costs.states.numbers[of_node] for costs, of_node in pairs]
    ends = (0.0, 1.0) if chain.overlap else (0.0,)
    return max(chain.seconds(picks, weight) for weight in ends)
