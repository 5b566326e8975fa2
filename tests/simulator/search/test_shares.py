"""Shares of unlike devices: more for one kind, or less, as long as that helps."""

from collections import Counter

import pytest

from hardware import load_array
from planners import PLANNERS, TIME, Plan
from simulator import DEPLOYED, simulate
from simulator.search import shares as module
from simulator.search.candidates import mean_shares
from simulator.search.judge import Judge
from simulator.search.shares import with_better_shares
from workloads import load_network

ARRAY = DEPLOYED.planned(
    load_array("tpu-mixed", ["devices.0.count=1", "devices.1.count=2"])
)  # 8 cores, and 16


def test_they_are_found_and_pay() -> None:
    """One share for all layers, another than the plan had."""
    network = load_network("resnet18")
    judge = Judge(network, ARRAY, DEPLOYED)
    judge.seconds(PLANNERS["accpar"](network, ARRAY, 2048, TIME))
    before_s = judge.best_s
    with_better_shares(judge)
    assert judge.best_s < before_s
    assert judge.best is not None
    assert simulate(network, judge.best, ARRAY, DEPLOYED).iteration_s == judge.best_s
    shares = mean_shares(ARRAY.group, judge.best.root, 1.0)
    assert sum(shares) == pytest.approx(1.0)


def tried(monkeypatch: pytest.MonkeyPatch) -> Counter[float]:
    """The first kind's shares of plans that are judged, if none is better than the first."""
    network, found = load_network("alexnet"), Counter[float]()
    judge = Judge(network, ARRAY, DEPLOYED)
    judge.seconds(PLANNERS["accpar"](network, ARRAY, 2048, TIME))

    def seconds(_: Judge, plan: Plan) -> float:
        found[round(mean_shares(ARRAY.group, plan.root, 1.0)[0], 9)] += 1
        return judge.best_s

    with monkeypatch.context() as patched:
        patched.setattr(Judge, "seconds", seconds)
        with_better_shares(judge)
    return found


def test_no_share_is_tried_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """More for one kind of two is less for the other."""
    every = tried(monkeypatch)
    assert set(every.values()) == {1}
    assert len(every) == 1 + 2 * len(module.FACTORS)
