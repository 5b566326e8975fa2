"""Layouts that the search looks for: of all kinds together, and of some cores of one."""

from dataclasses import replace
from itertools import product

import pytest

from hardware import Array, Group, load_array
from planners import PLANNERS, TIME, Plan
from planners.partition import II, III, I
from simulator import DEPLOYED
from simulator.search import layout_search as module
from simulator.search import search as search_module
from simulator.search.candidates import Piece, placed, shared, whole
from simulator.search.judge import Judge
from simulator.search.layout_search import LayoutSearch, subset_of, with_layouts_and_shares
from workloads import Builder, Network, load_network

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
    like = Plan.blank("search", net, batch, TIME)
    even = PLANNERS["data_parallel"](net, ARRAY, batch, TIME)
    judge.seconds(replace(even, root=shared(even.root, ARRAY.group, (3.0, 5.0))))
    LayoutSearch(judge, like).of_all_kinds((3.0, 5.0), improved=True)
    every = Judge(net, ARRAY, DEPLOYED)
    layouts = list(product([(kind,) for kind in (I, II, III)], repeat=2))
    for first, second in product(layouts, repeat=2):
        kinds = zip(ARRAY.group.kinds, (first, second), strict=True)
        pieces = tuple(Piece(device, 2, types) for (device, _), types in kinds)
        every.seconds(placed(like, ARRAY.group, pieces, (3.0, 5.0)))
    assert every.evaluations == 81
    assert every.best_s <= judge.best_s <= 1.02 * every.best_s


def test_only_where_all_kinds_work() -> None:
    net, group = network(16), ARRAY.group
    judge = Judge(net, ARRAY, DEPLOYED)
    like = Plan.blank("search", net, 256, TIME)
    even = PLANNERS["data_parallel"](net, ARRAY, 256, TIME)
    idle = replace(even, root=shared(even.root, group, (0.0, 1.0)))
    counts: list[int] = []
    for plan in (None, idle):
        judge.best = plan
        with_layouts_and_shares(judge, like)
        counts.append(judge.evaluations)
    LayoutSearch(judge, like).of_all_kinds((3.0, 5.0))
    assert counts == [0, 0]
    assert judge.evaluations > 0


def test_one_kind_is_not_together() -> None:
    array = DEPLOYED.planned(load_array("tpu-v3-8"))
    net = network(16)
    judge = Judge(net, array, DEPLOYED)
    like = Plan.blank("search", net, 256, TIME)
    LayoutSearch(judge, like).of_all_kinds((1.0,))
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

    monkeypatch.setattr(LayoutSearch, "of_all_kinds", lambda *_, **__: asked.append("layouts"))
    monkeypatch.setattr(module, "with_better_shares", better)
    with_layouts_and_shares(judge, even)
    assert asked == ["layouts", "shares"] * laid


def judge_of(name: str, boards: int) -> Judge:
    array = load_array("tpu-v3-pod", [f"devices.0.count={boards}"])
    return Judge(load_network(name), DEPLOYED.planned(array), DEPLOYED)


def test_a_layout_is_among_the_states_near_its_own() -> None:
    """256 cores have states of two runs; near a layout there are some of three."""
    judge = judge_of("lenet", 32)
    ((device, size),) = whole(judge.array)
    subset = subset_of(judge, device, size, 512, 0.0)
    assert subset is not None
    picks = subset.candidates()[0]
    near, types = subset.near(picks), subset.piece(picks).types
    assert all(of in one.states.numbers for of, one in zip(types, near.chain.nodes, strict=True))
    assert any(
        len(a.states) > len(b.states)
        for a, b in zip(near.chain.nodes, subset.chain.nodes, strict=True)
    )


def test_no_number_of_cores_is_looked_at_that_surely_takes_longer() -> None:
    judge = judge_of("lenet", 2)
    ((device, size),) = whole(judge.array)
    assert subset_of(judge, device, size, 128, 0.0) is not None
    judge.best_s = 1e-9
    assert subset_of(judge, device, size, 128, 0.0) is None


def test_layouts_are_improved_by_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNet-18 on 64 cores: changes that help are found around the chain's layouts."""
    judge = judge_of("resnet18", 8)
    net = judge.network
    like = Plan.blank("search", net, 512, TIME)
    search = LayoutSearch(judge, like)
    ((device, size),) = whole(judge.array)
    subset = subset_of(judge, device, size, 512, 0.0)
    assert subset is not None
    picks = subset.candidates()[0]
    before_s = search._seconds({0: picks}, subset)
    search._improve([subset], {0: picks})
    assert judge.best_s < before_s
    spent = judge.spent
    monkeypatch.setattr(module, "LINES", 0)
    search._improve([subset], {0: picks})
    assert judge.spent == spent  # its own step is known


@pytest.mark.parametrize(("unfit", "prices"), [(0, 1), (1, 1 + len(search_module.BYTE_PRICES))])
def test_bytes_have_a_price_where_something_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, unfit: int, prices: int
) -> None:
    judge = Judge(network(16), ARRAY, replace(DEPLOYED, strict_memory=True))
    asked: list[float] = []

    def of_price(judge: Judge, _: Plan, byte_s: float) -> None:
        asked.append(byte_s)
        judge.best_s, judge.unfit = 1.0, unfit

    monkeypatch.setattr(search_module, "_of_price", of_price)
    search_module._layouts(judge, 256, TIME)
    assert asked[0] == 0.0
    assert len(set(asked)) == len(asked) == prices
    assert asked == sorted(asked)
