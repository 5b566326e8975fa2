"""How far ahead of each other workers get, at every instant, on any graph and any delays."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.asynchronous.graphs import Graph
from simulator.asynchronous.stragglers import Slowdowns
from tests.simulator.asynchronous.clusters import Factors, Watched, one_slow, watched

factors = st.sampled_from((0.1, 0.5, 1.0, 1.0, 3.0, 10.0))


@st.composite
def graphs(draw: st.DrawFn, one_way: bool = False) -> Graph:
    """Connected: a random tree, or a one-way ring, and any edges more."""
    n = draw(st.integers(2, 7))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    more = draw(st.lists(pairs, max_size=2 * n))
    if one_way:
        order = draw(st.permutations(range(n)))
        ring = [(order[i], order[(i + 1) % n]) for i in range(n)]
        return Graph.of("drawn", n, [], ring + more)
    tree = [(i, draw(st.integers(0, i - 1))) for i in range(1, n)]
    return Graph.of("drawn", n, tree + more)


@st.composite
def delays(draw: st.DrawFn) -> Slowdowns:
    rows = draw(st.lists(st.lists(factors, min_size=1, max_size=5), min_size=1, max_size=7))
    return Slowdowns((Factors(tuple(map(tuple, rows))),))


Bound = Callable[[int, int], float]


def hold(ours: Watched, graph: Graph, bound: Callable[[list[list[int]], int, int], float]) -> None:
    """``bound`` has at most how far i may be ahead of j, of the shortest ways between them."""
    ways = [graph.distances(w) for w in range(len(graph))]
    assert ours.hang is None
    assert ours.seen
    for at in ours.seen:
        for i, mine in enumerate(at):
            for j, its in enumerate(at):
                assert mine - its <= bound(ways, i, j), (at, i, j)


PORTS = st.sampled_from((1e7, 1e9))


@settings(max_examples=25, deadline=None)
@given(graphs(one_way=True), delays(), PORTS)
def test_hop_standard(graph: Graph, slow: Slowdowns, port: float) -> None:
    """Iter(i) - Iter(j) <= the shortest way from j to i."""
    ours = watched("hop", len(graph), 12, graph=graph, slow=slow, port=port)
    hold(ours, graph, lambda ways, i, j: ways[j][i])


@settings(max_examples=25, deadline=None)
@given(graphs(one_way=True), delays(), PORTS)
def test_hop_notify_ack(graph: Graph, slow: Slowdowns, port: float) -> None:
    """The smaller of the way from j to i and twice the way from i to j."""
    options = {"protocol": "notify-ack"}
    ours = watched("hop", len(graph), 12, graph=graph, slow=slow, options=options, port=port)
    hold(ours, graph, lambda ways, i, j: min(ways[j][i], 2 * ways[i][j]))


@settings(max_examples=25, deadline=None)
@given(graphs(one_way=True), delays(), st.integers(1, 4), PORTS)
def test_hop_tokens(graph: Graph, slow: Slowdowns, most: int, port: float) -> None:
    """Iter(j) - Iter(i) <= max_ig times the way from j to i, and the standard bound too."""
    options = {"tokens": str(most)}
    ours = watched("hop", len(graph), 12, graph=graph, slow=slow, options=options, port=port)
    hold(ours, graph, lambda ways, i, j: min(ways[j][i], most * ways[i][j]))


@settings(max_examples=25, deadline=None)
@given(graphs(), delays(), st.integers(1, 4), st.integers(1, 3), PORTS)
def test_hop_tokens_bound_staleness_and_skipping(
    graph: Graph, slow: Slowdowns, most: int, stale: int, port: float
) -> None:
    options = {"tokens": str(most), "staleness": str(stale), "skip": "3"}
    ours = watched("hop", len(graph), 12, graph=graph, slow=slow, options=options, port=port)
    hold(ours, graph, lambda ways, i, j: most * ways[i][j])
    used = [now - k for now, k in mixes(ours)]
    assert used
    assert all(0 <= age <= stale for age in used)


def mixes(ours: Watched) -> list[tuple[int, int]]:
    """Of each update that is used: in which iteration, and of which it is."""
    notes = [about for _, word, *about in ours.run.history if word == "mix"]
    return [(now, k) for _, now, parts in notes for _, k, _ in parts if k is not None]


@settings(max_examples=25, deadline=None)
@given(graphs(one_way=True), delays(), PORTS)
def test_nobody_uses_an_update_from_the_future(graph: Graph, slow: Slowdowns, port: float) -> None:
    """What is mixed in iteration k is of iteration k, and had been sent before."""
    ours = watched("hop", len(graph), 12, graph=graph, slow=slow, port=port)
    sent: dict[tuple[int, int], int] = {}
    for now, word, *about in ours.run.history:
        if word == "send":
            sent[about[0], about[1]] = now
        if word == "mix":
            for v, k, _ in about[2]:
                assert k is None or sent[v, k] <= now
    assert all(k == now for now, k in mixes(ours))


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 7), delays(), st.integers(0, 4), PORTS)
def test_stale_synchronous(n: int, slow: Slowdowns, bound: int, port: float) -> None:
    """Weights have everybody's gradients up to s iterations before the one that they are for.

    Ho et al. 2013, section 2: a worker at clock c sees all updates up to c - s - 1.
    """
    options = {"bound": str(bound), "shards": "2"}
    ours = watched("ssp", n, 12, slow=slow, options=options, port=port)
    assert ours.hang is None
    assert 0 <= max(ours.ahead) <= bound + 1  # the last one may still wait for its weights
    applied, seen = [[0] * n for _ in range(2)], [[[0] * n] * 2 for _ in range(n)]
    for _, word, *about in ours.run.history:
        if word == "update at server":
            (who,), server = about
            applied[server][who] += 1
        elif word == "pull":
            who, server = about
            seen[who][server] = [*applied[server]]
        elif word == "gradient":
            who, clock = about
            assert min(min(one) for one in seen[who]) >= clock - bound


@pytest.mark.parametrize("method", ["all-reduce", "ps", "d-psgd", "hop"])
def test_without_backup_or_staleness_everybody_runs_at_the_slow_ones_pace(method: str) -> None:
    ours = watched(
        method,
        6,
        40,
        graph="ring" if method in ("d-psgd", "hop") else None,
        slow=one_slow(10.0),
        port=1e12,
        spare=1,
    )
    assert max(ours.run.done) - min(ours.run.done) <= 3
