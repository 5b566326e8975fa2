"""What fills up over a step: the memories of each class of cores, and links of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from experiments.pictures.resources import BOARD, Site
from hardware import Wires
from simulator import PICOSECONDS
from simulator.analysis.memory_timeline import Filled, filled

if TYPE_CHECKING:
    from simulator import Operation, Timeline


class Sample(NamedTuple):
    """A value from ``at_ps`` on, until the next one."""

    at_ps: int
    value: float


def memory(timeline: Timeline, site: Site) -> Iterator[Filled]:
    """The most that one core of a site holds during each of its computations, by class, too.

    Nothing where the execution model has no memory.
    """
    if not timeline.memory or site.level != BOARD:
        return
    names = [station.name for station in timeline.stations.workers]
    yield from filled(timeline, names.index(site.name))


def link_use(timeline: Timeline) -> dict[str, list[Sample]]:
    """Bytes a second over all links of each kind (``explain``'s) that carries something.

    What an exchange moves counts as moved evenly while it is under way. Where links are
    no wires' (published) a kind is the splits of one level.
    """
    moved: dict[Operation, dict[str, float]] = {}
    changes: dict[str, list[tuple[int, float]]] = {}
    for number, index, _, start, end, _ in zip(*timeline.columns, strict=True):
        resource, operation = timeline.resources[number], timeline.operations[index]
        if resource.kind != "link":
            continue
        if operation not in moved:
            moved[operation] = _moved(timeline, operation)
        for kind, amount in moved[operation].items():
            many = 1 if operation.jobs else resource.multiplicity
            rate = many * amount * PICOSECONDS / max(1, end - start)
            changes.setdefault(kind, []).extend([(start, rate), (max(end, start + 1), -rate)])
    return {kind: _summed(steps) for kind, steps in changes.items()}


def _moved(timeline: Timeline, operation: Operation) -> dict[str, float]:
    """Bytes over links by kind; a folded exchange's jobs are those of all that it stands for."""
    wires, found = timeline.program.wires, dict[str, float]()
    if not isinstance(wires, Wires) or not operation.jobs:
        return {f"level {operation.level}": operation.bytes} if operation.bytes else {}
    for job in operation.jobs:
        load = job.load.everywhere()
        for subnet in wires.subnets:
            here = (load.links >= subnet.links.start) & (load.links < subnet.links.stop)
            amount = float(load.flows[here].sum()) * job.flow_bytes
            if amount:
                found[subnet.joins] = found.get(subnet.joins, 0.0) + amount
    return found


def _summed(changes: list[tuple[int, float]]) -> list[Sample]:
    """The sum after each change; exactly nothing where all that began has ended."""
    samples: list[Sample] = []
    total, open_now = 0.0, 0
    for at_ps, rate in sorted(changes):
        open_now += 1 if rate > 0 else -1
        total = total + rate if open_now else 0.0
        if samples and samples[-1].at_ps == at_ps:
            samples.pop()
        samples.append(Sample(at_ps, total))
    return samples
