"""What stages are sent whole or in parts: cell by cell, and beside closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Wires, load_array, wires_of
from simulator.lowering.pipeline.transfers import Delivery, deliveries, quicker
from simulator.sharding.regions import Regions, in_parts, messages, once_for_all

MB = 1e6
CELLS = 16
"""Every tensor here has so many rows, columns and positions."""


def boxes(first: int, ways: int, each: int, side: int) -> Regions:
    """Cores of which ``each`` hold the same of so many parts along a side (0, 1 or 2)."""
    bounds = np.tile([0.0, 1.0] * 3, (ways * each, 1))
    part = np.arange(ways * each) // each
    bounds[:, 2 * side], bounds[:, 2 * side + 1] = part / ways, (part + 1) / ways
    return Regions(first + np.arange(ways * each), bounds)


def cells(bounds: list[float]) -> set[tuple[int, ...]]:
    """Of a region, the cells as numbers along each side."""
    ends = [round(CELLS * bound) for bound in bounds]
    assert ends == pytest.approx([CELLS * bound for bound in bounds])
    grids = np.meshgrid(*(np.arange(a, b) for a, b in zip(ends[::2], ends[1::2], strict=True)))
    return {tuple(cell) for cell in np.stack([g.ravel() for g in grids], 1).tolist()}


side = st.integers(0, 2)
many = st.sampled_from([1, 2, 4])


@given(many, many, side, many, many, side)
def test_parts_are_all_of_it_and_nobody_is_sent_more(
    has: int, holders: int, cut: int, ways: int, each: int, along: int
) -> None:
    """Those who want the same are sent every cell of it once, in equally large parts."""
    held, wanted = boxes(0, has, holders, cut), boxes(100, ways, each, along)
    own, together = in_parts(held, wanted)
    if each == 1:
        assert together is None
        return
    assert together is not None
    parts = dict(zip(own.cores.tolist(), map(cells, own.bounds.tolist()), strict=True))
    whole = dict(zip(wanted.cores.tolist(), map(cells, wanted.bounds.tolist()), strict=True))
    assert sorted(together.groups.ravel().tolist()) == sorted(whole)
    for group in together.groups.tolist():
        assert sum(len(parts[core]) for core in group) == len(whole[group[0]])
        assert all(set().union(*(parts[c] for c in group)) == whole[core] for core in group)
        assert len({len(parts[core]) for core in group}) == 1
        assert together.share == pytest.approx(len(whole[group[0]]) / CELLS**3)
    sent = messages(held, own).shares.sum()
    assert sent == pytest.approx(1.0)  # each of the tensor's cells goes over once


def test_each_part_comes_from_the_holder_that_has_it() -> None:
    """Eight with positions, of which eight others want all: core k sends to core 100 + k alone."""
    found = messages(boxes(0, 8, 1, 2), in_parts(boxes(0, 8, 1, 2), boxes(100, 1, 8, 0))[0])
    assert found.targets.tolist() == [100 + source for source in found.sources.tolist()]
    assert found.shares.tolist() == pytest.approx([1 / 8] * 8)


@pytest.fixture(scope="module")
def wires() -> Wires:
    """Two nodes of eight H100: 450 GB/s inside, and a port of 50 GB/s for each."""
    return wires_of(load_array("h100-cluster", ["nodes=2"]))


def sent(wires: Wires, held: Regions, wanted: Regions, algorithm: str = "auto") -> Delivery:
    (found,) = quicker([deliveries(wires, [(held, wanted)], 160 * MB, algorithm)])
    return found


def rates(wires: Wires) -> tuple[float, float]:
    """Of a device's links inside a node and of its port, B/s."""
    port, inside, _ = sorted(set(np.asarray(wires.bandwidth).tolist()))
    return inside, port


def test_parts_go_over_ports_and_are_gathered_in_the_node(wires: Wires) -> None:
    """160 MB to eight over eight ports: an eighth each, then seven eighths inside."""
    inside, port = rates(wires)
    found = sent(wires, boxes(0, 1, 8, 0), boxes(8, 1, 8, 0))
    seconds = 20 * MB / port + 140 * MB / inside
    latency = sum(job.latency_s for job in (*found.sent.jobs, *found.gathered.jobs))
    assert found.alone_ps == pytest.approx((seconds + latency) * 1e12, rel=1e-6)
    assert [job.name for job in found.sent.jobs] == ["send"]
    assert found.sent.moved == pytest.approx(160 * MB)
    assert found.gathered.jobs
    assert found.gathered.moved == pytest.approx(8 * 140 * MB)


def test_one_reader_is_sent_the_whole(wires: Wires) -> None:
    found = sent(wires, boxes(0, 1, 8, 0), boxes(8, 8, 1, 0))
    assert [job.name for job in found.sent.jobs] == ["send"]
    assert found.sent.moved == pytest.approx(160 * MB)
    assert not found.gathered.jobs


def test_parts_are_not_taken_where_gathering_takes_longer(wires: Wires) -> None:
    """Two readers in one node, from another device of it: the same links, and a step more."""
    held, wanted = boxes(0, 1, 2, 0), boxes(2, 1, 2, 0)
    found = sent(wires, held, wanted)
    inside, _ = rates(wires)
    (job,) = found.sent.jobs
    assert not found.gathered.jobs
    whole = 160 * MB / inside + job.latency_s
    assert found.alone_ps == pytest.approx(whole * 1e12, rel=1e-6)


def test_all_senders_take_one_way(wires: Wires) -> None:
    """What readers do is one line of theirs, whoever sends: the way that is quicker for all."""
    parts = deliveries(wires, [(boxes(0, 1, 8, 0), boxes(8, 1, 8, 0))], 160 * MB, "auto")
    whole = deliveries(wires, [(boxes(0, 1, 2, 0), boxes(2, 1, 2, 0))], 160 * MB, "auto")
    assert quicker([parts, whole]) == [parts[1], whole[1]]
    assert quicker([whole]) == [whole[0]]


def test_who_is_sent_the_whole_has_its_parts_too() -> None:
    whole, parts = boxes(0, 1, 8, 0), boxes(0, 8, 1, 2)
    assert once_for_all([whole, parts], wanted=True) == [0]
    assert once_for_all([parts, whole], wanted=True) == [1]
    assert once_for_all([whole, parts], wanted=False) == [1]  # errors leave in parts
    assert once_for_all([parts, boxes(0, 8, 1, 1)], wanted=True) == [0, 1]
    assert once_for_all([parts, boxes(8, 1, 8, 0)], wanted=True) == [0, 1]  # other cores
