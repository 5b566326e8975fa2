"""Who sends to whom: the messages of every algorithm, caught where they are put on the wires."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Wires
from hardware.interconnect.torus import Grid
from simulator.collectives.algorithms import COLLECTIVES, FLAT
from simulator.collectives.groups import Groups
from simulator.collectives.messages import Carried, CollectivePhase
from simulator.engine.jobs import Ints, Load
from tests.wiring import nodes, wires

Pairs = list[tuple[int, int]]
"""Cores that send, and to whom."""


@dataclass(frozen=True, eq=False)
class Listening(Groups):
    """Groups that remember who sent, a list for each time that some do."""

    sent: list[Pairs] = field(default_factory=list)

    def _carry(self, sources: Ints, targets: Ints, copied: int) -> Carried:
        ends = zip(sources.ravel().tolist(), targets.ravel().tolist(), strict=True)
        self.sent.append([(a, b) for a, b in ends if a != b])
        return super()._carry(sources, targets, copied)


def listening_to(on: Wires, groups: list[list[int]]) -> Listening:
    return Listening(on, np.array(groups), len(groups), strided=False)


def heard(on: Wires, algorithm: str, groups: list[list[int]]) -> list[Pairs]:
    listening = listening_to(on, groups)
    FLAT[algorithm].steps(listening)
    return listening.sent


def visited(messages: Pairs, start: int) -> list[int]:
    """Where one gets by following messages from a member, each of which sends one."""
    following = dict(messages)
    assert len(following) == len(messages)
    place, found = start, [start]
    while (place := following.get(place, start)) != start:
        found.append(place)
    return found


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13])
def test_a_ring_goes_through_everybody_and_home(n: int) -> None:
    groups = [list(range(n)), list(range(n, 2 * n))]
    (messages,) = heard(nodes(2 * n, "switch"), "ring", groups)
    for group in groups:
        mine = [m for m in messages if m[0] in group]
        assert sorted(visited(mine, group[0])) == group
    (there_and_back,) = heard(nodes(2 * n, "switch"), "ring-two-way", groups)
    back = [(b, a) for a, b in messages]
    assert sorted(there_and_back) == sorted(messages + back)


@pytest.mark.parametrize("n", range(2, 18))
def test_a_broadcast_is_sent_by_those_who_have_it_to_those_who_do_not(n: int) -> None:
    group = list(range(3, 3 + n))
    steps = heard(nodes(n + 3, "switch"), "binomial", [group])
    have = {group[0]}
    for messages in steps:
        sources, targets = zip(*messages, strict=True)
        assert have.issuperset(sources)
        assert have.isdisjoint(targets)
        assert len(set(targets)) == len(targets)
        have.update(targets)
    assert have == set(group)
    assert len(steps) == (n - 1).bit_length()


@pytest.mark.parametrize("n", [2, 3, 8, 9])
def test_a_chain_begins_with_the_first_and_reaches_the_last(n: int) -> None:
    group = list(range(n))[::-1]
    (messages,) = heard(nodes(n, "ring"), "pipelined", [group])
    assert len(messages) == n - 1
    assert sorted(visited(messages, group[0])) == sorted(group)


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_partners_who_tell_each_other_all_they_know_know_everything(n: int) -> None:
    """Log n steps are enough for n members only if nobody is ever told what is known."""
    knows = {member: {member} for member in range(n)}
    steps = heard(nodes(n, "switch"), "recursive-doubling", [list(range(n))])
    for messages in steps:
        assert sorted(source for source, _ in messages) == list(range(n))
        assert all((target, source) in messages for source, target in messages)
        before = {member: set(known) for member, known in knows.items()}
        for source, target in messages:
            assert knows[target].isdisjoint(before[source])
            knows[target] |= before[source]
    assert all(known == set(range(n)) for known in knows.values())
    assert len(steps) == n.bit_length() - 1


@pytest.mark.parametrize("n", [2, 3, 7])
def test_direct_is_one_message_from_everybody_to_everybody(n: int) -> None:
    groups = [list(range(n)), list(range(n, 2 * n))]
    alone, *sent = heard(nodes(2 * n, "tree"), "direct", groups)
    firsts = [(group[0], other) for group in groups for other in group[1:]]
    assert sorted(alone) == firsts  # what one member loads of its port
    wanted = [(a, b) for group in groups for a in group for b in group if a != b]
    assert sorted(message for messages in sent for message in messages) == sorted(wanted)


@pytest.mark.parametrize("shape", [(2, 3), (4, 4), (2, 2, 3)])
def test_a_torus_is_taken_one_dimension_after_the_other(shape: tuple[int, ...]) -> None:
    n = int(np.prod(shape))
    on = nodes(n, "torus", shape)
    (grid,) = (subnet.fabric for subnet in on.subnets if isinstance(subnet.fabric, Grid))
    at = grid.coordinates
    one_way = heard(on, "torus-one-way", [list(range(n))])
    both_ways = heard(on, "torus", [list(range(n))])
    for axis, (messages, twice) in enumerate(zip(one_way, both_ways, strict=True)):
        steps = {
            tuple((int(b) - int(a)) % side for a, b, side in zip(at[s], at[t], shape, strict=True))
            for s, t in messages
        }
        assert steps == {tuple(int(d == axis) for d in range(len(shape)))}
        assert len(set(messages)) == n
        assert sorted(twice) == sorted(messages + [(t, s) for s, t in messages])


@given(st.data())
def test_nobody_writes_to_another_group(data: st.DataObject) -> None:
    """Any algorithm on any wires; members of a group are told apart by number only."""
    on = data.draw(wires(4))
    size = data.draw(st.integers(2, max(2, on.cores)))
    if size > on.cores:
        return
    cores = data.draw(st.permutations(range(on.cores)))
    groups = [list(cores[i : i + size]) for i in range(0, on.cores - size + 1, size)]
    group_of = {core: number for number, group in enumerate(groups) for core in group}
    algorithm = FLAT[data.draw(st.sampled_from(sorted(FLAT)))]
    listening = listening_to(on, groups)
    if algorithm.refusal(data.draw(st.sampled_from(COLLECTIVES)), listening) is not None:
        return
    algorithm.steps(listening)
    for messages in listening.sent:
        assert messages
        for source, target in messages:
            assert group_of[source] == group_of[target]


@pytest.mark.parametrize(
    ("name", "number"), [("share", -1.0), ("share", nan), ("count", -1), ("moved", inf)]
)
def test_a_phase_has_finite_numbers(name: str, number: float) -> None:
    nobody = np.zeros(0, dtype=np.int64)
    phase = CollectivePhase(Load.of(np.ones(3)), (nobody, nobody), 0.5)
    with pytest.raises(ValueError, match=f"a phase's {name} is {number}: must be finite, 0 or"):
        replace(phase, **{name: number})  # type: ignore[arg-type]
