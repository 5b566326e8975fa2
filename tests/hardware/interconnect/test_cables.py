"""Cables between nodes, one by one: routes, bandwidths, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from hardware import Wires, load_array
from hardware.interconnect.cables import Cables
from tests.routes import route

SQUARE = Cables([(0, 1), (1, 2), (1, 2), (2, 3)], 4, 2, 10.0, 1.0, lambda i: f"n{i}")
"""A line of four nodes, twice; the middle two have two cables."""


def test_a_message_takes_the_shortest_way_in_its_own_copy() -> None:
    names = SQUARE.names()
    assert [names[link] for link in SQUARE.route(0, 3)] == ["n0 to n1", "n1 to n2", "n2 to n3"]
    assert [names[link] for link in SQUARE.route(7, 6)] == ["n7 to n6"]
    assert names[SQUARE.route(1, 2)[0] + 2] == "n1 to n2 (2)"


def test_loads_and_latencies_are_those_of_routes() -> None:
    sources, targets = np.array([0, 3, 4]), np.array([2, 0, 5])
    flows = SQUARE.loads(sources, targets, np.array([1.0, 2.0, 4.0]))
    expected = np.zeros(len(SQUARE.bandwidth))
    for source, target, many in zip(sources, targets, (1.0, 2.0, 4.0), strict=True):
        for link in SQUARE.route(int(source), int(target)):
            expected[link] += many
    assert (flows == expected).all()
    assert SQUARE.latencies(sources, targets).tolist() == [2.0, 3.0, 1.0]


def test_sides_send_by_the_cables_between_them() -> None:
    assert SQUARE.injection(range(2), range(2, 4)) == 20.0
    assert SQUARE.injection(range(1), range(3, 4)) == 10.0


def test_the_mesh_of_a_dgx_1() -> None:
    """Six links a GPU: of GPU 0 one to 1 and 2, two to 3 and 4; six lead from half to half."""
    wires = Wires(load_array("dgx-1-v100"))
    fabric = wires.subnets[1].fabric
    assert isinstance(fabric, Cables)
    source, _ = fabric.ends
    assert np.bincount(source).tolist() == [6] * 8
    assert len(fabric.links[0, 3]) == len(fabric.links[0, 4]) == 2
    assert wires.injection_bytes_per_s(range(4), range(4, 8)) == pytest.approx(6 * 0.9 * 25e9)
    assert len(route(wires, 0, 5)) == 2


def test_copies_of_a_node_are_alike_and_its_gpus_are_not() -> None:
    wires = Wires(load_array("v100-cluster", ["nodes=2"]))
    assert wires.moved(range(4), range(8, 12))
    assert not wires.moved(range(4), range(4, 8))
    assert not wires.interchangeable(0, 1, 1)
    assert wires.interchangeable(0, 8, 8)
