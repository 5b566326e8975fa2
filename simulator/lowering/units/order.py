"""In which order the units of cores do what is to be done: list scheduling along the critical path.

All classes of devices together, as one's exchanges wait for another's computations: were each
ordered by itself, two that sum two gradients could each do first what the other does last, and
wait forever.

Exchanges are taken to last as long as they do alone, one behind the other. So what a long one
waits for is urgent: gradients of weights go out early. Updates that wait for exchanges come last,
in the order of the program: nobody knows beforehand when an exchange ends, and a unit that waits
for it does nothing else meanwhile. So do all updates where the optimizer is said to begin when
every gradient is there (``in_layers``); else they run as soon as a unit is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from planners.order import Item, Phase
from simulator.engine.operations import Operation
from simulator.engine.picoseconds import PICOSECONDS
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
        program.compute(item.node, operation, after, made)
        after = makes[:1]
    if joined and not backward:
        for key in errors:
            program.made[key] = tuple(sorted({*others, *program.makers([key])}))


def order_by_units(
    programs: Sequence[WorkerProgram],
    choices: Mapping[Operation, Choice],
    exchange_s: Callable[[Operation], float],
    *,
    in_layers: bool,
) -> None:
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
    order = _Tasks(programs, units, choices, exchange_s, in_layers=in_layers)
    for operation, members in _together(programs):
        order.add(operation, members)
    starts, chosen = list_schedule(order.tasks, lanes[-1])
    for program, own, first in zip(programs, order.numbers, units, strict=True):
        if program.units:
            program.starts = [starts[number] for number in own]
            for line, number in enumerate(own):
                task = program.tasks[line]
                if task.operation in choices:
                    operation = choices[task.operation][chosen[number] - first]
                    program.tasks[line] = task._replace(operation=operation)


class _Tasks:
    """The lines of programs as tasks of units; ``numbers`` are those of each program's lines."""

    def __init__(
        self,
        programs: Sequence[WorkerProgram],
        units: Sequence[int],
        choices: Mapping[Operation, Choice],
        exchange_s: Callable[[Operation], float],
        *,
        in_layers: bool,
    ) -> None:
        self._in_layers = in_layers
        self._programs, self._units, self._choices = programs, units, choices
        self._exchange_s = exchange_s
        self.tasks: list[UnitTask] = []
        self.numbers: list[list[int]] = [[] for _ in programs]
        self._exchanges: set[int] = set()
        self._exchanged: dict[int, int] = {}
        self._updated: dict[int, int] = {}
        """Of programs the last exchange, and the last update behind one."""

    def add(self, operation: Operation, members: Sequence[tuple[int, int]]) -> None:
        """A line, or an exchange of several programs: (program, line)."""
        numbers, number = self.numbers, len(self.tasks)
        needs = {numbers[s][i] for s, line in members for i in self._programs[s].tasks[line].needs}
        s, line = members[0]
        task, duration_ps = self._programs[s].tasks[line], operation.duration_ps
        if task.parties:
            needs |= {self._exchanged[s] for s, _ in members if s in self._exchanged}
            self._exchanged |= dict.fromkeys((s for s, _ in members), number)
            self._exchanges.add(number)
            duration_ps = max(duration_ps, round(self._exchange_s(operation) * PICOSECONDS))
        elif operation.phase is Phase.UPDATE and (self._in_layers or needs & self._exchanges):
            needs |= {self._updated[s]} if s in self._updated else {*numbers[s]}
            self._updated[s] = number
        goes_on = task.parties or task.receives
        unit = NOWHERE if goes_on else self._units[s] + operation.unit
        choice = [
            (self._units[s] + c.unit, c.duration_ps) for c in self._choices.get(operation, ())
        ]
        self.tasks.append(
            UnitTask("", unit, duration_ps, tuple(sorted(needs)), choice=tuple(choice))
        )
        for s, _ in members:
            numbers[s].append(number)


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
