"""A worker that follows parts of its template turn by turn, as its itinerary says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from planners.order import Kind
from simulator.engine.chains import Chain, runs_of
from simulator.engine.cores import Done
from simulator.engine.machine import Machine, Process
from simulator.engine.operations import Action, Itinerary, Operation, Part, Sent
from simulator.engine.stretches import computes

_Run = tuple[tuple[int, ...], tuple[tuple[int, ...], ...] | None]
"""Lines that may be a chain, and which of them each needs where that is not the one before."""


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

    What the stages of a place exchange of gradients and new weights
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
        self._streams: dict[int, Done] = {}
        self._streamed = {
            i
            for (_, part), some in itinerary.lines.items()
            for i in some
            if part in (Part.SUMS, Part.NEW_WEIGHTS) and self._template[i].site is None
        }
        overlap, chains = itinerary.overlap, machine.chains
        self._stretches = chains.stretches(worker, self._streamed) if overlap else None
        self._under_way = chains.under_way() if self._stretches else None

    def follow(self) -> Process:
        """All actions, one after the other."""
        for action in self._itinerary.actions:
            yield from self._act(action)
        yield from self._given.over()

    def _act(self, action: Action) -> Process:
        """Follow the lines of an action; of a turn nothing is needed behind its last one."""
        done = self._done[action.stage, action.turn]
        if action.again:
            inner = self._of(action._replace(parts=frozenset({Part.FORWARD}), again=False))
            yield from self._follow(tuple(i for i in inner if not self._between(i)), action, done)
        yield from self._follow(self._of(action), action, done)
        ends = Part.UPDATE if Part.SUMS in action.parts else Part.WEIGHTS
        if ends in action.parts or Part.UPDATE in action.parts:
            del self._done[action.stage, action.turn]

    def _between(self, line: int) -> bool:
        """Whether a line sends something, receives it, or gathers what was received in parts."""
        operation, needs, *_ = self._template[line]
        received = (self._template[i] for i in needs if self._template[i].receives)
        return operation.kind is Kind.SEND or any(
            one.operation.layer == operation.layer for one in received
        )

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
        """Some lines in their order, chains in one go."""
        items = self._chained(lines)[::-1]
        while items:
            line, chain = items.pop()
            if chain is None:
                yield from self._line(line, action, done)
                continue
            first = self._template[line].operation
            yield from self._until(first, self._after(line, done))
            if self._disturbed(chain.chain):
                for some in self._apart(chain.lines):
                    items += self._chained(some)[::-1]
                continue
            after = self._after(line, done)
            found = self._machine.compute_chain(self._worker, chain.chain, action.turn, after)
            done.update(dict.fromkeys(chain.lines, found))
            yield found
            self._last = (found,)

    def _disturbed(self, chain: Chain) -> bool:
        """Whether other exchanges may be on the links of a chain's."""
        under_way = self._under_way
        return under_way is not None and under_way.disturbs(chain, int(self._machine.env.now))

    def _apart(self, lines: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Behind the first exchange of a chain, and up to it: then it is looked at again."""
        exchange = next(n for n, line in enumerate(lines) if self._template[line].parties)
        return lines[exchange + 1 :], lines[: exchange + 1]

    def _after(self, line: int, done: Mapping[int, Done]) -> list[Done]:
        """What a line comes behind: without overlap what it did last, in whatever turn, too."""
        after = [done[i] for i in self._template[line].needs if i in done]
        if not self._itinerary.overlap:
            after = [*self._last, *(e for e in after if e not in self._last)]
        return after

    def _line(self, line: int, action: Action, done: dict[int, Done]) -> Process:
        """A line by itself."""
        machine, worker, turn = self._machine, self._worker, action.turn
        operation, _, parties, _, site, _ = self._template[line]
        after = self._after(line, done)
        if operation.kind is Kind.SEND:
            sent = self._routed(operation, turn, site)
            done[line] = self._pass(sent, action, after, parties)
            if parties and self._itinerary.block:
                self._last = (done[line],)
            return
        found: Done
        if parties:
            at = turn if site is None else action.round
            if line in self._streamed:
                after += [e for s, e in self._streams.items() if s != action.stage]
            meeting = found = machine.meet(worker, operation, parties, at, after, site=site)
            if line in self._streamed:
                self._streams[action.stage] = found
            if operation.jobs and self._under_way is not None:
                self._under_way.add(meeting)
        elif self._units:
            found = self._given.compute(operation, turn, after)
        else:
            yield from self._until(operation, after)
            found = machine.compute(worker, operation, turn, after)
            yield found
        done[line] = found
        self._last = (found,)

    def _until(self, operation: Operation, after: Sequence[Done]) -> Process:
        """Wait for what an operation comes behind."""
        for event in after:
            if event.callbacks is not None:
                self._machine.expect(self._worker, operation)
                yield event

    def _chained(self, lines: Sequence[int]) -> list[tuple[int, _Chained | None]]:
        """Lines, of those that are a chain the first with all of them."""
        key = tuple(lines)
        if key not in self._chains:
            self._chains[key] = [item for run in self._runs(key) for item in self._chain(*run)]
        return self._chains[key]

    def _runs(self, lines: tuple[int, ...]) -> Sequence[_Run]:
        if self._stretches is not None:
            return self._stretches.of(lines)
        return [(run, None) for run in runs_of(self._template, lines)]

    def _chain(
        self, run: tuple[int, ...], needs: tuple[tuple[int, ...], ...] | None
    ) -> list[tuple[int, _Chained | None]]:
        """A run as a chain where there can be one, else line by line."""
        if len(run) == 1 and not computes(self._template[run[0]]):
            return [(run[0], None)]
        operations = [self._template[line].operation for line in run]
        chain = self._machine.chains.chain(self._worker, operations, needs)
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
