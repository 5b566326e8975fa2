"""What every stage of a pipeline did: its passes, how long it worked, what it waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from planners.order import Kind
from simulator.analysis.memory_timeline import most_at_once
from simulator.analysis.stalls import core_steps
from simulator.analysis.worker_records import RowsByOperation
from simulator.engine.operations import Instruction, Operation, Part, RankProgram, Task
from simulator.engine.timeline import Timeline


class PassSpan(NamedTuple):
    """One micro-batch's pass through a stage on one worker, first to last computation (ps)."""

    parts: frozenset[Part]
    stage: int
    micro_batch: int
    version: int
    start_ps: int
    end_ps: int

    @property
    def letter(self) -> str:
        """F, B (errors, with or without gradients of weights), W (these alone) or U."""
        return str(next(part for part in (*_SHOWN, *Part) if part in self.parts))


_SHOWN = (Part.FORWARD, Part.BACKWARD, Part.WEIGHTS, Part.UPDATE)


@dataclass(frozen=True)
class StageUse:
    """One replica of a place over a run, by its busiest worker; times in picoseconds.

    ``run_ps`` is without filling and draining where a rhythm was seen (``long_run_ps``).

    ``computing`` is what its cores compute, ``exposed`` when they do not while an
    exchange inside the stage, or among replicas, goes on, ``waiting`` is the rest of ``run_ps``,
    and ``receiving`` the part of it in which what they wait for is sent. At most so many
    micro-batches are ``in_flight`` between forward and backward, and ``versions`` of the weights
    kept.
    """

    rank: int
    replica: int
    stages: tuple[int, ...]
    accelerators: int
    computing: int
    exposed: int
    receiving: int
    run_ps: int
    in_flight: int
    versions: int

    @cached_property
    def busy(self) -> int:
        """Computing, and exchanges that nothing hides."""
        return self.computing + self.exposed

    @cached_property
    def waiting(self) -> int:
        """For other stages, and for what they send."""
        return max(self.run_ps - self.busy, 0)


def passes(timeline: Timeline, worker: int, *, whole: bool = True) -> Iterator[PassSpan]:
    """A worker's passes in their order; what it computes nothing in has none.

    An update that waits for weights of other stages in between is ``whole``, or in pieces.
    """
    mine = timeline.program.workers[worker]
    if mine.rank_program is None:
        return
    columns, rows = timeline.columns, RowsByOperation(timeline, worker)
    for instruction in mine.rank_program.instructions:
        operations = _computations(mine.rank_program, instruction, mine.template)
        found = [rows.next(operation, instruction.micro_batch) for operation in operations]
        spans = sorted((columns.start[row], columns.end[row]) for row in found)
        for start_ps, end_ps in _joined(spans, gaps=whole or Part.UPDATE not in instruction.parts):
            yield PassSpan(
                instruction.parts,
                instruction.stage,
                instruction.micro_batch,
                mine.rank_program.versions[instruction.micro_batch],
                start_ps,
                end_ps,
            )


def _joined(spans: Sequence[tuple[int, int]], *, gaps: bool) -> list[tuple[int, int]]:
    """Ascending spans as one from the first to the last, or, without ``gaps``, as few as touch."""
    found: list[tuple[int, int]] = []
    for start, end in spans:
        if found and (gaps or start <= found[-1][1]):
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _computations(
    rank_program: RankProgram, instruction: Instruction, template: Sequence[Task]
) -> list[Operation]:
    """What of an instruction's lines computes, forward that is computed again included."""
    lines = rank_program.of(instruction)
    if instruction.again:
        lines += rank_program.of(instruction._replace(parts=frozenset({Part.FORWARD})))
    tasks = (template[i] for i in lines)
    return [task.operation for task in tasks if not task.parties and not task.receives]


def stage_uses(timeline: Timeline) -> list[StageUse]:
    """One entry for each replica of each place, in order; none without stages."""
    found: dict[tuple[int, int], StageUse] = {}
    for step in core_steps(timeline):
        mine = step.worker
        if mine.rank_program is None:
            continue
        key = mine.rank_program.rank, mine.rank_program.replica
        old = found.get(key)
        accelerators = mine.multiplicity + (old.accelerators if old else 0)
        computing = sum(time for _, time in step.computed)
        if old is not None and old.computing >= computing:
            found[key] = replace(old, accelerators=accelerators)
            continue
        sends = [w for w in step.waits if w.exchange and w.exchange.kind == Kind.SEND]
        receiving = sum(wait.exposed for wait in sends)
        exposed = sum(wait.exposed for wait in step.waits) - receiving
        run_ps = timeline.long_run_ps
        in_flight, versions = most_at_once(mine.rank_program)
        found[key] = StageUse(
            *key,
            tuple(sorted({instruction.stage for instruction in mine.rank_program.instructions})),
            accelerators,
            computing,
            exposed,
            min(receiving, max(run_ps - computing - exposed, 0)),  # of all, the fill too
            run_ps,
            in_flight,
            versions,
        )
    return [found[key] for key in sorted(found)]


def bubble(uses: list[StageUse]) -> float:
    """Idle time of the busiest stage against what it works: (p - 1) / m of equal stages.

    The ideal is a run in which that stage never waits.
    """
    busiest = max(uses, key=lambda use: use.busy)
    return busiest.waiting / busiest.busy if busiest.busy else 0.0
