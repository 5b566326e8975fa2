"""Which plans are layouts: like cores that all do the same."""

from hypothesis import HealthCheck, settings

from hardware import load_array
from planners import PLANNERS, TIME, Plan
from planners.partition import II, I
from simulator import DEPLOYED
from simulator.search.candidates import Piece, placed
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
    plan = placed(like, MIXED.group, (None, Piece(second, 8, types)), (0.0, 1.0))
    layout = layout_of(plan, MIXED)
    assert layout is not None
    assert (layout[0].device, layout[0].levels, layout[1]) == (second, 3, types)
    alone = placed(like, MIXED.group, (Piece(first, 1, ((),) * len(graph)), None), (1.0, 0.0))
    layout = layout_of(alone, MIXED)
    assert layout is not None
    assert (layout[0].levels, layout[1]) == (0, ((),) * len(graph))
    both = PLANNERS["accpar"](NETWORK, MIXED, 512, TIME)
    assert layout_of(both, MIXED) is None
