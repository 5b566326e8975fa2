"""Where stages begin: whole blocks, as many in each, found by how the graph repeats."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from planners.pipeline.balance import balanced
from planners.sizing import sizing, whole
from workloads import Graph, Network, partition_graph
from workloads.cache import once_for_each


@dataclass(frozen=True, slots=True)
class Blocks:
    """The longest stretch of a graph that repeats itself, and what has the same operators.

    ``firsts`` are the first node of each block, ``end`` the one behind the last. Unless they are
    ``alike`` some differ in size: what stands between blocks belongs to the one before it.
    """

    firsts: tuple[int, ...]
    end: int
    alike: bool = True


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
    most = 2 * (blocks.end - begins[0]) >= len(graph)
    counts = _counts(len(blocks.firsts), stages) if blocks.alike and most else None
    if counts and (begins[0] or counts[0]) and (blocks.end < len(graph) or counts[-1]):
        return (0, *(begins[passed] for passed in accumulate(counts[:-1])))
    flops = sizing(graph).of(1, whole(graph), fused=True).flops
    each = flops[0] + flops[1] + flops[2]
    pieces = single_crossings(graph)
    inside = [any(weighted[v] for v in range(*ends)) for ends in pairwise((*pieces, len(graph)))]
    if sum(inside) < stages:
        return balanced([each.tolist()] * stages, weighted)
    sums = np.add.reduceat(each, pieces).tolist()
    return tuple(pieces[at] for at in balanced([sums] * stages, inside))


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


@once_for_each
def blocks_of(graph: Graph) -> Blocks:
    """The repetitions that cover most nodes, of those with the shortest period; and their like.

    Stretches between cuts that one tensor crosses are told apart by their nodes: the
    halves of a transformer's block (attention, feed-forward) alternate, so its period is two.
    Blocks of several products are also found elsewhere with other sizes: TransGAN has twelve
    of 1,024 features, then twelve of 16.
    """
    cuts = single_crossings(graph)
    ends = [*cuts[1:], len(graph)]
    signs = [signature(graph, *stretch) for stretch in zip(cuts, ends, strict=True)]
    main = _repetition(cuts, ends, signs)
    if not main:
        return Blocks((), 0)
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
    return Blocks(tuple(cuts[k] for k in blocks), ends[blocks[-1] + main.step - 1], alike)


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
    """Nodes in front of which a cut is crossed by the tensors of one node alone; 0 is the first."""
    last = [*range(len(graph))]
    for v, node in enumerate(graph):
        for u in node.producers:
            last[u] = v
    crossing: set[int] = set()
    found = [0]
    for v in range(1, len(graph)):
        crossing = {u for u in crossing | {v - 1} if last[u] >= v}
        if len(crossing) == 1:
            found.append(v)
    return found


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
