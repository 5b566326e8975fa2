"""A worker that follows parts of its template turn by turn, as its itinerary says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from planners.order import Kind
from simulator.engine.chains import Chain, runs_of
from simulator.engine.cores import Done
from simulator.engine.machine import Machine, Process
from simulator.engine.operations import Action, Itinerary, Operation, Part, Sent


class _Chained(NamedTuple):
    """A chain, and the lines that it is of."""

    chain: Chain
    lines: tuple[int, ...]


class Given:
    """What the units of a worker's core were given, which may not have begun."""

    def __init__(self, machine: Machine, worker: int) -> None:
        self._machine = machine
        self._worker = worker
        self._under_way: list[tuple[Operation, Done]] = []

    def compute(self, operation: Operation, turn: int, after: Sequence[Done]) -> Done:
        """Give a unit an operation, behind what it was given before and what comes ``after``."""
        found = self._machine.compute(self._worker, operation, turn, after)
        self._under_way.append((operation, found))
        return found

    def over(self) -> Process:
        """Wait for all of it."""
        for operation, event in self._under_way:
            if event.callbacks is not None:
                self._machine.expect(self._worker, operation)
                yield event


class Follower:
    """What a worker has done of each turn: lines by their number.

    It is at the ``place``-th of its ``actions``. ``before`` is called with each action
    that is about to begin. What the stages of a place exchange of gradients and new weights
    goes one after the other, as on one communicator: in ``_streams`` are the last of each.
    """

    def __init__(self, machine: Machine, worker: int, itinerary: Itinerary) -> None:
        self._machine = machine
        self._worker = worker
        self._itinerary = itinerary
        mine = machine.program.workers[worker]
        self._template, self._units = mine.template, bool(mine.units)
        self._given = Given(machine, worker)
        self._lines: dict[tuple[frozenset[Part], int], tuple[int, ...]] = {}
        self._done: dict[tuple[int, int], dict[int, Done]] = defaultdict(dict)
        self._sent: dict[Operation, Done] = {}
        self._last: tuple[Done, ...] = ()
        self._chains: dict[tuple[int, ...], list[tuple[int, _Chained | None]]] = {}
        self._latest: dict[tuple[int, Part], int] = {}
        self._streams: dict[int, Done] = {}
        self._streamed = {
            i
            for (_, part), some in itinerary.lines.items()
            for i in some
            if part in (Part.SUMS, Part.NEW_WEIGHTS) and self._template[i].site is None
        }
        self.actions = itinerary.actions
        self.place = 0
        self.before: Callable[[Action], None] | None = None

    def follow(self) -> Process:
        """All actions, one after the other."""
        while self.place < len(self.actions):
            action = self.actions[self.place]
            for part in action.parts - {Part.NEW_WEIGHTS}:
                self._latest[action.stage, part] = action.turn
            if self.before is not None:
                self.before(action)
            yield from self._act(action)
            self.place += 1
        yield from self._given.over()

    def known(self, turn: int) -> Hashable:
        """How far it is, turns counted from ``turn``.

        Of each part of each stage the last turn that it began; the earlier ones are
        those before it in the order that the part is taken in. In the action under way
        it has done what does not wait for anything that goes on.
        """
        return tuple([one - turn for one in self._latest.values()])

    def _act(self, action: Action) -> Process:
        """Follow the lines of an action; of a turn nothing is needed behind its last one."""
        done = self._done[action.stage, action.turn]
        if action.again:
            inner = self._of(action._replace(parts=frozenset({Part.FORWARD}), again=False))
            template = self._template
            inner = tuple(i for i in inner if template[i].operation.kind is not Kind.SEND)
            yield from self._follow(inner, action, done)
        yield from self._follow(self._of(action), action, done)
        ends = Part.UPDATE if Part.SUMS in action.parts else Part.WEIGHTS
        if ends in action.parts or Part.UPDATE in action.parts:
            del self._done[action.stage, action.turn]

    def _of(self, action: Action) -> tuple[int, ...]:
        key = action.parts, action.stage
        if key not in self._lines:
            self._lines[key] = self._ordered(action.parts, self._itinerary.of(action))
        return self._lines[key]

    def _ordered(self, parts: frozenset[Part], lines: tuple[int, ...]) -> tuple[int, ...]:
        """Errors leave a stage when its whole backward is over, unless it is cut in two.

        So they do in all frameworks, where backward is one call. Without overlap the
        sums of gradients come behind them, where there are any to send.
        """
        template = self._template
        sent = [i for i in lines if template[i].parties and template[i].operation.kind is Kind.SEND]
        if Part.WEIGHTS not in parts or not sent:
            return lines
        behind = Part.SUMS if not self._itinerary.overlap else None
        sums = {
            i for (_, part), some in self._itinerary.lines.items() if part is behind for i in some
        }
        body = [i for i in lines if i not in sums and i not in sent]
        return (*body, *sent, *(i for i in lines if i in sums))

    def _follow(self, lines: Sequence[int], action: Action, done: dict[int, Done]) -> Process:
        machine, worker, turn, round_ = self._machine, self._worker, action.turn, action.round
        template, overlap = self._template, self._itinerary.overlap
        for line, chain in self._chained(lines):
            operation, needs, parties, _, site, _ = template[line]
            after = [done[i] for i in needs if i in done]
            if not overlap:  # what it did last, in whatever turn, and what it received
                after = [*self._last, *(e for e in after if e not in self._last)]
            if operation.kind is Kind.SEND:
                sent = self._routed(operation, turn, site)
                done[line] = self._pass(sent, action, after, parties)
                if parties and self._itinerary.block:
                    self._last = (done[line],)
                continue
            found: Done
            if parties and chain is None:
                at = turn if site is None else round_
                if line in self._streamed:
                    after = [*after, *(e for s, e in self._streams.items() if s != action.stage)]
                found = machine.meet(worker, operation, parties, at, after, site=site)
                if line in self._streamed:
                    self._streams[action.stage] = found
            elif self._units:
                found = self._given.compute(operation, turn, after)
            else:
                for event in after:
                    if event.callbacks is not None:
                        machine.expect(worker, operation)
                        yield event
                if chain is None:
                    found = machine.compute(worker, operation, turn, after)
                else:
                    found = machine.compute_chain(worker, chain.chain, turn, after)
                    done.update(dict.fromkeys(chain.lines, found))
                yield found
            done[line] = found
            self._last = (found,)

    def _chained(self, lines: Sequence[int]) -> list[tuple[int, _Chained | None]]:
        """Lines, of those that compute one behind the other the first with all of them."""
        key = tuple(lines)
        if key not in self._chains:
            runs = runs_of(self._template, key)
            self._chains[key] = [item for run in runs for item in self._chain(run)]
        return self._chains[key]

    def _chain(self, run: tuple[int, ...]) -> list[tuple[int, _Chained | None]]:
        """A run as a chain where there can be one, else line by line."""
        chain = self._machine.chain(self._worker, [self._template[line].operation for line in run])
        return [(line, None) for line in run] if chain is None else [(run[0], _Chained(chain, run))]

    def _routed(self, operation: Operation, turn: int, site: int | None) -> Sent:
        ways = self._itinerary.routes.get(operation)
        return Sent(operation, site or 0) if ways is None else ways[turn % len(ways)]

    def _pass(self, sent: Sent, action: Action, after: list[Done], parties: int) -> Done:
        """Send, behind what was sent the same way before; or what is to be received."""
        operation, turn = sent.operation, action.turn
        key = operation, turn
        if not parties:
            return self._machine.arrival(key)
        if operation in self._sent:
            after = [*after, self._sent[operation]]
        worker, site = self._worker, sent.site
        done = self._machine.deliver(worker, operation, key, turn, after, site, parties)
        self._sent[operation] = done
        return done
