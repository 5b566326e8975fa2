"""Where a graph can be cut in two: the states that PipeDream's dynamic program goes through.

A state is a set of layers that has, with each layer, all that lead to it. Of a
chain of n layers there are n, the first k layers each. Of the diamond
a -> (b, c) -> d there are five: a; a b; a c; a b c; a b c d. A stage is what
one state has more than a smaller one, so all edges between stages go forwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planners.errors import PlanError
from planners.pipeline.masks import bits, neighbours, reachable, topological
from planners.pipeline.profile import Profile

Floats = npt.NDArray[np.float64]
MOST_STATES = 3_000


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """The n states of a profile, smaller sets first, the whole graph last.

    ``members[j]`` is state j's layers as a bit mask and ``below[j]`` the states that
    are proper parts of it. Sums over a state's layers, of shape (n,): ``time_s`` of
    both passes, ``activation_bytes``, ``parameter_bytes``. What crosses a cut after
    it: ``sent_bytes`` of layers that feed one outside, ``counted_bytes`` what
    PipeDream's program takes for that (see ``_counted``). ``every`` is false where these are
    the states that begin with the first of several sources alone.
    """

    profile: Profile
    members: tuple[int, ...]
    below: tuple[npt.NDArray[np.intp], ...]
    time_s: Floats
    activation_bytes: Floats
    parameter_bytes: Floats
    sent_bytes: Floats
    counted_bytes: Floats
    every: bool = True

    def __len__(self) -> int:
        return len(self.members)

    def names(self, after: int | None, state: int) -> tuple[str, ...]:
        """Layers of a state, without those of the state ``after``, each after what it needs."""
        mask = self.members[state] & ~(self.members[after] if after is not None else 0)
        nodes, edges = self.profile.nodes, self.profile.edges
        return tuple(nodes[v].name for v in topological(len(nodes), edges) if mask >> v & 1)


def states_of(profile: Profile, *, first_source: bool = False) -> States:
    """All states of a profile, or as PipeDream's program has them with ``first_source``.

    The program begins with the first source alone (of each unconnected part); others come in with
    the first layer that needs them. So are states here where all of them are more than
    MOST_STATES, as the 17,000 of a GNMT with three inputs. Raises PlanError where that is too
    many, too: many long branches side by side have as many states as their lengths multiplied.
    """
    count = len(profile.nodes)
    before, after = neighbours(count, profile.edges)
    ancestors = reachable(topological(count, profile.edges), before)
    sources = [v for v in range(count) if not before[v]]
    firsts = [*_first_sources(before, after)]
    found = None if first_source else _closed_sets(sources, after, ancestors)
    every = found is not None or len(firsts) == len(sources)
    found = found or _closed_sets(firsts, after, ancestors)
    if found is None:
        raise PlanError(
            f"{profile.name}: more than {MOST_STATES} ways to cut it in two; merge layers of "
            f"branches that run side by side"
        )
    members = tuple(sorted(found, key=lambda mask: (mask.bit_count(), mask)))
    table = as_table(members, count)
    sizes = table.sum(axis=1)
    inside = table @ table.T == sizes[:, None]  # inside[k, j]: all of k is in j
    np.fill_diagonal(inside, False)
    nodes = profile.nodes
    activations = np.array([node.activation_bytes for node in nodes])
    sent = [sum(1 << v for v in bits(mask) if after[v] & ~mask) for mask in members]
    counted = _counted(members, after, ancestors)
    return States(
        profile,
        members,
        tuple(np.flatnonzero(column) for column in inside.T),
        table @ np.array([node.forward_s + node.backward_s for node in nodes]),
        table @ activations,
        table @ np.array([node.parameter_bytes for node in nodes]),
        as_table(sent, count) @ activations,
        as_table(counted, count) @ activations,
        every,
    )


def as_table(masks: Sequence[int], count: int) -> Floats:
    """Row by row, 1.0 for each of ``count`` bits that is set; shape (masks, count)."""
    width = (count + 7) // 8
    raw = b"".join(mask.to_bytes(width, "little") for mask in masks)
    table = np.frombuffer(raw, np.uint8).reshape(len(masks), width)
    return np.unpackbits(table, axis=1, bitorder="little")[:, :count].astype(np.float64)


def _closed_sets(
    sources: Sequence[int], after: Sequence[int], ancestors: Sequence[int]
) -> set[int] | None:
    """From one of the sources on, each time with one layer more and all that leads to it.

    None of more than MOST_STATES.
    """
    begun = [1 << v for v in sources]
    found = set(begun)
    todo = list(found)
    while todo:
        mask = todo.pop()
        fed = 0
        for v in bits(mask):
            fed |= after[v]
        grown = [mask | source for source in begun] if len(begun) > 1 else []
        grown += [mask | ancestors[v] | 1 << v for v in bits(fed & ~mask)]
        fresh = set(grown) - found
        found |= fresh
        todo += fresh
        if len(found) > MOST_STATES:
            return None
    return found


def _first_sources(before: Sequence[int], after: Sequence[int]) -> Iterator[int]:
    """The first source of each connected part, in the order of nodes."""
    seen = 0
    for v in range(len(before)):
        if before[v] or seen >> v & 1:
            continue
        yield v
        todo = 1 << v
        while todo:
            one = (todo & -todo).bit_length() - 1
            seen |= 1 << one
            todo = (todo | before[one] | after[one]) & ~seen


def _counted(
    members: Sequence[int], after: Sequence[int], ancestors: Sequence[int]
) -> tuple[int, ...]:
    """The layers whose outputs PipeDream's program counts at the cut after each state.

    Its augmented antichain: the state's last layers x (nothing in it follows them), and
    what leads to one of them and feeds a layer that neither leads to x nor is x, even
    one inside the state. After a -> (b, c) that is b, c and a, though a's output is no
    longer needed; so it is never less than what is sent.
    Source: augment_antichain() of graph/graph.py, msr-fiddle/pipedream.
    """
    extra = [
        sum(1 << p for p in bits(ancestors[x]) if after[p] & ~(ancestors[x] | 1 << x))
        for x in range(len(after))
    ]
    found = []
    for mask in members:
        counted = 0
        for x in bits(mask):
            if not after[x] & mask:
                counted |= 1 << x | extra[x]
        found.append(counted)
    return tuple(found)
