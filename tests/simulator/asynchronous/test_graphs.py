"""Communication graphs: their edges by hand, weights, sides, and files."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.graphs import GRAPHS, Graph, load_graph
from tests.simulator.asynchronous.test_gap_bounds import graphs

BY_HAND = {
    "ring": ((1, 5), (0, 2), (1, 3), (2, 4), (3, 5), (0, 4)),
    "ring-based": ((1, 3, 5), (0, 2, 4), (1, 3, 5), (0, 2, 4), (1, 3, 5), (0, 2, 4)),
    # two triangles, 0-1-2 and 3-4-5, and 0-3, 1-4, 2-5
    "double-ring": ((1, 2, 3), (0, 2, 4), (0, 1, 5), (0, 4, 5), (1, 3, 5), (2, 3, 4)),
    # 3 rows of 2: rows 0 1, 2 3, 4 5
    "torus": ((1, 2, 4), (0, 3, 5), (0, 3, 4), (1, 2, 5), (0, 2, 5), (1, 3, 4)),
    # to 1, 2 and 4 further, both ways
    "exponential": (
        (1, 2, 4, 5),
        (0, 2, 3, 5),
        (0, 1, 3, 4),
        (1, 2, 4, 5),
        (0, 2, 3, 5),
        (0, 1, 3, 4),
    ),
    "complete": tuple(tuple(j for j in range(6) if j != i) for i in range(6)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_of_six_by_hand(name: str) -> None:
    assert load_graph(name, 6).neighbours == BY_HAND[name]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 16, 64])
def test_any_size_is_connected_and_goes_both_ways(name: str, n: int) -> None:
    graph = load_graph(name, n)
    assert len(graph) == n
    assert not graph.one_way
    assert all(w not in near for w, near in enumerate(graph.neighbours))


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_weights_are_doubly_stochastic_and_sides_connect(graph: Graph) -> None:
    n = len(graph)
    for w, row in enumerate(graph.weights):
        assert sum(row.values()) == pytest.approx(1)
        assert all(graph.weights[v][w] == pytest.approx(x) for v, x in row.items())
        assert min(row.values()) >= 0
    even, across = graph.sides
    for w in range(n):
        assert set(across[w]) <= set(graph.neighbours[w])
        assert all((v in even) != (w in even) for v in across[w])
    Graph("sides", across)  # connected, or it would raise


@settings(max_examples=40, deadline=None)
@given(graphs(one_way=True))
def test_one_way_graphs(graph: Graph) -> None:
    for w, near in enumerate(graph.neighbours):
        assert all(w in graph.sources[v] for v in near)
    assert all(sum(row.values()) == pytest.approx(1) for row in graph.weights)
    far = graph.distances(0)
    assert far[0] == 0
    for w in range(1, len(graph)):  # one more than the nearest of those who send to it
        assert far[w] == 1 + min(far[v] for v in graph.sources[w])


def test_a_complete_graph_has_two_even_sides() -> None:
    even, across = load_graph("complete", 8).sides
    assert even == {0, 2, 4, 6}
    assert across[0] == (1, 3, 5, 7)


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("# four\n0 1\n1,2\n\n2 > 3\n3 > 0 # back\n")
    graph = load_graph(str(path), 4)
    assert graph.neighbours == ((1,), (0, 2), (1, 3), (0,))
    assert graph.one_way


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0 1\n", "not connected: no way leads from worker 0 to worker 2 and 1 more"),
        ("0 > 1\n1 > 2\n2 > 3\n", "not connected: no way leads to it from worker 1 and 2 more"),
        ("0 1\n1 x\n", "line 2: two workers, as '0 3', or '0 > 3'"),
        ("0 1 2\n", "line 1: two workers"),
        ("0 4\n", "line 1: worker 4, but they are 0 to 3"),
        ("0 -1\n", "line 1: two workers"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "graph.txt"
    path.write_text(text)
    with pytest.raises(TrainingError, match="graph.*" + said):
        load_graph(str(path), 4)


def test_what_is_no_graph_and_no_file() -> None:
    with pytest.raises(TrainingError, match=r"'rings': did you mean ring\?, or a file"):
        load_graph("rings", 4)


@given(st.integers(2, 9), st.integers(2, 9))
def test_repeated_edges_are_one(a: int, b: int) -> None:
    edges = [(i, (i + 1) % 10) for i in range(10)]
    assert Graph.of("g", 10, [*edges, (a, b), (b, a), (a, a)]) == Graph.of(
        "g", 10, [*edges, (a, b)]
    )
