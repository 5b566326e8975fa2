"""Methods with random delays against recurrences written by hand, to the picosecond.

The port is so fast that a message's bytes take less than a picosecond: what an
exchange takes is then a latency a step, and no two disturb each other.
"""

import heapq
from collections import deque
from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from simulator.asynchronous.algorithm import seeded
from simulator.asynchronous.graphs import Graph, load_graph
from simulator.asynchronous.stragglers import Slowdowns
from tests.simulator.asynchronous.clusters import LATENCY, Factors, Watched, watched
from tests.simulator.asynchronous.test_gap_bounds import graphs

FAST = 1e22
HOP = round(LATENCY * 1e12)
K = 8
factors = st.integers(200, 9999).map(lambda thousandths: thousandths / 1000)


@st.composite
def delays(draw: st.DrawFn, workers: int) -> Factors:
    """A row for each worker."""
    row = st.lists(factors, min_size=1, max_size=5).map(tuple)
    return Factors(tuple(draw(row) for _ in range(workers)))


def steps(ours: Watched, slow: Factors) -> list[list[int]]:
    """How long each worker's k-th step takes."""
    plain = ours.run.cluster.steps[0].duration_ps
    return [[round(plain * slow(w)(k)) for k in range(60)] for w in range(ours.run.n)]


def ran(method: str, n: int, slow: Factors, graph: Graph | None = None, **more: str) -> Watched:
    """Until everybody has done K iterations."""
    return watched(
        method,
        n,
        K,
        graph=graph,
        slow=Slowdowns((slow,)),
        options=more,
        spare=2,
        port=FAST,
        everybody=True,
    )


def ends(ours: Watched) -> list[list[int]]:
    return [list(column[:K]) for column in ours.run.ends]


def near(ours: list[list[int]], wanted: list[list[int]], exchanges: int = 1) -> None:
    """Bytes take less than a picosecond, but no less than one after rounding up."""
    for mine, its in zip(ours, wanted, strict=True):
        for k, (a, b) in enumerate(zip(mine, its, strict=False)):
            assert 0 <= a - b <= 3 * exchanges * (k + 1)


sizes = st.integers(2, 6)
data = st.data()


@settings(max_examples=25, deadline=None)
@given(sizes, data)
def test_all_reduce(n: int, data: st.DataObject) -> None:
    """Turn after turn: the slowest step, then 2 (n - 1) latencies round the ring."""
    slow = data.draw(delays(n))
    ours = ran("all-reduce", n, slow, algorithm="ring")
    took, now, wanted = steps(ours, slow), 0, []
    for k in range(K):
        now += max(took[w][k] for w in range(n)) + 2 * (n - 1) * HOP
        wanted.append(now)
    near(ends(ours), [wanted] * n)


@settings(max_examples=25, deadline=None)
@given(sizes, st.integers(1, 4), data)
def test_local_sgd(n: int, h: int, data: st.DataObject) -> None:
    slow = data.draw(delays(n))
    ours = ran("local-sgd", n, slow, steps=str(h), algorithm="ring")
    took, at = steps(ours, slow), [0] * n
    wanted: list[list[int]] = [[] for _ in range(n)]
    for k in range(K):
        at = [at[w] + took[w][k] for w in range(n)]
        if (k + 1) % h == 0:
            at = [max(at) + 2 * (n - 1) * HOP] * n
        for w in range(n):
            wanted[w].append(at[w])
    near(ends(ours), wanted)


@settings(max_examples=25, deadline=None)
@given(graphs(), data)
def test_d_psgd(graph: Graph, data: st.DataObject) -> None:
    """One goes on when its own step and all neighbours' are a latency ago."""
    n = len(graph)
    slow = data.draw(delays(n))
    ours = ran("d-psgd", n, slow, graph)
    took, at = steps(ours, slow), [0] * n
    wanted: list[list[int]] = [[] for _ in range(n)]
    for k in range(K):
        computed = [at[w] + took[w][k] for w in range(n)]
        at = [max(computed[v] for v in (w, *graph.neighbours[w])) + HOP for w in range(n)]
        for w in range(n):
            wanted[w].append(at[w])
    near(ends(ours), wanted)


@settings(max_examples=25, deadline=None)
@given(graphs(one_way=True), data)
def test_hop(graph: Graph, data: st.DataObject) -> None:
    """Models leave at the start of an iteration: they travel while steps are computed."""
    n = len(graph)
    slow = data.draw(delays(n))
    ours = ran("hop", n, slow, graph)
    took, at = steps(ours, slow), [0] * n
    wanted: list[list[int]] = [[] for _ in range(n)]
    for k in range(K):
        at = [max([at[w] + took[w][k], *(at[v] + HOP for v in graph.sources[w])]) for w in range(n)]
        for w in range(n):
            wanted[w].append(at[w])
    near(ends(ours), wanted)


@settings(max_examples=25, deadline=None)
@given(sizes, st.integers(0, 3), data)
def test_parameter_servers_with_backup_workers(n: int, late: int, data: st.DataObject) -> None:
    """A round ends with the (n - b)-th gradient of it; who comes later gets its weights.

    At once, or when their update is over: with older ones it would be late again, for ever.
    """
    late = min(late, n - 1)
    slow = data.draw(delays(n))
    ours = ran("backup", n, slow, backup=str(late))
    took = steps(ours, slow)
    update = ours.run.cluster.server_update(0, 1, n - late).duration_ps
    wanted: list[list[int]] = [[] for _ in range(n)]
    tag, done, round_, came, free = [0] * n, [0] * n, 0, [], 0
    queue = [(took[w][0] + HOP, 0, w) for w in range(n)]  # pushes as they arrive
    heapq.heapify(queue)
    order = 1
    while min(map(len, wanted)) < K and order < 4000:
        now, _, w = heapq.heappop(queue)
        assume(not late or not queue or queue[0][0] - now > 1000)  # or either may be late
        back: list[tuple[int, int, int]] = []
        if tag[w] < round_:
            back = [(w, max(now, free) + HOP, round_)]
        else:
            came.append(w)
            if len(came) == n - late:
                round_ += 1
                free = max(now, free) + update  # one update of the server after the other
                back = [(v, free + HOP, round_) for v in came]
                came = []
        for v, at, weights in back:
            tag[v] = weights
            wanted[v].append(at)
            done[v] += 1
            heapq.heappush(queue, (at + took[v][done[v] % 60] + HOP, order, v))
            order += 1
    assume(min(map(len, wanted)) >= K and not _tied(wanted))
    near(ends(ours), wanted, 8)


def _tied(instants: list[list[int]]) -> bool:
    """Whether a few picoseconds may have decided who is first: then anything may follow."""
    each = sorted({at for one in instants for at in one})
    return any(b - a < 1000 for a, b in pairwise(each))


@settings(max_examples=25, deadline=None)
@given(sizes, data)
def test_asynchronous_parameter_server(n: int, data: st.DataObject) -> None:
    """One gradient after the other in the order of asking: push, update; pull meanwhile."""
    slow = data.draw(delays(n))
    ours = ran("async-ps", n, slow)
    took = steps(ours, slow)
    cluster = ours.run.cluster
    update = cluster.server_update(0, 1, 1).duration_ps
    wanted: list[list[int]] = [[] for _ in range(n)]
    asks = [(took[w][0], w) for w in range(n)]
    heapq.heapify(asks)
    free, done = 0, [0] * n
    while min(map(len, wanted)) < K:
        ready, w = heapq.heappop(asks)
        free = max(free, ready) + HOP + update
        back = free + HOP
        wanted[w].append(back)
        done[w] += 1
        heapq.heappush(asks, (back + took[w][done[w] % 60], w))
        assume(done[w] < 55 and not _tied([[ready for ready, _ in asks]]))
        assume(len({ready for ready, _ in asks}) == n)
    near(ends(ours), wanted, 3 * n)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 7), st.integers(2, 4), data)
def test_pragues_static_schedule(n: int, size: int, data: st.DataObject) -> None:
    """In turn k worker w is at place w + k of blocks of ``size`` places; its block waits."""
    size = min(size, n)
    slow = data.draw(delays(n))
    ours = ran("prague", n, slow, group=str(size), groups="static")
    took, at = steps(ours, slow), [0] * n
    wanted: list[list[int]] = [[] for _ in range(n)]
    for k in range(K):
        blocks = [list(range(first, min(first + size, n))) for first in range(0, n, size)]
        if len(blocks) > 1 and len(blocks[-1]) == 1:
            alone = blocks.pop()
            blocks[-1] += alone
        computed = [at[w] + took[w][k] for w in range(n)]
        for block in blocks:
            members = [(place - k) % n for place in block]
            steps_round = 2 * (len(members) - 1)
            end = max(computed[w] for w in members) + steps_round * HOP
            for w in members:
                at[w] = end
                wanted[w].append(end)
    near(ends(ours), wanted, 2)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 7), st.integers(0, 5), data)
def test_ad_psgd(n: int, seed: int, data: st.DataObject) -> None:
    """An event queue of its own: steps, then models that are held for a swap's latency."""
    slow = data.draw(delays(n))
    graph = load_graph("ring", n)
    ours = watched(
        "ad-psgd", n, K, graph=graph, slow=Slowdowns((slow,)), seed=seed, port=FAST, everybody=True
    )
    near(ends(ours), simulated(n, graph, steps(ours, slow), seed), 4 * n)


def simulated(n: int, graph: Graph, took: list[list[int]], seed: int) -> list[list[int]]:
    even, across = graph.sides
    draws = [seeded(f"{seed} ad-psgd {w}") for w in range(n)]
    held = [False] * n
    waiting: list[deque[tuple[str, int]]] = [deque() for _ in range(n)]
    wanted: list[list[int]] = [[] for _ in range(n)]
    events = [(took[w][0], w, "computed", w) for w in range(n)]
    heapq.heapify(events)

    def finish(now: int, w: int) -> None:
        wanted[w].append(now)
        heapq.heappush(events, (now + took[w][len(wanted[w]) % 60], w, "computed", w))

    def take(now: int, model: int) -> None:
        """Whoever is first in a model's queue has it."""
        if held[model] or not waiting[model]:
            return
        what, who = waiting[model].popleft()
        if what == "own":
            finish(now, model)
            take(now, model)
        else:
            held[model] = True
            heapq.heappush(events, (now + HOP, who, "averaged", model))

    while min(map(len, wanted)) < K:
        now, w, what, model = heapq.heappop(events)
        assume(not events or events[0][0] - now > 1000)  # or else either may be first
        if what == "averaged":
            held[model] = False
            finish(now, w)
            take(now, model)
        elif w in even and across[w]:
            other = across[w][int(draws[w].random() * len(across[w]))]
            waiting[other].append(("swap", w))
            take(now, other)
        else:
            waiting[w].append(("own", w))
            take(now, w)
    return wanted
