"""ZB-H1 in closed form beside the same passes run one by one."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.search.closed_form.bubbles import Stages


def run_s(f: list[float], b: list[float], w: list[float], n: int) -> float:
    """Stage s begins with gradients of weights s micro-batches late (Qi et al., ICLR 2024)."""
    p = len(f)
    took, orders = {"F": f, "B": b, "W": w}, []
    for s in range(p):
        ahead = min(p - s - 1, n)
        order = [("F", k) for k in range(ahead)]
        for k in range(n):
            order += [("F", k + ahead)] * (k + ahead < n) + [("B", k)] + [("W", k - s)] * (k >= s)
        orders.append(order + [("W", k) for k in range(max(n - s, 0), n)])
    ends: dict[tuple[str, int, int], float] = {}
    free = [0.0] * p
    while any(orders):
        for s, order in enumerate(orders):
            while order:
                what, k = order[0]
                other = s - 1 if what == "F" else s + 1
                alone = what == "W" or not 0 <= other < p
                if not alone and (what, k, other) not in ends:
                    break
                ready = 0.0 if alone else ends[what, k, other]
                free[s] = ends[what, k, s] = max(free[s], ready) + took[what][s]
                del order[0]
    return max(free)


def formula_s(f: list[float], b: list[float], w: list[float], n: int) -> float:
    zeros, both = [0.0] * len(f), [x + y for x, y in zip(b, w, strict=True)]
    return Stages(f, both, w, zeros, zeros).passed_s("zero-bubble", len(f), n)


seconds = st.floats(0.1, 3)


@given(st.integers(1, 8), st.integers(1, 20), seconds, seconds, seconds, st.floats(1, 2))
def test_equal_stages_and_a_slow_first_one_are_exact(
    p: int, n: int, f: float, b: float, w: float, times: float
) -> None:
    """Few micro-batches too: then few gradients of weights are late."""
    equal = ([f] * p, [b] * p, [w] * p)
    exact = n * (f + b + w) + (p - 1) * (f + b) - (min(p, n) - 1) * min(w, f, b)
    assert formula_s(*equal, n) == pytest.approx(exact)
    assert run_s(*equal, n) == pytest.approx(exact)
    first = ([1.0] * p, [1.0] * p, [1.0] * p)
    for stage in first:
        stage[0] = times
    assert formula_s(*first, n) == pytest.approx(run_s(*first, n))


def test_unlike_stages() -> None:
    draw, off = np.random.default_rng(3), []
    for _ in range(300):
        p, n = int(draw.integers(2, 9)), int(draw.integers(1, 33))
        f, b, w = (draw.uniform(0.9, 1.1, p).tolist() for _ in range(3))
        off.append(abs(formula_s(f, b, w, n) / run_s(f, b, w, n) - 1))
    assert median(off) < 0.005
    assert max(off) < 0.04
