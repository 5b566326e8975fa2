"""Shares of unlike devices: more for one kind, or less, as long as that helps."""

from collections import Counter
from fractions import Fraction

import pytest

from hardware import load_array
from planners import PLANNERS, TIME, Plan
from simulator import DEPLOYED, Execution, simulate
from simulator.search import shares as module
from simulator.search.candidates import leaves_of, mean_shares
from simulator.search.judge import Judge
from simulator.search.shares import best_share, whole_samples, with_better_shares
from workloads import load_network

ARRAY = DEPLOYED.planned(
    load_array("tpu-mixed", ["devices.0.count=1", "devices.1.count=2"])
)  # 8 cores, and 16


@pytest.mark.parametrize("shares", [(0.3, 0.7), (3.0, 7.0), (0.26, 0.74)])
def test_each_device_of_a_kind_has_a_multiple(shares: tuple[float, float]) -> None:
    """Of 1,000 samples and 0.3: 37.5 for each of 8 cores, so 37, 38, 32 and 40."""
    group = ARRAY.group
    many = [leaves_of(group, device) for device, _ in group.kinds]
    assert many == [8, 16]
    wanted = set[Fraction]()
    for kind in (0, 1):
        each = 1000 * Fraction(shares[kind]) / Fraction(sum(shares)) / many[kind]
        for step in (1, 8):
            for samples in (each // step * step, -(-each // step) * step):
                own = Fraction(samples) * many[kind] / 1000
                wanted.add(own if kind == 0 else 1 - own)
    found = list(whole_samples(group, 1000, shares))
    assert {round(float(one), 9) for one in wanted} == {round(one[0], 9) for one in found}
    assert all(sum(one) == pytest.approx(1.0) for one in found)


def test_whole_samples_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """They save a twentieth of this step: cores with one sample more made the others wait."""
    array = load_array("tpu-mixed")
    run = Execution("deployed", whole_shards=True)
    network, array = load_network("resnet18"), run.planned(array)

    def best_s() -> float:
        plan = best_share(network, array, 65_536, TIME, execution=run)
        return simulate(network, plan, array, run).iteration_s

    with_them_s = best_s()
    monkeypatch.setattr(module, "MULTIPLES", ())
    assert with_them_s < 0.96 * best_s()


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
    monkeypatch.setattr(module, "MULTIPLES", ())
    every = tried(monkeypatch)
    assert set(every.values()) == {1}
    assert len(every) == 1 + 2 * len(module.FACTORS)
