"""The workers of a run: which devices each has, what it computes, and what exchanges take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hardware import Array, Device, Wires, wires_of
from hardware.array import Unit
from hardware.interconnect.fabric import at_share
from planners.order import Kind, Phase
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.local_step import LocalStep, local_step, part_of, server_update_ps
from simulator.collectives.choice import jobs
from simulator.engine.jobs import Floats, Ints, Job, Links, Load
from simulator.engine.operations import Communicator, DeviceMemory, Operation, Program, Worker
from simulator.lowering.execution import Execution
from workloads import Network

UNITS: tuple[Unit, ...] = ("board", "chip", "core")
COMMON = 0
"""The communicator where exchanges of several workers are recorded; worker w's own is w + 1."""


@dataclass(frozen=True)
class Setting:
    """What is trained, where and by how many; ``batch`` is one worker's samples an iteration."""

    network: Network
    array: Array
    workers: int
    batch: int
    execution: Execution


class Cluster:
    """Workers on an array: each a board, a chip or a core, with the array's real wires.

    A worker of several cores sends from each of them, to the same core of
    another worker, its share of the bytes. ``servers`` parameter servers stand on
    boards (or chips, cores) that no worker has, while there are such, and then
    beside the workers, evenly; each has a port of its own, as wide as a
    board's. Workers that go ``together`` are as slow as the slowest of their chips, others each as
    slow as its own. Raises TrainingError where the array has no place for so many.
    """

    def __init__(
        self,
        setting: Setting,
        servers: int = 0,
        links: Sequence[tuple[str, float]] = (),
        *,
        together: bool = True,
    ) -> None:
        if setting.workers < 1:
            raise TrainingError(f"--workers {setting.workers}: at least one worker")
        if setting.batch < 1:
            raise TrainingError(f"--batch {setting.batch}: at least one sample a worker")
        self.setting, self.count, self.servers = setting, setting.workers, servers
        self._together = together
        self.wires = wires_of(setting.array)
        self.unit, places = _places(setting, self.wires)
        self.free = places[self.count :]
        self.ranks = places[: self.count]
        self._beside = _beside(places, self.count, servers)
        self.ports = Ports(
            self.wires, [_port(setting.array, self._device(at)) for at in self._beside]
        )
        self.bandwidth = self.ports.slowed(links)
        self._pairs: dict[tuple[int, int], Operation] = {}

    def _device(self, cores: Ints) -> Device:
        device, _ = self.setting.array.group.kinds[int(self.wires.kind[cores[0]])]
        return device

    @cached_property
    def devices(self) -> list[Device]:
        """Each worker's board."""
        return [self._device(cores) for cores in self.ranks]

    @cached_property
    def nodes(self) -> list[int]:
        """The board that each worker is on, numbered from 0; of boards or chips, the node's."""
        units = [self.wires.board, *self.wires.units[1:]]
        of = next((u for u in units if len({int(u[r[0]]) for r in self.ranks}) < self.count), None)
        if of is None:
            return list(range(self.count))
        found: dict[int, int] = {}
        return [found.setdefault(int(of[ranks[0]]), len(found)) for ranks in self.ranks]

    @cached_property
    def _local(self) -> dict[Device, LocalStep]:
        """What a worker does on each kind of device."""
        setting, found = self.setting, dict[Device, LocalStep]()
        for device, workers in Counter(self.devices).items():
            chips = part_of(device, self.unit).chips * (workers if self._together else 1)
            own = device
            if device.roofline.variation:  # else the same, and nothing of it is read
                own = replace(device, roofline=device.roofline.waiting(chips))
            of = (setting.network, own, self.unit, setting.batch, setting.execution)
            found[device] = local_step(*of)
        return found

    @cached_property
    def steps(self) -> list[Operation]:
        """Each worker's local step; one operation for all on the same device."""
        return [self._local[device].operation for device in self.devices]

    @property
    def memory(self) -> tuple[DeviceMemory, ...]:
        """How full a step makes the memory of each kind of worker."""
        return tuple(one for local in self._local.values() for one in local.memory)

    @cached_property
    def gradient_bytes(self) -> float:
        """All gradients of the network, as the execution model counts them."""
        return self._bytes("gradient_bytes")

    @cached_property
    def model_bytes(self) -> float:
        """The model itself, in the numbers that it is kept in."""
        return self._bytes("master_bytes")

    def _bytes(self, number: str) -> float:
        network, arithmetic = self.setting.network, self.setting.array.group.arithmetic
        if "formats" in self.setting.execution.ignores:  # one number for all, and no biases
            return network.weights * arithmetic.element_bytes
        return float(network.parameters * getattr(arithmetic, number))

    def program(self, pace: Callable[[int], Callable[[int], float] | None]) -> Program:
        """Workers without templates, then servers; each with a communicator of its own."""
        workers = []
        for w, cores in enumerate([*self.ranks, *self._beside]):
            device = self._device(cores)
            workers.append(
                Worker(
                    replace(device, chips=1) if self.unit == "chip" else device,
                    communicators=(COMMON, w + 1),
                    first=int(cores[0]),
                    unit="core" if self.unit == "core" else "board",
                    pace=pace(w) if w < self.count else None,
                )
            )
        communicators = tuple(Communicator(0) for _ in range(len(workers) + 1))
        return Program(tuple(workers), communicators, self.wires, Links(self.bandwidth))

    def all_reduce(
        self, members: Sequence[int], size_bytes: float, what: str, algorithm: str = "auto"
    ) -> Operation:
        """The sum of something over some workers, by all their cores at once.

        ``algorithm`` "auto" is the execution model's, which is the cheapest unless it names one.
        """
        algorithm = self.setting.execution.algorithm if algorithm == "auto" else algorithm
        if len(members) < 2:
            return Operation(Kind.SUMS, Phase.GRADIENT, what, level=0)
        ranks = np.array([self.ranks[w] for w in members]).T
        sequence = jobs(self.wires, "all-reduce", ranks, size_bytes / len(ranks), algorithm)
        moved = size_bytes * (len(members) - 1)
        return _exchange(what, Phase.GRADIENT, moved, sequence)

    def swap(self, a: int, b: int) -> Operation:
        """Two workers' models, each sent to the other at once."""
        pair = (min(a, b), max(a, b))
        if pair not in self._pairs:
            ends = np.array(self.ranks[pair[0]]), np.array(self.ranks[pair[1]])
            both = np.concatenate(ends), np.concatenate(ends[::-1])
            self._pairs[pair] = self._message("average", *both, self.model_bytes / len(ends[0]))
        return self._pairs[pair]

    def send(self, source: int, targets: Sequence[int], size_bytes: float, what: str) -> Operation:
        """The same from one worker to each of some others, at once."""
        ranks = np.array(self.ranks[source])
        to = np.concatenate([self.ranks[target] for target in targets])
        return self._message(what, np.tile(ranks, len(targets)), to, size_bytes / len(ranks))

    def _message(self, what: str, sources: Ints, targets: Ints, each_bytes: float) -> Operation:
        load = Load.of(self.wires.loads(sources, targets))
        latency_s = self.wires.message_latency_s(sources, targets)
        job = Job(what, load, each_bytes, latency_s)
        return _exchange(what, Phase.UPDATE, each_bytes * len(sources) / 2, (job,))

    def by_port(self, what: str, worker: int, server: int, size_bytes: float) -> Operation:
        """What a worker has to "push" to one server, or "pull", by the wires and its port."""
        mine, its = np.array(self.ranks[worker]), np.array(self._beside[server])
        its = np.resize(its, len(mine))
        ends = (mine, its) if what == "push" else (its, mine)
        flows = self.wires.loads(*ends)
        load = self.ports.through(flows, server, len(mine), inwards=what == "push")
        latency_s = max(self.wires.message_latency_s(*ends), self.ports.latency_s[server])
        job = Job(what, load, size_bytes / len(mine), latency_s)
        return _exchange(what, Phase.GRADIENT, size_bytes / 2, (job,))

    def server_update(self, server: int, shards: int, gradients: int) -> Operation:
        """What a server does with so many workers' gradients; nothing where HBM takes no time.

        It has one of so many ``shards``.
        """
        device = part_of(self._device(self._beside[server]), self.unit)
        timed = "hbm" not in self.setting.execution.ignores
        read, held = gradients * self.gradient_bytes / shards, self.model_bytes / shards
        took = server_update_ps(device, read, held) if timed else 0
        return Operation(Kind.COMPUTE, Phase.UPDATE, "server update", duration_ps=took)

    def latency_s(self, a: int, b: int) -> float:
        """Of a message without bytes from one worker to another."""
        return self.wires.message_latency_s(self.ranks[a][:1], self.ranks[b][:1])


def _exchange(what: str, phase: Phase, half: float, sequence: tuple[Job, ...]) -> Operation:
    return Operation(Kind.SUMS, phase, what, level=0, received=(half, half), jobs=sequence)


def _places(setting: Setting, wires: Wires) -> tuple[Unit, list[Ints]]:
    """The cores of every board, chip or core that may be a worker, and which of these it is.

    As many as there are workers, or else the first of the largest ones that are enough.
    """
    boards_only = "wires" in setting.execution.ignores
    units = UNITS[:1] if boards_only else UNITS
    of = {"board": wires.board, "chip": wires.chip, "core": np.arange(wires.cores)}
    counts = {unit: int(of[unit][-1]) + 1 for unit in units}
    fits = [unit for unit in units if counts[unit] == setting.workers]
    fits += [unit for unit in units if counts[unit] > setting.workers]
    if not fits:
        have = ", ".join(f"{n:,} {unit}{'s' * (n > 1)}" for unit, n in counts.items())
        raise TrainingError(
            f"--workers {setting.workers}: {setting.array.name} has {have}; take "
            f"{max(counts.values()):,} workers or fewer, or an array of more devices"
        )
    unit = fits[0]
    places = np.split(np.arange(wires.cores), np.flatnonzero(np.diff(of[unit])) + 1)
    if len({len(cores) for cores in places[: setting.workers]}) > 1:
        raise TrainingError(
            f"{setting.array.name}: workers have unlike numbers of cores; they must have as many"
        )
    return unit, [cores[:1] for cores in places] if boards_only else places


def _beside(places: list[Ints], workers: int, servers: int) -> list[Ints]:
    """Where servers stand: on places of nobody's, then evenly beside the workers."""
    alone = places[workers:][:servers]
    rest = servers - len(alone)
    return alone + [places[i * workers // rest] for i in range(rest)]


def _port(array: Array, device: Device) -> tuple[float, float]:
    """Bandwidth and latency of a board's port."""
    topology = array.topology
    if topology.levels and topology.levels[0].bytes_per_s:
        tier = topology.levels[0]
        return tier.bytes_per_s * tier.rails, tier.latency_s
    own, latency_s = device.network_bytes_per_s, topology.latency_s
    bytes_per_s = topology.share * (own if topology.bytes_per_s is None else topology.bytes_per_s)
    port = own, device.network_latency_s, device.network_half_bytes
    own_s = at_share(bytes_per_s / own, *port)[1]
    return bytes_per_s, own_s if latency_s is None else latency_s


SHOWN = 6
"""Link names that a message about an unknown one has."""


class Ports:
    """Links behind the wires' own: every server has one into it and one out of it.

    ``of`` has each server's bandwidth (B/s) and latency (s).
    """

    def __init__(self, wires: Wires, of: Sequence[tuple[float, float]]) -> None:
        self._wires = wires
        self._first = len(wires.bandwidth)
        widths = [width for width, _ in of for _ in range(2)]
        self._bandwidth = np.concatenate([wires.bandwidth, widths])
        self._names = [f"server {s} {way}" for s in range(len(of)) for way in ("in", "out")]
        self.latency_s = [latency for _, latency in of]

    @property
    def names(self) -> tuple[str, ...]:
        """Of every link, servers' last."""
        return (*self._wires.names, *self._names)

    def slowed(self, links: Sequence[tuple[str, float]]) -> Floats:
        """The bandwidth of every link, those named so many times slower; raises TrainingError."""
        bandwidth = self._bandwidth.copy()
        for name, times in links:
            if name not in self.names:
                some = ", ".join(self.names[:SHOWN])
                raise TrainingError(f"slowdown link:{name}: no such link; they are {some}, …")
            bandwidth[self.names.index(name)] /= times
        return bandwidth

    def through(self, flows: Floats, server: int, many: int, *, inwards: bool) -> Load:
        """So many flows that cross these of the wires, and a server's port."""
        everywhere = np.zeros(len(self._bandwidth))
        everywhere[: self._first] = flows
        everywhere[self._first + 2 * server + (not inwards)] = many
        return Load.of(everywhere)
