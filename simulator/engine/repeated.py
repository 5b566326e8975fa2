"""The whole timeline of a run of which a stretch was followed once and came more often."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from simulator.engine.jobs import Floats, Ints, distinct, ints
from simulator.engine.rows import NO_ROW, Columns, Joins, Repeat, Rows, as_column
from simulator.engine.timeline import Timeline


def repeated(timeline: Timeline, repeat: Repeat) -> Timeline:
    """A run with what was left out of it: records, exchanges' parties, and bytes.

    The ``timeline`` is that of shortened scripts (``rhythm``). What ended by
    ``repeat.end_ps`` stays as it is, what ended in the stretch before comes again, and what
    ended later is moved behind that.
    """
    rows = RepeatedRows(timeline.rows, repeat)
    times = rows.often - 1
    moved = np.array(timeline.moved) + _link_bytes(timeline, times)
    memory = np.array(timeline.memory_bytes) + _memory_bytes(timeline, times)
    return replace(
        timeline, rows=rows, moved=tuple(moved.tolist()), memory_bytes=tuple(memory.tolist())
    )


def _link_bytes(timeline: Timeline, times: Ints) -> Floats:
    """What crosses each link of the wires when each row comes so many times."""
    found, links = np.zeros(len(timeline.moved)), timeline.links
    often = np.zeros(len(timeline.operations), dtype=np.int64)
    np.add.at(often, ints(timeline.columns.operation), times)
    for number in np.flatnonzero(often):
        for job in timeline.operations[number].jobs:
            load = links.carry(job).load
            found[load.links] += often[number] * job.flow_bytes * load.flows
    return found


def _memory_bytes(timeline: Timeline, times: Ints) -> Floats:
    """What crosses each HBM."""
    found = np.zeros(len(timeline.memory_bytes))
    size = np.array([operation.bytes for operation in timeline.operations])
    moved = size[ints(timeline.columns.operation)] * times
    resource = ints(timeline.columns.resource)
    by_resource = np.bincount(resource, moved, minlength=len(timeline.resources))
    workers = zip(timeline.program.workers, timeline.stations.workers, strict=True)
    for worker, station in workers:
        if worker.hbm is not None:
            found[worker.hbm] += by_resource[station.memories[0]]
    return found


class RepeatedRows(Rows):
    """Rows of which those from ``first`` to ``end`` come again, written when they are asked for."""

    repeat: Repeat

    def __init__(self, followed: Rows, repeat: Repeat) -> None:
        self._followed = followed
        self.repeat = repeat
        ends = ints(followed.columns.end)
        since = repeat.end_ps - repeat.span_ps, repeat.end_ps
        self._first, self._end = map(int, np.searchsorted(ends, since, side="right"))
        self._many = self._end - self._first

    @property
    def followed(self) -> Rows:  # noqa: D102
        return self._followed

    @property
    def often(self) -> Ints:  # noqa: D102
        found = np.ones(len(self._followed), dtype=np.int64)
        found[self._first : self._end] += self.repeat.times
        return found

    @property
    def end_ps(self) -> int:  # noqa: D102
        return self._followed.end_ps + self.repeat.times * self.repeat.span_ps

    @property
    def turns(self) -> int:  # noqa: D102
        return self._followed.turns + self.repeat.times * self.repeat.turns

    def __len__(self) -> int:
        return len(self._followed) + self.repeat.times * self._many

    @cached_property
    def columns(self) -> Columns:
        """All records."""
        resource, operation, turn, start, end, cause = map(ints, self._followed.columns)
        where = np.arange(len(end))
        turns, span_ps = self.repeat.turns, self.repeat.span_ps
        return Columns(
            as_column("i", self._again(resource, where)),
            as_column("i", self._again(operation, where)),
            as_column("i", self._again(turn, where, turns)),
            as_column("q", self._again(start, where, span_ps)),
            as_column("q", self._again(end, where, span_ps)),
            as_column("i", self._causes(cause, where)),
        )

    @cached_property
    def joins(self) -> Joins:
        """All who took part in exchanges."""
        worker, row, cause = map(ints, self._followed.joins)
        return Joins(
            as_column("i", self._again(worker, row)),
            as_column("i", self._again(row, row, self._many)),
            as_column("i", self._causes(cause, row)),
        )

    def _parts(self, where: Ints) -> tuple[Ints, Ints, Ints]:
        """Places of what is as it was, of what comes again, and of what is later."""
        before = where < self._end
        again = before & (where >= self._first)
        return np.flatnonzero(before), np.flatnonzero(again), np.flatnonzero(~before)

    def _again(self, values: Ints, where: Ints, each: int = 0) -> Ints:
        """Values of the rows ``where``, each time that they come again by ``each`` more."""
        before, again, later = self._parts(where)
        times = np.arange(1, self.repeat.times + 1)
        repeats = (values[again] + each * times[:, np.newaxis]).ravel()
        return np.concatenate([values[before], repeats, values[later] + each * times[-1]])

    def _causes(self, causes: Ints, where: Ints) -> Ints:
        """Rows that the rows ``where`` waited for: each time those that came again with them."""
        before, again, later = self._parts(where)
        rows = np.concatenate([causes[again], causes[later]])
        found = distinct(rows)
        number = np.searchsorted(found, rows)
        images = self._images(found)
        repeats = images[1:, number[: len(again)]].ravel()
        return np.concatenate([causes[before], repeats, images[-1, number[len(again) :]]])

    def _images(self, rows: Ints) -> Ints:
        """Per repeat (0: none) the rows that are the same as some, so much later.

        What ended in the stretch has its image as many rows behind as the stretch has. Of what
        ended before it is found by its turn, until it is in the stretch itself.
        """
        found = [rows]
        while len(found) <= self.repeat.times:
            last = found[-1]
            early = (last != NO_ROW) & (last < self._first)
            if not early.any():
                break
            following = np.where(last == NO_ROW, NO_ROW, last + self._many)
            following[early] = self._later(last[early])
            found.append(following)
        last = found[-1]
        left = np.arange(1, self.repeat.times + 2 - len(found))[:, np.newaxis]
        rest = np.where(last == NO_ROW, NO_ROW, last + self._many * left)
        return np.concatenate([np.stack(found), rest])

    def _later(self, rows: Ints) -> Ints:
        """Where the same stands one repeat's turns later."""
        keys, by_key, turn = self._keys
        wanted = keys[rows] + self.repeat.turns * turn
        places = np.searchsorted(keys, wanted, sorter=by_key)
        found: Ints = by_key[np.minimum(places, len(keys) - 1)]
        if (keys[found] != wanted).any():
            raise AssertionError("what is waited for does not come again with those who wait")
        return found

    @cached_property
    def _keys(self) -> tuple[Ints, Ints, int]:
        """A key for each row, the rows in the order of keys, and by how much turns change them.

        By what was done on which resource in which turn, and for the how many-th time: forward
        may be computed twice.
        """
        resource, operation, turn, *_ = map(ints, self._followed.columns)
        many = int(turn.max()) + 1 + self.repeat.turns
        keys = (resource * (int(operation.max()) + 1) + operation) * many + turn
        by_key = np.argsort(keys, kind="stable")
        ordered = keys[by_key]
        time = np.arange(len(keys)) - np.searchsorted(ordered, ordered)
        most = int(time.max()) + 1
        keys[by_key] = ordered * most + time
        return keys, by_key, most
