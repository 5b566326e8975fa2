"""How the boards or chips of an array are joined."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from hardware.quantity import parse_quantity
from hardware.reader import ByteRate, Duration, HalfSize, Share, number, whole

Joins = Literal["boards", "chips"]
TierKind = Literal["switch", "ring", "torus", "mesh", "fully_connected", "cables"]
Shape = Annotated[tuple[Annotated[int, whole(1, 1 << 17)], ...], Field(max_length=3, strict=False)]
Rails = Annotated[int, whole(0, 4096)]
Oversubscription = Annotated[float, number(1, 1000)]
Reduces = Annotated[float, number(0, 1)]
Factor = Annotated[float, number(0.01, 100)]


@dataclass(frozen=True, slots=True)
class Protocol:
    """A way to send small messages, as LL and LL128 of NCCL, beside that of large ones.

    A collective by ``algorithm`` ("ring", or "direct", which is all-to-all) takes
    ``start_s``, ``step_s`` for each step, and its bytes at a ``share`` of the bandwidth.
    """

    name: str
    algorithm: str
    start_s: float
    step_s: float
    share: float


_PROTOCOL = re.compile(
    r"(\w{1,20}) (ring|direct): (.+) \+ (.+) a step at (\d?\.?\d{1,4})", re.ASCII
)


def protocol(written: object) -> Protocol:
    """Reads "LL ring: 6.6 us + 0.6 us a step at 0.25"; raises ValueError."""
    found = _PROTOCOL.fullmatch(written) if isinstance(written, str) else None
    if found is None or not 0 < (share := float(found[5])) <= 1:
        raise ValueError('must be like "LL ring: 6.6 us + 0.6 us a step at 0.25" (ring or direct)')
    start_s, step_s = (parse_quantity(found[i], "s") for i in (3, 4))
    return Protocol(found[1], found[2], start_s, step_s, share)


@dataclass(frozen=True, slots=True)
class Tier:
    """How the units of one tier are joined: single nodes, or groups of the tier below.

    ``members`` units are joined by a ``kind``, each by ``rails`` ports with
    ``bytes_per_s`` in each direction (0 members: as many as there are; 0 rails:
    a port for each of its nodes; 0 bytes: a ``share`` of what each kind of device has, its links
    innermost, its network port further out). A
    switch with ``oversubscription`` carries so many times less than all its
    ports together. ``shape`` is that of a torus or mesh, which has else the
    sides of its ``dimensions`` that are nearest to each other. A switch that sums
    what passes it does so at ``reduces`` of the ports' bandwidth (0: it does not).
    ``cables`` are those of a tier of that kind: the two units that each joins.
    In a collective of large messages a member copies the piece of its own at
    ``copy_bytes_per_s`` (0: beside what it sends); small ones go by one of ``protocols``.
    Of ``latency_s`` a part is what ``half_bytes`` take (``hardware.schema.LinkTable``).
    """

    kind: TierKind
    members: Annotated[int, whole(0, 1 << 17)]
    bytes_per_s: ByteRate = 0.0
    latency_s: Duration = 0.0
    rails: Rails = 1
    oversubscription: Oversubscription = 1.0
    shape: Shape = ()
    dimensions: Annotated[int, whole(1, 3)] = 2
    reduces: Reduces = 0.0
    cables: tuple[tuple[int, int], ...] = ()
    copy_bytes_per_s: ByteRate = 0.0
    protocols: tuple[Protocol, ...] = ()
    share: Share = 1.0
    half_bytes: HalfSize = 0.0


@dataclass(frozen=True, slots=True)
class Topology:
    """Wires of an array; without any it is the published tree.

    ``kind`` is one of ``hardware.interconnect.topologies``. ``joins`` says
    whether nodes are boards (links have their network ports' bandwidth) or
    chips (inter-chip links; one such topology per kind of device, kinds joined
    by the outermost of several tiers if it is a switch, else through the boards' ports). ``shape``
    belongs to tori and meshes, ``factor`` to trees: how much a split's link
    grows per level towards the root (2: every accelerator has its own
    bandwidth at every level; 1: all links alike). A ring with ``two_way``
    false has links in one direction only. ``levels`` has tiers, innermost
    first, of which such an array is made instead (``kind`` is then "tiers").
    ``bytes_per_s`` and ``latency_s`` replace the devices' values. All links but those of tiers,
    which have their own, give a ``share`` of their bandwidth.
    """

    kind: str = "tree"
    joins: Joins = "boards"
    shape: Shape = ()
    factor: Factor = 2.0
    two_way: bool = True
    bytes_per_s: Annotated[ByteRate | None, Field(alias="bandwidth")] = None
    latency_s: Annotated[Duration | None, Field(alias="latency")] = None
    levels: tuple[Tier, ...] = ()
    share: Share = 1.0

    @property
    def shared(self) -> bool:
        """Whether all that is sent shares one medium."""
        return self.kind == "bus"

    @property
    def routes(self) -> Topology:
        """The same without what says how fast its links are: routes do not depend on that."""
        factor = PUBLISHED.factor
        return replace(self, factor=factor, bytes_per_s=None, latency_s=None, share=1.0)

    def shape_of(self, nodes: int) -> tuple[int, ...]:
        """Sides of a ring, torus or mesh of so many nodes."""
        if self.kind == "ring":
            return (nodes,)
        return self.shape or near_square(nodes)


TIERS = "tiers"
"""What a topology with levels is called."""

PUBLISHED = Topology()
"""The papers' tree: every accelerator has its own bandwidth at every level."""


def near_square(count: int) -> tuple[int, int]:
    """The two factors of ``count`` that are nearest to each other, the larger one first."""
    smaller = max(d for d in range(1, int(count**0.5) + 1) if count % d == 0)
    return count // smaller, smaller


def near_cubic(count: int, dimensions: int) -> tuple[int, ...]:
    """So many factors of ``count``, the largest one first, of which the largest is least.

    Of equals, the one whose others are nearest to each other: 256 in three is 8 x 8 x 4,
    not 8 x 16 x 2.
    """
    if dimensions == 1:
        return (count,)
    if dimensions == 2:
        return near_square(count)
    divisors = [d for d in range(1, int(count**0.5) + 1) if count % d == 0]
    shapes = {
        tuple(sorted((side, *near_square(count // side)), reverse=True))
        for d in divisors
        for side in (d, count // d)
    }
    return min(shapes, key=lambda sides: (sides[0], sides[0] - sides[-1]))
