"""What exchanges of a split take when nobody else uses their links."""

from __future__ import annotations

from collections.abc import Hashable
from math import ceil, lcm
from typing import NamedTuple

import numpy as np

from hardware import Array, wires_of
from planners import Axes
from planners.axes.degrees import SPLITTING
from simulator.collectives.choice import members_of, offer
from simulator.collectives.groups import Rows, StridedGroups
from simulator.engine.jobs import Ints
from simulator.engine.picoseconds import PICOSECONDS
from simulator.lowering.execution import Execution
from simulator.lowering.pipeline.transfers import sent_together
from simulator.sharding.regions import Messages


class Nodes:
    """Where an array's nodes, and what they are joined to, end."""

    def __init__(self, array: Array) -> None:
        self._sizes = array.node_sizes

    def parted(self, first: int, count: int) -> tuple[int, ...]:
        """Of ``count`` devices, how many are in front of the first whole node, and behind the last.

        Of nodes of four, devices 3, 4 and 5 are parted as (1, 2), and 0 to 5 as (0, 2). Those
        within one node are not: (0, 0).
        """
        found = list[int]()
        for size in self._sizes:
            within = first // size == (first + count - 1) // size
            found += [0, 0] if within else [-first % size, (first + count) % size]
        return tuple(found)

    def unlike(self, first: int, count: int, each: int) -> list[int]:
        """Of ``count`` devices in runs of ``each``, the first that nodes part in each way."""
        period = min(count, lcm(self._sizes[-1], each))
        runs = range(first + period - each, first - 1, -each)
        return sorted({self.parted(run, each): run for run in runs}.values())


class Bucketed(NamedTuple):
    """Seconds of all gradients, or weights, that go in buckets, of one bucket, and of the last."""

    whole_s: float
    bucket_s: float
    last_s: float


class ExchangeTimes:
    """Of one array, which is as the execution model plans for it. Axes name their ``dp``."""

    def __init__(self, array: Array, execution: Execution) -> None:
        self._array, self._execution, self._wires = array, execution, wires_of(array)
        self.nodes = Nodes(array)
        self._rows: dict[tuple[Axes, int], Ints] = {}
        self._known: dict[Hashable, float] = {}

    def bucketed(
        self,
        what: str,
        axes: Axes,
        place: int,
        dense: float,
        routed: float,
        ends: tuple[float, float] = (0.0, 0.0),
        each: float = 0.0,
        *,
        whole: bool = False,
    ) -> Bucketed:
        """Of so many bytes on a device of a ``place``: ``dense`` ones, and experts' (``routed``).

        ``what`` is the collective. The ``ends`` are the network's first piece, which is the last
        to go, and its last one, where the place has them: they share no bucket if they fill one.
        Layers are of ``each`` bytes on average, and none is in two buckets. Of
        the ``whole`` all goes at once; without buckets each layer goes alone.
        """
        whole_s = bucket_s = last_s = 0.0
        if axes.ep_of_dp == 1:  # the same devices exchange both
            dense, routed = dense + routed, 0.0
        for size, ep in ((dense, 1), (routed, axes.ep_of_dp)):
            if not size:
                continue
            rows = self._alike(axes, ep) + place * axes.dp * axes.cp * axes.tp
            bucket = self.bucket_bytes(rows.shape[1])
            full = size if whole else min(size, max(bucket, each) or size)
            own = [one if ep == 1 and full < one else 0.0 for one in ends]
            own_s = [self._collective_s(what, rows, one) for one in own]
            rest = max(size - sum(own), 0.0)
            many = max(rest / full, ceil(min(rest / full, 4.0) - 1e-9))
            each_s = self._collective_s(what, rows, rest / many) if many else 0.0
            whole_s += each_s * many + sum(own_s)
            bucket_s = max(bucket_s, each_s or max(own_s))
            last_s = max(last_s, own_s[0] or each_s or own_s[1])
        return Bucketed(whole_s, bucket_s, last_s)

    def bucket_bytes(self, members: int) -> float:
        """Of a bucket that so many devices exchange."""
        stack, usual = self._array.stack, self._execution.bucket_of()
        if stack is not None and self._execution.bucket_bytes == stack.bucket_bytes:
            usual = max(usual, stack.bucket_rank_bytes * members)
        return usual

    def _alike(self, axes: Axes, ep: int) -> Ints:
        """Devices of the first place that have the same weights: a group a row.

        Those of experts are on every ``ep``-th device of dp.
        """
        if (axes, ep) not in self._rows:
            ways = {"tp": axes.tp, "cp": axes.cp, "dp": axes.dp // ep}
            shape: list[tuple[str, int]] = []
            for axis in reversed(SPLITTING[:-1]):
                shape += [(axis, ways[axis]), *([("ep", ep)] if axis == "dp" else [])]
            names = [name for name, _ in shape]
            devices = np.arange(axes.dp * axes.tp * axes.cp).reshape([many for _, many in shape])
            own = [k for k, name in enumerate(names) if name in ("tp", "ep")]
            same = [k for k, name in enumerate(names) if name in ("dp", "cp")]
            found = devices.transpose(own + same).reshape(axes.tp * ep, -1)
            self._rows[axes, ep] = found
        return self._rows[axes, ep]

    def _collective_s(self, what: str, rows: Ints, size: float) -> float:
        """Of ``size`` bytes, by all groups at once."""
        count, members = rows.shape
        if members == 1 or not size:
            return 0.0
        first = int(rows[0, 0])
        parted, several = self.nodes.parted(first, rows.size), len(self._array.group.kinds) > 1
        where = (*parted, first) if several else parted
        key = what, count, (rows[0] - first).tobytes(), float(f"{size:.3g}"), where
        if key not in self._known:
            if any(parted):  # with others in the same nodes, which exchange as well
                starts = range(-first, self._array.group.size - first - rows.size + 1, rows.size)
                rows = np.concatenate([rows + start for start in starts])
            groups = members_of(self._wires, StridedGroups.of(rows) or Rows(rows))
            found = offer(self._wires, what, groups, size, self._execution.algorithm)
            self._known[key] = found.alone_ps / PICOSECONDS
        return self._known[key]

    def send_s(self, axes: Axes, place: int, size: float) -> float:
        """Each device of a place sends ``size`` bytes to the same one of the next place."""
        each = axes.dp * axes.tp * axes.cp
        key = "send", each, axes.pp, place, float(f"{size:.3g}")
        if key not in self._known:
            sources = np.arange(place * each, (place + 1) * each)
            targets = (sources + each) % (each * axes.pp)
            messages = Messages(sources, targets, np.ones(each))
            sent = sent_together(self._wires, [messages], size)
            self._known[key] = sent.alone_ps / PICOSECONDS
        return self._known[key]

    def handed_s(self, axes: Axes, place: int, size: float) -> float:
        """A tensor of ``size`` bytes of each replica goes from a place to the next one.

        Where all devices of tp read the whole, each is sent a part, and they gather, if that is
        quicker. With sp they have parts anyway; gathering is among the exchanges of the block.
        """
        size /= axes.cp
        part_s = self.send_s(axes, place, size / axes.tp)
        if axes.sp or axes.tp == 1:
            return part_s
        each = axes.dp * axes.tp * axes.cp
        rows = np.arange(place * each, (place + 1) * each).reshape(-1, axes.tp)
        return min(
            self.send_s(axes, place, size), part_s + self._collective_s("all-gather", rows, size)
        )
