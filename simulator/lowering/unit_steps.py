"""A step's operators as tasks on the unlike units of one core: what each waits for, and its time.

Beside ``simulate``, where a core does one operator after the other on the best of its
units: here operators that do not need one another are on several units at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware import Units
from planners.order import consumers
from planners.partition import Shard
from simulator.cost.operators import Operator, Operators
from simulator.cost.roofline import Core, flops, traffic
from simulator.cost.units.many import cycles_of_all, missed_by_all
from simulator.cost.units.pricing import lanes_of, product_of
from simulator.engine.picoseconds import PICOSECONDS
from simulator.lowering.unit_tasks import UnitTask, list_schedule

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
    ``alone_s``: the longest of its products, its element-wise work and its bytes.
    """

    unit: NDArray[np.intp]
    matrix_s: Floats
    vector_s: Floats
    compute_s: Floats
    hbm_bytes: Floats
    alone_s: Floats
    missed_bytes: Floats


def needed(operators: Operators, *, inference: bool = False) -> list[Needed]:
    """Operators in an order in which each comes behind what it needs.

    Forward of a node needs its producers'. Backward needs its consumers' (the last
    nodes' their own forward), the gradient of weights the same and what
    backward does before its product, the update the gradients of all that share the weights.
    """
    return _Needs(operators, inference).found


class _Needs:
    def __init__(self, operators: Operators, inference: bool) -> None:
        self.found: list[Needed] = []
        self._operators = operators
        graph = operators.graph
        self._made: list[tuple[int, ...]] = []
        for v, node in enumerate(graph):
            before = tuple(i for u in node.producers for i in self._made[u])
            self._made.append(self._chain(operators.nodes[v].forward, before))
        if inference:
            return
        readers = consumers(graph)
        self._errors: list[tuple[int, ...]] = [()] * len(graph)
        gradients: list[list[int]] = [[] for _ in graph]
        for v in reversed(range(len(graph))):
            after = tuple(i for c, _ in readers[v] for i in self._errors[c]) or self._made[v]
            self._backward(v, tuple(dict.fromkeys(after)), gradients)
        for v, work in enumerate(operators.nodes):
            self._chain(work.update, tuple(gradients[v]))

    def _backward(self, v: int, after: tuple[int, ...], gradients: list[list[int]]) -> None:
        """Errors, and beside their product the gradient of the weights."""
        node, work = self._operators.graph[v], self._operators.nodes[v]
        parts = list(work.backward)
        product = [parts.pop()] if parts and parts[-1].macs else []
        ready = self._chain(parts, after)
        errors = self._chain(product, ready)
        own = self._chain(work.gradient, ready)
        if node.kind == "matmul":
            errors = tuple(dict.fromkeys((*errors, *own)))
        elif work.gradient:
            gradients[v if node.tied is None else node.tied].extend(own)
        self._errors[v] = errors

    def _chain(self, operators: Sequence[Operator], before: Sequence[int]) -> tuple[int, ...]:
        """One operator after the other; the numbers of what is to be waited for behind them."""
        last = tuple(dict.fromkeys(before))
        for operator in operators:
            self.found.append(Needed(operator, last))
            last = (len(self.found) - 1,)
        return last


class UnitStep:
    """A step of one core's shards, of which the units are still open."""

    def __init__(
        self, operators: Operators, shards: Sequence[Shard], core: Core, *, inference: bool = False
    ) -> None:
        self._core = core
        every = needed(operators, inference=inference)
        kept = [not shards[one.operator.node].empty for one in every]
        place, self.parts = dict[int, tuple[int, ...]](), list[Needed]()
        for i, one in enumerate(every):
            needs = tuple(dict.fromkeys(p for before in one.needs for p in place[before]))
            place[i] = (len(self.parts),) if kept[i] else needs
            if kept[i]:
                self.parts.append(Needed(one.operator, needs))
        ops = [part.operator for part in self.parts]
        of = [shards[op.node] for op in ops]
        pairs = list(zip(ops, of, strict=True))
        sides = [product_of(op, shard)[1:] if op.macs else (0, 0, 0, 0) for op, shard in pairs]
        self._sides = np.array(sides, dtype=np.int64).reshape(-1, 4).T
        self._kernel = np.array([op.kernel for op in ops])
        self._lanes = np.array([lanes_of(op, shard) for op, shard in pairs])
        self._bytes = np.array([traffic(op, shard, core) for op, shard in pairs])
        self._overhead_s = core.overhead_s * np.array([float(op.steps) for op in ops])
        self.flops = np.array([flops(op, shard) for op, shard in pairs])

    def digest(self) -> str:
        """SHA-256 of all that its times depend on, units apart."""
        text = repr((self.parts, self._core))
        arrays = (self._sides, self._kernel, self._lanes, self._bytes, self._overhead_s)
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
        element = self._core.bytes.activation
        missed = missed_by_all(self._sides, self._kernel, units.buffer_bytes, element)
        moved = self._bytes + missed
        compute_s = np.maximum(matrix_s, vector_s) + self._overhead_s
        alone_s = np.maximum(compute_s, moved / self._core.hbm_bytes_per_s)
        unit = np.where(products, best, len(units.matrix))
        return Priced(unit, matrix_s, vector_s, compute_s, moved, alone_s, missed)

    def tasks(self, priced: Priced, *, alone: bool) -> list[UnitTask]:
        """One for each operator: its time ``alone``, or of computing, its bytes being followed."""
        seconds = priced.alone_s if alone else priced.compute_s
        durations = np.maximum(np.rint(seconds * PICOSECONDS), 1).astype(np.int64).tolist()
        moved = priced.hbm_bytes.tolist()
        return [
            UnitTask(
                part.operator.name,
                unit,
                duration,
                part.needs,
                0.0 if alone else size,
                work,
                part.operator.phase,
            )
            for part, unit, duration, size, work in zip(
                self.parts, priced.unit.tolist(), durations, moved, self.flops.tolist(), strict=True
            )
        ]

    def estimate_s(self, units: Units, priced: Priced | None = None) -> float:
        """Seconds of a step by list scheduling, or as long as its bytes take, if that is longer.

        The engine's run (``run_tasks``) says exactly what sharing the memory does.
        """
        priced = priced or self.priced(units)
        tasks = self.tasks(priced, alone=True)
        starts = list_schedule(tasks, len(units.matrix) + 1)
        ends = (start + task.duration_ps for start, task in zip(starts, tasks, strict=True))
        moved_s = float(priced.hbm_bytes.sum()) / self._core.hbm_bytes_per_s
        return max(max(ends, default=0) / PICOSECONDS, moved_s)

    def in_order_s(self, units: Units) -> float:
        """Seconds with one operator after the other, as ``simulate`` has a core."""
        priced = self.priced(units)
        busy = np.maximum(priced.matrix_s, priced.vector_s)
        moved_s = priced.hbm_bytes / self._core.hbm_bytes_per_s
        return float((np.maximum(busy, moved_s) + self._overhead_s).sum())
