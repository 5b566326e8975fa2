"""Pipelines against an independent, slow implementation: to the picosecond."""

import pytest

from simulator import simulate
from tests.simulator.lowering.random_pipelines import random_case
from tests.simulator.lowering.slow_pipeline import ends_of


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(k, k + 20), id=str(k), marks=[] if k < 120 else [pytest.mark.slow])
        for k in range(0, 1200, 20)
    ],
)
def test_random_pipelines_as_the_slow_implementation_has_them(seeds: range) -> None:
    for seed in seeds:
        case = random_case(seed)
        wanted, _ = ends_of(case.slow)
        for folded in (True, False):
            found = simulate(case.network, case.plan, case.array, case.execution, folded=folded)
            assert found.makespan_ps == wanted, seed
