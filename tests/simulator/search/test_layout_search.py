"""Layouts that the search looks for: of the first cores of one kind."""

from dataclasses import replace

import pytest

from hardware import load_array
from planners import TIME, Plan
from simulator import DEPLOYED
from simulator.search import layout_search as module
from simulator.search import search as search_module
from simulator.search.candidates import whole
from simulator.search.judge import Judge
from simulator.search.layout_search import LayoutSearch, types_of
from simulator.search.layouts import layouts
from workloads import Builder, Network, load_network

ARRAY = DEPLOYED.planned(load_array("tpu-v3-8"))


def network(width: int) -> Network:
    net = Builder("two", 64, 8, 8)
    net.conv("conv", width, 3, 1, 1)
    net.flatten("flatten")
    net.fc("fc", 512)
    return net.build()


def judge_of(name: str, boards: int) -> Judge:
    array = load_array("tpu-v3-pod", [f"devices.0.count={boards}"])
    return Judge(load_network(name), DEPLOYED.planned(array), DEPLOYED)


def test_a_layout_is_among_the_states_near_its_own() -> None:
    """256 cores have states of two runs; near a layout there are some of three."""
    judge = judge_of("lenet", 32)
    search = LayoutSearch(judge, Plan.blank("search", judge.network, 512, TIME))
    ((device, size),) = whole(judge.array)
    chain = search.chain(device, size)
    assert chain is not None
    picks = next(layouts(chain))
    near, types = search.near(chain, picks), types_of(chain, picks)
    assert all(of in one.states.numbers for of, one in zip(types, near.nodes, strict=True))
    assert any(len(a.states) > len(b.states) for a, b in zip(near.nodes, chain.nodes, strict=True))


def test_no_number_of_cores_is_looked_at_that_surely_takes_longer() -> None:
    judge = judge_of("lenet", 2)
    ((device, size),) = whole(judge.array)
    search = LayoutSearch(judge, Plan.blank("search", judge.network, 128, TIME))
    assert search.chain(device, size) is not None
    judge.best_s = 1e-9
    assert search.chain(device, size) is None


def test_layouts_are_improved_by_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """ResNet-18 on 64 cores: changes that help are found around the chain's layouts."""
    judge = judge_of("resnet18", 8)
    search = LayoutSearch(judge, Plan.blank("search", judge.network, 512, TIME))
    ((device, size),) = whole(judge.array)
    chain = search.chain(device, size)
    assert chain is not None
    picks = next(layouts(chain))
    before_s = search.seconds(chain, picks)
    search.improved(chain, picks)
    assert judge.best_s < before_s
    spent = judge.spent
    monkeypatch.setattr(module, "LINES", 0)
    search.improved(chain, picks)
    assert judge.spent == spent  # its own step is known


@pytest.mark.parametrize(("unfit", "prices"), [(0, 1), (1, 1 + len(search_module.BYTE_PRICES))])
def test_bytes_have_a_price_where_something_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, unfit: int, prices: int
) -> None:
    judge = Judge(network(16), ARRAY, replace(DEPLOYED, strict_memory=True))
    asked: list[float] = []

    def go(self: LayoutSearch) -> None:
        asked.append(self._byte_s)
        judge.best_s, judge.unfit = 1.0, unfit

    monkeypatch.setattr(LayoutSearch, "run", go)
    search_module._layouts(judge, 256, TIME)
    assert asked[0] == 0.0
    assert len(set(asked)) == len(asked) == prices
    assert asked == sorted(asked)
