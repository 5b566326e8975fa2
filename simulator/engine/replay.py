"""Programs written down beforehand: workers follow them, or parts of them by micro-batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import simpy

from simulator.engine import accelerated
from simulator.engine.blocks import Block, blocks_of
from simulator.engine.errors import DeadlockError
from simulator.engine.machine import Machine, Process
from simulator.engine.operations import (
    SEND,
    Instruction,
    Operation,
    Part,
    Program,
    RankProgram,
    Sent,
)
from simulator.engine.repeats import ACCELERATION, Repeats
from simulator.engine.resources import Done
from simulator.engine.timeline import Timeline

Made = tuple[tuple[int, ...], Instruction, dict[int, Done]]
"""Lines that send, of which pass, and what was done of its micro-batch."""
Parted = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Lines of a pass that receive, its own, and those that send before the next pass."""


class Follower:
    """What a worker has done of each micro-batch: lines by their number.

    What the stages of a place, and their micro-batches, exchange of gradients and new weights
    goes one after the other, as on one communicator: ``_stream`` is the last of it.
    """

    def __init__(
        self, machine: Machine, worker: int, rank_program: RankProgram, least_block: int = 1
    ) -> None:
        """Computations are blocks where so many go together."""
        self._machine, self._worker, self._least_block = machine, worker, least_block
        self._rank_program = rank_program
        self.instructions = list(rank_program.instructions)
        """What is to be done, of which it is ``at`` one; ``repeats`` leave out what is ahead."""
        self.at = -1
        self.look: Callable[[], object] | None = None
        mine = machine.program.workers[worker]
        self._template, self._units = mine.template, bool(mine.units)
        self._given: list[tuple[Operation, Done]] = []
        """What units have to do, which may not have begun."""
        self._lines: dict[tuple[frozenset[Part], int], tuple[int, ...]] = {}
        self._done: dict[tuple[int, int], dict[int, Done]] = defaultdict(dict)
        self._sent: dict[int, Done] = {}
        self._last: tuple[Done, ...] = ()
        self._awaited: tuple[Done, ...] = ()
        """A send that computations come behind, where exchanges overlap."""
        self._blocks: dict[tuple[int, ...], list[tuple[tuple[int, ...], Block | None]]] = {}
        self._stream: tuple[Done, ...] = ()
        self._again = False
        """Whether a forward pass is done again: its exchanges are others than those before."""
        self._made: Made = ((), Instruction(frozenset(), 0, 0), {})
        """With rendezvous: what the pass before it made, which is sent before the next one."""
        self._parted: dict[tuple[frozenset[Part], int], Parted] = {}
        self._streamed = {
            i
            for (_, part), some in rank_program.lines.items()
            for i in some
            if part in (Part.WEIGHTS, Part.SUMS, Part.NEW_WEIGHTS) and self._exchanges(i)
        }

    def follow(self) -> Process:
        """All instructions, one after the other."""
        for at, instruction in enumerate(self.instructions):
            self.at = at
            if self.look is not None:
                self.look()
            yield from self._act(instruction)
        yield from self._follow(*self._made)
        for operation, event in self._given:
            yield from self._until(operation, [event])

    def _act(self, instruction: Instruction) -> Process:
        """Follow the lines of an instruction; behind a micro-batch's last one nothing is needed."""
        done = self._done[instruction.stage, instruction.micro_batch]
        lines = self._of(instruction)
        if self._rank_program.sends == "rendezvous":
            lines = yield from self._hand_over(instruction, done)
        if instruction.again:
            inner = self._of(instruction._replace(parts=frozenset({Part.FORWARD}), again=False))
            self._again = True
            yield from self._follow(
                tuple(i for i in inner if not self._between(i)), instruction, done
            )
            self._again = False
        yield from self._follow(lines, instruction, done)
        ends = Part.UPDATE if Part.SUMS in instruction.parts else Part.WEIGHTS
        if ends in instruction.parts or Part.UPDATE in instruction.parts:
            del self._done[instruction.stage, instruction.micro_batch]

    def _hand_over(
        self, instruction: Instruction, done: dict[int, Done]
    ) -> Generator[simpy.Event, Any, tuple[int, ...]]:
        """Before a pass, send what the one before it made, and receive; returns its other lines.

        In the order of microsoft/DeepSpeed, runtime/pipe/schedule.py (TrainSchedule): two
        stages hand over activations first, then errors. So errors are sent behind what a
        forward pass receives; all else goes before what is received.
        """
        key = instruction.parts, instruction.stage
        if key not in self._parted:
            self._parted[key] = self._in_parts(instruction)
        received, own, sent = self._parted[key]
        made, self._made = self._made, (sent, instruction, done)
        taken = received, instruction, done
        errors = Part.BACKWARD in made[1].parts
        behind = errors and Part.FORWARD in instruction.parts
        for some in (taken, made) if behind else (made, taken):
            yield from self._follow(*some)
        return own

    def _in_parts(self, instruction: Instruction) -> Parted:
        """What lines receive, what they do, and what is sent later: at once where sums follow."""
        lines = self._of(instruction)
        ends = [i for i in lines if self._template[i].operation.kind == SEND]
        received = tuple(i for i in ends if not self._template[i].parties)
        sent = tuple(i for i in ends if self._template[i].parties)
        if Part.SUMS in instruction.parts:
            sent = ()
        own = {*lines} - {*received, *sent}
        return received, tuple(i for i in lines if i in own), sent

    def _exchanges(self, line: int) -> bool:
        """Whether a line is an exchange of the stage's own."""
        task = self._template[line]
        return bool(task.parties) and task.operation.kind != SEND and task.communicator is None

    def _between(self, line: int) -> bool:
        """Whether a line sends something, receives it, or gathers what was received in parts."""
        operation, needs, *_ = self._template[line]
        received = (self._template[i] for i in needs if self._template[i].receives)
        return operation.kind == SEND or any(
            one.operation.layer == operation.layer for one in received
        )

    def _of(self, instruction: Instruction) -> tuple[int, ...]:
        key = instruction.parts, instruction.stage
        if key not in self._lines:
            self._lines[key] = self._ordered(instruction.parts, self._rank_program.of(instruction))
        return self._lines[key]

    def _ordered(self, parts: frozenset[Part], lines: tuple[int, ...]) -> tuple[int, ...]:
        """Errors leave a stage when its whole backward is over, unless it is cut in two.

        So they do in all frameworks, where backward is one call. Without overlap the
        sums of gradients come behind them, where there are any to send.
        """
        template = self._template
        sent = [i for i in lines if template[i].parties and template[i].operation.kind == SEND]
        if Part.WEIGHTS not in parts or not sent:
            return lines
        behind = Part.SUMS if not self._rank_program.overlap else None
        sums = {
            i
            for (_, part), some in self._rank_program.lines.items()
            if part is behind
            for i in some
        }
        body = [i for i in lines if i not in sums and i not in sent]
        return (*body, *sent, *(i for i in lines if i in sums))

    def _follow(
        self, lines: Sequence[int], instruction: Instruction, done: dict[int, Done]
    ) -> Process:
        """Some lines in their order, blocks in one go."""
        for some, block in self._in_blocks(tuple(lines)):
            if block is None:
                for line in some:
                    yield from self._line(line, instruction, done)
                continue
            after = self._after(some[0], done)
            yield from self._until(self._template[some[0]].operation, after)
            if self._machine.slowed(self._worker):
                for line in some:
                    yield from self._line(line, instruction, done)
                continue
            found = self._machine.compute_block(self._worker, block, instruction.micro_batch, after)
            done.update(dict.fromkeys(some, found))
            yield found
            self._last = (found,)

    def _after(self, line: int, done: Mapping[int, Done]) -> list[Done]:
        """What a line comes behind: without overlap what it did last, of any micro-batch, too."""
        after = [done[i] for i in self._template[line].needs if i in done]
        if self._rank_program.overlap and self._template[line].computes:
            after += [one for one in self._awaited if one not in after]
        if not self._rank_program.overlap:
            after = [*self._last, *(e for e in after if e not in self._last)]
        return after

    def _line(self, line: int, instruction: Instruction, done: dict[int, Done]) -> Process:
        """A line by itself."""
        machine, worker, micro_batch = self._machine, self._worker, instruction.micro_batch
        operation, _, parties, _, communicator, _ = self._template[line]
        after = self._after(line, done)
        if operation.kind == SEND:
            sent = self._routed(operation, micro_batch, communicator)
            done[line] = self._pass(sent, instruction, after, parties)
            sends = self._rank_program.sends
            if sends == "rendezvous" or (parties and sends == "waited for"):
                self._last = self._awaited = (done[line],)
            return
        found: Done
        if parties:
            at = micro_batch if communicator is None else instruction.round
            if line in self._streamed:
                after += [one for one in self._stream if one not in after]
            key = (operation, "again") if self._again else None
            found = machine.meet(worker, operation, parties, at, after, key, communicator)
            if line in self._streamed:
                self._stream = (found,)
        elif self._units:
            found = machine.compute(worker, operation, micro_batch, after)
            self._given.append((operation, found))
        else:
            yield from self._until(operation, after)
            found = machine.compute(worker, operation, micro_batch, after)
            yield found
        done[line] = found
        self._last = (found,)

    def _until(self, operation: Operation, after: Sequence[Done]) -> Process:
        """Wait for what an operation comes behind."""
        for event in after:
            if event.callbacks is not None:
                self._machine.expect(self._worker, operation)
                yield event

    def _in_blocks(self, lines: tuple[int, ...]) -> list[tuple[tuple[int, ...], Block | None]]:
        """Lines that go together, and the block that they are; None: one by one."""
        found = self._blocks.get(lines)
        if found is None:
            found = self._blocks[lines] = []
            for some in blocks_of(self._template, lines):
                block = None
                if self._template[some[0]].computes and len(some) >= self._least_block:
                    operations = [self._template[line].operation for line in some]
                    block = self._machine.block(self._worker, operations)
                found.append((some, block))
        return found

    def _routed(self, operation: Operation, micro_batch: int, communicator: int | None) -> Sent:
        ways = self._rank_program.routes.get(operation)
        return Sent(operation, communicator or 0) if ways is None else ways[micro_batch % len(ways)]

    def _pass(self, sent: Sent, instruction: Instruction, after: list[Done], parties: int) -> Done:
        """Send, behind what was sent by this communicator before; or what is to be received."""
        operation, micro_batch = sent.operation, instruction.micro_batch
        key = operation, micro_batch
        rendezvous = self._rank_program.sends == "rendezvous"
        if not parties and rendezvous:
            return self._machine.receive(self._worker, key, after)
        if not parties:
            return self._machine.arrival(key)
        worker, communicator = self._worker, sent.communicator
        if communicator in self._sent:
            after = [*after, self._sent[communicator]]
        done = self._machine.deliver(
            worker, operation, key, micro_batch, after, communicator, parties, rendezvous=rendezvous
        )
        self._sent[communicator] = done
        return done


def replay(machine: Machine, worker: int, micro_batch: int = 0) -> Process:
    """A worker's control: the lines of its template, each as soon as it may be.

    Its cores compute in order, so it waits for each computation; exchanges
    go on while it does, and are waited for by those lines that need them. Where a core
    has several units, each computes in order: all get everything at once, to be waited
    for in the end.
    """
    once = machine.program.workers[worker].followed(micro_batch)
    return Follower(machine, worker, once, least_block=2).follow()


def run(program: Program, *, repeat: bool = True) -> Timeline:
    """Build the machine for a program, and let every worker follow its template.

    What its micro-batches ``repeat`` is copied, where that is as good (``repeats``).
    """
    machine, followers = Machine(program), list[Follower]()
    for worker, mine in enumerate(program.workers):
        if mine.rank_program is None:
            machine.process(replay(machine, worker), worker)
        elif mine.template:  # idle cores have none
            followers.append(Follower(machine, worker, mine.rank_program))
            machine.process(followers[-1].follow(), worker)
    repeats = None
    if repeat and accelerated(ACCELERATION):
        repeats = Repeats.of(program, followers, machine.so_far)
    try:
        found = machine.run()
    except DeadlockError:
        if repeats is None or not repeats.left_out:
            raise
        return run(program, repeat=False)  # which says when it is
    return found if repeats is None else repeats.stretched(found) or run(program, repeat=False)
