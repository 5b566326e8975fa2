"""Blocks: what a worker computes in one go is one event, and is written down at once.

An acceleration, switched off by ``ACCELARRAY_PLAIN=blocks`` (or ``1``, see
``simulator.engine``).

It assumes that a worker's cores take one operation at a time, in the order of the lines; that
nobody else uses its HBM, or that none is followed; and that neither pace nor units make an
operation's time depend on when it runs. Then of lines k, k + 1, ... of which each but the first
needs nothing but computations, and exchanges that a line before has waited for already, each
begins when the one before ends: begin_(k+1) = end_k. What they need else is over by then, as
cores compute in order. So when the first begins, all ends are known, and nobody can tell when
the inner ones fire: an exchange, or another worker, waits for a line that ends a block or is
behind one. (An exchange that needs an inner line is issued behind the block. It would not be
issued earlier without blocks, as a worker issues its lines in order and waits for computations.)

    a (3 ps), b (needs a; 4 ps; 10 B of HBM at 2 B/ps), x (an exchange), c (needs x), d, e (x)
    (a, b): from t on   a ends at t + 3, b at t + 3 + max(4, 10 / 2) = t + 8
    (c, d, e): from the end of x on

An exchange may be within a block, too, where the worker comes to it alone (it stands for its
whole group), on links that no exchange without it crosses (``OwnLinks``), and the next line
is a computation that needs it. It begins when the line before ends, as the worker comes to it
then; nobody slows it; and the next line begins when it ends. So it is one more line in the
chain. The worker itself could be in the way with what it gave before: such a block is not taken
while anything that crosses these links is under way, but its lines one by one. With x of 5 ps
on links of one's own (a, b, x, c, d, e) is one block: x from t + 8 to t + 13, c from there on.
"""

from __future__ import annotations

from array import array as column
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.engine.jobs import Ints, Job, Links, as_kept
from simulator.engine.operations import SEND, Operation, Program, Sent, Task

ACCELERATION = "blocks"
NOBODY, SEVERAL = -1, -2
"""Who owns a link that none crosses, or that no worker has part in all of."""
NO_LINK = -1


def blocks_of(
    template: Sequence[Task], lines: Iterable[int], own: Container[int] = ()
) -> list[tuple[int, ...]]:
    """Lines in their order, those together that are done in one go.

    a, b, x (of two), c (needs x), d, e (needs x)     (a, b), (x), (c, d, e)

    With x among the worker's ``own`` exchanges all of them are one block.
    """
    order = list(lines)
    ahead = {line for line in order if not template[line].computes}
    waited = set[int]()
    found, block = list[tuple[int, ...]](), list[int]()

    def needed(line: int) -> set[int]:
        return {need for need in template[line].needs if not template[need].computes}

    def within(line: int, then: int | None) -> bool:
        """Whether an exchange goes on in the block: the next line waits for it alone."""
        if line not in own or then is None or not template[then].computes:
            return False
        return bool(block) and needed(line) <= waited and line in needed(then) <= {line, *waited}

    for line, then in zip_longest(order, order[1:]):
        if template[line].computes:
            if block and not needed(line) <= waited:
                found.append(tuple(block))
                block = []
            waited |= needed(line) - ahead
            block.append(line)
            continue
        ahead.discard(line)
        if within(line, then):
            waited.add(line)
            block.append(line)
            continue
        found += [tuple(block), (line,)] if block else [(line,)]
        block = []
    return [*found, tuple(block)] if block else found


class OwnLinks:
    """Of each link, which worker takes part in all exchanges that cross it.

    None goes on before that worker has come to it. All there is to exchange has to be in the
    workers' templates.
    """

    def __init__(self, program: Program, links: Links) -> None:
        self._program, self._links = program, links
        self._owner = np.full(len(links.bandwidth), NOBODY)
        givers: dict[tuple[Operation, int], set[int]] = {}
        sent: list[tuple[Mapping[Operation, tuple[Sent, ...]], list[int]]] = []
        for number, worker in enumerate(program.workers):
            for task in worker.template:
                if task.parties:
                    givers.setdefault((task.operation, task.parties), set()).add(number)
            routes = worker.rank_program.routes if worker.rank_program else {}
            if routes:  # workers of a pipeline have the routes of all
                if not any(routes is known for known, _ in sent):
                    sent.append((routes, []))
                next(numbers for known, numbers in sent if known is routes).append(number)
        for routes, numbers in sent:
            before: tuple[Sent, ...] = ()
            for ways in routes.values():
                if ways is not before:  # those of one tensor follow each other
                    for way in ways:  # two users are enough for a link to be shared
                        givers.setdefault((way.operation, 1), set()).update(numbers[:2])
                before = ways
        for (operation, parties), several in sorted(givers.items(), key=lambda item: len(item[1])):
            together = [*several] if len(several) == parties else []  # else in meetings apart
            first = together[0] if parties == 1 and together else SEVERAL
            for load in {links.carry(job).load for job in operation.jobs}:
                owner = self._owner[load.links]
                owner = np.where(owner == NOBODY, first, owner)
                self._owner[load.links] = np.where(np.isin(owner, together), owner, SEVERAL)
        self._crosses: dict[tuple[int, Operation], bool] = {}

    def lines(self, worker: int) -> frozenset[int]:
        """A worker's lines which are exchanges that it comes to alone, on such links alone."""
        template = self._program.workers[worker].template
        return frozenset(
            line
            for line, task in enumerate(template)
            if task.parties == 1
            and task.communicator is None
            and task.operation.kind != SEND
            and all((owners == worker).all() for owners in self._owners(task.operation))
        )

    def crosses(self, worker: int, operation: Operation) -> bool:
        """Whether something that a worker gives is on one of its own links."""
        key = worker, operation
        if key not in self._crosses:
            self._crosses[key] = any((each == worker).any() for each in self._owners(operation))
        return self._crosses[key]

    def _owners(self, operation: Operation) -> list[Ints]:
        return [self._owner[self._links.carry(job).load.links] for job in operation.jobs]


class Timed(NamedTuple):
    """An operation of a block with its ``number`` in the log and how long it takes alone.

    Of a computation ``through_ps`` are what its HBM needs for its bytes, which are written
    down by the number ``moved`` (None: there are none); an exchange is on a ``link``.
    """

    operation: Operation
    number: int
    duration_ps: int
    through_ps: int = 0
    moved: int | None = None
    link: int = NO_LINK


class Block:
    """Some operations of a ``worker`` that follow each other.

    Its lines are the computations, then what they move in HBM, then exchanges. Columns say of
    each line its number, when it begins and ends in picoseconds from the block's begin,
    ``after`` which line that is (-1: none of these), and on which ``link`` it is (NO_LINK: on
    none, but a core, or a memory where it is ``moved``). ``count`` are the computations;
    ``jobs`` is what its exchanges carry.
    """

    def __init__(self, operations: Sequence[Timed], worker: int) -> None:
        self.worker = worker
        computations = [one for one in operations if one.link == NO_LINK]
        crossing = [one for one in computations if one.moved is not None]
        self.count, moved = len(computations), len(crossing)
        places = iter(range(self.count)), iter(range(self.count + moved, 1 << 62))
        core, memory, link = list[_Line](), list[_Line](), list[_Line]()
        now, last = 0, -1
        for one in operations:
            exchange = one.link != NO_LINK
            ends = now + max(one.duration_ps, one.through_ps)
            (link if exchange else core).append(_Line(one.number, now, ends, last, one.link))
            if one.moved is not None:
                memory.append(_Line(one.moved, now, now + one.through_ps, last, NO_LINK))
            now, last = ends, next(places[exchange])
        self.duration_ps = now
        self.hbm_bytes = sum((one.operation.hbm_bytes for one in crossing), 0.0)
        self.jobs = Counter[Job](
            job for one in operations if one.link != NO_LINK for job in one.operation.jobs
        )
        self.numbers, self.begin, self.end, self.after, self.link = map(
            list, zip(*core, *memory, *link, strict=True)
        )
        self.moved = [self.count <= place < self.count + moved for place in range(len(self.end))]


class _Line(NamedTuple):
    """Of a block, as its columns have it."""

    number: int
    begin: int
    end: int
    after: int
    link: int


class Unrolled(NamedTuple):
    """The lines of all blocks: their numbers, what records say of each, and where it was done.

    ``said`` are operation, micro-batch, start, end and cause; ``moved`` are those on a memory,
    ``worker`` is who came to an exchange (NOBODY: it is none).
    """

    number: Ints
    said: list[Ints]
    resource: Ints
    moved: NDArray[np.bool_]
    worker: Ints


class BlockLog:
    """All blocks that were written, each as often as it was: a line here, many in the end."""

    def __init__(self) -> None:
        self._offset: dict[Block, int] = {}
        self._operation, self._after = column("i"), column("i")
        self._begin, self._end = column("q"), column("q")
        self._moved, self._link, self._worker = column("b"), column("i"), column("i")
        # above a block's lines from its offset on, below what is said whenever it is written
        self._line, self._size = column("i"), column("i")
        self._micro_batch, self._start, self._cause, self._first = (column(kind) for kind in "iqii")
        self._core, self._memory = column("i"), column("i")
        self.lines = 0
        """Of all of them together."""

    def __len__(self) -> int:
        return len(self._first)

    def write(
        self,
        block: Block,
        on: tuple[int, int],
        micro_batch: int,
        start_ps: int,
        cause: int,
        first: int,
    ) -> None:
        """A block that waited for the number ``cause``; its lines have those from ``first`` on.

        It was done ``on`` a core and a memory, by their numbers.
        """
        offset, lines = self._offset.get(block), len(block.numbers)
        if offset is None:
            offset = self._offset[block] = len(self._end)
            self._operation.extend(block.numbers)
            self._begin.extend(block.begin)
            self._end.extend(block.end)
            self._after.extend(block.after)
            self._moved.extend(block.moved)
            self._link.extend(block.link)
            self._worker.extend(NOBODY if on == NO_LINK else block.worker for on in block.link)
        self._line.append(offset)
        self._size.append(lines)
        self._micro_batch.append(micro_batch)
        self._start.append(start_ps)
        self._cause.append(cause)
        self._first.append(first)
        core, memory = on
        self._core.append(core)
        self._memory.append(memory)
        self.lines += lines

    def unroll(self) -> Unrolled:
        """All lines, each as often as it was written.

        Block c has lines of two operations, 5 and 7, of 3 and 4 ps, and was written twice:

            start  first     number     0 1 9 10
              10      0      operation  5 7 5  7
              40      9      end        13 17 43 47
        """
        size = as_kept(self._size)
        which = np.repeat(np.arange(len(size), dtype=np.int32), size)
        place = np.arange(len(which), dtype=np.int32)
        place -= np.repeat((np.cumsum(size) - size).astype(np.int32), size)
        line = as_kept(self._line)[which] + place
        first, start = as_kept(self._first)[which], as_kept(self._start)[which]
        after = as_kept(self._after)[line]
        moved = as_kept(self._moved)[line] > 0
        said = [
            as_kept(self._operation)[line],
            as_kept(self._micro_batch)[which],
            start + as_kept(self._begin)[line],
            start + as_kept(self._end)[line],
            np.where(after < 0, as_kept(self._cause)[which], first + after),
        ]
        resource = np.where(moved, as_kept(self._memory)[which], as_kept(self._core)[which])
        link, worker = as_kept(self._link)[line], as_kept(self._worker)[line]
        resource = np.where(link == NO_LINK, resource, link)
        return Unrolled(first + place, said, resource, moved, worker)
