"""Units of a max-load graph: what stays together, and what is joined because it may be."""

from planners.pipedream import LoadGraph, LoadNode
from planners.pipedream.contraction import disordered, units_of


def graph(
    work: list[float],
    edges: list[tuple[int, int]],
    *,
    colours: list[int] | None = None,
    backward: int = 0,
    output_s: float = 1.0,
    sizes: list[float] | None = None,
    memory: float = 100.0,
) -> LoadGraph:
    """Nodes of so much work, the last ``backward`` of them backward ones."""
    count = len(work)
    nodes = tuple(
        LoadNode(
            str(i),
            work[i],
            work[i],
            output_s,
            i >= count - backward,
            colours[i] if colours else i,
            sizes[i] if sizes else 0.0,
            True,
        )
        for i in range(count)
    )
    return LoadGraph("graph", nodes, tuple(edges), 2, 0, memory)


def together(one: LoadGraph) -> list[list[int]]:
    return sorted(map(sorted, units_of(one).nodes))


def test_colours_stay_together() -> None:
    both = graph([1, 1, 1, 1], [(0, 1), (1, 2), (2, 3)], colours=[7, 8, 8, 7], backward=2)
    assert together(both) == [[0, 3], [1, 2]]
    units = units_of(both)
    assert units.edges == {(0, 1)}
    assert units.outputs == [(1.0, 0b11), (1.0, 0b11)]  # of 0 and of 2; 1 feeds its own unit


def test_colours_on_a_cycle_are_one_unit() -> None:
    """1 and 3 share a colour, and 2 is between them."""
    assert together(graph([1, 1, 1, 1], [(0, 1), (1, 2), (2, 3)], colours=[0, 1, 2, 1])) == [
        [0],
        [1, 2, 3],
    ]


def test_backward_nodes_without_a_forward_one_are_ordered_the_other_way() -> None:
    alone = graph([1, 1, 1, 1], [(0, 1), (1, 2), (2, 3)], colours=[0, 1, 5, 0], backward=2)
    units = units_of(alone)
    place = {tuple(nodes): i for i, nodes in enumerate(units.nodes)}
    # 2 -> 3 runs backward, so in the forward order 3's colour (0's) comes before 2's.
    assert units.edges == {(place[0, 3], place[(1,)]), (place[0, 3], place[(2,)])}


def test_an_input_without_work_joins_its_one_user() -> None:
    assert together(graph([0, 1, 1], [(0, 1), (1, 2)])) == [[0, 1], [2]]
    assert together(graph([1, 1, 0], [(0, 1), (1, 2)])) == [[0], [1, 2]]


def test_what_only_passes_on_stays_if_outputs_differ() -> None:
    """0's output is needed at 1 only, 1's at 2: 1 may be on either side of a cut."""
    assert together(graph([1, 0, 1], [(0, 1), (1, 2)])) == [[0], [1], [2]]
    free = graph([1, 0, 1], [(0, 1), (1, 2)], output_s=0.0)
    assert together(free) == [[0], [1, 2]]


def test_a_user_that_is_not_behind_the_host_keeps_an_input_apart() -> None:
    assert together(graph([0, 1, 1], [(0, 1), (0, 2)])) == [[0], [1], [2]]
    assert together(graph([0, 1, 1], [(0, 1), (0, 2), (1, 2)])) == [[0, 1], [2]]


def test_bytes_keep_units_apart_where_memory_binds() -> None:
    edges = [(0, 1), (1, 2)]
    assert together(graph([0, 1, 1], edges, sizes=[5, 5, 5], memory=15)) == [[0, 1], [2]]
    assert together(graph([0, 1, 1], edges, sizes=[5, 5, 5], memory=14)) == [[0], [1], [2]]
    assert together(graph([0, 1, 1], edges, sizes=[0, 5, 5], memory=9)) == [[0, 1], [2]]


def test_joining_goes_on_until_nothing_joins() -> None:
    assert together(graph([0, 0, 0, 1], [(0, 1), (1, 2), (2, 3)], output_s=0.0)) == [[0, 1, 2, 3]]


def test_the_backward_pass_has_the_forward_ones_order() -> None:
    forward, colours = [(0, 1), (1, 2)], [0, 1, 2] * 2
    work = [1.0] * 6
    mirrored = [*forward, (5, 4), (4, 3)]
    parallel = [*forward, (3, 4), (4, 5)]
    mixed = [*forward, (3, 4), (5, 4), (5, 3)]
    for edges, odd in ((mirrored, 0), (parallel, 0), (mixed, 1), (forward, 0)):
        assert disordered(graph(work, edges, colours=colours, backward=3)) == odd
