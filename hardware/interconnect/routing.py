"""The wires of an array: links, routes, and what a side of a split can send."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b

import numpy as np
from numpy.typing import ArrayLike

from hardware.array import Array, Group, SpecError
from hardware.device import Device
from hardware.interconnect.cables import Cables
from hardware.interconnect.fabric import Fabric, Floats, Ints, Memory, Nodes, at_share
from hardware.interconnect.faults import faults_of
from hardware.interconnect.one_hop import Ports, Switch
from hardware.interconnect.topologies import DESIGNS, Joined, joined
from hardware.interconnect.torus import Grid
from hardware.topology import Tier, near_square


@dataclass(frozen=True, slots=True, eq=False)
class Subnet:
    """One fabric of the wires: it joins cores of one region that are on different nodes.

    ``region`` and ``node`` are per core; cores that it does not join have region -1.
    ``joins`` says in words what it is between; ``tier`` is the one of the topology's levels
    that it is.
    """

    fabric: Fabric
    links: slice
    region: Ints
    node: Ints
    joins: str
    tier: Tier | None = None


class Wires:
    """Links and routes between the cores of an array; raises SpecError for a bad topology.

    Cores are numbered by the bisection: boards in the order of the array's
    kinds, chips in a board, cores in a chip, so that a subtree is a range.
    ``board``, ``chip`` and ``kind`` say where a core is, and ``units`` what it
    is in that is joined more closely than all are, innermost first: its chip,
    its board, the groups of tiers and, where chips of each kind are joined, the kind.
    ``bandwidth`` (B/s)
    and ``latency_s`` are per directed link. A message inside a chip crosses
    its HBM twice; one between chips crosses the links of the fabric that joins
    them, and nothing else. ``ring_steps_s`` are those of the array's stack, if it is NCCL's.
    """

    def __init__(self, array: Array) -> None:
        if faults := [f"{array.name}: {k}: {w}" for k, w in faults_of(array.topology, array.group)]:
            raise SpecError("\n".join(faults))
        self.array = replace(array, group=Group(array.group.kinds), settings=())
        self.topology = array.topology
        self.ring_steps_s = array.stack.ring_steps_s if array.stack else ()
        self._place_cores([d for d, _ in array.group.kinds], [n for _, n in array.group.kinds])
        self.subnets: list[Subnet] = []
        self._groups = [np.full(self.cores, -1) for _ in array.topology.levels[1:]]
        self._join()
        self.bandwidth = np.concatenate([subnet.fabric.bandwidth for subnet in self.subnets])
        self.latency_s = np.concatenate([subnet.fabric.latency_s for subnet in self.subnets])
        self._delays = bool(self.latency_s.any())

    def _place_cores(self, devices: list[Device], boards: list[int]) -> None:
        kind_of_board = np.repeat(np.arange(len(devices)), boards)
        cores = np.array([device.cores for device in devices])
        self.board = np.repeat(np.arange(len(kind_of_board)), cores[kind_of_board])
        self.kind = kind_of_board[self.board]
        kind_of_chip = np.repeat(kind_of_board, np.array([d.chips for d in devices])[kind_of_board])
        cores_per_chip = np.array([device.cores_per_chip for device in devices])
        self.chip = np.repeat(np.arange(len(kind_of_chip)), cores_per_chip[kind_of_chip])
        self.cores = len(self.chip)

    def _join(self) -> None:
        """Build the fabrics, innermost first: a message takes the first that joins its ends."""
        kinds = self.array.group.kinds
        hbm = np.repeat([d.hbm_bytes_per_s for d, _ in kinds], [n * d.chips for d, n in kinds])
        self._add(Memory(hbm, "chip{}".format), self.chip, self.chip, "HBM")
        levels, outermost = self.topology.levels, list[tuple[Ports, Ints]]()
        for kind, (device, _) in enumerate(kinds):
            here = self.kind == kind
            chips = self.chip - self.chip[here][0]
            if self.topology.joins == "chips":
                of = np.where(here, chips, -1)
                tiers = joined(self.topology, self._chips(kind))
                if len(kinds) > 1 and len(levels) > 1 and isinstance(tiers[-1].fabric, Ports):
                    outermost.append((tiers[-1].fabric, np.where(here, tiers.pop().port[of], -1)))
                self._tiers(tiers, of)
            elif device.chips > 1:
                board = np.where(here, self.board, -1)
                self._add(self._inside_boards(kind), board, chips, "inside boards")
        if self.topology.joins == "boards":
            self._tiers(joined(self.topology, self._boards()), self.board)
        elif outermost:
            self._network(outermost)
        elif len(kinds) > 1:
            boards = self._boards()
            boards = boards.at(self.topology.share * boards.ports)
            switch = Switch(boards.ports, boards.latency_s, boards.label)
            self._add(switch, np.zeros_like(self.board), self.board, "between kinds of boards")
        chips = self.topology.joins == "chips"
        self.units = (self.chip, *([] if chips else [self.board]), *self._groups)
        self.units += (self.kind,) if chips and not outermost else ()

    def _network(self, kinds: Sequence[tuple[Ports, Ints]]) -> None:
        """The outermost tier, a switch, joins the nodes of all kinds, each by its kind's ports."""
        level, node, behind = self.topology.levels[-1], np.full(self.cores, -1), 0
        for of, port in kinds:
            node[port >= 0] = port[port >= 0] + behind
            behind += len(of.ports)
        number = len(self.topology.levels) - 1
        network = Ports(
            np.concatenate([of.ports for of, _ in kinds]),
            np.concatenate([of.latency_s[: len(of.ports)] for of, _ in kinds]),
            f"tier {number} port{{}}".format,
            behind,
            over=level.oversubscription,
        )
        joins = f"tier {number}, {level.kind}, of all kinds"
        self._add(network, np.zeros(self.cores, dtype=np.int64), node, joins, level)

    def _tiers(self, tiers: Iterable[Joined], of: Ints) -> None:
        """Fabrics over some nodes; ``of`` is each core's, -1 where it has none."""
        here = of >= 0
        for number, tier in enumerate(tiers):
            region, port = (np.where(here, what[of], -1) for what in (tier.region, tier.port))
            level = self.topology.levels[number] if self.topology.levels else None
            joins = f"between {self.topology.joins}, {self.topology.kind}"
            joins = f"tier {number}, {level.kind}" if level else joins
            self._add(tier.fabric, region, port, joins, level)
            if number < len(self._groups):  # all but the outermost
                group = self._groups[number]
                group[here] = region[here] + group.max() + 1

    def _add(
        self, fabric: Fabric, region: Ints, node: Ints, joins: str, tier: Tier | None = None
    ) -> None:
        first = self.subnets[-1].links.stop if self.subnets else 0
        links = slice(first, first + len(fabric.bandwidth))
        self.subnets.append(Subnet(fabric, links, region, node, joins, tier))

    def _boards(self) -> Nodes:
        """All boards with their network ports."""
        group = self.array.group
        ports = np.repeat([_port(d) for d, _ in group.kinds], [n for _, n in group.kinds], axis=0)
        bytes_per_s, latency_s, half_bytes = ports.T
        return Nodes(group, bytes_per_s, latency_s, "board", half_bytes=half_bytes)

    def _chips(self, kind: int) -> Nodes:
        """One kind's chips with their links."""
        device, count = self.array.group.kinds[kind]
        chips, topology = count * device.chips, self.topology
        innermost = topology.levels[0].bytes_per_s if topology.levels else 0.0
        links = None if innermost else device.links  # else nobody reads them
        bytes_per_s = links.bytes_per_s if links else topology.bytes_per_s or 0.0
        half_bytes = links.half_bytes if links else 0.0
        kind_of = topology.levels[0].kind if topology.levels else topology.kind
        if links and kind_of in DESIGNS and DESIGNS[kind_of].whole_ports:
            bytes_per_s *= links.per_chip
            half_bytes *= links.per_chip
        ports = np.full(chips, bytes_per_s)
        latency_s = np.full(chips, links.latency_s if links else 0.0)
        group, name = Group(((device, chips),)), f"{self._kind_name(kind)}chip"
        network = 0.0, 0.0, 0.0
        if any(not tier.bytes_per_s for tier in topology.levels[1:]):  # else nobody reads the port
            network = _port(device)
        return Nodes(group, ports, latency_s, name, network, half_bytes)

    def _kind_name(self, kind: int) -> str:
        """What tells the chips of a kind from those of others."""
        names = [device.name for device, _ in self.array.group.kinds]
        if len(names) == 1:
            return ""
        return f"{names[kind]} " if names.count(names[kind]) == 1 else f"{names[kind]}.{kind} "

    def _inside_boards(self, kind: int) -> Fabric:
        """Every board of a kind a small mesh of its chips."""
        device, count = self.array.group.kinds[kind]
        links, first = device.links, int(self.board[self.kind == kind][0])
        own = (links.bytes_per_s, links.latency_s, links.half_bytes) if links else _port(device)
        bytes_per_s, latency_s = at_share(self.topology.share, *own)
        return Grid(
            near_square(device.chips),
            np.full(count * device.chips, bytes_per_s),
            latency_s,
            partial(_chip_name, first),
            wrap=False,
        )

    @cached_property
    def key(self) -> bytes:
        """A digest of all that times on these wires depend on."""
        return _digest(self.array)

    @cached_property
    def topology_key(self) -> bytes:
        """A digest of all that routes depend on: how many there are of what, how they are joined.

        Arrays that differ only in how fast things are have the same one.
        """
        counts = [(d.chips, d.cores_per_chip, count) for d, count in self.array.group.kinds]
        return _digest((counts, self.topology.routes))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name per link, as ``chip(4,5) +x``."""
        return tuple(name for subnet in self.subnets for name in subnet.fabric.names())

    @cached_property
    def nodes(self) -> Ints:
        """The first core of every node that the topology joins: of each board, or each chip."""
        of = self.board if self.topology.joins == "boards" else self.chip
        return np.flatnonzero(np.diff(of, prepend=-1))

    def loads(self, sources: ArrayLike, targets: ArrayLike, flows: ArrayLike = 1.0) -> Floats:
        """How many flows cross each link; sources, targets (cores) and flows are broadcast.

        Exact for whole numbers of flows.
        """
        total = np.zeros(len(self.bandwidth))
        a, b, many = _flat(sources, targets, flows)
        for subnet, chosen in self.by_subnet(a, b):
            nodes = subnet.node[a[chosen]], subnet.node[b[chosen]]
            total[subnet.links] += subnet.fabric.loads(*nodes, many[chosen])
        if len(many):
            total[total < 1e-9 * many.max()] = 0.0  # what rounding leaves of fractions
        return total

    def message_latency_s(self, sources: ArrayLike, targets: ArrayLike) -> float:
        """The longest latency among messages between cores, besides the time of their bytes."""
        return float(self.message_latencies_s(sources, targets).max(initial=0.0))

    def message_latencies_s(self, sources: ArrayLike, targets: ArrayLike) -> Floats:
        """The latency of each message between cores."""
        a, b, _ = _flat(sources, targets, 1.0)
        found = np.zeros(len(a))
        for subnet, chosen in self.by_subnet(a, b) if self._delays else ():
            found[chosen] = subnet.fabric.latencies(subnet.node[a[chosen]], subnet.node[b[chosen]])
        return found

    def by_subnet(self, sources: Ints, targets: Ints) -> Iterator[tuple[Subnet, Ints]]:
        """Every subnet with the numbers of the messages that it carries."""
        left = np.flatnonzero(sources != targets)
        for subnet in self.subnets:
            region = subnet.region[sources[left]]
            here = (region == subnet.region[targets[left]]) & (region >= 0)
            if here.any():
                yield subnet, left[here]
            left = left[~here]

    def injection_bytes_per_s(self, side: range, other: range) -> float:
        """Bandwidth from one range of cores to another while both send.

        The ranges are the halves of a split: cores of neighbouring boards, of
        neighbouring chips of a board, or of one chip.
        """
        subnet = self._joining(side.start, other.start)
        if subnet is self.subnets[0]:  # every byte is written and read
            chip = self.array.group.kinds[self.kind[side.start]][0]
            return float(chip.hbm_bytes_per_s * len(side) / chip.cores_per_chip / 2)
        nodes = (subnet.node[[cores.start, cores.stop - 1]].tolist() for cores in (side, other))
        first, second = (range(start, last + 1) for start, last in nodes)
        return subnet.fabric.injection(first, second)

    def place(self, side: range, other: range) -> tuple[int, int]:
        """What tells a split from others of as many cores: equal ones are alike, with all below.

        Nothing does where messages between its halves meet no other nodes: of three nodes of 8,
        GPUs 6 to 11 are planned for as 0 to 5 are, which one node has, so that plans of both are
        alike. (Planned for apart, AccPar's steps on such arrays are up to three times as long.)
        On a ring, torus or mesh it is the nodes that it is of.
        """
        subnet = self._joining(side.start, other.start)
        if not subnet.fabric.has_places:
            return (-1, 0)
        region = subnet.region[side.start]
        return (self.subnets.index(subnet), side.start - int(np.argmax(subnet.region == region)))

    def moved(self, one: range, other: range) -> bool:
        """Whether a range of cores is another one moved on, with all that is between its parts.

        On a grid whose links are alike that is so where all places are moved
        by as much, and by an even number of steps: half way round a ring,
        routes from even places and odd ones differ.
        """
        for subnet in self.subnets:
            if subnet.region[one.start] >= 0 and isinstance(subnet.fabric, Cables):
                nodes = (subnet.node[cores.start : cores.stop] for cores in (one, other))
                if len({(node % subnet.fabric.size).tobytes() for node in nodes}) > 1:
                    return False
            if not isinstance(subnet.fabric, Grid) or subnet.region[one.start] < 0:
                continue
            regions = (subnet.region[cores.start : cores.stop] for cores in (one, other))
            first, second = (region - region[0] for region in regions)
            nodes = (subnet.node[cores.start : cores.stop] for cores in (one, other))
            here, there = (subnet.fabric.coordinates[node % subnet.fabric.size] for node in nodes)
            steps = there - here
            alike = (first == second).all() and (steps == steps[0]).all()
            if not alike or (steps[0] % 2).any() or not subnet.fabric.uniform:
                return False
        return True

    def _joining(self, source: int, target: int) -> Subnet:
        return next(
            subnet for subnet in self.subnets if subnet.region[source] == subnet.region[target] >= 0
        )

    def interchangeable(self, first: int, second: int, cores: int) -> bool:
        """Whether nothing on the wires tells two ranges of alike cores apart.

        Of three nodes of four the halves are not alike: the first one ends with two of a node, the
        second one begins with them. Places on one ring, torus or mesh are not either: what
        others send passes some of them and not others.
        """
        one, other = slice(first, first + cores), slice(second, second + cores)
        for subnet in self.subnets:
            if subnet.fabric.has_places:
                here, there = (set(subnet.region[side].tolist()) for side in (one, other))
                if (here & there) - {-1}:
                    return False
        return all(_swappable(*told, one, other) for told in self._told_apart_by)

    @cached_property
    def _told_apart_by(self) -> list[tuple[Ints, Ints]]:
        """By core what it shares with others: its region of each fabric, and its links there.

        And how many cores there are of each; 0 is no link.
        """
        found = list[Ints]()
        for subnet in self.subnets:
            linked = [way[subnet.node] for way in subnet.fabric.ways()] or [subnet.node]
            found += [subnet.region, *(np.where(subnet.region < 0, -1, own) for own in linked)]
        return [(own + 1, np.bincount(own + 1)) for own in found]


def _swappable(labels: Ints, many: Ints, one: slice, other: slice) -> bool:
    """Whether cores of two ranges can change places, and those with equal labels still have such.

    Of labels 0 0 1 1 2 2 the two halves cannot: 1 would become both 0 and 2.
    """
    ends = np.concatenate([labels[one], labels[other]])
    pairs = np.unique(ends * len(many) + np.concatenate([labels[other], labels[one]]))
    here, there = np.divmod(pairs, len(many))
    if (np.diff(here) == 0).any() or ((here == 0) != (there == 0)).any():
        return False
    changed = here[here != there]
    return bool((np.bincount(ends, minlength=len(many))[changed] == many[changed]).all())


def _digest(value: object) -> bytes:
    """A short text for what says all of itself."""
    return blake2b(repr(value).encode(), digest_size=20).digest()


def _flat(sources: ArrayLike, targets: ArrayLike, flows: ArrayLike) -> tuple[Ints, Ints, Floats]:
    a, b, many = np.broadcast_arrays(
        np.asarray(sources, dtype=np.int64),
        np.asarray(targets, dtype=np.int64),
        np.asarray(flows, dtype=np.float64),
    )
    return a.ravel(), b.ravel(), many.ravel()


def _port(device: Device) -> tuple[float, float, float]:
    """Bandwidth and latency of a board's network port, and the bytes that take a part of that."""
    return device.network_bytes_per_s, device.network_latency_s, device.network_half_bytes


def _chip_name(first: int, board: int) -> str:
    return f"board{first + board} chip"
