"""What all fabrics share, and the smallest of them: a chip's memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.interconnect.fabric import Memory, cut
from tests.routes import route_on


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.floats(1, 9)), max_size=20),
    st.integers(0, 4),
    st.integers(1, 4),
    st.integers(0, 4),
)
def test_a_cut_adds_links_from_one_range_to_the_other(
    links: list[tuple[int, int, float]], start: int, size: int, rest: int
) -> None:
    first, second = range(start, start + size), range(start + size, start + size + rest)
    wanted = sum(width for a, b, width in links if a in first and b in second)
    ends = np.array([link[0] for link in links]), np.array([link[1] for link in links])
    widths = np.array([link[2] for link in links])
    assert cut(widths, ends, first, second) == pytest.approx(wanted)


MEMORY = Memory(np.array([4e9, 8e9]), lambda chip: f"chip{chip}")


def test_a_memory_is_written_and_read() -> None:
    assert route_on(MEMORY, 0, 0) == [0, 0]
    assert MEMORY.loads(np.array([0, 1]), np.array([0, 1]), np.array([2.0, 3.0])).tolist() == [4, 6]
    assert MEMORY.latencies(np.array([0, 1]), np.array([0, 1])).tolist() == [0, 0]
    assert MEMORY.names() == ["hbm chip0", "hbm chip1"]
    assert not MEMORY.has_places


def test_a_memory_has_no_halves_of_its_own() -> None:
    with pytest.raises(NotImplementedError, match="injection_bytes_per_s"):
        MEMORY.injection(range(1), range(1, 2))
