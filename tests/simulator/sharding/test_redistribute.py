"""What every core receives, against counts by coordinates that know nothing of collectives."""

from collections.abc import Iterator
from math import fsum, isclose, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Array, Group, by_core
from planners import Partition, Split
from planners.order import Phase
from planners.partition import II, III, IV, I, PartitionType, V
from simulator.sharding.blocks import Shards
from simulator.sharding.mesh import Counting, Division, Mesh
from simulator.sharding.redistribute import PartialSums, Request, redistribute
from simulator.sharding.spec import (
    INPUT,
    POSITIONS,
    RESULT,
    Layout,
    backward_change,
    forward_change,
)
from tests.strategies import arrays, networks, plans
from tests.wiring import device
from workloads import Builder, Graph, Node, partition_graph

BATCH = 24


@st.composite
def divided(draw: st.DrawFn, whole: bool = False) -> tuple[Graph, Mesh]:
    """A random graph under a random plan down to the cores of a random array."""
    network, array = draw(networks(5)), draw(arrays(3, 2))
    cores: Array = by_core(array)
    plan = draw(plans(network, cores, BATCH))
    graph = partition_graph(network)
    folded = draw(st.booleans())
    counting = Counting.WHOLE if whole else Counting.EXACT
    division = Division(graph, counting, blocks=True, folded=folded)
    return graph, division.divide(plan.root, cores.group, BATCH)


Span = tuple[float, float]
Path = tuple[tuple[tuple[PartitionType, Span], ...], ...]
"""For every split above a core, each node's type and the interval that is the core's side."""


def interval(share: float, half: int) -> Span:
    return (share, 1.0) if half else (0.0, share)


def paths(part: Mesh, first: int = 0, above: Path = ()) -> Iterator[tuple[int, Shards, Path]]:
    """Every core: its number, what it holds, and its path from the root."""
    for half in (0, 1) if part.halves else ():
        step = tuple((p.type, interval(p.share, half)) for p in part.partitions)
        start = first + half * part.halves[0].cores
        yield from paths(part.halves[half], start, (*above, step))
    if not part.halves:
        for shards, _, core in part.classes(folded=False):
            bits = f"{core:0{len(part.types)}b}" if part.types else ""
            below = tuple(
                tuple((kind, interval(0.5, int(bit))) for kind in types)
                for types, bit in zip(part.types, bits, strict=True)
            )
            yield first + core, shards, above + below


def received(requests: list[Request], cores: int) -> list[float]:
    """Bytes that each core receives from minimal collectives."""
    total = [0.0] * cores
    for part, collective, groups, sizes, _ in requests:
        for first in part.copies.rows().ravel().tolist():
            if collective == "swap":
                for members, amounts in zip(groups, sizes, strict=True):
                    for member, size in zip(
                        members.rows()[0].tolist(), amounts.tolist(), strict=True
                    ):
                        total[first + member] += size
                continue
            n = groups[0].size
            times = 2 if collective == "all-reduce" else 1
            for member in groups[0].rows().ravel().tolist():
                total[first + member] += times * float(sizes[0]) * (n - 1) / n
    return total


def overlap(held: PartitionType, read: PartitionType, mine: Span, theirs: Span) -> float:
    """At one split: how much of a tensor lies in what a half holds and reads.

    ``mine`` and ``theirs`` are the intervals of the holder's and the reader's
    dimension; III is the whole tensor.
    """
    size_held, size_read = mine[1] - mine[0], theirs[1] - theirs[0]
    if held is III:
        return 1.0 if read is III else size_read
    if read is III:
        return size_held
    if held is read:
        return max(0.0, min(mine[1], theirs[1]) - max(mine[0], theirs[0]))
    return size_held * size_read


def layout(node: Node, kind: PartitionType, edge: int, *, makes: bool) -> PartitionType:
    """Rows, columns, whole or positions: what a node makes forward, or reads on an edge.

    Each position of a product attends to all of its second operand.
    """
    if not makes and node.kind == "matmul" and edge > 0 and kind is V:
        return III
    if not makes or node.join:
        return II if kind is IV else kind
    return {I: I, II: III, III: II, IV: II, V: V}[kind]


@given(divided(), st.booleans(), st.data())
def test_every_core_receives_what_it_reads_and_lacks(
    case: tuple[Graph, Mesh], forward: bool, data: st.DataObject
) -> None:
    graph, root = case
    edges = [(p, c, e) for c, node in enumerate(graph) for e, p in enumerate(node.producers)]
    if not edges:
        return
    producer, consumer, edge = data.draw(st.sampled_from(edges))
    find = forward_change if forward else backward_change
    requests = redistribute(find(graph, producer, consumer, edge), root, 1.0)
    got = received(requests, root.cores)
    holder, reader = (producer, consumer) if forward else (consumer, producer)
    for number, shards, path in paths(root):
        pairs = [
            (
                layout(graph[holder], step[holder][0], edge if not forward else 0, makes=forward),
                layout(graph[reader], step[reader][0], edge if forward else 0, makes=not forward),
                step[holder][1],
                step[reader][1],
            )
            for step in path
        ]
        reads = prod(1.0 if read is III else b[1] - b[0] for _, read, _, b in pairs)
        if shards[reader].empty:
            reads = 0.0
        has = prod(overlap(*pair) for pair in pairs) if reads else 0.0
        if shards[holder].empty:
            has = 0.0
        assert isclose(got[number], reads - has, rel_tol=1e-9, abs_tol=1e-8)


@pytest.mark.parametrize(("apart", "moves"), [(3e-17, False), (1e-10, False), (1e-6, True)])
def test_shares_that_differ_by_rounding_move_nothing(apart: float, moves: bool) -> None:
    """A producer keeps 0.2 of its rows in the first half, its consumer reads a last digit less."""
    net = Builder("pair", 16, 1)
    net.linear("one", 16)
    net.linear("two", 16)
    graph, group = partition_graph(net.build()), Group(((device(), 2),), leaf="core")
    split = Split((Partition(I, 0.2), Partition(I, 0.2 - apart)), 0.0, (None, None))
    root = Division(graph, Counting.EXACT, blocks=True, folded=True).divide(split, group, 1024)
    requests = redistribute(forward_change(graph, 0, 1), root, 1e9)
    assert bool(requests) is moves


def test_a_half_without_readers_gathers_nothing_whatever_rounding_left_it() -> None:
    """The first holds 1e-80 of the rows and reads nothing; the other has all that it reads."""
    net = Builder("pair", 16, 1)
    net.linear("one", 16)
    net.linear("two", 16)
    graph, group = partition_graph(net.build()), Group(((device(), 2),), leaf="core")
    split = Split((Partition(I, 1e-80), Partition(III, 0.0)), 0.0, (None, None))
    root = Division(graph, Counting.EXACT, blocks=True, folded=True).divide(split, group, 1024)
    assert redistribute(forward_change(graph, 0, 1), root, 1e9) == []


@pytest.mark.parametrize(
    ("share", "others", "together"), [(2 / 3, "d", True), (0.6, "d", False), (2 / 3, "e", False)]
)
def test_three_of_a_kind_with_equal_parts_gather_as_one(
    share: float, others: str, together: bool
) -> None:
    """Two devices and one: columns in thirds, read whole."""
    net = Builder("pair", 16, 1)
    net.linear("one", 30)
    net.linear("two", 30)
    graph = partition_graph(net.build())
    group = Group(((device(), 2), (device(name=others), 1)), leaf="core")
    if others == "d":
        group = Group(((device(), 3),), leaf="core")
    both = Split((Partition(III, 0.5), Partition(III, 0.5)), 0.0, (None, None))
    split = Split((Partition(III, share), Partition(III, share)), 0.0, (both, None))
    root = Division(graph, Counting.EXACT, blocks=True, folded=True).divide(split, group, 24)
    requests = redistribute(forward_change(graph, 0, 1), root, 3e6)
    found = [(one.collective, [each.size for each in one.groups]) for one in requests]
    assert (found == [("all-gather", [3])]) is together
    assert together or "swap" in [name for name, _ in found]


@pytest.mark.parametrize(("swap_ps", "together"), [(1, False), (100, True)])
def test_unlike_devices_gather_as_one_where_that_is_quicker(swap_ps: int, together: bool) -> None:
    """Two kinds with four devices each: a gather of eight, or a swap and gathers of four."""
    net = Builder("pair", 16, 1)
    net.linear("one", 32)
    net.linear("two", 32)
    graph = partition_graph(net.build())
    group = Group(((device(), 4), (device(name="e"), 4)), leaf="core")
    both = (Partition(III, 0.5), Partition(III, 0.5))
    four = Split(both, 0.0, (Split(both, 0.0, (None,)),))
    split = Split(both, 0.0, (four, four))
    root = Division(graph, Counting.EXACT, blocks=True, folded=True).divide(split, group, 24)

    def alone_ps(one: Request) -> int:
        return swap_ps if one.collective == "swap" else one.groups[0].size

    found = redistribute(forward_change(graph, 0, 1), root, 3e6, alone_ps)
    sizes = {(one.collective, each.size) for one in found for each in one.groups}
    assert (sizes == {("all-gather", 8)}) is together
    assert (("all-gather", 4) in sizes) is not together


@pytest.mark.parametrize(
    ("cut", "mirrored", "together"),
    [(0.5, False, True), (0.6, False, False), (0.5, True, True), (0.4, True, False)],
)
def test_unlike_devices_with_equal_sums_sum_as_one(
    cut: float, mirrored: bool, together: bool
) -> None:
    """Two kinds, 60 and 40 of 100 samples; each half cuts outputs in two and then samples.

    Or the other way round in one half. Devices 0 1 4 5 have sums of the first outputs, or 0 1 4 6.
    """
    net = Builder("one", 16, 1)
    net.linear("one", 32)
    graph = partition_graph(net.build())
    group = Group(((device(), 4), (device(name="e"), 4)), leaf="core")
    columns, samples = (Partition(III, cut),), (Partition(I, 0.5),)
    by_columns = Split(columns, 0.0, (Split(samples, 0.0, (None,)),) * 2)
    by_samples = Split(samples, 0.0, (Split(columns, 0.0, (None, None)),) * 2)
    halves = (by_columns, by_samples if mirrored else by_columns)
    root = Division(graph, Counting.EXACT, blocks=True, folded=False).divide(
        Split((Partition(I, 0.6),), 0.0, halves), group, 100
    )

    def size(shards: Shards) -> float:
        return shards[0].inputs * shards[0].outputs

    sums = PartialSums((0,), Layout(0, RESULT[Phase.GRADIENT]), size, alone_ps=lambda _: 1)
    found = sums.complete(root)
    assert ([one.collective for one in found] == ["all-reduce"]) is together
    if together:
        (members,) = found[0].groups
        own = {core: dict(path[1] + path[2])[III] for core, _, path in paths(root)}
        assert sorted(map(len, members.rows())) == [4, 4]
        for row in members.rows():
            assert len({own[core] for core in row}) == 1


def test_thirds_and_quarters_are_not_the_same_pieces() -> None:
    """Three devices have two of six outputs each; of four two have two, and two have one."""
    net = Builder("one", 16, 1)
    net.linear("one", 6)
    graph = partition_graph(net.build())
    group = Group(((device(), 3), (device(name="e"), 4)), leaf="core")
    columns = (Partition(III, 0.5),)
    pair = Split(columns, 0.0, (None, None))
    three = Split((Partition(III, 2 / 3),), 0.0, (pair, None))
    four = Split(columns, 0.0, (pair, pair))
    division = Division(graph, Counting.WHOLE, blocks=True, folded=False)
    root = division.divide(Split((Partition(I, 0.5),), 0.0, (three, four)), group, 96)

    def size(shards: Shards) -> float:
        return shards[0].inputs * shards[0].outputs

    sums = PartialSums((0,), Layout(0, RESULT[Phase.GRADIENT]), size, alone_ps=lambda _: 1)
    assert "swap" in [one.collective for one in sums.complete(root)]


@pytest.mark.parametrize("phase", [Phase.GRADIENT, Phase.FORWARD, Phase.BACKWARD])
@given(divided(), st.data())
def test_sums_move_twice_every_copy_but_one(
    phase: Phase, case: tuple[Graph, Mesh], data: st.DataObject
) -> None:
    graph, root = case
    weighted = [v for v, node in enumerate(graph) if not node.join]
    v = data.draw(st.sampled_from(weighted))

    def size(shards: Shards) -> float:
        """The tensor that the phase makes."""
        rows, inputs, outputs, groups, positions = shards[v]
        maps = {
            Phase.FORWARD: rows * positions * outputs,
            Phase.BACKWARD: rows * positions * inputs,
        }
        return groups * maps.get(phase, inputs * outputs)

    requests = PartialSums((v,), Layout(v, RESULT[phase]), size).complete(root)
    held = fsum(size(shards) for _, shards, _ in paths(root) if not shards[v].empty)
    # each sum is made of as many addends as cores hold that element
    moved = fsum(received(requests, root.cores))
    assert isclose(moved, 2 * (held - size(root.shards)), rel_tol=1e-9, abs_tol=1e-9)


@given(divided(), st.data())
def test_scattered_sums_move_every_copy_but_one(
    case: tuple[Graph, Mesh], data: st.DataObject
) -> None:
    """Once: nobody gets them back whole."""
    graph, root = case
    weighted = [v for v, node in enumerate(graph) if not node.join]
    v = data.draw(st.sampled_from(weighted))

    def size(shards: Shards) -> float:
        rows, _, outputs, groups, positions = shards[v]
        return groups * rows * positions * outputs

    sums, wanted = Layout(v, RESULT[Phase.FORWARD]), Layout(v, (POSITIONS,) * 5)
    requests = PartialSums((v,), sums, size, [wanted]).complete(root)
    held = fsum(size(shards) for _, shards, _ in paths(root) if not shards[v].empty)
    moved = fsum(received(requests, root.cores))
    assert isclose(moved, held - size(root.shards), rel_tol=1e-9, abs_tol=1e-9)


def test_sums_that_are_scattered_over_some_levels_alone() -> None:
    """Eight cores: over the inner two scattered, a quarter is all-reduced over the outer one."""
    net = Builder("one", 16, 8)
    net.linear("one", 16)
    net.linear("two", 16)
    graph, group = partition_graph(net.build()), Group(((device(), 8),), leaf="core")
    outer, inner = ((Partition(II, 0.5), Partition(by, 0.5)) for by in (I, V))
    split = Split(outer, 0.0, (Split(inner, 0.0, (Split(inner, 0.0, (None,)),)),))
    root = Division(graph, Counting.EXACT, blocks=True, folded=True).divide(split, group, 16)
    held, wanted = Layout(0, RESULT[Phase.FORWARD]), Layout(1, INPUT)
    requests = PartialSums((0,), held, lambda _: 128.0, [wanted]).complete(root)
    assert [(one.collective, float(one.bytes[0])) for one in requests] == [
        ("reduce-scatter", 128.0),
        ("all-reduce", 32.0),
    ]


@given(st.booleans().flatmap(divided))
def test_shards_are_a_partition(case: tuple[Graph, Mesh]) -> None:
    graph, root = case
    for v, node in enumerate(graph):
        leaves = [shards[v] for _, shards, _ in paths(root)]
        work = fsum(prod(shard) for shard in leaves if not shard.empty)
        if node.join:
            continue
        assert isclose(work, prod(root.shards[v]), rel_tol=1e-9)
