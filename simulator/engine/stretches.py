"""Lines of a pass that go on by themselves: computations, and exchanges nobody else takes part in.

When such a stretch begins it is known when each of its lines will end, so that it is
one chain (``simulator.engine.chains``), and one event.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from functools import cached_property
from typing import NamedTuple

import numpy as np

from planners.order import Kind
from simulator.engine.chains import Schedule
from simulator.engine.jobs import Ints
from simulator.engine.links import Links
from simulator.engine.operations import Operation, Task
from simulator.engine.own_links import of_one, parts_ps


class Stretch(NamedTuple):
    """Lines of a template, and which of these each needs, by their places here."""

    lines: tuple[int, ...]
    needs: tuple[tuple[int, ...], ...]


Known = dict[Hashable, dict[tuple[int, ...], list[Stretch]]]
"""How lines were cut in their order, by all that this depends on."""


class Stretches:
    """Cuts a worker's lines into stretches.

    ``lasting`` has the exchanges that may be in one and the picoseconds that they take
    (``own_links``), ``computing_ps`` says how long a computation takes. Lines that are ``apart``
    come behind what their needs do not say. In ``known`` is how lines like these were cut for
    other workers: most stages are alike.
    """

    def __init__(
        self,
        template: Sequence[Task],
        computing_ps: Callable[[Operation], int],
        lasting: Mapping[Operation, int],
        links: Links,
        apart: Set[int] = frozenset(),
        known: Known | None = None,
    ) -> None:
        self.template = template
        self.computing_ps = computing_ps
        self.lasting = lasting
        self.links = links
        self.apart = apart
        self._known: Known = {} if known is None else known

    @cached_property
    def _cuts(self) -> dict[tuple[int, ...], list[Stretch]]:
        """How lines were cut where all that this depends on is the same.

        That is what each line needs, how long it takes, and on which links. Links are told
        apart, whichever they are: the first that is named is 0.
        """
        numbers: dict[int, int] = {}
        lines = tuple((task.needs, self._takes(task, numbers)) for task in self.template)
        return self._known.setdefault((lines, frozenset(self.apart)), {})

    def _takes(self, task: Task, numbers: dict[int, int]) -> Hashable:
        """How long a line takes, and of an exchange each job on its links; None: not known."""
        operation = task.operation
        if computes(task):
            return self.computing_ps(operation)
        if not of_one(task) or operation not in self.lasting:
            return None
        jobs = [self.links.carry(job) for job in operation.jobs]
        held = [
            (
                *parts_ps(job, self.links),
                *(numbers.setdefault(n, len(numbers)) for n in job.load.links.tolist()),
            )
            for job in jobs
        ]
        return self.lasting[operation], tuple(held)

    def of(self, order: Sequence[int]) -> list[Stretch]:
        """The lines in this order, those of a stretch together.

        What a later line of a stretch needs from elsewhere the first one has waited for, or
        some line before it; its last line computes, and ends behind all others. Where a to e
        compute, x and y are exchanges of this worker alone, and s is a send:

            a, x (needs a), c (needs x), s (needs c), d, y (needs d), e
            (a, x, c), (s), (d, y, e)

        if y has ended by the end of e, else (d), (y), (e).
        """
        key = tuple(order)
        if key not in self._cuts:
            self._cuts[key] = self._cut(order)
        return self._cuts[key]

    def _cut(self, order: Sequence[int]) -> list[Stretch]:
        found, over, place = list[Stretch](), set[int](), 0
        while place < len(order):
            stretch = self._from(order, place, over)
            found.append(stretch)
            place += len(stretch.lines)
            over.difference_update(stretch.lines)
            for line in stretch.lines:  # others may go on where exchanges meet (``under_way``)
                if computes(self.template[line]):
                    over.update(self.template[line].needs)
        return found

    def _from(self, order: Sequence[int], place: int, over: Set[int]) -> Stretch:
        """The longest stretch from a place on; at least one line."""
        growing, many = _Growing(self, over), 1
        for line in order[place:]:
            if not growing.take(line):
                break
            if growing.whole:
                many = len(growing.needs)
        return Stretch(tuple(order[place : place + many]), tuple(growing.needs[:many]))


def computes(task: Task) -> bool:
    """Whether a line is something for cores to do."""
    return not task.parties and task.operation.kind is not Kind.SEND


class _Growing:
    """A stretch in the making, with when its lines begin and end."""

    def __init__(self, all_: Stretches, over: Set[int]) -> None:
        self._all = all_
        self._over = over
        self._places: dict[int, int] = {}
        self._waited: Set[int] = frozenset()
        self._computed = False
        self._schedule = Schedule()
        self._carried: list[tuple[int, int, Ints]] = []
        """From when to when its exchanges hold which links."""
        self._exchanged_ps = -1
        """When its last exchange ends."""
        self.needs: list[tuple[int, ...]] = []
        self.whole = False
        """Whether the last line ends it: cores are free then, and nothing is under way."""

    def take(self, line: int) -> bool:
        """Go on with a line, if it can."""
        task, places = self._all.template[line], self._places
        core = computes(task)
        if line in self._all.apart:
            return False
        if not core and (not of_one(task) or task.operation not in self._all.lasting):
            return False
        inner = tuple([places[n] for n in task.needs if n in places])
        outer = {n for n in task.needs if n not in places and self._may_go_on(n)}
        if not places:
            self._waited = outer
        elif not outer <= self._waited or not (inner or self._computed):
            return False
        takes_ps = self._all.computing_ps if core else self._all.lasting.__getitem__
        self._schedule.add(takes_ps(task.operation), inner, computes=core)
        if not core and not self._alone(task.operation):
            return False
        places[line] = len(self.needs)
        self.needs.append(inner)
        self._computed |= core
        end = self._schedule.ends[-1]
        self.whole = core and end > self._exchanged_ps
        if not core:
            self._exchanged_ps = max(self._exchanged_ps, end)
        return True

    def _may_go_on(self, line: int) -> bool:
        """Whether what is needed from elsewhere may not be over when a later line begins."""
        return line not in self._over and not computes(self._all.template[line])

    def _alone(self, operation: Operation) -> bool:
        """Whether none of the exchanges before holds a link of the last one's meanwhile."""
        time_ps = self._schedule.begins[-1]
        computed = self._schedule.computed_ps  # nothing begins before that any more
        self._carried = [one for one in self._carried if one[1] > computed]
        for job in map(self._all.links.carry, operation.jobs):
            through_ps, latency_ps = parts_ps(job, self._all.links)
            for since, until, links in self._carried:
                meanwhile = since < time_ps + through_ps and time_ps < until
                if meanwhile and np.isin(links, job.load.links).any():
                    return False
            self._carried.append((time_ps, time_ps + through_ps, job.load.links))
            time_ps += through_ps + latency_ps
        return True
