"""From a good layout to a better one: what is tried, and how often."""

import math

import pytest

from hardware import load_array
from simulator import DEPLOYED
from simulator.search.candidates import whole
from simulator.search.layout_search import Layout, _ranked, improve
from simulator.search.layouts import first_cores
from simulator.search.relaxation import Chain
from simulator.search.tables import Tables
from workloads import Builder, load_network

NODES = 8
EVERY = 100_000
"""More changes than there are."""


def small_chain() -> Chain:
    """Fully connected layers of unlike widths on two cores: three states each."""
    net = Builder("small", 8, 1, 1)
    net.flatten("flatten")
    for i in range(NODES):
        net.fc(f"fc{i}", 8 * (i + 2))
    array = DEPLOYED.planned(load_array("tpu-v3-8"))
    cores = first_cores(array, array.group.kinds[0][0], 2)
    assert cores is not None
    return Chain(Tables(net.build(), 64, cores, DEPLOYED))


def test_changes_are_tried_on_top_of_those_that_helped() -> None:
    """Every node has one state that helps, and one that harms: one sweep finds all that help.

    Two more find nothing else. To begin anew with each that helps takes many more.
    """
    chain, many = small_chain(), 0
    start = tuple(v % 3 for v in range(NODES))
    wanted = tuple((v + 1 + v // 2 % 2) % 3 for v in range(NODES))

    def judgement(one: Layout) -> float:
        nonlocal many
        many += 1
        places = zip(one, start, wanted, strict=True)
        return sum({begin: 1.0, end: 0.0}.get(state, 10.0) for state, begin, end in places)

    found = improve(start, chain, judgement, lambda: True)
    assert found == wanted
    assert many <= 1 + 3 * (2 * NODES + 4 * (NODES - 1))


@pytest.mark.parametrize("changes", [5, 20, EVERY])
def test_changes_come_by_what_they_add(changes: int) -> None:
    """By the chain's own sums: first what it finds cheapest; never what is not to be taken."""
    chain, picks = small_chain(), (1,) * NODES
    last = len(chain.nodes[-1].states) - 1
    chain.nodes[-1].update_s[last] = math.inf
    ranked = _ranked(picks, chain, 0.5, changes)
    assert len(ranked) == min(changes, 2 * NODES - 1 + 4 * (NODES - 1) - 2)
    sums = []
    for change in ranked:
        assert picks[0] not in change.states
        assert change.first + len(change.states) < NODES or change.states[-1] != last
        sums.append(chain.seconds(change.of(picks), 0.5))
    assert sums == pytest.approx(sorted(sums))


def test_effort_is_limited() -> None:
    chain, many = small_chain(), 0

    def judgement(one: Layout) -> float:
        nonlocal many
        many += 1
        return math.fsum(one)

    improve((2,) * NODES, chain, judgement, lambda: many < 5)
    assert many == 5


def test_no_core_is_left_without_a_layer_where_the_chain_forbids_it() -> None:
    """LeNet's one input channel on 16 cores: its halves are near the first layout."""
    array = DEPLOYED.planned(load_array("tpu-v3-pod", ["devices.0.count=2"]))
    ((device, size),) = whole(array)
    cores = first_cores(array, device, size)
    assert cores is not None
    tables = Tables(load_network("lenet"), 128, cores, DEPLOYED)
    for filled in (True, False):
        chain = Chain(tables, filled=filled)
        picks = chain.best()[0].picks
        ranked = _ranked(picks, chain, 0.5, EVERY)
        hollow = [
            tables.nodes[one.first + i].empty[state]
            for one in ranked
            for i, state in enumerate(one.states)
        ]
        assert any(hollow) is not filled
