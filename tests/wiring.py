"""Arrays with wires, for tests: of plain nodes, and random ones."""

from __future__ import annotations

from hypothesis import strategies as st

from hardware import Array, ChipLinks, Device, Group, Topology, Wires

KINDS = ("tree", "bus", "switch", "ring", "torus", "mesh", "fully_connected")


def device(
    *, chips: int = 1, cores: int = 1, network: float = 1e9, latency_s: float = 0.0, name: str = "d"
) -> Device:
    links = ChipLinks(per_chip=999, bytes_per_s=3e9, latency_s=2e-6)
    return Device(name, chips, cores, 1e12, 1e9, 7e9, network, "", latency_s, links)


def nodes(
    count: int,
    kind: str,
    shape: tuple[int, ...] = (),
    *,
    bytes_per_s: float = 1e9,
    latency_s: float = 0.0,
    two_way: bool = True,
    factor: float = 2.0,
) -> Wires:
    """Boards of one core each: node and core numbers are the same."""
    board = device(network=bytes_per_s, latency_s=latency_s)
    topology = Topology(kind, "boards", shape, factor, two_way)
    return Wires(Array(kind, "", Group(((board, count),)), (), topology))


def ranges(group: Group, start: int = 0) -> tuple[range, range]:
    """The cores of a group's halves, its first core being number ``start``."""
    first, second = group.halves()
    middle = start + first.cores
    return range(start, middle), range(middle, middle + second.cores)


@st.composite
def wires(draw: st.DrawFn, most: int = 6) -> Wires:
    """Any topology over one or two kinds of boards with up to four cores."""
    kinds = tuple(
        (
            device(
                chips=draw(st.integers(1, 4)),
                cores=draw(st.integers(1, 2)),
                network=draw(st.sampled_from((1e9, 2e9, 1.7e9))),
                latency_s=draw(st.sampled_from((0.0, 5e-7))),
                name=name,
            ),
            draw(st.integers(1, most)),
        )
        for name in "ab"[: draw(st.integers(1, 2))]
    )
    topology = Topology(draw(st.sampled_from(KINDS)), draw(st.sampled_from(("boards", "chips"))))
    return Wires(Array("random", "", Group(kinds), (), topology))
