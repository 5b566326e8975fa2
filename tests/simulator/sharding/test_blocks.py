"""What the cores of a block hold, against every core counted by itself."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from planners.partition import II, III, IV, I, PartitionType, Shard
from simulator.collectives.groups import StridedGroups
from simulator.sharding.blocks import Block, Halving, Shards

Level = tuple[PartitionType, ...]
TYPES = st.sampled_from((I, II, III, IV))


def every_core(shards: Shards, levels: Sequence[Level], whole: bool) -> list[Shards]:
    """Halved one by one, the first half with the remainder."""
    if not levels:
        return [shards]
    first, second = [], []
    for shard, kind in zip(shards, levels[0], strict=True):
        count = shard[kind]
        half = (count + 1) // 2 if whole else count / 2
        field = Shard._fields[kind]
        first.append(shard._replace(**{field: half}))
        second.append(shard._replace(**{field: count - half}))
    below = levels[1:]
    return [
        *every_core(tuple(first), below, whole),
        *every_core(tuple(second), below, whole),
    ]


def block(shards: Shards, levels: Sequence[Level], whole: bool) -> Block:
    halving = Halving.of(shards)
    for kinds in levels:
        halving.halve(range(len(shards)), kinds, lambda n: (n + 1) // 2 if whole else n / 2)
    return halving.block()


@st.composite
def halvings(draw: st.DrawFn) -> tuple[Shards, list[Level], bool]:
    nodes, whole = draw(st.integers(1, 4)), draw(st.booleans())
    count = st.integers(1, 20) if whole else st.integers(1, 20).map(float)
    shards = tuple(Shard(*(draw(count) for _ in range(4))) for _ in range(nodes))
    levels = draw(st.lists(st.tuples(*[TYPES] * nodes), max_size=6))
    return shards, levels, whole


@given(halvings())
def test_every_core_holds_what_halving_leaves_it(case: tuple[Shards, list[Level], bool]) -> None:
    shards, levels, _ = case
    found, wanted = block(*case), every_core(*case)
    assert [found.shards[i] for i in found.which] == wanted
    assert found.largest == wanted[0]
    assert len(set(found.shards)) == len(found.shards)
    for v in range(len(shards)):
        assert found.mask((v,)).tolist() == [not core[v].empty for core in wanted]
    busy = [any(not shard.empty for shard in core) for core in wanted]
    assert found.mask(range(len(shards))).tolist() == busy
    assert found.classes() == [
        (held, wanted.count(held), wanted.index(held)) for held in dict.fromkeys(wanted)
    ]
    assert len(levels) == len(found.which).bit_length() - 1


NOBODY = Shard(0, 1, 1, 1)


def halved(mask: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """How any busy cores are halved: every group is a sort of its own."""
    levels, groups = [], 1
    while groups < len(mask):
        levels.append(np.arange(2 * groups).reshape(-1, 2))
        groups *= 2
    if levels:
        levels[-1] = mask.astype(np.int64).reshape(-1, 2)
    return levels


def test_busy_first_halves_are_strided_groups() -> None:
    """Of 16 cores the first of each four: strides 4 and 8, joined and not."""
    found = block((Shard(4, 1, 1, 1),), [(I,)] * 4, whole=True)
    busy = found.busy((0,))
    groups = found.groups((True, False, True, False), busy)
    assert groups == StridedGroups(0, (8,), (4,))
    assert groups.rows().tolist() == [[0, 8], [4, 12]]


@given(st.lists(st.booleans(), min_size=1, max_size=5), st.data())
def test_groups_differ_in_the_levels_that_are_joined(
    together: list[bool], data: st.DataObject
) -> None:
    """Cores that agree on all other levels; groups without any busy core are left out."""
    cores = 1 << len(together)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=cores, max_size=cores)))
    shard = Shard(1, 1, 1, 1)
    counts = np.zeros((1, 4, 2))
    counts[:, :, 1] = 1
    found = Block(((NOBODY,), (shard,)), counts, tuple(halved(mask)))
    assert found.which.tolist() == mask.tolist()
    busy = np.array([False, True])
    members = found.groups(tuple(together), busy)
    rows = members.rows()
    levels = len(together)
    bits = {
        core: [core >> (levels - 1 - level) & 1 for level in range(levels)] for core in range(cores)
    }
    for row in rows.tolist():
        beside = {
            tuple(b for b, joined in zip(bits[c], together, strict=True) if not joined) for c in row
        }
        assert len(beside) == 1
        assert len(set(row)) == len(row)
        assert row == sorted(row)
    assert {c for c in range(cores) if mask[c]} <= set(rows.ravel().tolist())
    whole = found.groups(tuple(together), np.ones(2, dtype=bool))
    assert isinstance(whole, StridedGroups)
    assert sorted(whole.rows().ravel().tolist()) == list(range(cores))
    assert whole.size == 1 << sum(together)


def test_the_groups_of_the_docstring() -> None:
    found = block((Shard(8, 1, 1, 1),), [(I,)] * 3, whole=True)
    rows = found.groups((True, False, True), np.ones(1, dtype=bool)).rows()
    assert rows.tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]]


def test_few_shards_differ_however_many_cores_there_are() -> None:
    """2,048 and 1,000 samples on 1,024 cores: one share, or one and none."""
    for samples, differ in ((2048, 1), (1000, 2), (3000, 2)):
        found = block((Shard(samples, 3, 5, 1),), [(I,)] * 10, whole=True)
        assert len(found.shards) == differ
        assert (
            sum(shards[0].rows for shards in map(found.shards.__getitem__, found.which)) == samples
        )
