"""The machine: SimPy processes for every core, every chip's HBM and every link."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import simpy

from simulator.engine.cores import Link, Unit
from simulator.engine.errors import DeadlockError, SimulationError
from simulator.engine.interconnect import Network
from simulator.engine.operations import COMPUTE_LEVEL, Branch, Leaf, Operation, Program
from simulator.engine.timeline import Resource, Timeline, new_columns


@dataclass(slots=True)
class Board:
    """One accelerator: its cores, its chips' HBMs, and the links of the splits above it."""

    name: str
    device: str
    cores: Unit
    hbms: tuple[Unit, ...]
    links: list[Link] = field(default_factory=list)
    doing: Operation | None = None


class Meeting:
    """Where the cores that take part in an exchange meet, and the event of its end."""

    __slots__ = ("absent", "done", "link", "operation")

    def __init__(self, operation: Operation, link: int, done: simpy.Event) -> None:
        self.operation = operation
        self.link = link
        self.done = done
        self.absent = 0


class Machine:
    """Everything of an array that takes time, ready to be given operations.

    ``submit`` an operation to a board's cores, to an HBM or to a link, and
    wait for the event it returns; ``run`` lets a whole program do that.
    """

    def __init__(self, program: Program) -> None:
        self.env = simpy.Environment(initial_time=0)
        self._wakeups = 0
        self.program = program
        self.resources: list[Resource] = []
        self.boards: list[Board] = []
        self._log = new_columns()
        self._running: list[simpy.Process] = []
        self._links: Counter[int] = Counter()
        self._meetings: dict[int, Meeting] = {}
        self.network = Network(self.env, program.wires.bandwidth if program.wires else ())
        self._place(program.root)

    def run(self) -> Timeline:
        """Run the program to its end; raises DeadlockError when it cannot get there."""
        # A run makes next to no garbage: the collector would walk all that lives, again and
        # again, for nothing. It is only put off: `freeze` instead would forget what was garbage.
        collects = gc.isenabled()
        gc.disable()
        try:
            self.env.run()
        except OverflowError:
            raise SimulationError(
                "the step takes more than 106 days (2^63 ps); are bandwidths and peaks right?"
            ) from None
        finally:
            if collects:
                gc.enable()
        if any(process.is_alive for process in self._running):
            raise DeadlockError(self._who_waits())
        events = self._wakeups + len(self._log.end)
        link_bytes = tuple(self.network.link_bytes.tolist())
        return Timeline(self.program, tuple(self.resources), self._log, events, link_bytes)

    def _place(self, node: Branch | Leaf) -> list[int]:
        """Build a sub-tree's boards and links; returns its boards' numbers."""
        if isinstance(node, Leaf):
            board = self._board(node)
            self.boards.append(board)
            if node.needs is None:
                follow = self._follow(board, node)
            else:
                follow = self._meet(board, node, node.needs)
            self._running.append(self.env.process(follow))
            self._wakeups += 1 + len(node.operations)
            return [len(self.boards) - 1]
        name = f"link{node.level}.{self._links[node.level]}"
        self._links[node.level] += 1
        number = self._resource(Resource("link", name, node.multiplicity))
        members = [i for half in node.halves for i in self._place(half)]
        cores = sum(
            self.resources[c].cores for i in members for c in self.boards[i].cores.resources
        )
        self.resources[number] = Resource("link", name, node.multiplicity, cores)
        link = Link(self.env, number, self._log, members)
        for i in members:
            self.boards[i].links.insert(0, link)
        return members

    def _board(self, leaf: Leaf) -> Board:
        """A board's units; a resource that stands for others has their number."""
        if leaf.single:
            return self._core(leaf)
        name, device = f"board{len(self.boards)}", leaf.device
        cores: list[int] = []
        hbms: list[Unit] = []
        chips_each = leaf.multiplicity * device.chips // leaf.chips
        cores_each = chips_each * device.cores_per_chip // leaf.cores_per_chip
        for chip in range(leaf.chips):
            place = f"{name}.chip{chip}"
            cores += [
                self._resource(
                    Resource("core", f"{place}.core{core}", cores_each, cores_each, device)
                )
                for core in range(leaf.cores_per_chip)
            ]
            memory = Resource("hbm", f"{place}.hbm", chips_each, device=device)
            hbms.append(Unit(self.env, (self._resource(memory),), self._log))
        return Board(name, device.name, Unit(self.env, cores, self._log), tuple(hbms))

    def _core(self, leaf: Leaf) -> Board:
        """A single core and its slice of the HBM."""
        name, device, count = f"core{len(self.boards)}", leaf.device, leaf.multiplicity
        core = self._resource(Resource("core", f"{name}.core", count, count, device))
        memory = self._resource(Resource("hbm", f"{name}.hbm", count, device=device))
        cores, hbm = (Unit(self.env, (number,), self._log) for number in (core, memory))
        return Board(name, device.name, cores, (hbm,))

    def _resource(self, resource: Resource) -> int:
        self.resources.append(resource)
        self._wakeups += 1
        return len(self.resources) - 1

    def _follow(self, board: Board, leaf: Leaf) -> Generator[simpy.Event, Any, None]:
        """One accelerator's control: its operations in order, each to where it runs."""
        cores, links = board.cores, board.links
        for operation in leaf.operations:
            board.doing = operation
            if operation.level == COMPUTE_LEVEL:
                yield cores.submit(operation)
            else:
                yield links[operation.level].join(operation)

    def _meet(
        self, board: Board, leaf: Leaf, needs_of_each: Sequence[Sequence[int]]
    ) -> Generator[simpy.Event, Any, None]:
        """One core's control where operations overlap.

        It computes in order; exchanges go to the network as soon as they can.
        """
        for operation in leaf.operations:
            if operation.level != COMPUTE_LEVEL:
                self._meeting(board, operation).absent += 1
        yield self.env.timeout(0)  # every core has said where it will be
        done: list[simpy.Event] = []
        for operation, needs in zip(leaf.operations, needs_of_each, strict=True):
            if operation.level != COMPUTE_LEVEL:
                done.append(self._arrive(operation, [done[i] for i in needs]))
                continue
            board.doing = operation
            for i in needs:
                yield done[i]
            if operation.memory is not None:
                board.hbms[0].submit(operation.memory)
            done.append(board.cores.submit(operation))
            yield done[-1]

    def _meeting(self, board: Board, operation: Operation) -> Meeting:
        found = self._meetings.get(operation.index)
        if found is None:
            link = board.links[operation.level].resources[0]
            found = Meeting(operation, link, self.env.event())
            self._meetings[operation.index] = found
        return found

    def _arrive(self, operation: Operation, needs: list[simpy.Event]) -> simpy.Event:
        """One core takes part in an exchange once its ``needs`` are done; the event is its end."""
        meeting = self._meetings[operation.index]
        waiting = [event for event in needs if not event.processed]
        missing = len(waiting)

        def ready(_: simpy.Event | None = None) -> None:
            nonlocal missing
            missing -= 1
            if missing <= 0:
                meeting.absent -= 1
                if meeting.absent == 0:
                    self.env.process(self._carry(meeting))

        for event in waiting:
            event.callbacks.append(ready)
        if not waiting:
            ready()
        return meeting.done

    def _carry(self, meeting: Meeting) -> Generator[simpy.Event, Any, None]:
        """An exchange everybody has come to: its jobs, one after the other."""
        start = int(self.env.now)
        for job in meeting.operation.jobs:
            yield self.network.submit(job)
        log = self._log
        log.resource.append(meeting.link)
        log.operation.append(meeting.operation.index)
        log.start.append(start)
        log.end.append(int(self.env.now))
        meeting.done.succeed()

    def _who_waits(self) -> str:
        waiting = [
            f"{board.name} ({board.device}) waits in {board.doing}"
            for board, process in zip(self.boards, self._running, strict=True)
            if process.is_alive
        ]
        shown = "\n  ".join(waiting[:20])
        more = f"\n  and {len(waiting) - 20} more" if len(waiting) > 20 else ""
        return f"deadlock at {self.env.now} ps, {len(waiting)} accelerators wait:\n  {shown}{more}"


def run(program: Program) -> Timeline:
    """Build the machine for a program and run it."""
    return Machine(program).run()
