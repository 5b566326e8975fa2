"""Which plans are layouts: like cores that all do the same."""

from dataclasses import replace

from hypothesis import HealthCheck, settings

from hardware import load_array
from planners import PLANNERS, TIME, Plan
from planners.partition import II, I
from simulator import DEPLOYED
from simulator.search.candidates import lifted, split_of
from simulator.search.layouts import layout_of
from workloads import load_network, partition_graph

SLOW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ROUNDING = 1 + 1e-9
NETWORK = load_network("alexnet")
MIXED = DEPLOYED.planned(load_array("accpar-mixed", [f"devices.{i}.count=16" for i in (0, 1)]))


def test_the_layout_of_a_plan() -> None:
    graph = partition_graph(NETWORK)
    like = Plan.blank("search", NETWORK, 512, TIME)
    first, second = (device for device, _ in MIXED.group.kinds)
    types = ((II, I, I), *((I, I, II),) * (len(graph) - 1))
    root = lifted(split_of(types), MIXED.group, second, 8, len(graph))
    layout = layout_of(replace(like, root=root), MIXED)
    assert layout is not None
    assert (layout[0].device, layout[0].levels, layout[1]) == (second, 3, types)
    root = lifted(None, MIXED.group, first, 1, len(graph))
    layout = layout_of(replace(like, root=root), MIXED)
    assert layout is not None
    assert (layout[0].levels, layout[1]) == (0, ((),) * len(graph))
    both = PLANNERS["accpar"](NETWORK, MIXED, 512, TIME)
    assert layout_of(both, MIXED) is None
