"""How long a step of one core would take on units that are still open.

An estimate for searches that ask about thousands of cores, without the engine: list
scheduling as ``simulate`` has it, without exchanges, and a memory that is shared last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware import Units
from planners.order import Phase
from planners.partition import Shard
from simulator.cost.operators import Operator
from simulator.cost.roofline import Core, flops, traffic
from simulator.cost.units.matrix import cycles_of_all
from simulator.cost.units.pricing import lanes_of, missed_by_all, product_of, spectral_lanes
from simulator.engine.picoseconds import PICOSECONDS
from simulator.lowering.units.list_scheduling import UnitTask, list_schedule

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Needed:
    """An operator of a step, and the numbers of earlier ones that it waits for."""

    operator: Operator
    needs: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """A step's operators on given units; seconds, bytes and numbers of units as arrays.

    ``unit`` is the matrix unit of a product, and otherwise the vector units, which
    are one behind the last matrix unit. Without conflicts an operator takes
    ``alone_s``: the longest of its products, its element-wise work and its bytes, and
    overheads.
    """

    unit: NDArray[np.intp]
    matrix_s: Floats
    vector_s: Floats
    compute_s: Floats
    hbm_bytes: Floats
    alone_s: Floats


class UnitStep:
    """A step of one core, of which the units are still open."""

    def __init__(
        self, parts: Sequence[Needed], shards: Sequence[Shard], core: Core, micro_batches: int = 1
    ) -> None:
        """``shards`` are what the core has of each node, as operators find it.

        Of an update, which ends so many micro-batches, each has its part.
        """
        self._core = core
        self.parts = tuple(parts)
        ops = [part.operator for part in self.parts]
        of = [shards[op.node] for op in ops]
        pairs = list(zip(ops, of, strict=True))
        sides = [product_of(op, shard)[1:] if op.macs else (0, 0, 0, 0) for op, shard in pairs]
        self._sides = np.array(sides, dtype=np.int64).reshape(-1, 4).T
        self._repeats = np.array([op.repeats for op in ops])
        part = np.array([1 / micro_batches if op.phase is Phase.UPDATE else 1.0 for op in ops])
        self._lanes = np.array([lanes_of(op, shard) for op, shard in pairs]) * part
        spectral = [spectral_lanes(op, s) if op.block > 1 else np.inf for op, s in pairs]
        self._without_matrix = self._lanes + np.array(spectral)
        """Lane cycles of what vector units can do as well."""
        self._bytes = np.array([traffic(op, shard, core) for op, shard in pairs]) * part
        steps = np.array([float(op.steps) for op in ops]) * part
        self._overhead_s, self._host_s = core.overhead_s * steps, core.host_s * steps
        self.flops = np.array([flops(op, shard) for op, shard in pairs])

    def digest(self) -> str:
        """SHA-256 of all that its times depend on, units apart."""
        text = repr((self.parts, self._core))
        arrays = (
            self._sides,
            self._repeats,
            self._lanes,
            self._without_matrix,
            self._bytes,
            self._overhead_s,
            self._host_s,
        )
        digest = hashlib.sha256(text.encode())
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    @property
    def memory_bytes_per_s(self) -> float:
        """What the units share."""
        return self._core.hbm_bytes_per_s

    def priced(self, units: Units) -> Priced:
        """Every operator on the best of these units."""
        products = self._sides[0] > 0
        cycles = np.stack([cycles_of_all(unit, self._sides) for unit in units.matrix])
        best = cycles.argmin(axis=0)
        matrix_s = np.where(products, cycles.min(axis=0), 0) / units.clock_hz
        vector_s = np.ceil(self._lanes / units.lanes - 1e-9) / units.clock_hz
        other_s = np.ceil(self._without_matrix / units.lanes - 1e-9) / units.clock_hz
        moved_there = other_s < np.maximum(matrix_s, vector_s)
        matrix_s = np.where(moved_there, 0, matrix_s)
        vector_s = np.where(moved_there, other_s, vector_s)
        element = self._core.bytes.activation
        missed = missed_by_all(self._sides, self._repeats, units.buffer_bytes, element)
        moved = self._bytes + missed
        compute_s = np.maximum(matrix_s, vector_s)
        busy_s = np.maximum(compute_s, moved / self._core.hbm_bytes_per_s)
        alone_s = busy_s + np.maximum(self._overhead_s, self._host_s - busy_s)
        unit = np.where(products & ~moved_there, best, len(units.matrix))
        return Priced(unit, matrix_s, vector_s, compute_s, moved, alone_s)

    def tasks(self, priced: Priced) -> list[UnitTask]:
        """One for each operator: its time alone, and its bytes."""
        durations = np.maximum(np.ceil(priced.alone_s * PICOSECONDS), 1).astype(np.int64).tolist()
        return [
            UnitTask(
                part.operator.name, unit, duration, part.needs, size, work, part.operator.phase
            )
            for part, unit, duration, size, work in zip(
                self.parts,
                priced.unit.tolist(),
                durations,
                priced.hbm_bytes.tolist(),
                self.flops.tolist(),
                strict=True,
            )
        ]

    def estimate_s(self, units: Units) -> float:
        """Seconds of a step by list scheduling, or as long as its bytes take, if that is longer.

        What sharing the memory does, the engine says.
        """
        priced = self.priced(units)
        tasks = self.tasks(priced)
        starts = list_schedule(tasks, len(units.matrix) + 1).starts
        ends = (start + task.duration_ps for start, task in zip(starts, tasks, strict=True))
        moved_s = float(priced.hbm_bytes.sum()) / self._core.hbm_bytes_per_s
        return max(max(ends, default=0) / PICOSECONDS, moved_s)
