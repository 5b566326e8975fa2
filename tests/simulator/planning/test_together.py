"""Kinds of devices together: their layouts against all there are."""

from dataclasses import replace
from itertools import product

import pytest

from hardware import Array, Group, load_array
from planners import PLANNERS, TIME
from planners.partition import II, III, I
from simulator import DEPLOYED
from simulator.planning import together as module
from simulator.planning.judge import Judge
from simulator.planning.lifting import shared
from simulator.planning.placements import Piece, Placement, blank
from simulator.planning.together import together_s, with_layouts_and_shares
from workloads import Builder, Network, partition_graph

(_V2, _V3) = (device for device, _ in load_array("tpu-mixed").group.kinds)
ARRAY = DEPLOYED.planned(
    Array("two chips", "", Group(((replace(_V2, chips=1), 1), (replace(_V3, chips=1), 1))))
)
"""Two cores of each kind."""


def network(width: int) -> Network:
    net = Builder("two", 64, 8, 8)
    net.conv("conv", width, 3, 1, 1)
    net.flatten("flatten")
    net.fc("fc", 512)
    return net.build()


@pytest.mark.parametrize("width", [16, 512])
def test_near_the_best_of_all_layouts_with_its_share(width: int) -> None:
    net, batch = network(width), 256
    judge = Judge(net, ARRAY, DEPLOYED)
    like = blank(net.name, [node.name for node in partition_graph(net)], batch, TIME)
    even = PLANNERS["data_parallel"](net, ARRAY, batch, TIME)
    judge.seconds(replace(even, root=shared(even.root, ARRAY.group, (3.0, 5.0))))
    together_s(judge, like, (3.0, 5.0), refined=True)
    every = Judge(net, ARRAY, DEPLOYED)
    layouts = list(product([(kind,) for kind in (I, II, III)], repeat=2))
    for first, second in product(layouts, repeat=2):
        kinds = zip(ARRAY.group.kinds, (first, second), strict=True)
        pieces = tuple(Piece(device, 2, types) for (device, _), types in kinds)
        every.seconds(Placement(pieces, (3.0, 5.0)).plan(ARRAY, like))
    assert every.evaluations == 81
    assert every.best_s <= judge.best_s <= 1.02 * every.best_s


def test_only_where_all_kinds_work() -> None:
    net, group = network(16), ARRAY.group
    judge = Judge(net, ARRAY, DEPLOYED)
    like = blank(net.name, [node.name for node in partition_graph(net)], 256, TIME)
    even = PLANNERS["data_parallel"](net, ARRAY, 256, TIME)
    idle = replace(even, root=shared(even.root, group, (0.0, 1.0)))
    counts: list[int] = []
    for plan in (None, idle):
        judge.best = plan
        with_layouts_and_shares(judge, like)
        counts.append(judge.evaluations)
    assert together_s(judge, like, (3.0, 5.0)) == judge.best_s
    assert [*counts, judge.evaluations] == [0, 0, 1]


def test_one_kind_is_not_together() -> None:
    array = DEPLOYED.planned(load_array("tpu-v3-8"))
    net = network(16)
    judge = Judge(net, array, DEPLOYED)
    like = blank(net.name, [node.name for node in partition_graph(net)], 256, TIME)
    assert together_s(judge, like, (1.0,)) == float("inf")
    assert judge.evaluations == 0


@pytest.mark.parametrize(("shares", "laid"), [((96, 160), 1), ((96.1, 159.9), 1), ((64, 192), 2)])
def test_layouts_are_looked_for_again_where_samples_move(
    monkeypatch: pytest.MonkeyPatch, shares: tuple[float, float], laid: int
) -> None:
    """Of 256 samples 96 and 160 first; and then those that better shares end at."""
    net, group = network(16), ARRAY.group
    even = PLANNERS["data_parallel"](net, ARRAY, 256, TIME)
    judge = Judge(net, ARRAY, DEPLOYED)
    judge.best = replace(even, root=shared(even.root, group, (96.0, 160.0)))
    asked: list[str] = []

    def better(judge: Judge) -> None:
        asked.append("shares")
        judge.best = replace(even, root=shared(even.root, group, shares))

    monkeypatch.setattr(module, "together_s", lambda *_, **__: asked.append("layouts"))
    monkeypatch.setattr(module, "with_better_shares", better)
    with_layouts_and_shares(judge, even)
    assert asked == ["layouts", "shares"] * laid
