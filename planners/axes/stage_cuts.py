"""Where stages begin: whole blocks, as many in each, found by how the graph repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from planners.pipeline.balance import balanced
from planners.sizing import sizing, whole
from workloads import Graph, Network, partition_graph
from workloads.cache import once_for_each


@dataclass(frozen=True, slots=True)
class Blocks:
    """What of a graph repeats itself (``blocks_of``).

    ``firsts`` are the first node of each block, ``end`` the one behind the last. Unless they are
    ``alike`` some differ: what stands between blocks goes with the one before it.
    """

    firsts: tuple[int, ...]
    end: int
    alike: bool = True
    inside: frozenset[int] = frozenset()
    """Nodes inside a block: behind its first."""


def first_nodes(graph: Graph, stages: int, weighted: Sequence[bool]) -> tuple[int, ...]:
    """The first node of each stage: as many blocks in each as may be.

    Where their number is no multiple of the stages, what stands before the first block
    and behind the last count as one each (126 blocks on 16 stages: 7 in the first and
    the last, 8 in the others), and what is left over goes to the first ones that may
    have more. Where blocks are too few, differ in size, or are less than half of the graph (as
    three equal convolutions of VGG are), stages have equal FLOPs as far as may be,
    and one tensor crosses each cut if that can be. Raises PlanError for more stages than layers
    with weights.
    """
    if stages == 1:
        return (0,)
    blocks = blocks_of(graph)
    begins = (*blocks.firsts, blocks.end)
    counts = _counts(len(blocks.firsts), stages) if repeats_blocks(graph) else None
    if counts and (begins[0] or counts[0]) and (blocks.end < len(graph) or counts[-1]):
        return (0, *(begins[passed] for passed in accumulate(counts[:-1])))
    flops = sizing(graph).of(1, whole(graph), fused=True).flops
    each = flops[0] + flops[1] + flops[2]
    pieces = between_blocks(graph)
    pieces = pieces if len(pieces) >= stages else single_crossings(graph)
    inside = [any(weighted[v] for v in range(*ends)) for ends in pairwise((*pieces, len(graph)))]
    if sum(inside) < stages:
        return balanced([each.tolist()] * stages, weighted)
    sums = np.add.reduceat(each, pieces).tolist()
    return tuple(pieces[at] for at in balanced([sums] * stages, inside))


def _mostly_blocks(graph: Graph) -> bool:
    """Whether blocks are half of a graph, or more."""
    blocks = blocks_of(graph)
    return bool(blocks.firsts) and 2 * (blocks.end - blocks.firsts[0]) >= len(graph)


def repeats_blocks(graph: Graph) -> bool:
    """Whether it is mostly blocks that are alike, of which stages then have whole ones."""
    return blocks_of(graph).alike and _mostly_blocks(graph)


def between_blocks(graph: Graph) -> list[int]:
    """Where one tensor crosses, of graphs that are mostly blocks not inside these."""
    inside = blocks_of(graph).inside if _mostly_blocks(graph) else ()
    return [v for v in single_crossings(graph) if v not in inside]


def most_stages(graph: Graph) -> int:
    """How many stages of whole blocks there are; where blocks are unlike or few, of pieces."""
    blocks = len(blocks_of(graph).firsts)
    return blocks if repeats_blocks(graph) else max(blocks, len(between_blocks(graph)))


def usual_first_nodes(network: Network, stages: int) -> tuple[int, ...]:
    """The first node of each stage of a network, where nobody says; raises PlanError."""
    graph = partition_graph(network)
    weighted = {layer.name for layer in network.layers if layer.weighted}
    return first_nodes(graph, stages, [node.name in weighted for node in graph])


def begun_inside_blocks(graph: Graph, firsts: Sequence[int]) -> list[int]:
    """The stages, of those that begin with these nodes, that begin inside a block."""
    blocks = blocks_of(graph)
    apart = {0, *blocks.firsts, blocks.end} if blocks.firsts else set(firsts)
    return [stage for stage, first in enumerate(firsts) if first not in apart]


def _counts(blocks: int, stages: int) -> list[int] | None:
    """Blocks of each stage; None where one that has nothing else would have none."""
    if blocks and not blocks % stages:
        return [blocks // stages] * stages
    each, rest = divmod(blocks + 2, stages)
    counts = [each] * stages
    for k in [*range(1, stages - 1), 0, stages - 1][:rest]:
        counts[k] += 1
    counts[0] -= 1
    counts[-1] -= 1
    return counts if min(counts[1:-1], default=1) > 0 and min(counts) >= 0 else None


LEAST_OF_OTHERS = 8
"""Blocks of another kind, as an encoder's beside a decoder's, are at least this part of a graph."""


@once_for_each
def blocks_of(graph: Graph) -> Blocks:
    """The repetitions that cover most nodes, of those with the shortest period; and their like.

    Stretches between cuts that one tensor crosses are told apart by their nodes: the
    halves of a transformer's block (attention, feed-forward) alternate, so its period is two.
    Blocks of several products are also found elsewhere with other sizes: TransGAN has twelve
    of 1,024 features, then twelve of 16. What else repeats itself before and behind them, as
    the blocks of an encoder before those of a decoder, are blocks, too.
    """
    cuts = single_crossings(graph)
    ends = [*cuts[1:], len(graph)]
    found, alike = _blocks(graph, cuts, ends)
    if not found:
        return Blocks((), 0)
    sides = (
        [k for k, first in enumerate(cuts) if first < found[0][0]],
        [k for k, first in enumerate(cuts) if first >= found[-1][1]],
    )
    for side in sides:
        others, _ = _blocks(graph, [cuts[k] for k in side], [ends[k] for k in side])
        many = any(len(_products(graph, *one)) > 1 for one in others)
        if many and LEAST_OF_OTHERS * (others[-1][1] - others[0][0]) >= len(graph):
            found, alike = sorted((*found, *others)), False
    inside = frozenset(v for first, end in found for v in range(first + 1, end))
    return Blocks(tuple(first for first, _ in found), found[-1][1], alike, inside)


def _blocks(
    graph: Graph, cuts: Sequence[int], ends: Sequence[int]
) -> tuple[list[tuple[int, int]], bool]:
    """First node and end of the blocks of stretches, and whether all have the same sizes."""
    signs = [signature(graph, *stretch) for stretch in zip(cuts, ends, strict=True)]
    main = _repetition(cuts, ends, signs)
    if not main:
        return [], True
    found = [*_with_neighbours(main, signs)]

    def block(
        of: Callable[[Graph, int, int], tuple[Hashable, ...]], k: int
    ) -> tuple[Hashable, ...]:
        return of(graph, cuts[k], ends[k + main.step - 1])

    wanted, blocks, k = block(_operators, main[0]), list[int](), 0
    while len(wanted) > 1 and k + main.step <= len(cuts):
        ahead = next((at for at in found if at >= k), len(cuts))
        known = k == ahead or (k + main.step <= ahead and block(_operators, k) == wanted)
        blocks += [k] if known else []
        k += main.step if known else 1
    blocks = blocks or found
    size = block(_sizes, main[0])
    alike = all(block(_sizes, k) == size for k in blocks if k not in found)
    return [(cuts[k], ends[k + main.step - 1]) for k in blocks], alike


def _repetition(cuts: Sequence[int], ends: Sequence[int], signs: Sequence[Hashable]) -> range:
    """The stretches that begin a block, of the repetition that covers most nodes."""
    best, most = range(0), 0
    for period in range(1, len(signs) // 2 + 1):
        run = 0
        for k in range(len(signs) - period):
            run = run + 1 if signs[k] == signs[k + period] else 0
            first = k - run + 1
            at = range(first, first + (run // period + 1) * period, period)
            if run >= period and ends[at[-1] + period - 1] - cuts[first] > most:
                best, most = at, ends[at[-1] + period - 1] - cuts[first]
    return best


def _operators(graph: Graph, first: int, end: int) -> tuple[Hashable, ...]:
    """Which operators nodes are, and who of them reads whom, whatever their sizes."""
    return tuple(
        (node.kind, tuple(max(u - first, -1) for u in node.producers)) for node in graph[first:end]
    )


def _sizes(graph: Graph, first: int, end: int) -> tuple[Hashable, ...]:
    """What sets the work of nodes."""
    return tuple(
        (node.in_channels, node.out_channels, node.kernel_area, node.out_area)
        for node in graph[first:end]
    )


def _with_neighbours(blocks: range, signs: Sequence[Hashable]) -> range:
    """These and those beside them that begin alike, if they go on otherwise.

    DeepSeek's first blocks have the attention of the others, and no experts behind it.
    """
    first, behind, period = blocks.start, blocks.stop, blocks.step
    sign = signs[first]
    while first >= period and signs[first - period] == sign:
        first -= period
    while behind + period <= len(signs) and signs[behind] == sign:
        behind += period
    return range(first, behind, period)


def single_crossings(graph: Graph) -> list[int]:
    """Nodes in front of which a cut is crossed by the tensors of one node alone; 0 is the first.

    What all blocks of a decoder read, its encoder's output, does not count.
    """
    last, aside = _last_readers(graph), _read_by_blocks(graph)
    alone = [
        v for v, many in enumerate(_crossings(range(1, len(graph)), last, aside), 1) if many <= 1
    ]
    return [0, *alone]


def _last_readers(graph: Graph) -> list[int]:
    last = [*range(len(graph))]
    for v, node in enumerate(graph):
        for u in node.producers:
            last[u] = v
    return last


def _crossings(cuts: range, last: Sequence[int], aside: Set[int] = frozenset()) -> Iterator[int]:
    """Of how many nodes, without those ``aside``, tensors cross the cut before each node."""
    crossing = {u for u in range(cuts.start - 1) if last[u] >= cuts.start} - aside
    for v in cuts:
        crossing = {u for u in crossing | ({v - 1} - aside) if last[u] >= v}
        yield len(crossing)


@once_for_each
def _read_by_blocks(graph: Graph) -> frozenset[int]:
    """Nodes whose tensor is read by several stretches that are alike, one behind the other.

    Without it one tensor crosses the cuts between these. The branches of a block are beside each
    other: several tensors cross the cuts between those.
    """
    last, readers = _last_readers(graph), dict[int, list[int]]()
    for v, node in enumerate(graph):
        for u in {*node.producers}:
            readers.setdefault(u, []).append(v)
    usual = [*_crossings(range(1, len(graph)), last)]
    found = set[int]()
    for u, some in readers.items():
        inside = range(some[0] + 1, some[-1] + 1)
        if len(some) < 3 or 1 in usual[some[0] : some[-1]]:
            continue
        alone = _crossings(inside, last, {u})
        cuts = [some[0], *(v for v, many in zip(inside, alone, strict=True) if many <= 1)]
        stretches = zip(cuts, [*cuts[1:], some[-1] + 1], strict=True)
        signs = Counter(
            signature(graph, *one) for one in stretches if any(one[0] <= v < one[1] for v in some)
        )
        if signs and signs.most_common(1)[0][1] > 1:
            found.add(u)
    return frozenset(found)


def _products(graph: Graph, first: int, end: int) -> list[int]:
    """The nodes of a stretch with weights of their own, or another's."""
    return [v for v in range(first, end) if not graph[v].join and not graph[v].computed]


def signature(graph: Graph, first: int, end: int) -> Hashable:
    """Nodes by their sizes and by who of them reads whom; what comes from before is one."""
    return tuple(
        replace(
            node,
            name="",
            producers=tuple(max(u - first, -1) for u in node.producers),
            main=None,
            tied=None if node.tied is None else -1,
        )
        for node in graph[first:end]
    )
