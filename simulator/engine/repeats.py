"""Repeats: micro-batches that come and go in a steady rhythm are run a few times, then copied.

An acceleration, switched off by ``ACCELARRAY_PLAIN=repeats`` (or ``1``, see ``simulator.engine``).

In the middle of a step's instructions each worker repeats a cycle, for later micro-batches each
time. So the first of two stages, of twelve micro-batches in 1F1B:

    F0 F1 B0 F2 B1 F3 B2 ... F11 B10 B11     the cycle is F, B, and for one micro-batch later

If the records of a run repeat themselves meanwhile, each period like the one before but
``span_ps`` later, so does its state: what is under way began, or will end, as it did a period
earlier, and what follows depends on the state and the instructions alone. With all workers still
in their cycles the run would go on so for each cycle to come. So these are left out of all
workers' instructions (``Repeats.look``), and what is behind them follows at once. In the end the
period is written down as often as it was left out, and what was behind it that much later
(``Repeats.stretched``).

Nothing is assumed of when the rhythm begins: the last two periods have to be equal to the ones
before them, to the picosecond, on all resources, in what was done, for which micro-batch and why.
As long as they are not, every instruction is followed. What is under way is in no record yet, so
all is looked at once more in the end: the rhythm has to last until cycles were left out, and
nothing behind it may have begun, or have its cause, before these periods. Where that is not so
the run is made once more without repeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import lcm
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.engine.jobs import Floats, Ints, ints
from simulator.engine.operations import Instruction, Program, RankProgram
from simulator.engine.records import NO_ROW, Columns, Participants, as_column
from simulator.engine.timeline import Timeline

ACCELERATION = "repeats"
LEAST = 3
"""Periods that are run, as two have to be like the ones before them."""
LONGEST = 4
"""Cycles that a period may have."""
MOST_PS = (1 << 63) - 1
"""No run takes longer: who follows every instruction says so."""


class Following(Protocol):
    """Who follows ``instructions``, and is ``at`` one; ``look`` is called before each."""

    instructions: list[Instruction]
    at: int
    look: Callable[[], object] | None


class _Cycles(NamedTuple):
    """In a worker's instructions: where they begin, how long one is and where they end."""

    first: int
    length: int
    end: int

    def left(self, at: int) -> int:
        """How many come behind an instruction."""
        return max(self.end - max(at + 1, self.first), 0) // self.length


class Repeats:
    """The cycles of all workers of a run, of which some are left out once their rhythm is steady.

    A cycle is of ``micro_batches``; ``left_out`` are so many of each worker. ``so_far`` gives the
    records of the run.
    """

    def __init__(
        self,
        followers: Sequence[Following],
        cycles: Sequence[_Cycles],
        micro_batches: int,
        so_far: Callable[[], Columns],
    ) -> None:
        self._followers, self._cycles = followers, cycles
        self._micro_batches, self._so_far = micro_batches, so_far
        self.left_out, self._at_ps = 0, 0
        which = min(range(len(cycles)), key=lambda i: cycles[i].left(-1))
        self._first, mine = followers[which], cycles[which]
        self._first.look = self.look
        self._due = mine.first + LEAST * mine.length
        self._begin = mine.first

    @staticmethod
    def of(
        program: Program, followers: Sequence[Following], so_far: Callable[[], Columns]
    ) -> Repeats | None:
        """Those of a program whose workers all have cycles; None for any other."""
        ranks = [worker.rank_program for worker in program.workers if worker.template]
        mine = [rank for rank in ranks if rank is not None]
        if len(mine) < len(ranks) or any(worker.pace for worker in program.workers):
            return None
        many = Counter(rank.rank for rank in mine)
        replicas = (len({r.replica for r in mine if r.rank == rank}) for rank in many)
        routes = (len(ways) for rank in mine for ways in rank.routes.values())
        turns = lcm(*replicas, *routes)
        for each in dict.fromkeys((turns, turns * len(many))):
            cycles = [_cycles(rank, each) for rank in mine]
            found = [one for one in cycles if one is not None]
            if len(found) == len(mine) and found:
                return Repeats(followers, found, each, so_far)
        return None

    def look(self) -> None:
        """Leave out cycles if their rhythm is steady; else look again later, ever less often."""
        if self._first.at < self._due:
            return
        self._due += (self._due - self._begin) // LEAST
        each = zip(self._followers, self._cycles, strict=True)
        left = min(one.left(follower.at) for follower, one in each)
        if not left:
            self._first.look = None
            return
        columns = self._so_far()
        for cycles in range(1, min(LONGEST, left) + 1):
            if _rhythm(columns, cycles * self._micro_batches):
                self._at_ps = columns.end[-1]
                self._leave_out(left // cycles * cycles)
                return

    def _leave_out(self, cycles: int) -> None:
        """Of all workers' instructions: what is behind them is for earlier micro-batches.

        So is the ``round`` of the last one's sums.
        """
        self._first.look, self.left_out = None, cycles
        last = max(one.micro_batch for f in self._followers for one in f.instructions)
        earlier = cycles * self._micro_batches

        def sooner(one: Instruction) -> Instruction:
            at = one.round - earlier if one.round == last else one.round
            return one._replace(micro_batch=one.micro_batch - earlier, round=at)

        for follower, mine in zip(self._followers, self._cycles, strict=True):
            begin = max(follower.at + 1, mine.first)
            behind = follower.instructions[begin + cycles * mine.length :]
            follower.instructions[begin:] = map(sooner, behind)

    def stretched(self, timeline: Timeline) -> Timeline | None:
        """The run with what was left out; None where its rhythm is not that of all records."""
        if not self.left_out:
            return timeline
        columns, participants = timeline.columns, timeline.participants
        periods = (cycles for cycles in range(1, LONGEST + 1) if not self.left_out % cycles)
        rhythms = (_rhythm(columns, cycles * self._micro_batches) for cycles in periods)
        found = next(filter(None, rhythms), None)
        if found is None or columns.end[found.end - 1] < self._at_ps:
            return None
        met, since = ints(participants.row), found.begin - found.rows
        first, begin, end = np.searchsorted(met, (since, found.begin, found.end))
        came = found._replace(begin=int(begin), end=int(end))
        behind = ints(columns.cause)[found.end :]
        if (
            end - begin != begin - first
            or any(
                (ints(one)[begin:end] - ints(one)[first:begin] != by).any()
                for one, by in zip(participants, (0, found.rows, found.rows), strict=True)
            )
            or ((behind != NO_ROW) & (behind < since)).any()
            or min(columns.start[found.end :], default=0) < columns.end[since]
        ):
            return None
        often = self.left_out * self._micro_batches // found.micro_batches
        if timeline.makespan_ps + often * found.span_ps > MOST_PS:
            return None
        oldest = int(ints(columns.micro_batch)[found.begin : found.end].min())
        laters = (0, 0, found.micro_batches, found.span_ps, found.span_ps, found.rows)
        leasts = (0, 0, oldest, 0, 0, 0)
        moved, memory_bytes = _bytes(timeline, found)
        return replace(
            timeline,
            columns=Columns(
                *(
                    as_column(column.typecode, found.stretched(often, column, later, least))
                    for column, later, least in zip(columns, laters, leasts, strict=True)
                )
            ),
            participants=Participants(
                *(
                    as_column("i", came.stretched(often, column, later))
                    for column, later in zip(participants, (0, found.rows, found.rows), strict=True)
                )
            ),
            moved=tuple(np.add(timeline.moved, often * moved).tolist()),
            memory_bytes=tuple(np.add(timeline.memory_bytes, often * memory_bytes).tolist()),
        )


def _cycles(rank: RankProgram, each: int) -> _Cycles | None:
    """The longest stretch in which instructions repeat, for ``each`` micro-batches later."""
    numbers: dict[Instruction, int] = {}
    what = ints(
        [numbers.setdefault(i._replace(micro_batch=0), len(numbers)) for i in rank.instructions]
    )
    which = ints([i.micro_batch for i in rank.instructions])
    middle = (int(which.max(initial=0)) + 1 - each) // 2
    length = int(((middle <= which) & (which < middle + each)).sum())
    if not 0 < length < len(which):
        return None
    same = (what[length:] == what[:-length]) & (which[length:] == which[:-length] + each)
    first, last = _longest(same)
    if last - first < LEAST * length or any(one.round for one in rank.instructions[:last]):
        return None
    return _Cycles(first, length, last + length)


def _longest(true: NDArray[np.bool_]) -> tuple[int, int]:
    """Where the longest run of true values begins and ends."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], true, [False]]).astype(np.int8)))
    if not len(edges):
        return 0, 0
    begins, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest])


class _Rhythm(NamedTuple):
    """Records from ``begin`` to ``end`` repeat those before them, ``span_ps`` later."""

    begin: int
    end: int
    span_ps: int
    micro_batches: int

    @property
    def rows(self) -> int:
        """Records of a period."""
        return self.end - self.begin

    def stretched(self, often: int, column: Sequence[int], later: int = 0, least: int = 0) -> Ints:
        """A column with the period ``often`` times more.

        Each is by ``later`` more than the one before, and so is what comes behind them; of
        values below ``least`` none is.
        """
        values = ints(column)
        before, period, behind = np.split(values, (self.begin, self.end))
        turns = np.arange(1, often + 1, dtype=np.int64)[:, np.newaxis]
        copies = np.where(period >= least, period + later * turns, period)
        behind = np.where(behind >= least, behind + later * often, behind)
        return np.concatenate([before, period, copies.ravel(), behind])


def _rhythm(columns: Columns, micro_batches: int) -> _Rhythm | None:
    """The last period of so many micro-batches that is like the two before it, if there is one."""
    resource, operation, which, start, end, cause = map(ints, columns)
    rows = int(((which > 0) & (which <= micro_batches)).sum())  # the first has more: new weights
    if not 0 < 3 * rows <= len(end):
        return None
    alike = (resource[rows:] == resource[:-rows]) & (operation[rows:] == operation[:-rows])
    alike &= which[rows:] == which[:-rows] + micro_batches
    spans = end[rows:] - end[:-rows]
    if not alike.any():
        return None
    span_ps = int(np.median(spans[alike]))
    alike &= (spans == span_ps) & (start[rows:] - start[:-rows] == span_ps)
    alike &= (cause[rows:] == cause[:-rows] + rows) | (
        (cause[rows:] == NO_ROW) & (cause[:-rows] == NO_ROW)
    )
    first, last = _longest(alike)
    if last - first < 2 * rows:
        return None
    return _Rhythm(last, last + rows, span_ps, micro_batches)


def _bytes(timeline: Timeline, rhythm: _Rhythm) -> tuple[Floats, Floats]:
    """What crosses each link, and each memory link, in a period: an exchange is one record."""
    moved, memories = np.zeros(len(timeline.moved)), np.zeros(len(timeline.memory_bytes))
    hbms = {
        memory: worker.hbm
        for worker, has in zip(
            timeline.program.workers, timeline.all_resources.workers, strict=True
        )
        for memory in has.memories[:1]
        if worker.hbm is not None
    }
    period = slice(rhythm.begin, rhythm.end)
    on = zip(timeline.columns.resource[period], timeline.columns.operation[period], strict=True)
    for (resource, number), often in Counter(on).items():
        operation = timeline.operations[number]
        for job in operation.jobs:
            for load, size in timeline.links.carry(job).crosses:
                moved[load.links] += often * size * load.flows
        if resource in hbms:
            memories[hbms[resource]] += often * operation.bytes
    return moved, memories
