"""A forward pass in legs: each waits for nothing but the one before it."""

import random
from dataclasses import replace

import pytest

from hardware import load_array
from simulator import DEPLOYED
from simulator.planning.contention import Contention
from simulator.planning.legs import legs_of
from simulator.planning.lines import run
from simulator.planning.script import Script
from tests.simulator.planning.test_schedule import CLUSTER, Layouts
from workloads import Builder, Graph, Network, load_network, partition_graph

NODE = partition_graph(load_network("lenet"))[0]


def graph(*producers: tuple[int, ...]) -> Graph:
    return tuple(replace(NODE, producers=of) for of in producers)


def stops(of: Graph) -> list[int]:
    legs = legs_of(of)
    assert [leg.start for leg in legs] == [0, *(leg.stop for leg in legs[:-1])][: len(legs)]
    return [leg.stop - 1 for leg in legs]


def test_a_chain_has_a_leg_for_every_node() -> None:
    assert stops(graph((), (0,), (1,), (2,))) == [0, 1, 2, 3]


def test_none_ends_where_a_shortcut_goes_past() -> None:
    """As in the module's text: from 1 past 2 to 3."""
    assert stops(graph((), (0,), (1,), (2, 1), (3,))) == [0, 1, 3, 4]


def test_what_reads_only_the_networks_input_waits_for_nobody() -> None:
    """Node 2 does: its products may begin before node 1 is over."""
    assert stops(graph((), (0,), (), (1, 2), (3,))) == [3, 4]


def test_what_nobody_reads_is_not_waited_for() -> None:
    """Node 2 is a head of its own: when 3 is over it may not be."""
    assert stops(graph((), (0,), (1,), (1,))) == [0, 1]


def blocks() -> Network:
    """Blocks of alike layers whose sums read another one, without anything computed backward."""
    net = Builder("blocks", 16, 8, 8)
    before = net.conv("first", 16, 1)
    for i in range(4):
        one = net.conv(f"{i}.one", 16, 1)
        two = net.conv(f"{i}.two", 16, 1)
        near, far = (before, one) if i % 2 else (one, before)
        net.add(f"{i}.near", two, near)
        net.add(f"{i}.far", f"{i}.near", far)
        before = net.conv(f"{i}.last", 16, 1)
    return net.build()


@pytest.mark.parametrize(
    ("name", "array", "batch"),
    [
        ("lenet", CLUSTER, 512),
        ("resnet18", "tpu-v3-8", 256),
        ("resnet50", CLUSTER, 512),
        ("blocks", CLUSTER, 512),
        ("gpt2:layers=2:seq=64", "tpu-v3-8", 32),
    ],
)
@pytest.mark.parametrize("overlap", ["full", "none"])
def test_legs_add_up_to_the_whole(name: str, array: str, batch: int, overlap: str) -> None:
    """Written in one, from the first line to the last, and without lines that are merged."""
    execution = replace(DEPLOYED, overlap=overlap == "full")
    network = blocks() if name == "blocks" else load_network(name)
    layouts = Layouts(network, DEPLOYED.planned(load_array(array)), batch, execution)
    schedule, draw = layouts.schedule, random.Random(0)  # noqa: S311
    lookup, contention = schedule.lookup, Contention(layouts.chain.tables.curves)
    assert len(legs_of(partition_graph(network))) > 3
    filled = [layouts.filled(v) for v in range(len(layouts.chain.nodes))]
    for number in range(90):  # a third with two states alone, so that blocks are alike
        picks = [draw.choice(few if number % 3 else [few[0], few[-1]]) for few in filled]
        if number % 3 == 1:  # and a third where many hand on what they get as it is
            pairs = zip(picks, filled, strict=True)
            picks = [draw.choice([p, picks[0] if picks[0] in few else p]) for p, few in pairs]
        found = schedule.seconds(picks, 1e6)
        lines = Script(lookup, picks, 1e6).write()
        assert found == pytest.approx(run(lines, contention), rel=1e-12)
        ordered, lookup.ordered = lookup.ordered, [False] * len(picks)
        apart = Script(lookup, picks, 1e6).write()
        lookup.ordered = ordered
        assert len(apart) >= len(lines)
        assert found == pytest.approx(run(apart, contention), rel=1e-12)
