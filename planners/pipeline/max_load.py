"""Throughput's optimum: the contiguous split whose most loaded device is least loaded.

A device is given what one set of units (see ``contraction``) has more than a smaller one, both
with all that leads to them: the forward part is contiguous, and so is the backward part
where the backward edges mirror the forward ones. Its load in seconds is its nodes'
time plus, for each node whose output crosses its border - made here and needed
elsewhere, or the other way round - that output's transfer, once. A CPU is busy with
its nodes' time alone. In steady state a pipeline does a sample in the largest load.

The dynamic program goes over all such sets ("ideals"), so the value is exact::

    best[c, k, J] = min over I in J of max( best[c, k-1, I], load of J without I )

and likewise for a CPU. Source: Tarnawski et al., "Efficient Algorithms for Device
Placement of DNN Graph Operators", NeurIPS 2020, section 5; their released program
(msr-fiddle/dnn-partitioning, throughput-dp) has the same loads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from planners.errors import PlanError
from planners.pipeline.contraction import Units, disordered, units_of
from planners.pipeline.load_graph import LoadGraph
from planners.pipeline.masks import bits, neighbours
from planners.pipeline.states import Floats, as_table

MOST_IDEALS = 20_000
_BLOCK = 256
_EPSILON = 1e-12


@dataclass(frozen=True, slots=True)
class LoadedDevice:
    """One device of the split: "accelerator" or "cpu", its nodes by name, its load."""

    kind: str
    nodes: tuple[str, ...]
    load_s: float


@dataclass(frozen=True, slots=True)
class MaxLoad:
    """The largest load, everything on one accelerator, and the devices in order; idle ones not.

    ``accelerators_only_s`` is the least largest load without the CPUs; infinite where
    they are needed.
    """

    max_load_s: float
    one_device_s: float
    accelerators_only_s: float
    devices: tuple[LoadedDevice, ...]
    cpus: int
    ideals: int
    notes: tuple[str, ...]


def max_load(
    graph: LoadGraph,
    devices: int,
    cpus: int | None = None,
    done: Callable[[str], None] = lambda label: None,
) -> MaxLoad:
    """The best split over ``devices`` accelerators and ``cpus`` CPUs (None: the graph's own).

    ``done`` is called once per block of sets. Raises PlanError where there are more than
    MOST_IDEALS sets, or no split fits the accelerators' memory.
    """
    told = _notes(graph, own=cpus is None)
    cpus = graph.cpus if cpus is None else cpus
    units = units_of(graph)
    ideals = _ideals(graph.name, units)
    loads = _Loads(graph, units, ideals)
    most = len(units.nodes)  # more have nothing to do
    best = np.full((min(cpus, most) + 1, min(devices, most) + 1, len(ideals)), np.inf)
    best[:, :, 0] = 0.0
    for first in range(1, len(ideals), _BLOCK):
        _extend(best, loads, slice(first, min(first + _BLOCK, len(ideals))))
        done("placing")
    if not math.isfinite(best[-1, -1, -1]):
        raise PlanError(
            f"{graph.name}: no split over {devices} accelerators and {cpus} CPUs fits "
            f"{graph.memory_bytes:g} bytes a device (maxSizePerFPGA); take more memory, or devices"
        )
    split = tuple(reversed(list(_devices(graph, units, ideals, loads, best))))
    return MaxLoad(
        max(device.load_s for device in split),
        graph.one_device_s,
        float(best[0, -1, -1]),
        split,
        cpus,
        len(ideals),
        told,
    )


def load_s(graph: LoadGraph, members: set[int], kind: str) -> float:
    """The load of a device, "accelerator" or "cpu", that is given nodes by their positions."""
    if kind == "cpu":
        return math.fsum(graph.nodes[v].cpu_s for v in members)
    crossing = {a for a, b in graph.edges if (a in members) != (b in members)}
    return math.fsum(
        [
            *(graph.nodes[v].accelerator_s for v in members),
            *(graph.nodes[v].output_s for v in crossing),
        ]
    )


def _notes(graph: LoadGraph, *, own: bool) -> tuple[str, ...]:
    notes = []
    if graph.cpus and own:
        notes.append(f"maxCPUs {graph.cpus} of the file takes part; --cpus 0 leaves CPUs out.")
    if odd := disordered(graph):
        notes.append(
            f"{odd} backward edges do not follow the forward pass's order: only the devices' "
            f"forward parts are contiguous."
        )
    return tuple(notes)


def _ideals(name: str, units: Units) -> list[int]:
    """All sets of units with all that leads to them, smaller ones first."""
    count = len(units.nodes)
    before, after = neighbours(count, units.edges)
    free = sum(1 << v for v in range(count) if not before[v])
    found = {0: free}  # each with the units that can be added
    todo = [0]
    while todo:
        mask = todo.pop()
        for v in bits(found[mask]):
            grown = mask | 1 << v
            if grown in found:
                continue
            ready = sum(1 << w for w in bits(after[v]) if not before[w] & ~grown)
            found[grown] = found[mask] & ~(1 << v) | ready
            todo.append(grown)
        if len(found) > MOST_IDEALS:
            raise PlanError(
                f"{name}: more than {MOST_IDEALS} ways to cut it in two; give nodes of a branch "
                f"one colorClass"
            )
    return sorted(found, key=lambda mask: (mask.bit_count(), mask))


class _Loads:
    """Loads of what ideal J has more than ideal I, for many I and J at a time.

    An output that concerns the units g is not in J - I's traffic if as many of g are
    in J as in I (none of g is in J - I), or none in I and all in J. Both are equalities
    of numbers per ideal, so products of 0/1 matrices sum the outputs for all pairs.
    """

    def __init__(self, graph: LoadGraph, units: Units, ideals: list[int]) -> None:
        count = len(units.nodes)
        self.members = as_table(ideals, count)
        per_unit = {
            key: np.array([sum(getattr(graph.nodes[v], key) for v in own) for own in units.nodes])
            for key in ("accelerator_s", "cpu_s", "bytes")
        }
        off = [any(not graph.nodes[v].on_accelerator for v in own) for own in units.nodes]
        self.accelerator_s = self.members @ per_unit["accelerator_s"]
        self.cpu_s = self.members @ per_unit["cpu_s"]
        self.bytes = self.members @ per_unit["bytes"]
        self.off = self.members @ np.array(off, float)
        self.most_bytes = graph.memory_bytes * (1 + _EPSILON)
        masks = as_table([mask for _, mask in units.outputs], count)
        seconds = np.array([seconds for seconds, _ in units.outputs])
        inside, size = self.members @ masks.T, masks.sum(axis=1)
        self.total_s = seconds.sum()
        alike = [inside == n for n in range(int(size.max(initial=0)) + 1)]
        used = [np.flatnonzero(size >= n) for n in range(len(alike))]
        self.same = np.hstack([one[:, u] for one, u in zip(alike, used, strict=True)]).astype(float)
        self.same_s = np.concatenate([seconds[u] for u in used])
        self.none, self.all = (inside == 0).astype(float), (inside == size) * seconds

    def pairs(self, upper: slice) -> tuple[Floats, Floats]:
        """Loads [I, J] on an accelerator and on a CPU, of ideals I up to the last J.

        Infinite where I is no part of J.
        """
        lower = slice(0, upper.stop)
        traffic = self.total_s - self.same[lower] @ (self.same[upper] * self.same_s).T
        traffic -= self.none[lower] @ self.all[upper].T
        sizes = self.members[lower].sum(axis=1)
        part = self.members[lower] @ self.members[upper].T == sizes[:, None]
        work, cpu, size, off = (
            table[upper][None, :] - table[lower][:, None]
            for table in (self.accelerator_s, self.cpu_s, self.bytes, self.off)
        )
        fits = part & (size <= self.most_bytes) & (off == 0)
        traffic = np.where(traffic > self.total_s * _EPSILON, traffic, 0.0)
        return np.where(fits, work + traffic, np.inf), np.where(part, cpu, np.inf)


def _extend(best: Floats, loads: _Loads, upper: slice) -> None:
    """Fill best[:, :, upper] from all smaller ideals, and from those of the block itself."""
    tables = loads.pairs(upper)
    for c, k in np.ndindex(best.shape[:2]):
        found = best[c, k, upper]  # a view
        for (before_c, before_k), load in zip(((c, k - 1), (c - 1, k)), tables, strict=True):
            if before_c >= 0 and before_k >= 0:
                before = best[before_c, before_k, : upper.stop, None]
                np.minimum(found, np.maximum(before, load).min(axis=0), out=found)


def _devices(
    graph: LoadGraph, units: Units, ideals: list[int], loads: _Loads, best: Floats
) -> Iterator[LoadedDevice]:
    """The devices of a best split, the last one first."""
    (c, k), upper = (size - 1 for size in best.shape[:2]), len(ideals) - 1
    while upper:
        value = best[c, k, upper] * (1 + _EPSILON)
        steps = zip(("accelerator", "cpu"), ((c, k - 1), (c - 1, k)), strict=True)
        tables = loads.pairs(slice(upper, upper + 1))
        kind, before, lower = next(
            (kind, before, int(np.argmax(fits)))
            for (kind, before), load in zip(steps, tables, strict=True)
            if min(before) >= 0
            and (fits := np.maximum(best[(*before, slice(upper + 1))], load[:, 0]) <= value).any()
        )
        if lower != upper:
            own = bits(ideals[upper] & ~ideals[lower])
            members = sorted(v for unit in own for v in units.nodes[unit])
            names = tuple(graph.nodes[v].name for v in members)
            yield LoadedDevice(kind, names, load_s(graph, set(members), kind))
        (c, k), upper = before, lower
