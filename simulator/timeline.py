"""What happened, when: one record for every operation on every resource."""

from __future__ import annotations

from array import array as column
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulator.program import Program

PICOSECONDS = 10**12


class Columns(NamedTuple):
    """Records as columns of equal length, in the order in which operations ended.

    ``resource`` and ``operation`` are indices into a timeline's ``resources``
    and its program's ``operations``; ``start`` and ``end`` are picoseconds.
    """

    resource: column[int]
    operation: column[int]
    start: column[int]
    end: column[int]


def new_columns() -> Columns:
    """Columns without a record."""
    return Columns(column("i"), column("i"), column("q"), column("q"))


class Resource(NamedTuple):
    """A core, HBM or link; ``cores`` is how many cores wait for it, ``device`` whose it is."""

    kind: str
    name: str
    cores: int
    device: str = ""


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


class Shares(NamedTuple):
    """How an average core spends the step, as fractions that sum to one."""

    computing: float
    communicating: float
    waiting: float


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The records of one run; iterating gives them one by one."""

    program: Program
    resources: tuple[Resource, ...]
    columns: Columns
    events: int

    def __len__(self) -> int:
        return len(self.columns.end)

    @property
    def iteration_ps(self) -> int:
        """Time of the whole step: the last record's end."""
        return self.columns.end[-1] if len(self) else 0

    @property
    def iteration_s(self) -> float:
        """Time of the whole step in seconds."""
        return self.iteration_ps / PICOSECONDS

    def __iter__(self) -> Iterator[Record]:
        for resource, index, start, end in zip(*self.columns, strict=True):
            operation = self.program.operations[index]
            yield Record(
                self.resources[resource].name,
                str(operation.kind),
                operation.layer,
                str(operation.phase),
                operation.level,
                start,
                end,
                operation.bytes,
                operation.flops,
            )

    def shares(self) -> Shares:
        """Computing, communicating (its links busy) and waiting, averaged over all cores.

        In the published model a core never computes while its links are busy,
        so what is left is waiting for others.
        """
        kinds = np.array([resource.kind for resource in self.resources])
        stand_on = np.array([resource.cores for resource in self.resources])
        resource, _, start, end = map(np.asarray, self.columns)
        busy = (end - start) * stand_on[resource]
        total = self.iteration_ps * int(stand_on[kinds == "core"].sum())
        if not total:
            return Shares(0.0, 0.0, 0.0)
        computing = int(busy[kinds[resource] == "core"].sum()) / total
        communicating = int(busy[kinds[resource] == "link"].sum()) / total
        return Shares(computing, communicating, max(0.0, 1.0 - computing - communicating))

    def flops_by_device(self) -> dict[str, float]:
        """FLOPs done on the cores of each device."""
        work = np.array([operation.flops for operation in self.program.operations])
        resource, operation, _, _ = map(np.asarray, self.columns)
        done = np.bincount(resource, work[operation], len(self.resources))
        totals: dict[str, float] = {}
        for (kind, _, _, device), flops in zip(self.resources, done.tolist(), strict=True):
            if kind == "core":
                totals[device] = totals.get(device, 0.0) + flops
        return totals
