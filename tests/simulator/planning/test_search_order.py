"""In which order the search looks at kinds of devices together, and alone."""

import math
from dataclasses import replace

import pytest

from hardware import load_array
from planners import TIME, Plan
from simulator import DEPLOYED
from simulator.planning import search as module
from simulator.planning.judge import Judge
from simulator.planning.placed import Placing
from simulator.planning.placements import blank
from simulator.planning.subsets import FAR, subset_of
from simulator.planning.together import together_s
from workloads import load_network, partition_graph

LENET = load_network("lenet")
ARRAY = DEPLOYED.planned(
    load_array("tpu-mixed", ["devices.0.count=1", "devices.1.count=1"])
)  # peaks of 45 and 123, HBM of 700 and 900
GAIN = (123 / 168) / (900 / 1600)
"""How much more of the samples v3 has by peaks."""


@pytest.mark.parametrize(
    ("times", "strict", "asked"),
    [
        (FAR * GAIN * 0.99, False, ["few", "peaks", "alone", "hbm"]),
        (FAR * GAIN * 1.01, False, ["few", "peaks", "alone"]),
        (FAR * GAIN * 1.01, True, ["few", "peaks", "alone", "hbm"]),
    ],
)
def test_shares_by_hbm_are_tried_where_those_by_peaks_are_near(
    monkeypatch: pytest.MonkeyPatch, times: float, strict: bool, asked: list[str]
) -> None:
    judge = Judge(LENET, ARRAY, replace(DEPLOYED, strict_memory=strict))
    like = blank("lenet", [node.name for node in partition_graph(LENET)], 512, TIME)
    found: list[str] = []

    def together(_: Judge, __: object, shares: tuple[float, ...], byte_s: float) -> float:
        found.append("peaks" if shares[1] > 2 * shares[0] else "hbm")
        assert byte_s == 0.5
        return times

    def alone(self: Placing) -> None:
        found.append("alone")
        self.judge.best_s = 1.0

    monkeypatch.setattr(module, "together_s", together)
    monkeypatch.setattr(Placing, "subsets", alone)
    monkeypatch.setattr(Placing, "few", lambda _: found.append("few"))
    module._of_price(judge, like, 0.5)
    assert found == asked


@pytest.mark.parametrize("strict", [False, True])
def test_kinds_together_are_not_simulated_where_one_alone_takes_too_long(*, strict: bool) -> None:
    """Half of the samples on 16 TPU v2 cores, and a best step of half, or four fifths, of that."""
    execution = replace(DEPLOYED, strict_memory=strict)
    boards = ["devices.0.count=2", "devices.1.count=2"]
    array = DEPLOYED.planned(load_array("accpar-mixed", boards))
    like = blank("lenet", [node.name for node in partition_graph(LENET)], 512, TIME)
    device, _ = array.group.kinds[0]
    one = subset_of(Judge(LENET, array, execution), device, 16, 256, 0.0, math.inf)
    assert one is not None
    takes_s = one.estimated()[0][0]
    for times, simulated in ((0.6, strict), (1.01, True)):
        judge = Judge(LENET, array, execution, best_s=takes_s / FAR * times)
        found_s = together_s(judge, like, (1.0, 1.0))
        assert judge.evaluations == simulated
        assert simulated or found_s > FAR * judge.best_s


def test_a_few_cores_of_the_fastest_kind_are_judged_first() -> None:
    judge = Judge(LENET, ARRAY, DEPLOYED)
    placing = Placing(
        judge, blank("lenet", [node.name for node in partition_graph(LENET)], 512, TIME)
    )
    placing.few()
    assert judge.evaluations == 1
    assert list(placing._few) == [(ARRAY.group.kinds[1][0], 8)]
    assert judge.best is not None
    first, second = shares_of(judge.best)
    assert (first, second) == (0.0, 1.0)  # of TPU v3 alone
    before_s = judge.best_s
    placing.subsets()
    assert judge.best_s <= before_s


def shares_of(plan: Plan) -> tuple[float, float]:
    assert plan.root is not None
    share = plan.root.partitions[0].share
    return share, 1 - share


@pytest.mark.parametrize(("unfit", "prices"), [(0, 1), (1, 1 + len(module.BYTE_PRICES))])
def test_bytes_have_a_price_where_something_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, unfit: int, prices: int
) -> None:
    judge = Judge(LENET, ARRAY, replace(DEPLOYED, strict_memory=True))
    asked: list[float] = []

    def of_price(judge: Judge, _: Plan, byte_s: float) -> None:
        asked.append(byte_s)
        judge.best_s, judge.unfit = 1.0, unfit

    monkeypatch.setattr(module, "_of_price", of_price)
    module._layouts(judge, 512, TIME)
    assert asked[0] == 0.0
    assert len(set(asked)) == len(asked) == prices
    assert asked == sorted(asked)
