"""Every fabric against routes that are worked out message by message, link by link."""

from math import prod

import numpy as np
import pytest

from hardware import Wires
from tests.hardware.interconnect.slow_routes import crossings, pairs
from tests.hardware.interconnect.slow_routes import route as slow_route
from tests.routes import route
from tests.wiring import nodes

Case = tuple[str, tuple[int, ...], int, bool]
GRIDS: list[Case] = [
    (kind, shape, prod(shape), True)
    for kind in ("torus", "mesh")
    for shape in ((1,), (2,), (5,), (6,), (4, 2), (3, 5), (4, 4), (2, 2, 3), (1, 6), (5, 4, 2))
]
CASES: list[Case] = [
    *(
        (kind, (), n, True)
        for kind in ("tree", "bus", "switch", "fully_connected", "ring")
        for n in (2, 3, 7, 8)
    ),
    *(("ring", (), n, False) for n in (2, 3, 8)),
    *GRIDS,
]
NAMES = [f"{kind}-{n}-{'x'.join(map(str, shape))}-{two}" for kind, shape, n, two in CASES]


def wired(case: Case, **changes: float) -> Wires:
    kind, shape, count, two_way = case
    return nodes(count, kind, shape, two_way=two_way, **changes)


def slow(case: Case, source: int, target: int) -> list[str]:
    kind, shape, count, two_way = case
    return slow_route(kind, shape, count, source, target, two_way=two_way)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_every_route(case: Case) -> None:
    wires = wired(case)
    for source, target in pairs(wires.cores):
        assert [wires.names[i] for i in route(wires, source, target)] == slow(case, source, target)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_every_link_leads_somewhere(case: Case) -> None:
    """No link that nothing crosses: all of them are on the way between some pair."""
    wires = wired(case)
    used = {name for a, b in pairs(wires.cores) for name in slow(case, a, b)}
    assert used == {name for name in wires.names if not name.startswith("hbm")}


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_loads_of_many_flows_at_once(case: Case) -> None:
    """With repeated pairs and other numbers of flows for each."""
    wires, rng = wired(case), np.random.default_rng(7)
    ends = rng.integers(0, wires.cores, (200, 2))
    flows = rng.integers(1, 9, 200)
    wanted = crossings(
        [
            (slow(case, int(a), int(b)), float(n))
            for (a, b), n in zip(ends, flows, strict=True)
            if a != b
        ]
    )
    found = wires.loads(ends[:, 0], ends[:, 1], flows)
    assert {name: n for name, n in zip(wires.names, found.tolist(), strict=True) if n} == wanted


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_latency_is_a_links_on_grids_and_a_messages_elsewhere(case: Case) -> None:
    wires = wired(case, latency_s=1e-6)
    for source, target in pairs(wires.cores):
        hops = len(slow(case, source, target)) if case[0] in ("ring", "torus", "mesh") else 1
        assert wires.message_latency_s(source, target) == pytest.approx(hops * 1e-6)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_latency_of_many_messages_is_the_longest(case: Case) -> None:
    wires = wired(case, latency_s=1e-6)
    ends = np.array(pairs(wires.cores)).reshape(-1, 2)
    each = [wires.message_latency_s(a, b) for a, b in ends]
    assert wires.message_latency_s(ends[:, 0], ends[:, 1]) == max(each, default=0.0)


def test_flows_of_fractions_leave_nothing_where_nothing_goes() -> None:
    """Runs are sums of differences: what rounding leaves of 0.1 + 0.2 - 0.3 is no flow."""
    wires = nodes(7, "ring")
    sources, targets = np.array([0, 0, 0]), np.array([2, 2, 2])
    loads = wires.loads(sources, targets, [0.1, 0.2, 0.3])
    assert np.count_nonzero(loads) == 2
    assert loads[loads > 0] == pytest.approx([0.6, 0.6])
