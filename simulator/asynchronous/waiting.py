"""Who waits for what: while a run goes on, and when it does not any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import simpy

from simulator.engine.errors import MOST_NAMED
from simulator.engine.resources import Meeting


@dataclass(frozen=True)
class Hang:
    """Who waits at ``at_ps``: for what, for whom, and since when.

    Either nobody goes on any more (``all_stopped``), or these wait for somebody
    who has died, or for others who do.
    """

    at_ps: int
    waits: dict[int, tuple[str, tuple[int, ...]]]
    dead: tuple[int, ...]
    all_stopped: bool = True

    def __str__(self) -> str:
        who = [
            f"worker {w} waits for {what}" + (f" ({_workers(whom)})" if whom else "")
            for w, (what, whom) in sorted(self.waits.items())
        ]
        who[MOST_NAMED:] = [f"{len(who) - MOST_NAMED} more wait"] if who[MOST_NAMED:] else []
        dead = [f"{_workers(self.dead)} had died"] if self.dead else []
        said = "it hangs at" if self.all_stopped else "some stand still at"
        return f"{said} {self.at_ps / 1e12:.6g} s: {'; '.join(who + dead)}"


def hang_of(
    at_ps: int, blocked: Mapping[int, Blocked], dead: Sequence[int], *, all_stopped: bool
) -> Hang | None:
    """Who waits; where the others go on, only those whose wait leads to somebody dead."""
    waits = {w: (one.cause, tuple(one.who())) for w, one in blocked.items() if w not in dead}
    if not all_stopped:
        lost = set(dead)
        while more := {w for w, (_, whom) in waits.items() if lost & set(whom)} - lost:
            lost |= more
        waits = {w: wait for w, wait in waits.items() if w in lost}
    if not (waits or all_stopped):
        return None
    return Hang(at_ps, waits, tuple(dead), all_stopped)


def _workers(which: Sequence[int]) -> str:
    return ("worker " if len(which) == 1 else "workers ") + ", ".join(map(str, which))


def when(event: simpy.Event, then: Callable[[], object]) -> None:
    """Do something at an event that has not fired yet, before those who wait for it later."""

    def fired(_: simpy.Event) -> None:
        then()

    event.callbacks.append(fired)


@dataclass
class Blocked:
    """A worker waits, for what and for whom: said when nobody can go on."""

    everybody: dict[int, Blocked]
    worker: int
    since_ps: int
    cause: str
    whom: Iterable[int] | Callable[[], Iterable[int]] = ()
    meeting: Meeting | None = None

    def __enter__(self) -> None:
        self.everybody[self.worker] = self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None or not issubclass(error, simpy.Interrupt):  # else it dies waiting
            self.everybody.pop(self.worker, None)

    def under(self) -> str:
        """What the time is called: of an exchange that all have come to, "exchange"."""
        under_way = self.meeting is not None and not self.meeting.awaited
        return "exchange" if under_way else self.cause

    def who(self) -> Iterable[int]:
        """The workers that it waits for; in a meeting, who has not come."""
        whom = self.whom() if callable(self.whom) else self.whom
        came = {worker for worker, _ in self.meeting.arrived} if self.meeting else set()
        return sorted(set(whom) - came - {self.worker})
