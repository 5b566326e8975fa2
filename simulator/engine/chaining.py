"""The chains of a machine: which operations of a worker are one, each made once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from simulator.engine.chains import Chain, runs_of
from simulator.engine.jobs import Job
from simulator.engine.links import Links
from simulator.engine.memories import Memories
from simulator.engine.operations import Operation, Program, Task
from simulator.engine.own_links import lasting
from simulator.engine.picoseconds import whole_ps
from simulator.engine.records import Log
from simulator.engine.stations import Stations
from simulator.engine.stretches import Known, Stretches
from simulator.engine.under_way import UnderWay


class Chaining:
    """What ``Machine.compute_chain`` takes, of a program's workers."""

    def __init__(
        self, program: Program, stations: Stations, log: Log, memories: Memories, links: Links
    ) -> None:
        self._program = program
        self._stations = stations
        self._log = log
        self._memories = memories
        self._links = links
        self._known: dict[tuple[Hashable, ...], Chain] = {}
        self._runs: dict[int, list[tuple[int, ...]]] = {}
        self._cuts: Known = {}
        self._often: Counter[Chain] = Counter()  # of those with exchanges on wires

    def chain(
        self,
        worker: int,
        operations: Sequence[Operation],
        needs: tuple[tuple[int, ...], ...] | None = None,
    ) -> Chain | None:
        """Some operations as one; None where pace, units or HBM forbid it.

        With what each ``needs`` of them exchanges go on meanwhile (``stretches``).
        """
        mine = self._program.workers[worker]
        if not self._possible(worker):
            return None
        bandwidth = None if mine.hbm is None else self._program.hbms[mine.hbm]
        exchange = any(operation.level >= 0 for operation in operations)
        links = self._stations.workers[worker].links if exchange else ()
        key = (*operations, bandwidth, links, needs)
        if key not in self._known:
            number, moved = self._log.number, self._memories.traffic
            crossing = [one for one in operations if bandwidth is not None and one.hbm_bytes]
            traffic = {one: number(moved(one)) for one in crossing}
            numbers = [*map(number, operations)]
            lasts = {} if needs is None else self._lasting
            self._known[key] = Chain(operations, numbers, bandwidth, traffic, links, needs, lasts)
        return self._known[key]

    def runs(self, template: tuple[Task, ...]) -> list[tuple[int, ...]]:
        """A template's lines, those that compute in one go together (``chains.runs_of``)."""
        if id(template) not in self._runs:
            self._runs[id(template)] = runs_of(template, range(len(template)))
        return self._runs[id(template)]

    def stretches(self, worker: int, apart: Set[int] = frozenset()) -> Stretches | None:
        """What cuts a worker's template into stretches; None where they would be no chains.

        Lines that are ``apart`` are in none.
        """
        if not self._possible(worker):
            return None
        mine = self._program.workers[worker]
        bandwidth = None if mine.hbm is None else self._program.hbms[mine.hbm]

        def computing_ps(operation: Operation) -> int:
            through_ps = whole_ps(operation.hbm_bytes / bandwidth) if bandwidth else 0
            return max(operation.duration_ps, through_ps)

        lasting = self._lasting
        return Stretches(mine.template, computing_ps, lasting, self._links, apart, self._cuts)

    def under_way(self) -> UnderWay:
        """For a worker that follows stretches to note its other exchanges in."""
        return UnderWay(self._links, self._lasting)

    def count(self, chain: Chain) -> None:
        """A chain begins."""
        if chain.exchanges:
            self._often[chain] += 1

    def carried(self) -> Iterator[tuple[Job, int]]:
        """What chains have moved over links since this was asked last, and how often."""
        for chain, times in self._often.items():
            for operation in chain.exchanges:
                for job in operation.jobs:
                    yield self._links.carry(job), times
        self._often.clear()

    def _possible(self, worker: int) -> bool:
        """Whether what a worker computes ends when it is known to end."""
        mine = self._program.workers[worker]
        own = self._memories.is_own(mine.hbm)
        return own and mine.pace is None and not mine.units

    @cached_property
    def _lasting(self) -> Mapping[Operation, int]:
        return lasting(self._program, self._links)
