"""ZB-H1 in closed form beside the same passes run one by one."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.search.closed_form.bubbles import Stages


def run_s(
    f: list[float], b: list[float], w: list[float], n: int, sends: list[float] | None = None
) -> float:
    """Stage s begins with gradients of weights s micro-batches late (Qi et al., ICLR 2024)."""
    p = len(f)
    c = sends or [0.0] * p
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
                ready = 0.0 if alone else ends[what, k, other] + c[min(s, other)]
                free[s] = ends[what, k, s] = max(free[s], ready) + took[what][s]
                del order[0]
    return max(free)


def formula_s(
    f: list[float], b: list[float], w: list[float], n: int, sends: list[float] | None = None
) -> float:
    zeros, both = [0.0] * len(f), [x + y for x, y in zip(b, w, strict=True)]
    return Stages(f, both, w, sends or zeros, zeros).passed_s("zero-bubble", len(f), n)


seconds = st.floats(0.1, 3)


@given(st.integers(1, 8), st.integers(1, 20), seconds, seconds, seconds, st.floats(1, 2))
def test_equal_stages_and_a_slow_first_or_last_one_are_exact(
    p: int, n: int, f: float, b: float, w: float, times: float
) -> None:
    """Few micro-batches too: then few gradients of weights are late."""
    equal = ([f] * p, [b] * p, [w] * p)
    exact = n * (f + b + w) + (p - 1) * (f + b) - (min(p, n) - 1) * min(w, f, b)
    assert run_s(*equal, n) == pytest.approx(exact)
    if w <= min(f, b):
        assert formula_s(*equal, n) == pytest.approx(exact)
    for place in (0, -1):
        slow = ([1.0] * p, [1.0] * p, [1.0] * p)
        for stage in slow:
            stage[place] = times
        assert formula_s(*slow, n) == pytest.approx(run_s(*slow, n))


def test_sends_are_waited_for_at_the_start_and_at_the_end() -> None:
    """12 s of a stage and 0.25 s between two, eight micro-batches: 123 s in four stages."""
    four, sends = ([4.0] * 4, [6.0] * 4, [2.0] * 4), [0.25] * 3 + [0.0]
    assert run_s(*four, 8, sends) == formula_s(*four, 8, sends) == 123.0


@pytest.mark.parametrize(
    ("spread", "sends", "usual", "most"),
    [(0.1, 0.0, 0.002, 0.04), (0.5, 0.0, 0.01, 0.12), (0.2, 0.5, 0.01, 0.08)],
)
def test_unlike_stages(spread: float, sends: float, usual: float, most: float) -> None:
    draw, off = np.random.default_rng(3), []
    for _ in range(300):
        p, n = int(draw.integers(2, 9)), int(draw.integers(1, 33))
        f, b, w = (draw.uniform(1 - spread, 1 + spread, p).tolist() for _ in range(3))
        c = [*draw.uniform(0, sends, p - 1).tolist(), 0.0]
        off.append(abs(formula_s(f, b, w, n, c) / run_s(f, b, w, n, c) - 1))
    assert median(off) < usual
    assert max(off) < most


@given(st.integers(2, 8), st.integers(1, 20), seconds)
def test_stages_of_equal_passes_end_together_if_all_gradients_are_late(
    p: int, n: int, each: float
) -> None:
    """Of 1F1B the last stage ends p - 1 backward passes before the first; here n >= p: with it."""
    stages, both = [each] * p, [2 * each] * p
    of = Stages(stages, both, stages, [0.0] * p, [0.0] * p)
    early = [(s + 1 - min(s + 1, n)) * each for s in range(p)]
    assert of.early_s("zero-bubble", n) == pytest.approx(early)
    assert of.early_s("1f1b", n)[:p] == pytest.approx([2 * each * s for s in range(p)])
