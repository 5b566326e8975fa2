"""How many steps a command announces, beside how many it does make, counted one by one."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import accelarray
import simulator
from experiments.studies.running.estimate import estimate
from simulator.search.judge import Judge

GPT2: dict[str, Any] = {"network": "gpt2:layers=2:seq=64", "batch": 64}
CASES: dict[str, Callable[[], Any]] = {
    "explain": lambda: accelarray.explain(
        **GPT2, array="h100-cluster", parallel="dp=8,tp=4", micro_batch=2
    ),
    "explain stages": lambda: accelarray.explain(
        **GPT2, array="h100-cluster", parallel="dp=8,pp=2,tp=2", micro_batch=2
    ),
    "fit": lambda: accelarray.fit(**GPT2, array="h100-cluster", axes="tp,pp,micro-batch", jobs=1),
    "fit, little memory": lambda: accelarray.fit(
        **GPT2,
        array="h100-cluster",
        set=["nodes=1", 'devices.0.hbm.capacity="0.9 GiB"'],
        axes="tp,micro-batch,recompute",
        jobs=1,
    ),
    "speedup": lambda: accelarray.speedup("lenet,alexnet", array="tpu-v3-8", jobs=1),
}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Programs that are written, of steps with and without stages; those of the search too."""
    found = Counter[str]()

    def counted(where: Any, name: str) -> None:
        original = getattr(where, name)

        def count(*args: Any, **options: Any) -> Any:
            found["steps"] += 1
            return original(*args, **options)

        monkeypatch.setattr(where, name, count)

    counted(simulator, "step_program")
    counted(Judge, "_simulated")
    return found


@pytest.mark.parametrize("name", CASES)
def test_as_many_steps_are_announced_as_are_made(
    name: str, made: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("experiments.studies.running.estimate.LONG_S", 0.0)
    with pytest.warns(accelarray.AccelarrayWarning, match="will take about") as warned:
        CASES[name]()
    said = next(str(one.message) for one in warned if "will take" in str(one.message))
    steps = re.match(r"([\d,]+) steps will take", said)
    assert steps is not None
    announced = int(steps[1].replace(",", ""))
    assert made["steps"] / 2 <= announced <= 2 * made["steps"]


@pytest.mark.parametrize(
    ("network", "array"), [("alexnet", "tpu-v3-8"), ("vgg11", "accpar-homogeneous")]
)
def test_the_search_counts_the_steps_that_it_simulates(
    network: str, array: str, made: Counter[str]
) -> None:
    case = accelarray.simulate(network, "search", array).case
    alone = estimate(replace(case, planner="accpar"))
    simulated = estimate(case).seconds / alone.seconds - 1
    assert made["steps"] / 2 <= simulated <= 2 * made["steps"]
