"""1F1B in closed form beside the same passes run one by one."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.search.closed_form.bubbles import Stages


def run_s(f: list[float], b: list[float], c: list[float], n: int) -> float:
    """Every stage: as many forward passes ahead as stages follow, then one of each in turn."""
    p = len(f)
    orders = []
    for s in range(p):
        ahead = min(p - s - 1, n)
        order = [("forward", k) for k in range(ahead)]
        for k in range(ahead, n):
            order += [("forward", k), ("backward", k - ahead)]
        orders.append(order + [("backward", k) for k in range(n - ahead, n)])
    done: dict[tuple[str, int, int], float] = {}
    free, at = [0.0] * p, [0] * p
    while any(place < 2 * n for place in at):
        for s in range(p):
            while at[s] < 2 * n:
                what, k = orders[s][at[s]]
                forward = what == "forward"
                other = s - 1 if forward else s + 1
                if forward and s == 0:
                    ready: float | None = 0.0
                elif not forward and s == p - 1:
                    ready = done["forward", k, s]
                else:
                    ready = done.get((what, k, other))
                    ready = None if ready is None else ready + c[min(s, other)]
                if ready is None:
                    break
                free[s] = max(free[s], ready) + (f[s] if forward else b[s])
                done[what, k, s] = free[s]
                at[s] += 1
    return max(free)


def formula_s(f: list[float], b: list[float], c: list[float], n: int) -> float:
    zeros = [0.0] * len(f)
    return Stages(f, b, zeros, [*c, 0.0], zeros).passed_s("1f1b", len(f), n)


times = st.lists(st.tuples(st.floats(0.1, 3), st.floats(0.1, 6)), min_size=1, max_size=6)


@given(times, st.integers(1, 20))
def test_it_is_no_more_than_the_passes_take(stages: list[tuple[float, float]], n: int) -> None:
    """Without sends it is a lower bound, whatever the stages; of equal stages it is exact."""
    f, b = ([one[i] for one in stages] for i in (0, 1))
    free = [0.0] * (len(stages) - 1)
    assert formula_s(f, b, free, n) <= run_s(f, b, free, n) * (1 + 1e-9)
    equal = [f[0]] * len(f), [b[0]] * len(f)
    exact = (n + len(f) - 1) * (f[0] + b[0])
    assert formula_s(*equal, free, n) == pytest.approx(exact)
    assert run_s(*equal, free, n) == pytest.approx(exact)


def test_two_stages_of_which_the_first_is_slow() -> None:
    """The second hides behind the first, but for what the first has nothing to do: 8 - 6."""
    for n in (2, 4, 8):
        assert run_s([6.0, 3.0], [11.0, 5.0], [0.0], n) == 17 * n + 2
        assert formula_s([6.0, 3.0], [11.0, 5.0], [0.0], n) == 17 * n + 2


@pytest.mark.parametrize(("sends", "most"), [(0.1, 0.01), (1.0, 0.05)])
def test_unlike_stages_with_sends(sends: float, most: float) -> None:
    draw, off = np.random.default_rng(3), []
    for _ in range(300):
        p, n = int(draw.integers(2, 9)), int(draw.integers(1, 33))
        f = draw.uniform(0.5, 1.5, p)
        b = f * draw.uniform(1.5, 3.0) * draw.uniform(0.9, 1.1, p)
        c = draw.uniform(0, sends, p - 1)
        asked = f.tolist(), b.tolist(), c.tolist(), n
        off.append(abs(formula_s(*asked) / run_s(*asked) - 1))
    assert median(off) < 0.005
    assert float(np.quantile(off, 0.9)) < most
