"""What happened, when: one record for every operation on every resource."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from simulator.engine.jobs import Floats, Ints, Links, ints
from simulator.engine.operations import MEMORY, Board, DeviceMemory, Operation, Program
from simulator.engine.picoseconds import PICOSECONDS
from simulator.engine.records import Columns, Participants
from simulator.engine.resources import AllResources, Resource


class Period(NamedTuple):
    """``micro_batches`` end every ``span_ps`` picoseconds, from number ``warm_up`` on."""

    span_ps: int
    micro_batches: int
    warm_up: int

    @property
    def micro_batch_ps(self) -> float:
        """Picoseconds a micro-batch, in the steady state."""
        return self.span_ps / self.micro_batches


class Record(NamedTuple):
    """One operation on one resource; times in picoseconds."""

    resource: str
    kind: str
    layer: str
    phase: str
    level: int
    start_ps: int
    end_ps: int
    bytes: float
    flops: float
    multiplicity: int
    micro_batch: int = 0


class Total(NamedTuple):
    """Sums over the whole array: operations, core-picoseconds, bytes, FLOPs and joules."""

    operations: int
    core_ps: int
    bytes: float
    flops: float
    energy_j: float = 0.0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Timeline:
    """The records of one run; iterating gives them one by one."""

    program: Program
    all_resources: AllResources
    operations: tuple[Operation, ...]
    columns: Columns
    """The records, in the order in which operations ended."""
    participants: Participants
    """Who took part in exchanges."""
    events: int
    """Events that SimPy processed."""
    links: Links
    """The links that were followed."""
    moved: tuple[float, ...] = ()
    """Bytes over each of these."""
    memory_bytes: tuple[float, ...] = ()
    """Bytes over every memory link of ``program.hbms``."""
    batch_ps: int | None = None
    """Of a run of several batches: what one takes once the rhythm is steady."""
    period: Period | None = None
    """That rhythm, where one was seen."""
    batches: int = 1
    """How many were run."""

    @property
    def link_bytes(self) -> Floats:
        """Bytes over every link of ``program.wires``, in its order; none where there are none."""
        return np.array(self.moved)

    def __repr__(self) -> str:
        return f"<Timeline of {len(self):,} records, {self.iteration_s:g} s>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002
        """The same for IPython and hypothesis, which else print all fields of a dataclass."""
        printer.text(repr(self))

    @property
    def resources(self) -> tuple[Resource, ...]:
        """Every core, HBM and link of the run."""
        return self.all_resources.resources

    def __len__(self) -> int:
        return len(self.columns.end)

    @property
    def times(self) -> tuple[Ints, Ints]:
        """When records start and end, picoseconds, as arrays."""
        return ints(self.columns.start), ints(self.columns.end)

    @property
    def makespan_ps(self) -> int:
        """Time of the whole run: the last record's end."""
        ends = self.columns.end
        return ends[-1] if len(ends) else 0

    @property
    def micro_batches(self) -> int:
        """Micro-batches, or iterations."""
        return int(ints(self.columns.micro_batch).max(initial=-1)) + 1

    @property
    def makespan_s(self) -> float:
        """Time of the whole run in seconds."""
        return self.makespan_ps / PICOSECONDS

    @property
    def iteration_ps(self) -> int:
        """Time of a training step: of the run, or, of many batches, of one in the long run."""
        return self.makespan_ps if self.batch_ps is None else self.batch_ps

    @property
    def long_run_ps(self) -> int:
        """Time of all batches without filling and draining; as run where no rhythm was seen."""
        return self.makespan_ps if self.period is None else self.iteration_ps * self.batches

    @property
    def iteration_s(self) -> float:
        """Time of a training step in seconds."""
        return self.iteration_ps / PICOSECONDS

    def __iter__(self) -> Iterator[Record]:
        for number, index, micro_batch, start, end, _ in zip(*self.columns, strict=True):
            operation, resource = self.operations[index], self.resources[number]
            yield Record(
                resource.name,
                str(operation.kind),
                operation.layer,
                str(operation.phase),
                operation.level,
                start,
                end,
                operation.bytes,
                operation.flops,
                resource.multiplicity,
                micro_batch,
            )

    @property
    def cores(self) -> int:
        """Cores of the whole array."""
        return sum(r.multiplicity for r in self.resources if r.kind == "core")

    @property
    def memory(self) -> tuple[DeviceMemory, ...]:
        """How full the fullest core of each device gets; nothing in the published model."""
        return self.program.memory

    @property
    def idle_cores(self) -> int:
        """Cores that computed nothing."""
        busy = set(self.columns.resource)
        return sum(
            self.resources[core].multiplicity
            for worker_resources in self.all_resources.workers
            for core in worker_resources.cores
            if core not in busy and busy.isdisjoint(worker_resources.units)
        )

    def _counts(self) -> Ints:
        """How often each operation ran in the whole array."""
        multiplicity = np.array([r.multiplicity for r in self.resources], dtype=np.int64)
        counts = np.zeros(len(self.operations), np.int64)
        np.add.at(counts, self.columns.operation, multiplicity[self.columns.resource])
        return counts

    def _core_ps(self) -> list[int]:
        """How long cores had to do with each operation, in the whole array.

        Of resources that stand for as many cores the picoseconds are summed by halves of
        32 bits, so that neither sum overflows.
        """
        cores = np.array([r.cores for r in self.resources], dtype=np.int64)
        each = np.unique(cores)
        sort = np.searchsorted(each, cores)
        resource, operation, _, start, end, _ = map(ints, self.columns)
        spent, where = (end - start), (operation, sort[resource])
        high, low = np.zeros((2, len(self.operations), len(each)), np.int64)
        np.add.at(high, where, spent >> 32)
        np.add.at(low, where, spent & (1 << 32) - 1)
        whole = (high.astype(object) << 32) + low
        return [sum(map(mul, row, each.tolist())) for row in whole.tolist()]

    def _amounts(self, of: Callable[[Operation], float]) -> dict[tuple[str, str], float]:
        """An amount by phase and kind over the whole array."""
        found: dict[tuple[str, str], float] = {}
        for operation, count in zip(self.operations, self._counts().tolist(), strict=True):
            key = (operation.phase, operation.kind)
            found[key] = found.get(key, 0.0) + of(operation) * count
        return found

    def totals(self) -> dict[tuple[str, str], Total]:
        """Sums by phase and kind over the whole array, multiplicities included.

        Times are those during which cores compute or wait for a busy link,
        each core counted; exact integers, so that folding changes nothing.
        """
        counts = self._counts().tolist()
        totals: dict[tuple[str, str], Total] = {}
        for op, count, core_ps in zip(self.operations, counts, self._core_ps(), strict=True):
            key = (op.phase, op.kind)
            old = totals.get(key, Total(0, 0, 0.0, 0.0))
            totals[key] = Total(
                old.operations + count,
                old.core_ps + core_ps,
                old.bytes + op.bytes * count,
                old.flops + op.flops * count,
                old.energy_j + op.energy_j * count,
            )
        return totals

    @property
    def traffic_bytes(self) -> float:
        """Bytes received in the whole array for a batch, by its records; HBM traffic is not.

        Of a collective what it must move at least: its algorithm may move more (``link_bytes``).
        """
        amounts = self._amounts(lambda operation: operation.bytes).items()
        moved = math.fsum(amount for (_, kind), amount in amounts if kind != MEMORY)
        return moved / self.batches

    @property
    def energy_j(self) -> float | None:
        """Joules of the whole array for a batch, by its records.

        None where the spec of a device has no ``[energy]``.
        """
        devices = {resource.device for resource in self.resources} - {None}
        if any(device.energy is None for device in devices if device is not None):
            return None
        joules = self._amounts(lambda operation: operation.energy_j).values()
        return math.fsum(joules) / self.batches

    def flops_by_device(self) -> dict[Board, float]:
        """FLOPs done on the cores of each device."""
        resource, operation, *_ = map(ints, self.columns)
        of_cores = [r.device if r.kind in ("core", "unit") else None for r in self.resources]
        devices = [device for device in dict.fromkeys(of_cores) if device is not None]
        place = {device: i for i, device in enumerate(devices)}
        row = np.array([-1 if device is None else place[device] for device in of_cores])
        multiplicity = np.array([r.multiplicity for r in self.resources], dtype=np.int64)
        counts = np.zeros((len(devices), len(self.operations)), np.int64)
        on_cores = row[resource] >= 0
        many = multiplicity[resource][on_cores]
        np.add.at(counts, (row[resource][on_cores], operation[on_cores]), many)
        flops = np.array([op.flops for op in self.operations])
        return dict(zip(devices, (counts @ flops).tolist(), strict=True))
