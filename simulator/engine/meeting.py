"""Where workers meet: an exchange that begins when everybody has come."""

from __future__ import annotations

from collections.abc import Hashable

import simpy

from simulator.engine.cores import Done
from simulator.engine.operations import Operation


class Meeting(Done):
    """An exchange: where its parties come together, and the event of its end.

    ``came`` has who came, in the order in which they did: each party's worker
    and what it had waited for.
    """

    operation: Operation
    turn: int
    link: int
    start_ps: int

    def __init__(self, env: simpy.Environment, name: Hashable, parties: int) -> None:
        super().__init__(env)
        self.name = name
        self.missing = parties
        self.came: list[tuple[int, Done | None]] = []
        self.opened = False

    def open(self, operation: Operation, turn: int, link: int) -> None:
        """Say what is exchanged, and on which link it is recorded."""
        self.operation, self.turn, self.link = operation, turn, link
        self.opened = True
