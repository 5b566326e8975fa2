"""Multicasts against closed forms to a picosecond, and meshes against paths walked by hand."""

from collections import Counter
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.jobs import Job
from simulator.lowering.units.one_to_many import (
    SOURCE,
    Broadcast,
    Medium,
    Mesh,
    Transfer,
    job_of,
    run_together,
)

RATES = st.floats(1e6, 1e12)
SIZES = st.integers(1, 10**9).map(float)


@st.composite
def domains(draw: st.DrawFn) -> list[list[int]]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    nodes = iter(draw(st.permutations(range(sum(sizes)))))
    return [[next(nodes) for _ in range(size)] for size in sizes]


@st.composite
def shares(draw: st.DrawFn) -> dict[str, float]:
    parts = draw(st.lists(st.integers(1, 10), min_size=1, max_size=4))
    return {f"class {i}": part / sum(parts) for i, part in enumerate(parts)}


def multicast(medium: Medium, size: float, source: int, readers: list[int], kind: str) -> Job:
    return job_of(medium, Transfer(kind, size, ((source, tuple(readers)),)))


def ps(seconds: float) -> int:
    return ceil(seconds * 1e12 - 1e-3)


@given(domains(), shares(), RATES, RATES, SIZES, st.data())
def test_a_multicast_takes_bytes_over_its_narrowest_link_whatever_its_readers(
    where: list[list[int]],
    parts: dict[str, float],
    between: float,
    inside: float,
    size: float,
    data: st.DataObject,
) -> None:
    medium = Broadcast(where, between, inside, parts)
    nodes = sorted(node for domain in where for node in domain)
    source = data.draw(st.sampled_from([SOURCE, *nodes]))
    readers = data.draw(
        st.lists(st.sampled_from([n for n in nodes if n != source] or nodes), min_size=1)
    )
    kind = data.draw(st.sampled_from(list(parts)))
    seconds, moved = run_together(medium, [multicast(medium, size, source, readers, kind)])
    others = set(readers) - {source}
    taking_part = [d for d in where if ({source} | others) & set(d)]
    crosses = source == SOURCE or len(taking_part) > 1
    rates = [between] * crosses + [inside] * len(taking_part)
    expected = ps(size / (min(rates) * parts[kind])) if others else 0
    assert round(seconds * 1e12) == pytest.approx(expected, abs=1)
    assert moved.sum() == pytest.approx(size * len(rates) * bool(others))
    assert set(moved[moved > 0]) <= {size}
    place = list(parts).index(kind) * (1 + len(where))
    own = moved[place : place + 1 + len(where)]
    assert own.sum() == moved.sum()
    assert own[0] == (size if crosses and others else 0)


@given(domains(), SIZES, st.integers(2, 4))
def test_classes_do_not_disturb_each_other_and_what_is_of_one_class_shares_it(
    where: list[list[int]], size: float, many: int
) -> None:
    medium = Broadcast(where, 1e9, 2e9, {"a": 0.25, "b": 0.75})
    reader = where[0][0]
    one = multicast(medium, size, SOURCE, [reader], "a")
    other = multicast(medium, size, SOURCE, [reader], "b")
    alone, both = (run_together(medium, some)[0] for some in ([other], [one, other]))
    assert [round(s * 1e12) for s in (alone, both)] == [ps(size / 0.75e9), ps(size / 0.25e9)]
    seconds, moved = run_together(medium, [one] * many)
    assert round(seconds * 1e12) == pytest.approx(ps(many * size / 0.25e9), abs=many)
    assert moved.max() == many * size


def test_the_docstrings_example() -> None:
    medium = Broadcast([[0], [1], [2, 3], [4], [6], [5]], 10.0, 4.0, {"weights": 1.0})
    job = multicast(medium, 100.0, SOURCE, [2, 3, 5], "weights")
    assert run_together(medium, [job])[0] == 25.0
    assert len(job.load.links) == 3


def walked(columns: int, source: int, reader: int) -> list[tuple[int, int]]:
    """Along the row to the reader's column, then along that column."""
    here, target = max(source, 0), max(reader, 0)
    way = [(SOURCE, 0)] if source == SOURCE != reader else []
    while here % columns != target % columns:
        step = here + (1 if target % columns > here % columns else -1)
        way.append((here, step))
        here = step
    while here != target:
        step = here + (columns if target > here else -columns)
        way.append((here, step))
        here = step
    return [*way, (0, SOURCE)] if reader == SOURCE != source else way


@given(st.integers(1, 5), st.integers(1, 5), SIZES, st.data())
def test_a_mesh_sends_to_each_reader_by_itself(
    rows: int, columns: int, size: float, data: st.DataObject
) -> None:
    mesh = Mesh(rows, columns, 1e9)
    ends = st.integers(SOURCE, rows * columns - 1)
    source = data.draw(ends)
    readers = data.draw(st.lists(ends, min_size=1, max_size=8))
    flows = Counter(link for r in readers for link in walked(columns, source, r))
    seconds, moved = run_together(mesh, [multicast(mesh, size, source, readers, "")])
    worst = max(flows.values(), default=0)
    assert round(seconds * 1e12) == pytest.approx(ps(worst * size / 1e9), abs=1)
    assert moved.sum() == pytest.approx(size * sum(flows.values()))
    assert sorted(moved[moved > 0]) == pytest.approx(sorted(size * f for f in flows.values()))


def test_from_the_memory_a_mesh_pays_for_every_reader_and_a_broadcast_once() -> None:
    readers = tuple(range(16))
    mesh = Mesh(4, 4, 1e9)
    air = Broadcast([readers[i : i + 4] for i in range(0, 16, 4)], 1e9, 1e9, {"w": 1.0})
    transfer = Transfer("w", 1e6, ((SOURCE, readers),))
    assert run_together(mesh, [job_of(mesh, transfer)])[0] == pytest.approx(16e-3)
    assert run_together(air, [job_of(air, transfer)])[0] == pytest.approx(1e-3)


def test_alike_transfers_are_one_job() -> None:
    medium = Broadcast([[0, 1], [2, 3]], 1e9, 1e9, {"x": 1.0})
    pair = Transfer("x", 5.0, ((SOURCE, (0, 1)), (SOURCE, (2, 3))))
    job = job_of(medium, pair)
    assert job.load.links.tolist() == [0, 1, 2]
    assert job.load.flows.tolist() == [2, 1, 1]
