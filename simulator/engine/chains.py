"""Operations that follow each other while nobody watches: one event, and one line in the log.

What a worker's cores compute one after the other, on an HBM of its own, ends when it
ends, and so does what it exchanges with itself alone: only the end of the last one can
matter to anybody else.
"""

from __future__ import annotations

from array import array as column
from collections.abc import Iterable, Mapping, Sequence
from operator import add
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planners.order import Kind
from simulator.engine.jobs import Ints, ints
from simulator.engine.operations import Operation, Task
from simulator.engine.picoseconds import whole_ps


def runs_of(template: Sequence[Task], lines: Iterable[int]) -> list[tuple[int, ...]]:
    """Lines in their order, those that compute in one go together.

    Each of these but the first needs what computes on the same cores, or what some line
    before it has waited for. Of a whole template of which each line waits for the one
    before, exchanges of a single party, which no wires carry, go with them: there
    nothing else could go on meanwhile.

        a, b, x (of two), c (needs x), d, e (needs x)     (a, b), (x), (c, d, e)
    """
    order = list(lines)
    in_turn = len(order) == len(template) and all(
        line - 1 in task.needs for line, task in enumerate(template) if line
    )
    others = {line for line, task in enumerate(template) if not _alone(task, in_turn)}
    ahead, over = others.intersection(order), set[int]()
    found, run = list[tuple[int, ...]](), list[int]()
    for line in order:
        if line in others:
            ahead.discard(line)
            found += [tuple(run), (line,)] if run else [(line,)]
            run = []
            continue
        needs = template[line].needs
        if not others.isdisjoint(needs):
            needed = others.intersection(needs)
            if run and not needed <= over:
                found.append(tuple(run))
                run = []
            over |= needed - ahead
        run.append(line)
    return [*found, tuple(run)] if run else found


def _alone(task: Task, in_turn: bool) -> bool:
    """Whether it is of one worker: what it computes and, ``in_turn``, what nobody else joins."""
    operation, _, parties, _, site, _ = task
    if parties:
        return in_turn and parties == 1 and site is None and not operation.jobs
    return operation.kind is not Kind.SEND


ON_CORES, ON_MEMORY = -1, -2


class Unrolled(NamedTuple):
    """The lines of all chains: their numbers, what records say of each, and where it was done.

    ``said`` are operation, turn, start, end and cause; ``met`` are those that are exchanges,
    in which ``worker`` took part.
    """

    number: Ints
    said: tuple[Ints, ...]
    resource: Ints
    worker: Ints
    met: NDArray[np.bool_]
    moved: NDArray[np.bool_]
    """On a memory."""


class Chain:
    """Some operations on cores with HBM of a ``bandwidth``, by their ``numbers`` in the log.

    Its lines are the operations, then what they move in HBM, numbered by
    ``traffic``. Columns say of each line its number, when it begins and ends in
    picoseconds from the chain's begin, and ``after`` which line that is (-1:
    none of these). ``computes`` are the lines of cores, and ``on`` says where each line is
    recorded: ON_CORES, ON_MEMORY, or an exchange on which of the ``links``, by level.

    Each operation comes behind the one before it; or, where it is said which ones each
    ``needs``, cores compute in order, and exchanges go on meanwhile for as long as they
    are ``lasting``: the last operation ends last.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        numbers: Sequence[int],
        bandwidth: float | None = None,
        traffic: Mapping[Operation, int] = MappingProxyType({}),
        links: Sequence[int] = (),
        needs: Sequence[Sequence[int]] | None = None,
        lasting: Mapping[Operation, int] = MappingProxyType({}),
    ) -> None:
        count = len(operations)
        durations = [lasting.get(one, one.duration_ps) for one in operations]
        crossing, through_ps = list[int](), list[int]()
        if bandwidth is not None:
            crossing = [place for place, one in enumerate(operations) if one.hbm_bytes]
            through_ps = [whole_ps(operations[at].hbm_bytes / bandwidth) for at in crossing]
            for place, time in zip(crossing, through_ps, strict=True):
                durations[place] = max(durations[place], time)
        if needs is None:
            needs = [(k - 1,) if k else () for k in range(count)]
        schedule = Schedule()
        for one, duration, needed in zip(operations, durations, needs, strict=True):
            schedule.add(duration, needed, computes=one.level < 0)
        begins, after = schedule.begins, schedule.after
        self.duration_ps = schedule.ends[-1]
        self.hbm_bytes = sum((operations[place].hbm_bytes for place in crossing), 0.0)
        begin = [begins[place] for place in crossing]
        self.numbers = [*numbers, *(traffic[operations[at]] for at in crossing)]
        self.begin = begins + begin
        self.end = schedule.ends + list(map(add, begin, through_ps))
        self.after = [*after, *(after[place] for place in crossing)]
        self.count = count
        self.on = [ON_CORES if one.level < 0 else links[one.level] for one in operations]
        self.on += [ON_MEMORY] * len(crossing)
        self.exchanges = [one for one in operations if one.jobs]
        begin_of = zip(operations, begins, strict=True)
        self.exchanging_ps = min((begin for one, begin in begin_of if one.jobs), default=0)
        """When the first of its ``exchanges``, those on wires, begins."""
        self.computes = [place for place, on in enumerate(self.on) if on == ON_CORES]


class Schedule:
    """When each of some lines begins and ends (picoseconds), and behind which one (-1: none).

    Cores take theirs one after the other; whoever gives them out waits for each, so that an
    exchange behind one in this order begins no earlier than its end.
    """

    def __init__(self) -> None:
        self.begins, self.ends, self.after = list[int](), list[int](), list[int]()
        self._computed = -1
        self.computed_ps = 0
        """When the last computation ends: no later line begins before."""

    def add(self, duration_ps: int, needs: Sequence[int], *, computes: bool) -> None:
        """Another line, which needs those at these places."""
        last, begin = -1, 0
        for need in (*needs, self._computed):
            if need >= 0 and (last < 0 or self.ends[need] > begin):
                last, begin = need, self.ends[need]
        if computes:
            self._computed, self.computed_ps = len(self.ends), begin + duration_ps
        self.begins.append(begin)
        self.ends.append(begin + duration_ps)
        self.after.append(last)


class Chains:
    """All chains that were written, each as often as it was: a line here, many in the end."""

    def __init__(self) -> None:
        self._offset: dict[Chain, int] = {}
        self._operation, self._after = column("i"), column("i")
        self._begin, self._end = column("q"), column("q")
        self._on = column("i")
        # above a chain's lines from its offset on, below what is said whenever it is written
        self._line, self._size = column("i"), column("i")
        self._turn, self._start, self._cause, self._first = (column(kind) for kind in "iqii")
        self._worker, self._core, self._memory = (column(kind) for kind in "iii")
        self.lines = 0
        """Of all of them together."""

    def __len__(self) -> int:
        return len(self._first)

    def write(
        self,
        chain: Chain,
        by: tuple[int, int, int],
        turn: int,
        start_ps: int,
        cause: int,
        first: int,
    ) -> None:
        """A chain that waited for the number ``cause``; its lines have those from ``first`` on.

        It was done ``by`` a worker, on a core and a memory, by their numbers.
        """
        offset = self._offset.get(chain)
        if offset is None:
            offset = self._offset[chain] = len(self._end)
            self._operation.extend(chain.numbers)
            self._begin.extend(chain.begin)
            self._end.extend(chain.end)
            self._after.extend(chain.after)
            self._on.extend(chain.on)
        self._line.append(offset)
        self._size.append(len(chain.numbers))
        self._turn.append(turn)
        self._start.append(start_ps)
        self._cause.append(cause)
        self._first.append(first)
        worker, core, memory = by
        self._worker.append(worker)
        self._core.append(core)
        self._memory.append(memory)
        self.lines += len(chain.numbers)

    def unroll(self) -> Unrolled:
        """All lines, each as often as it was written.

        Chain c has lines of two operations, 5 and 7, of 3 and 4 ps, and was written twice:

            start  first     number     0 1 9 10
              10      0      operation  5 7 5  7
              40      9      end        13 17 43 47
        """
        size = ints(self._size)
        which = np.repeat(np.arange(len(size)), size)
        place = np.arange(len(which)) - np.repeat(np.cumsum(size) - size, size)
        line = ints(self._line)[which] + place
        first, start = ints(self._first)[which], ints(self._start)[which]
        after = ints(self._after)[line]
        on = ints(self._on)[line]
        core, memory = ints(self._core)[which], ints(self._memory)[which]
        said = (
            ints(self._operation)[line],
            ints(self._turn)[which],
            start + ints(self._begin)[line],
            start + ints(self._end)[line],
            np.where(after < 0, ints(self._cause)[which], first + after),
        )
        moved = on == ON_MEMORY
        resource = np.where(on == ON_CORES, core, np.where(moved, memory, on))
        return Unrolled(first + place, said, resource, ints(self._worker)[which], on >= 0, moved)
