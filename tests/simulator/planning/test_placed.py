"""Layouts of some cores of a kind: which of them are gone into, and how far."""

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hardware import load_array
from planners import TIME
from simulator import DEPLOYED, simulate
from simulator.planning import placed as module
from simulator.planning.buckets import sizes_of
from simulator.planning.judge import Judge
from simulator.planning.placed import Placing
from simulator.planning.placements import blank
from simulator.planning.search import search
from workloads import load_network, partition_graph

LENET = load_network("lenet")


def test_numbers_of_cores_are_ranked_by_what_is_near_their_layouts() -> None:
    """LeNet on 128 cores: the first layout of 32 takes longer than those of 16, 64 and 128.

    The best near by takes an eighth less, and is the best of all.
    """
    array = DEPLOYED.planned(load_array("tpu-v3-pod", ["devices.0.count=16"]))
    plan = search(LENET, array, 512, execution=DEPLOYED)
    step = simulate(LENET, plan, array, DEPLOYED)
    assert step.cores - step.idle_cores == 32
    assert step.iteration_s < 0.1121e-3


@pytest.mark.parametrize(("judged", "looked_at", "last"), [((4, 3, 2), 2, 2), ((4, 6, 2), 1, 0)])
def test_states_nearby_are_looked_at_again_around_a_better_layout(
    monkeypatch: pytest.MonkeyPatch, judged: tuple[float, ...], looked_at: int, last: int
) -> None:
    """As long as that helps, and no more than some rounds."""
    array = DEPLOYED.planned(load_array("tpu-v3-8"))
    like = blank("lenet", [node.name for node in partition_graph(LENET)], 512, TIME)
    asked: list[Any] = []

    def refined(picks: tuple[int, ...]) -> Any:
        asked.append(picks)
        return subset, (picks[0] + 1,)

    subset = cast("Any", SimpleNamespace(refined=refined))
    monkeypatch.setattr(Placing, "_judged", lambda _, __, picks: judged[picks[0]])
    placing = Placing(Judge(LENET, array, DEPLOYED), like)
    found = placing._refined(judged[0], (0,), subset)
    assert found == (judged[last], (last,), subset)
    assert len(asked) == looked_at == (module.ROUNDS if last else 1)


@pytest.mark.parametrize(
    ("best_s", "sizes"), [(math.inf, [32, 16, 8, 4, 2, 1]), (1.0, [8, 4, 2, 1, 32, 16])]
)
def test_few_cores_are_looked_at_first_where_something_is_known(
    monkeypatch: pytest.MonkeyPatch, best_s: float, sizes: list[int]
) -> None:
    """Else those that do the work in the least time."""
    array = DEPLOYED.planned(load_array("tpu-v3-pod", ["devices.0.count=4"]))
    like = blank("lenet", [node.name for node in partition_graph(LENET)], 512, TIME)
    judge, asked = Judge(LENET, array, DEPLOYED), list[int]()
    judge.best_s = best_s
    monkeypatch.setattr(module, "subset_of", lambda _, __, size, *___: asked.append(size))
    assert Placing(judge, like)._likely() == []
    assert asked == sizes


def test_buckets_of_other_sizes_are_gone_into_where_they_may_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where a step takes as long, by estimate; not where it takes much longer."""
    array = DEPLOYED.planned(load_array("tpu-v3-8"))
    like = blank("lenet", [node.name for node in partition_graph(LENET)], 512, TIME)
    none, small, medium, large = sorted(sizes_of(DEPLOYED))
    takes = {None: 1.0, none: 1.0, small: 1.02, medium: 0.9, large: 1.005}
    asked: list[tuple[int, float]] = []

    def judged(_: Placing, __: Any, picks: int, size: float) -> None:
        asked.append((picks, size))

    seconds = SimpleNamespace(seconds=lambda _, size=None: takes[size])
    better = SimpleNamespace(schedule=seconds, improved=lambda *_: 1, judged=lambda _, size: size)
    monkeypatch.setattr(Placing, "_judged", judged)
    placing = Placing(Judge(LENET, array, DEPLOYED), like)
    placing._with_other_buckets(cast("Any", better), cast("Any", 0))
    assert sorted(asked) == [(one, size) for one in (0, 1) for size in (none, medium, large)]
