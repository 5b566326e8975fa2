"""In which order the units of cores do what is to be done: list scheduling along the critical path.

All classes of devices together, as one's exchanges wait for another's computations: were each
ordered by itself, two that sum two gradients could each do first what the other does last, and
wait forever. Exchanges are taken to last as long as they say, those on wires no time at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from planners.order import Item, Phase
from simulator.engine.operations import Operation
from simulator.lowering.step.dataflow import MADE
from simulator.lowering.step.worker_program import Key, WorkerProgram
from simulator.lowering.units.list_scheduling import NOWHERE, UnitTask, list_schedule

Choice = tuple[Operation, ...]
"""An operator on each matrix unit of a core."""


def compute_on_units(
    program: WorkerProgram,
    item: Item,
    operations: Sequence[Operation],
    after: Sequence[Key],
    makes: Sequence[Key],
    *,
    joined: bool,
) -> None:
    """Append a node's operators one behind the other, each on its unit.

    The gradient of weights needs what backward does before its product, which makes the
    errors alone: the two products are of one another independent. Of ``joined`` ones (of a
    product of two activations) both are errors.
    """
    errors = [key for key in makes if key[0] == MADE[Phase.BACKWARD]]
    backward, others = item.phase is Phase.BACKWARD, program.makers(errors)
    after = [key for key in after if key not in errors]
    program.hand_on(after, makes)
    for place, operation in enumerate(operations, 1):
        last = place == len(operations)
        product = backward and last and operation.unit < len(program.units) - 1
        made = errors if product else makes
        program.compute(item.node, operation, after, made, last=last)
        after = makes[:1]
    if joined and not backward:
        for key in errors:
            program.made[key] = tuple(sorted({*others, *program.makers([key])}))


def order_by_units(programs: Sequence[WorkerProgram], choices: Mapping[Operation, Choice]) -> None:
    """Give the lines of programs whose cores have units their places (``WorkerProgram.starts``).

    Of operations that several units can do, ``choices`` has what each would do; where they
    are over first they are done.
    """
    if not any(program.units for program in programs):
        return
    lanes, units = [0], list[int]()
    for program in programs:
        units.append(lanes[-1])
        lanes.append(lanes[-1] + max(1, len(program.units)))
    numbers: list[list[int]] = [[] for _ in programs]
    tasks = list[UnitTask]()
    for at, (operation, members) in enumerate(_together(programs)):
        needs = sorted(
            {numbers[s][i] for s, line in members for i in programs[s].tasks[line].needs}
        )
        first, line = members[0]
        task = programs[first].tasks[line]
        goes_on = task.parties or task.receives
        unit = NOWHERE if goes_on else units[first] + operation.unit
        choice = [(units[first] + c.unit, c.duration_ps) for c in choices.get(operation, ())]
        duration = operation.duration_ps
        tasks.append(UnitTask("", unit, duration, tuple(needs), choice=tuple(choice)))
        for s, _ in members:
            numbers[s].append(at)
    starts, chosen = list_schedule(tasks, lanes[-1])
    for program, own, first in zip(programs, numbers, units, strict=True):
        if program.units:
            program.starts = [starts[number] for number in own]
            for line, number in enumerate(own):
                task = program.tasks[line]
                if task.operation in choices:
                    operation = choices[task.operation][chosen[number] - first]
                    program.tasks[line] = task._replace(operation=operation)


def _together(
    programs: Sequence[WorkerProgram],
) -> Iterator[tuple[Operation, list[tuple[int, int]]]]:
    """Every line of all programs, an exchange once with all who take part: (program, line).

    Each program's are in its order, and what is needed comes before: an exchange when all
    its takers have come to it.
    """
    takers: dict[Operation, int] = {}
    for program in programs:
        for operation in {task.operation for task in program.tasks if task.parties}:
            takers[operation] = takers.get(operation, 0) + 1
    came: dict[Operation, list[tuple[int, int]]] = {}
    place = [0] * len(programs)
    waiting = list(range(len(programs)))
    while waiting:
        s = waiting.pop()
        tasks = programs[s].tasks
        while place[s] < len(tasks):
            task, me = tasks[place[s]], (s, place[s])
            if task.parties:
                met = came.setdefault(task.operation, [])
                met.append(me)
                if len(met) < takers[task.operation]:
                    break
                yield task.operation, met
                for other, _ in met:
                    place[other] += 1
                waiting += [other for other, _ in met if other != s]
                continue
            yield task.operation, [me]
            place[s] += 1
