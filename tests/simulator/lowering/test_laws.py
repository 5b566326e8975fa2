"""Laws of steps of large models: better machines never take longer, twice the work at most twice.

Bytes sent are received, no step is below its bound, and a plan takes as long from its file.

Where exchanges share links, an earlier one may hold up a later one that matters more: a step then
takes up to ANOMALY longer on the better machine (docs/results.md has the worst of a thousand).
The small version of every run draws a few cases; ``pytest -m slow`` draws a thousand.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from accelarray import simulate
from experiments.results.step import StepResult
from experiments.studies.case import simulated
from experiments.studies.step_numbers import least_of
from planners import Plan
from tests.simulator.test_metamorphic import assert_sent_is_received

NETWORKS = ("llama3-8b:layers=4", "gpt3-175b:layers=4", "mixtral-8x7b:layers=2")
AXES = (
    *("dp=8", "dp=4,tp=2", "dp=4,tp=2,sp", "tp=8,sp", "dp=2,pp=2,tp=2,sp", "pp=4,dp=2"),
    *("pp=2,vp=2,dp=2,tp=2", "dp=4,cp=2", "dp=8,ep=8", "dp=2,tp=4,ep=2"),
)
STACKS = ("nemo-2024", "megatron-2025", "torchtitan-2024")
BETTER = {
    "faster links": ("topology.levels.0.bandwidth=900 GB/s",),
    "lower latency": ("topology.levels.0.latency=1 us",),
    "more HBM bandwidth": ("devices.0.hbm.bandwidth=6700 GB/s",),
    "a higher peak": ("devices.0.chip.peak_by_format.bf16=1978 TFLOP/s",),
}
FEW, MANY = 4, 1000
ANOMALY = 0.005


def case(seed: int) -> dict[str, Any]:
    """A random step: network, axes, micro-batch, ZeRO, recomputing, stack."""
    draw = np.random.default_rng(seed)

    def one(of: Sequence[str]) -> str:
        return of[int(draw.integers(len(of)))]

    network = one(NETWORKS)
    axes = one([axes for axes in AXES if "ep" not in axes or "mixtral" in network])
    return {
        "network": network,
        "parallel": axes,
        "stack": one(STACKS),
        "micro_batch": int(one("12")),
        "recompute": one(("none", "selective", "full")),
        "zero": one(("", "1", "2") if "pp" in axes else ("", "1", "2", "3")),
    }


def stepped(of: dict[str, Any], batch: int = 32, *changes: str) -> StepResult:
    """A step with so many samples, on a node with these changes."""
    options = {key: of[key] for key in ("parallel", "micro_batch", "recompute", "zero") if of[key]}
    trained = ("nodes=1", "precision=bf16", "optimizer=adam", f"stack={of['stack']}", *changes)
    return simulate(of["network"], "axes", "h100-cluster", batch, set=trained, **options)


def check(seed: int) -> list[str]:
    """What is broken of the laws, in words."""
    of = case(seed)
    step = stepped(of)
    base = step.iteration_s
    broken = [
        f"{seed} {of}: {what}: {base} to {now}"
        for what, changes in BETTER.items()
        if (now := stepped(of, 32, *changes).iteration_s) > base * (1 + ANOMALY)
    ]
    assert_sent_is_received(step.timeline)
    if (least_s := least_of(step.case, base)[0]) > base:
        broken.append(f"{seed} {of}: {base} is below the bound of {least_s}")
    plan = Plan.from_json(json.loads(json.dumps(step.plan.to_json())))
    if (again := simulated(step.case, plan).iteration_s) != base:
        broken.append(f"{seed} {of}: its plan takes {again} from a file, not {base}")
    if (twice := stepped(of, 64).iteration_s) > 2 * base * (1 + ANOMALY):
        broken.append(f"{seed} {of}: twice the samples: {base} to {twice}")
    return broken


@pytest.mark.filterwarnings("ignore:.*does not fit in the memory")
@pytest.mark.parametrize("seed", range(FEW))
def test_better_machines_are_never_slower(seed: int) -> None:
    assert not check(seed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*does not fit in the memory")
def test_a_thousand_cases() -> None:
    broken = [line for seed in range(FEW, MANY) for line in check(seed)]
    assert not broken, "\n".join(broken)
