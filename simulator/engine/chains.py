"""Operations that follow each other while nobody watches: one event, and one line in the log.

What a worker's cores compute one after the other, on an HBM of its own, ends when it
ends, and so does what it exchanges with itself alone: only the end of the last one can
matter to anybody else.
"""

from __future__ import annotations

from array import array as column
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from operator import add
from types import MappingProxyType

import numpy as np

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


class Chain:
    """Some operations on cores with HBM of a ``bandwidth``, by their ``numbers`` in the log.

    Its lines are the operations, then what they move in HBM, numbered by
    ``traffic``. Columns say of each line its number, when it begins and ends in
    picoseconds from the chain's begin, and ``after`` which line that is (-1:
    none of these). ``computes`` are the lines of cores, ``moves`` those of the HBM, and
    ``meets`` those of exchanges, on ``sites``: the ``links`` of their levels.
    """

    def __init__(
        self,
        operations: Sequence[Operation],
        numbers: Sequence[int],
        bandwidth: float | None = None,
        traffic: Mapping[Operation, int] = MappingProxyType({}),
        links: Sequence[int] = (),
    ) -> None:
        count = len(operations)
        durations = [operation.duration_ps for operation in operations]
        crossing, through_ps = list[int](), list[int]()
        if bandwidth is not None:
            crossing = [place for place, one in enumerate(operations) if one.hbm_bytes]
            through_ps = [whole_ps(operations[at].hbm_bytes / bandwidth) for at in crossing]
            for place, time in zip(crossing, through_ps, strict=True):
                durations[place] = max(durations[place], time)
        times = [0, *accumulate(durations)]
        self.duration_ps = times[-1]
        self.hbm_bytes = sum((operations[place].hbm_bytes for place in crossing), 0.0)
        begin = [times[place] for place in crossing]
        self.numbers = [*numbers, *(traffic[operations[at]] for at in crossing)]
        self.begin = times[:-1] + begin
        self.end = times[1:] + list(map(add, begin, through_ps))
        self.after = [*range(-1, count - 1), *(place - 1 for place in crossing)]
        self.moves = range(count, count + len(crossing))
        self.meets = [place for place, one in enumerate(operations) if one.level >= 0]
        self.sites = [links[operations[place].level] for place in self.meets]
        self.computes: Sequence[int] = range(count)
        if self.meets:
            self.computes = [place for place, one in enumerate(operations) if one.level < 0]


class Chains:
    """All chains that were written, each as often as it was: a line here, many in the end."""

    def __init__(self) -> None:
        self._offset: dict[Chain, int] = {}
        self._operation, self._after = column("i"), column("i")
        self._begin, self._end = column("q"), column("q")
        # above a chain's lines from its offset on, below what is said whenever it is written
        self._line, self._size = column("i"), column("i")
        self._turn, self._start, self._cause, self._first = (column(kind) for kind in "iqii")
        self.lines = 0
        """Of all of them together."""

    def __len__(self) -> int:
        return len(self._first)

    def write(self, chain: Chain, turn: int, start_ps: int, cause: int, first: int) -> None:
        """A chain that waited for the number ``cause``; its lines have those from ``first`` on."""
        offset = self._offset.get(chain)
        if offset is None:
            offset = self._offset[chain] = len(self._end)
            self._operation.extend(chain.numbers)
            self._begin.extend(chain.begin)
            self._end.extend(chain.end)
            self._after.extend(chain.after)
        self._line.append(offset)
        self._size.append(len(chain.numbers))
        self._turn.append(turn)
        self._start.append(start_ps)
        self._cause.append(cause)
        self._first.append(first)
        self.lines += len(chain.numbers)

    def unroll(self) -> tuple[Ints, tuple[Ints, ...]]:
        """The numbers of all lines, and of each its operation, turn, start, end and cause.

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
        return first + place, (
            ints(self._operation)[line],
            ints(self._turn)[which],
            start + ints(self._begin)[line],
            start + ints(self._end)[line],
            np.where(after < 0, ints(self._cause)[which], first + after),
        )
