"""Where workers meet: an exchange that begins when everybody has come."""

from __future__ import annotations

from collections.abc import Hashable

import simpy

from simulator.engine.cores import Done, number_of
from simulator.engine.operations import Operation
from simulator.engine.records import Log


class Meeting(Done):
    """An exchange: where its parties come together, and the event of its end.

    ``came`` has who came, in the order in which they did, until it is over: each party's
    worker and what it had waited for.
    """

    operation: Operation
    turn: int
    link: int
    start_ps: int

    def __init__(self, env: simpy.Environment, log: Log, name: Hashable, parties: int) -> None:
        super().__init__(env)
        self._log = log
        self.callbacks.append(self._over)
        self.name = name
        self.missing = parties
        self.came: list[tuple[int, Done | None]] = []
        self.opened = False

    def open(self, operation: Operation, turn: int, link: int) -> None:
        """Say what is exchanged, and on which link it is recorded."""
        self.operation, self.turn, self.link = operation, turn, link
        self.opened = True

    def _over(self, _: simpy.Event) -> None:
        """Its record, and who took part in it after what."""
        log = self._log
        last: Done | None = None
        first_worker = -1
        for worker, waited in self.came:
            # who came last decided when it began; of those at once, the first worker
            if waited is not None and (
                last is None or (waited.end_ps, -worker) > (last.end_ps, -first_worker)
            ):
                last, first_worker = waited, worker
            log.worker.append(worker)
            log.waited_for.append(number_of(waited))
        link, operation, turn = self.link, self.operation, self.turn
        self.number = log.note(link, operation, turn, self.start_ps, self.end_ps, last)
        log.met.extend([self.number] * len(self.came))
        self.came = []  # what they waited for is forgotten, as a core's is
