"""Seeing that a machine repeats itself, and leaving out what would only be the same again.

Workers with itineraries do the same for micro-batch after micro-batch. What a machine does
next follows from its state and from what its workers still have to do. So if its state
at one instant is that of an earlier one with every turn n later, and all scripts between
go on as they did, then the time between the two comes again, and again, for as long as
scripts go on like that: to the picosecond, since nothing but differences of times
and of turns decides anything. Such stretches need not be followed. Scripts are
shortened by them, and ``simulator.engine.repeated`` writes their records afterwards.

Two stages, four micro-batches (F: forward, B: backward), seen whenever stage 0 begins a B:

    stage 0   F0 F1 .. B0 F2 .. B1 F3 .. B2 .. B3
    stage 1      F0 B0 F1 B1 F2 B2 F3 B3

At B1 everything is where it was at B0, one turn later. Of 400 micro-batches B0 to B1 can be
left out 396 times: the script of stage 0 is then F0 F1 B0 F2 B1 F3 B2 B3. (It is left out
less often, as what is seen for the first time is no repeat yet.)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import simpy

from simulator.engine.follower import Follower
from simulator.engine.machine import Machine
from simulator.engine.operations import Action, Part
from simulator.engine.rows import Repeat
from simulator.engine.state import state

RECENT = 32
"""States that are kept whole: most rhythms are no longer than so many turns."""
_BEHIND = simpy.events.EventPriority(3)
"""Priority of an event that comes after all others of its instant, the interconnect's too."""


class _Seen(NamedTuple):
    """When stage 0 was at a turn: the time, and how far everybody was."""

    turn: int
    time_ps: int
    places: tuple[int, ...]


class _Known(NamedTuple):
    """A state, and when it was seen."""

    state: Hashable
    seen: _Seen


class _Expected(NamedTuple):
    """A state that should come again ``turns`` later."""

    state: Hashable
    seen: _Seen
    turns: int


class Rhythm:
    """Looks at a machine's state each time that the first follower begins to go back.

    A rhythm is proven when a state comes again. States are long, so only the last ones are kept
    whole, and of those before their hashes: one whose hash was seen before is kept, to come
    once more.
    """

    def __init__(self, machine: Machine, followers: Sequence[Follower]) -> None:
        self._machine = machine
        self._followers = followers
        self._turns: dict[int, int] = {}
        """By hash of a state, the turn at which it was seen last."""
        self._recent: dict[int, _Known] = {}
        """By hash, the last states."""
        self._expected: _Expected | None = None
        self.repeat: Repeat | None = None
        first = followers[0]
        self._stage = first.actions[0].stage if first.actions else 0
        first.before = self._begins

    def _begins(self, action: Action) -> None:
        if Part.WEIGHTS not in action.parts or action.stage != self._stage:
            return
        event = simpy.Event(self._machine.env)
        event._ok, event._value = True, None
        event.callbacks.append(lambda _: self._look(action.turn))
        self._machine.env.schedule(event, _BEHIND)

    def _look(self, turn: int) -> None:
        """Compare the state at the end of this instant with what was seen before."""
        machine = self._machine
        known = tuple([follower.known(turn) for follower in self._followers])
        now = known, state(machine, turn)
        places = tuple([follower.place for follower in self._followers])
        seen = _Seen(turn, int(machine.env.now), places)
        expected = self._expected
        if expected and expected.state == now:
            self._proven(expected.seen, seen)
            return
        number = hash(now)
        recent = self._recent.get(number)
        if recent and recent.state == now:
            self._proven(recent.seen, seen)
            return
        self._recent[number] = _Known(now, seen)
        if len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]
        late = expected is None or turn >= expected.seen.turn + expected.turns
        if late and number in self._turns:
            self._expected = _Expected(now, seen, turn - self._turns[number])
        self._turns[number] = turn

    def _proven(self, one: _Seen, other: _Seen) -> None:
        """The state was the same twice: leave out what comes again, or look again later."""
        turns = other.turn - one.turn
        # it is followed once more: what is seen twice, with what was before it, is known whole
        times = self._times(one, other) - 1
        if times < 1:
            self._turns.clear()
            self._recent.clear()
            self._expected = None
            return
        for follower, before, now in zip(self._followers, one.places, other.places, strict=True):
            follower.actions = _shortened(follower.actions, before, now, turns, times)
        self._followers[0].before = None
        span_ps = other.time_ps - one.time_ps
        self.repeat = Repeat(turns, span_ps, times, other.time_ps + span_ps)

    def _times(self, one: _Seen, other: _Seen) -> int:
        """How often all scripts go on as they did from the one time to the other."""
        turns, times = other.turn - one.turn, -1
        for follower, before, now in zip(self._followers, one.places, other.places, strict=True):
            if before == now or not _in_order(follower.actions):
                return 0
            times = _repeats(follower.actions, before, now, turns, times)
            if not times:
                return 0
        return max(times, 0)


def watch(machine: Machine, followers: Sequence[Follower]) -> Rhythm | None:
    """Look out for a rhythm, where the machine's state can be compared."""
    busy = [worker for worker in machine.program.workers if worker.template]
    unlike = any(worker.pace is not None or worker.units for worker in busy)
    if not followers or len(followers) < len(busy) or unlike or machine.program.shared_memory:
        return None
    return Rhythm(machine, followers)


def _in_order(actions: Sequence[Action]) -> bool:
    """Whether turns come evenly in each part of each stage.

    Then the last one says which others were before, and none is left for later.
    """
    steps: dict[tuple[int, Part], int] = {}
    last: dict[tuple[int, Part], int] = {}
    for action in actions:
        for part in action.parts:
            key = action.stage, part
            if key in last:
                step = action.turn - last[key]
                if step <= 0 or steps.setdefault(key, step) != step:
                    return False
            last[key] = action.turn
    return True


def _repeats(actions: Sequence[Action], before: int, now: int, turns: int, most: int) -> int:
    """How often the actions from one place to the other come again, at ``most`` (-1: any).

    The action that is under way at the end is one of those that must be the same.
    """
    many = now - before
    last = len(actions) if most < 0 else min(len(actions), now + most * many + 1)
    place = now
    while place < last and _later(actions[place - many], turns) == actions[place]:
        place += 1
    return max(place - 1 - now, 0) // many


def _later(action: Action, turns: int) -> Action:
    """The same so many turns later."""
    parts, stage, turn, round_, again = action
    rounds = turns if Part.SUMS in parts or Part.UPDATE in parts else 0
    return Action(parts, stage, turn + turns, round_ + rounds, again)


def _shortened(
    actions: Sequence[Action], before: int, now: int, turns: int, times: int
) -> tuple[Action, ...]:
    """What is under way ends, and what comes behind the repeats comes now, as earlier turns."""
    behind = actions[now + 1 + times * (now - before) :]
    return (*actions[: now + 1], *(_later(action, -turns * times) for action in behind))
