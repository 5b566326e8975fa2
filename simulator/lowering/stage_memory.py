"""How full each stage's HBM gets, from its script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simulator.analysis.memory_timeline import peak
from simulator.engine.occupancy import MOVING, DeviceMemory, all_classes
from simulator.engine.operations import Worker


def stage_memory(
    workers: Sequence[Worker],
    capacities: Sequence[float],
    names: Sequence[str],
    layers: Sequence[Mapping[str, str]] = (),
) -> tuple[DeviceMemory, ...]:
    """One entry for each place and device; ``names`` and ``capacities`` are the workers'.

    Bytes are those of the fullest core. ``layers`` are what each worker's layers are called,
    where that is not what its operations say.
    """
    found: dict[tuple[str, str], DeviceMemory] = {}
    called = layers or [{}] * len(workers)
    for worker, capacity, name, own in zip(workers, capacities, names, called, strict=True):
        if worker.itinerary is None:
            continue
        top = peak(worker, worker.itinerary)
        most = worker.held_bytes if top is None else top.most
        where, more, by_class = "", 0.0, (0.0,) * len(MOVING)
        if top is not None:
            copies = f", {top.versions} versions of the weights" if top.versions > 1 else ""
            by_class, more = top.by_class, (top.versions - 1) * worker.weight_bytes
            layer = own.get(top.operation.layer, top.operation.layer)
            where = f"{layer} {top.operation.phase}, micro-batch {top.turn}{copies}"
        key = (worker.device.name, name)
        over = worker.cores if most > capacity else 0
        old = found.get(key)
        if old is None:
            old = DeviceMemory(f"{name} ({worker.device.name})", -1.0, capacity, "", 0, 0)
        fuller = old if old.peak_bytes >= most else None
        found[key] = DeviceMemory(
            old.device,
            fuller.peak_bytes if fuller else most,
            capacity,
            fuller.operator if fuller else where,
            old.cores + worker.cores,
            old.cores_over + over,
            fuller.by_class
            if fuller
            else all_classes(
                worker.held_bytes + more,
                worker.weight_bytes + more,
                worker.gradient_bytes,
                by_class,
            ),
        )
    return tuple(found.values())
