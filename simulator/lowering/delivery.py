"""How cores of one stage get from another what they read: whole, or in parts that they gather.

Where R cores read the same, each may be sent all of it, or 1/R, and all of them gather the
parts (Narayanan et al. 2021, section 4.1, "scatter/gather"; under sequence parallelism the
tensor lies in such parts anyway). Eight accelerators of a node that read 160 MB
each over ports of 50 GB/s wait 3.2 ms for the whole, and 0.4 ms for parts, which their
fast links gather in as much again. The quicker way is taken.

Sends go on by themselves. Gathering is the readers' own exchange, the first of the pass that
reads it: so Megatron-LM does, in the communicator of their other exchanges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from hardware import Wires
from simulator.collectives.choice import offer
from simulator.collectives.lattice import Lattice, Rows
from simulator.collectives.messages import farthest
from simulator.engine.jobs import Ints, Job, Load
from simulator.lowering.regions import ROUNDING, SIDES, Messages, Regions, messages


class Carried(NamedTuple):
    """What the links do, how many bytes cores receive by it, and how long it takes alone."""

    jobs: tuple[Job, ...] = ()
    moved: float = 0.0
    alone_ps: int = 0


class Delivery(NamedTuple):
    """A way to bring a tensor to those who read it: what they are sent, and gather of that."""

    sent: Carried
    gathered: Carried = Carried()

    @property
    def alone_ps(self) -> int:
        """How long both take, one behind the other, when nobody else uses their links."""
        return self.sent.alone_ps + self.gathered.alone_ps


def deliveries(
    wires: Wires, pairs: Iterable[tuple[Regions, Regions]], size: float, algorithm: str
) -> list[Delivery]:
    """The ways to bring every ``wanted`` region from those that are held, at once.

    The whole to each; and in parts, or the same again where nobody shares them out.
    ``pairs`` are what is held (everything once) and wanted; ``size`` is the whole tensor's.
    """
    known = list(pairs)
    whole = Delivery(_sent(wires, [messages(*pair) for pair in known], size))
    parts = [in_parts(*pair) for pair in known]
    if all(together is None for _, together in parts):
        return [whole, whole]
    sent = _sent(
        wires, [messages(pair[0], own) for pair, (own, _) in zip(known, parts, strict=True)], size
    )
    gathered = [_gathered(wires, one, size, algorithm) for _, one in parts if one]
    return [
        whole,
        Delivery(
            sent,
            Carried(
                tuple(job for one in gathered for job in one.jobs),
                sum(one.moved for one in gathered),
                sum(one.alone_ps for one in gathered),
            ),
        ),
    ]


def quicker(ways: Sequence[Sequence[Delivery]]) -> list[Delivery]:
    """Of several senders' ``deliveries`` the way that takes them less time together."""
    return list(min(zip(*ways, strict=True), key=lambda way: sum(one.alone_ps for one in way)))


class Together(NamedTuple):
    """Groups of cores that want the same, a group a row, and the largest part of the tensor."""

    groups: Ints
    share: float


def in_parts(held: Regions, wanted: Regions) -> tuple[Regions, Together | None]:
    """What each core is sent where those that want the same share it out, and who gathers then.

    Parts are cut where those who hold the tensor cut it most, so that each comes from
    one holder. As it is where nobody wants the same, or not equally many do.
    """
    distinct, number = np.unique(np.round(wanted.bounds, 12), axis=0, return_inverse=True)
    number = number.ravel()
    many = np.bincount(number, minlength=len(distinct))
    if not len(many) or many.min() != many.max() or many[0] < 2:
        return wanted, None
    order = np.argsort(number, kind="stable")
    groups = wanted.cores[order].reshape(len(distinct), -1)
    low, high = max(SIDES.values(), key=lambda side: len(set(held.bounds[:, side[0]].tolist())))
    bounds = wanted.bounds.copy()
    rank = np.empty(len(number))
    rank[order] = np.tile(np.arange(many[0]), len(distinct))
    start, length = bounds[:, low].copy(), bounds[:, high] - bounds[:, low]
    bounds[:, low] = start + length * rank / many[0]
    bounds[:, high] = start + length * (rank + 1) / many[0]
    area = np.prod([distinct[:, b] - distinct[:, a] for a, b in SIDES.values()], axis=0)
    return Regions(wanted.cores, bounds), Together(groups, float(area.max()))


def once_for_all(layouts: Sequence[Regions], *, wanted: bool) -> list[int]:
    """Which of the layouts in which a tensor's readers have it matter; the others are within them.

    Who is sent the whole ``wanted`` has its parts, too. Errors (held, not wanted) of several
    readers are summed where they are in parts, and leave from there.
    """
    left = list(range(len(layouts)))
    for k in range(len(layouts)):
        others = [layouts[i] for i in left if i != k]
        if any(_within(*((layouts[k], o) if wanted else (o, layouts[k]))) for o in others):
            left.remove(k)
    return left


def _within(inner: Regions, outer: Regions) -> bool:
    """Whether every core of a layout has its region within that of the other."""
    place = {core: i for i, core in enumerate(outer.cores.tolist())}
    if not all(core in place for core in inner.cores.tolist()):
        return False
    around = outer.bounds[[place[core] for core in inner.cores.tolist()]]
    lows, highs = inner.bounds[:, 0::2], inner.bounds[:, 1::2]
    return bool(
        (around[:, 0::2] <= lows + ROUNDING).all() and (highs <= around[:, 1::2] + ROUNDING).all()
    )


def _sent(wires: Wires, all_: Sequence[Messages], size: float) -> Carried:
    """All messages at once, at one pace."""
    found = Messages(*(np.concatenate(parts) for parts in zip(*all_, strict=True)))
    if not len(found.sources):
        return Carried()
    largest = float(found.shares.max())
    flows = wires.loads(found.sources, found.targets, found.shares / largest)
    links = np.flatnonzero(flows)
    far = farthest(wires, found.sources, found.targets)
    latency_s = wires.message_latency_s(*far)
    job = Job("send", Load(links, flows[links]), largest * size, latency_s)
    return Carried((job,), float(found.shares.sum()) * size, job.alone_ps(wires.bandwidth))


def _gathered(wires: Wires, of: Together, size: float, algorithm: str) -> Carried:
    """Each core's part, to all who want the same."""
    members = Lattice.of(of.groups) or Rows(of.groups)
    bytes_ = of.share * size
    found = offer(wires, "all-gather", members, bytes_, algorithm)
    count, each = of.groups.shape
    return Carried(found.jobs(), bytes_ * (each - 1) * count, found.alone_ps)
