"""Programs that are written down beforehand: every worker follows its template."""

from __future__ import annotations

from simulator.engine.blocks import blocks_of
from simulator.engine.collecting import no_collecting
from simulator.engine.cores import Done
from simulator.engine.follower import Follower, Given
from simulator.engine.machine import Machine, Process
from simulator.engine.operations import Program
from simulator.engine.timeline import Timeline


def replay(machine: Machine, worker: int, turn: int = 0) -> Process:
    """A worker's control: the lines of its template, each as soon as it may be.

    Its cores compute in order, so it waits for each computation; exchanges
    go on while it does, and are waited for by those lines that need them. Where a core
    has several units, each computes in order: all get everything at once, to be waited
    for in the end.
    """
    mine = machine.program.workers[worker]
    template, given = mine.template, Given(machine, worker)
    done: dict[int, Done] = {}
    for lines in blocks_of(template, range(len(template))):
        block = None
        if len(lines) > 1:
            block = machine.block(worker, [template[line].operation for line in lines])
        if block is not None:
            after = [done[i] for i in template[lines[0]].needs]
            for event in after:
                if event.callbacks is not None:
                    yield event
            found = machine.compute_block(worker, block, turn, after)
            yield found
            done.update(dict.fromkeys(lines, found))
            continue
        for line in lines:
            operation, needs, parties, *_ = template[line]
            after = [done[i] for i in needs]
            if parties:
                done[line] = machine.meet(worker, operation, parties, turn, after)
                continue
            if mine.units:
                done[line] = given.compute(operation, turn, after)
                continue
            for event in after:
                if event.callbacks is not None:
                    yield event
            done[line] = machine.compute(worker, operation, turn, after)
            yield done[line]
    yield from given.over()


def run(program: Program) -> Timeline:
    """Build the machine for a program, and let every worker follow its template."""
    with no_collecting():
        machine = Machine(program)
        for worker, mine in enumerate(program.workers):
            if mine.itinerary is None:
                machine.process(replay(machine, worker), worker)
            elif mine.template:  # idle cores have none
                machine.process(Follower(machine, worker, mine.itinerary).follow(), worker)
        return machine.run()
