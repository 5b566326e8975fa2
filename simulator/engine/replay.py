"""Programs that are written down beforehand: every worker follows its template."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from planners.order import Kind
from simulator.engine.chains import Chain, runs_of
from simulator.engine.collecting import no_collecting
from simulator.engine.cores import Done
from simulator.engine.machine import Machine, Process
from simulator.engine.operations import (
    Action,
    Itinerary,
    Operation,
    Part,
    Program,
    Sent,
    Worker,
)
from simulator.engine.timeline import Timeline


def replay(machine: Machine, worker: int, turn: int = 0) -> Process:
    """A worker's control: the lines of its template, each as soon as it may be.

    Its cores compute in order, so it waits for each computation; exchanges
    go on while it does, and are waited for by those lines that need them.
    """
    template = machine.program.workers[worker].template
    done: dict[int, Done] = {}
    for run in machine.runs(template):
        operation, needs, parties, *_ = template[run[0]]
        after = [done[i] for i in needs]
        if parties:
            done[run[0]] = machine.meet(worker, operation, parties, turn, after)
            continue
        for event in after:
            if event.callbacks is not None:
                yield event
        chain = None
        if len(run) > 1:
            chain = machine.chain(worker, tuple(template[line].operation for line in run))
        if chain is not None:
            found = machine.compute_chain(worker, chain, turn, after)
            yield found
            done.update(dict.fromkeys(run, found))
            continue
        for line in run:
            operation, needs, *_ = template[line]
            done[line] = machine.compute(worker, operation, turn, [done[i] for i in needs])
            yield done[line]


def follow(machine: Machine, worker: int, itinerary: Itinerary) -> Process:
    """A worker's control where parts of its template are followed turn by turn."""
    follower = _Follower(machine, worker, itinerary)
    for action in itinerary.actions:
        yield from follower.act(action)


class _Chained(NamedTuple):
    """A chain, and the lines that it is of."""

    chain: Chain
    lines: tuple[int, ...]


class _Follower:
    """What a worker has done of each turn: lines by their number."""

    def __init__(self, machine: Machine, worker: int, itinerary: Itinerary) -> None:
        self._machine = machine
        self._worker = worker
        self._itinerary = itinerary
        self._template = machine.program.workers[worker].template
        self._lines: dict[tuple[frozenset[Part], int], tuple[int, ...]] = {}
        self._done: dict[tuple[int, int], dict[int, Done]] = defaultdict(dict)
        self._sent: dict[Operation, Done] = {}
        self._last: tuple[Done, ...] = ()
        self._chains: dict[tuple[int, ...], list[tuple[int, _Chained | None]]] = {}

    def act(self, action: Action) -> Process:
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
            if parties:
                at = turn if site is None else round_
                found = machine.meet(worker, operation, parties, at, after, site=site)
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
        if len(run) > 1:
            operations = tuple(self._template[line].operation for line in run)
            chain = self._machine.chain(self._worker, operations)
            if chain is not None:
                return [(run[0], _Chained(chain, run))]
        return [(line, None) for line in run]

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


def control(machine: Machine, worker: int, mine: Worker) -> Process:
    """What a worker of a program that is written down does."""
    if mine.itinerary is None:
        return replay(machine, worker)
    return follow(machine, worker, mine.itinerary)


def run(program: Program) -> Timeline:
    """Build the machine for a program, and let every worker follow its template."""
    with no_collecting():
        machine = Machine(program)
        for worker, mine in enumerate(program.workers):
            machine.process(control(machine, worker, mine), worker)
        return machine.run()
