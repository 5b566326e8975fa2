"""Lowering takes as long for a layer of a long chain as for one of a short chain."""

import sys
from types import FrameType

from hardware import load_array
from planners import load_planner
from simulator import DEPLOYED, program_of
from workloads import Builder, Network

ARRAY = load_array("accpar-mixed", ["devices.0.count=2", "devices.1.count=2"])


def chain(layers: int) -> Network:
    net = Builder("chain", 96, 1)
    for i in range(layers):
        net.fc(f"fc{i}", 96)
    return net.build()


def calls(layers: int) -> int:
    """Python functions called, and generators resumed, while a chain is lowered."""
    network = chain(layers)
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(ARRAY), 64)
    found = 0

    def count(frame: FrameType, event: str, arg: object) -> None:  # noqa: ARG001
        nonlocal found
        found += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        program_of(network, plan, ARRAY, DEPLOYED)
    finally:
        sys.setprofile(before)
    return found


def test_a_layer_costs_the_same_in_a_chain_of_100_and_of_400() -> None:
    calls(20)  # what is made once, is made
    short, middle, long = (calls(layers) for layers in (100, 200, 400))
    assert (long - middle) / 200 < 1.02 * (middle - short) / 100
