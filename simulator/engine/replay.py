"""Programs that are written down beforehand: every worker follows its template."""

from __future__ import annotations

from simulator.engine.collecting import no_collecting
from simulator.engine.cores import Done
from simulator.engine.machine import Machine, Process
from simulator.engine.operations import Program
from simulator.engine.timeline import Timeline


def replay(machine: Machine, worker: int, turn: int = 0) -> Process:
    """A worker's control: the lines of its template, each as soon as it may be.

    Its cores compute in order, so it waits for each computation; exchanges
    go on while it does, and are waited for by those lines that need them.
    """
    done: list[Done] = []
    for operation, needs, parties, _ in machine.program.workers[worker].template:
        after = [done[i] for i in needs]
        if parties:
            done.append(machine.meet(worker, operation, parties, turn, after))
            continue
        for event in after:
            if event.callbacks is not None:
                yield event
        done.append(machine.compute(worker, operation, turn, after))
        yield done[-1]


def run(program: Program) -> Timeline:
    """Build the machine for a program, and let every worker follow its template once."""
    with no_collecting():
        machine = Machine(program)
        for worker in range(len(program.workers)):
            machine.process(replay(machine, worker), worker)
        return machine.run()
