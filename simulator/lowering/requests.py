"""What lowering asks of the wires: a collective, or a swap, of all copies of a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planners.partition import PartitionType
from simulator.collectives.lattice import Members
from simulator.lowering.placement import Part

Bytes = NDArray[np.float64]
"""Bytes of each core of a group; one number where they are the same for all."""

Types = Sequence[PartitionType]
"""The type of every node at one level."""


class Request(NamedTuple):
    """One collective over a part's groups, or a swap between its halves.

    ``groups`` holds core numbers relative to the part's first core, and
    ``bytes`` the tensor's size per core as ``simulator.collectives.choice``
    wants it. ``padded`` are the same groups with cores that hold nothing, who
    may stand between the others. Of a swap, ``groups`` are the two halves'
    cores and ``bytes`` what each of them receives.
    """

    part: Part
    collective: str
    groups: tuple[Members, ...]
    bytes: tuple[Bytes, ...]
    padded: Members | None = None


Emit = Callable[[Request], None]
"""Takes requests in the order in which the cores of their parts meet them."""
