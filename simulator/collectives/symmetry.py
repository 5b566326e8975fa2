"""Links of a symmetric array told apart by a signature: one message stands for all its copies.

Switched off by ``ACCELARRAY_PLAIN=symmetry`` (or ``1``, see ``simulator.engine``): every
message is then counted on every link, and results are equal to the picosecond.

**Assumption.** The bisection halves like groups again and again, so a core's number is made of
bits: in its chip, on its board, in the array (of 12 boards the part of four, at strides of 3 and
6 boards). To *flip* a bit is to swap the two halves that it tells apart, for all cores at once.
A flip is a symmetry where the topology has no means to notice it: boards on a tree, a switch, a
bus or joined by pairs, whole copies of a mesh or torus, cores of a chip. It is none along a
torus or mesh, whose routes know left from right. ``_symmetry`` finds by comparison, for the
cores of one kind of device, which flips are symmetries.

**Derivation.** Flips commute, and each is its own inverse: so many of them make a group H of
2^|H| elements. A symmetry takes cores to cores, links to links and the route of a message to
the route of the message's image.

1. Let ``own`` be the flips that move a link. Its images under all flips are then 2^|own| links,
   told apart by the bits of ``own``: a link is known by its *signature*, which is its
   representative (the image that has all these bits 0) and its bits. Under a subgroup H, links
   are images of each other exactly if their signatures agree outside the bits of H: they are a
   *class* of 2^|H & own| links.
2. Let a set of messages have a copy for each element of H. Their load is invariant under H, so
   all links of a class carry the same. A crossing of any of the class by one of the
   representative messages comes 2^|H| times, spread evenly over the class:

       flows on each link of a class = crossings of the class * 2^|H| / 2^|H & own|
                                     = crossings of the class * 2^|H & ~own|

   These are whole numbers, hence exact.
3. What a load takes alone is what its busiest link takes, of flows by bandwidth. Links of a
   class agree in both, so one of each is looked at.

**Example.** 16 boards of one core on a tree, each exchanges with its neighbour: all four flips
are symmetries, and 0 to 1 is the representative of 16 messages. On its way are two links, up
from 0 and down to 1:

    link                  own    bits   class (H = 1111)   crossings   flows on each
    up from board 0       1111   0000   16 links up        1           1 * 2^0 = 1
    down to board 1       1111   0001   16 links down      1           1 * 2^0 = 1
    up from 0 and 1       1110   000-   8 links up         0           0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hardware import Wires
from hardware.interconnect.one_hop import FullyConnected
from hardware.interconnect.routing import Subnet
from hardware.interconnect.torus import Grid
from simulator.collectives.cache import cached
from simulator.engine import accelerated
from simulator.engine.jobs import Floats, Ints, Load

BITS = 24
"""Of a signature, for the bits of a link; those above are its representative's number."""
ACCELERATION = "symmetry"


@dataclass(frozen=True, slots=True)
class Symmetry:
    """The flips that are symmetries for the cores of one ``kind`` of device, and all links.

    ``flips`` is the bit of each by the stride between the two cores that it swaps. By link,
    ``signature`` is ``representative << BITS | bits``, and ``own`` the flips that move it.
    """

    topology: bytes
    kind: int
    start: int = field(compare=False)
    flips: Mapping[int, int] = field(compare=False)
    signature: Ints = field(compare=False)
    own: Ints = field(compare=False)

    @property
    def nbytes(self) -> int:
        """Of its arrays."""
        return self.signature.nbytes + self.own.nbytes

    def halved(self, cores: Ints) -> tuple[Ints, int]:
        """Columns of ``cores`` of which all others are images, and by which flips.

        Columns are halved as long as the second half of each run is the first one flipped:
        of 0 1 2 3 | 4 5 6 7 that are boards on a tree column 0 is left, and bits 1 and 10.
        """
        columns, width, flips = np.arange(cores.shape[1]), 1, 0
        while len(columns) % (2 * width) == 0:
            sides = columns.reshape(-1, 2, width)
            first, second = cores[:, sides[:, 0]], cores[:, sides[:, 1]]
            stride = int(second.flat[0] - first.flat[0])
            flip = self.flips.get(stride, 0)
            if flip and (second == first + stride).all() and self.unset(stride, first):
                columns, flips = sides[:, 0].ravel(), flips | flip
            else:
                width *= 2
        return columns, flips

    def unset(self, stride: int, cores: Ints) -> bool:
        """Whether the flip with this stride takes all of these cores to higher ones."""
        return bool(((cores - self.start) // stride % 2 == 0).all())

    def load(self, wires: Wires, sources: Ints, targets: Ints, copied: int) -> Load:
        """The load of messages between cores with their copies under the flips ``copied``."""
        links, crossings = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        for subnet, chosen in wires.by_subnet(sources, targets):
            a, b = subnet.node[sources[chosen]], subnet.node[targets[chosen]]
            flows = subnet.fabric.loads(a, b, np.ones(len(a)))
            crossed = np.flatnonzero(flows)
            links.append(subnet.links.start + crossed)
            crossings.append(flows[crossed])
        return self.folded(np.concatenate(links), np.concatenate(crossings), copied)

    def folded(self, links: Ints, crossings: Floats, copied: int) -> Load:
        """The load of classes, from crossings by representative messages (point 2 above)."""
        flows = crossings * (1 << np.bitwise_count(copied & ~self.own[links]).astype(np.int64))
        keys, place = np.unique(self.signature[links] & ~copied, return_inverse=True)
        spread: Floats = np.bincount(place, flows, len(keys)).astype(np.float64)
        return Load(keys, spread, Classes(self, copied))


@dataclass(frozen=True, slots=True)
class Classes:
    """Links of a symmetry by class under the flips ``copied``: the numbering of a load."""

    symmetry: Symmetry
    copied: int

    def unfolded(self, load: Load) -> Load:
        """The load of all links of the classes of a load."""
        keys = self.symmetry.signature & ~self.copied
        place = np.searchsorted(load.links, keys)
        known = np.append(load.links, -1)[place] == keys
        return Load(np.flatnonzero(known), load.flows[place[known]])


def byte_s(load: Load, wires: Wires) -> float:
    """Seconds that a byte of every flow of a load takes when it has the links for itself."""
    links = load.links if load.on is None else load.links >> BITS
    return float((load.flows / wires.bandwidth[links]).max(initial=0.0))


def tier_byte_s(load: Load, wires: Wires, tier: slice) -> float:
    """The same on the links of one tier alone."""
    links = load.links if load.on is None else load.links >> BITS
    own = (links >= tier.start) & (links < tier.stop)
    return byte_s(Load(load.links[own], load.flows[own], load.on), wires)


def summed(parts: Sequence[tuple[Load, float]]) -> Load:
    """Several loads at once, by weights: on classes where all have the same ones."""
    kinds = {load.on for load, _ in parts}
    if len(kinds) > 1:
        return summed([(load.unfolded(), weight) for load, weight in parts])
    links, flows = (
        np.concatenate(arrays)
        for arrays in zip(
            *[(load.links, load.flows * weight) for load, weight in parts], strict=True
        )
    )
    found, place = np.unique(links, return_inverse=True)
    return Load(found, np.bincount(place, flows, len(found)).astype(np.float64), kinds.pop())


def symmetry_of(wires: Wires, core: int) -> Symmetry | None:
    """The symmetry of the cores that are of one kind with this one; None where there is none.

    None, too, where links are not as fast as their representatives.
    """
    if not accelerated(ACCELERATION):
        return None
    kind = int(wires.kind[core])
    found = cached("symmetry", (wires.topology_key, kind), lambda: _symmetry(wires, kind))
    if found is None or not cached("even", (wires.key, kind), lambda: _even(wires, found)):
        return None
    return found


def _even(wires: Wires, symmetry: Symmetry) -> bool:
    both = wires.bandwidth, wires.latency_s
    return all((speeds == speeds[symmetry.signature >> BITS]).all() for speeds in both)


Flips = dict[int, int]
"""Bits by stride."""


def _symmetry(wires: Wires, kind: int) -> Symmetry | None:
    """Find the flips that are symmetries, and every link's signature."""
    start, counts = _counts(wires, kind)
    strides, unit = list[int](), 1
    for count in counts:
        odd = count // (count & -count)
        strides += [unit * odd << i for i in range((count // odd).bit_length() - 1)]
        unit *= count
    cores = slice(start, start + unit)
    flips = {stride: 1 << i for i, stride in enumerate(strides)}
    tables = [
        _Table(subnet, subnet.region[cores], subnet.node[cores])
        for subnet in wires.subnets
        if subnet.region[start] >= 0
    ]
    for table in tables:
        flips = table.unnoticed(flips)
    if not flips or len(strides) > BITS:
        return None
    links = np.arange(len(wires.bandwidth))
    signature, own = links << BITS, np.zeros_like(links)
    for table in tables:
        here = table.subnet.links
        if not table.sign(signature[here], own[here], flips):
            return None
    found = Symmetry(wires.topology_key, kind, start, flips, signature, own)
    return found if _is_one_to_one(found) else None


def _counts(wires: Wires, kind: int) -> tuple[int, tuple[int, int, int]]:
    """The first core of a kind, and its cores of a chip, chips of a board and boards."""
    kinds = wires.array.group.kinds
    device, boards = kinds[kind]
    start = sum(d.cores * count for d, count in kinds[:kind])
    return start, (device.cores_per_chip, device.chips, boards)


def _is_one_to_one(found: Symmetry) -> bool:
    """Whether every representative has as many links as its bits tell apart."""
    representative = found.signature >> BITS
    links = np.bincount(representative, minlength=len(representative))
    same = found.own == found.own[representative]
    images = 1 << np.bitwise_count(found.own).astype(np.int64)
    return bool((same & (links[representative] == images)).all())


class _Table:
    """One subnet for the cores of a kind, by node, whose cores are one behind the other."""

    def __init__(self, subnet: Subnet, region: Ints, node: Ints) -> None:
        nodes = int(np.count_nonzero(np.diff(node))) + 1
        each = len(node) // nodes
        if len(node) % nodes or (np.repeat(node[::each], each) != node).any():
            each = 1
        self.subnet = subnet
        self._each = each
        self._region, self._node = region[::each], node[::each]
        self._ways = subnet.fabric.ways()
        self._labels = self._labelled()

    def _labelled(self) -> list[Ints]:
        """What tells nodes apart, so that a flip moves all of them to another one, or none."""
        fabric, node = self.subnet.fabric, self._node
        if self._ways:
            return [way[node] for way in self._ways]
        return [node // fabric.size if isinstance(fabric, Grid) else node]

    def unnoticed(self, flips: Flips) -> Flips:
        """The flips that take regions to regions, and places of a grid to themselves."""
        found = {s: f for s, f in flips.items() if self._moves(self._region, s) is not None}
        for labels in self._labels:
            found = {s: f for s, f in found.items() if self._moves(labels, s) is not None}
        fabric = self.subnet.fabric
        if isinstance(fabric, Grid):
            place = self._node % fabric.size
            return {s: f for s, f in found.items() if self._moves(place, s) is False}
        if not self._ways and not isinstance(fabric, FullyConnected):
            return {s: f for s, f in found.items() if self._moves(self._node, s) is False}
        return found

    def _moves(self, labels: Ints, stride: int) -> bool | None:
        """Whether a flip changes all labels, or none of them; None where it changes some.

        Or where what has one label goes to several: of three nodes, the one in the middle is cut.
        """
        nodes, rest = divmod(stride, self._each)
        if not nodes:
            return None if self._each % (2 * stride) else False
        if rest:
            return None
        sides = labels.reshape(-1, 2, nodes)
        there = sides >= 0
        changes = (sides[:, 0] != sides[:, 1])[there[:, 0]]
        if (there[:, 0] != there[:, 1]).any() or (changes.any() and not changes.all()):
            return None
        if not changes.any():
            return False
        one, other = np.concatenate([sides, sides[:, ::-1]]).swapaxes(0, 1).reshape(2, -1) + 1
        goes = np.zeros(one.max() + 1, dtype=np.int64)
        goes[one] = other
        return True if (goes[one] == other).all() else None

    def sign(self, signature: Ints, own: Ints, flips: Flips) -> bool:
        """Write its links' signatures; whether each link got one only."""
        first, fabric = np.arange(len(self._node)), self.subnet.fabric
        bits = np.zeros_like(first)
        for stride, flip in flips.items():
            if nodes := stride // self._each:
                for values in (first, bits):
                    sides = values.reshape(-1, 2, nodes)
                    sides[:, 1] = sides[:, 0]
                bits.reshape(-1, 2, nodes)[:, 1] |= flip
        if not self._ways and not isinstance(fabric, Grid | FullyConnected):
            return True
        for labels in self._labels:
            moving = sum(flip for stride, flip in flips.items() if self._moves(labels, stride))
            there = np.flatnonzero(labels >= 0)
            of = np.full(labels.max(initial=0) + 1, -1)  # a node with each label
            of[labels[there]] = there
            links, images, mine = labels, labels[first], bits & moving
            other = of[labels[there]]
            if (images[other] != images[there]).any() or (mine[other] != mine[there]).any():
                return False
            one = of[of >= 0]
            links, images, mine = links[one], images[one], mine[one]
            if isinstance(fabric, Grid):
                per_copy = len(signature) // fabric.copies
                places = np.arange(per_copy)
                links, images = (x[:, np.newaxis] * per_copy + places for x in (links, images))
                mine = mine[:, np.newaxis]
            elif isinstance(fabric, FullyConnected):
                links, images, mine = _pairs(fabric, links, images, mine)
            signature[links] = (self.subnet.links.start + images << BITS) | mine
            own[links] = moving
        return True


def _pairs(fabric: FullyConnected, node: Ints, image: Ints, bits: Ints) -> tuple[Ints, Ints, Ints]:
    """Links between some nodes, their representatives from the source's image, and bits.

    The target of the representative is the node that the source's bits flip the target to.
    """
    known = np.zeros(len(fabric.ports), dtype=np.int64) - 1
    known[node] = np.arange(len(node))
    source, target = fabric.ends
    links = np.flatnonzero((known[source] >= 0) & (known[target] >= 0))
    a, b = known[source[links]], known[target[links]]
    keys = image << BITS | bits
    order = np.argsort(keys)
    flipped = node[order[np.searchsorted(keys[order], keys[b] ^ bits[a])]]
    return links, fabric.link(image[a], flipped), bits[a]
