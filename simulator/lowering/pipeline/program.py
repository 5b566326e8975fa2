"""A training step in stages as a program: every stage's own step, cut into parts.

Each replica of a stage is written by the rules of a step on its own devices
(``stage_writer``). Its schedule says which parts its workers follow for which
micro-batch; sends and sums are between the stages and replicas as they stand.

Where replicas of stages make up several pipelines that do the same, one of them is followed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from hardware import Array
from planners import Plan, PlanError
from planners.legality import check_nodes
from planners.plan import COPIES, Pipeline
from planners.plan.updates import kept_in_parts
from simulator.engine.operations import (
    Communicator,
    DeviceMemory,
    Instruction,
    Program,
    RankProgram,
    Worker,
)
from simulator.lowering.execution import Execution
from simulator.lowering.models import rules_of
from simulator.lowering.pipeline.alike import alike_pipelines, one_pipeline
from simulator.lowering.pipeline.connections import Chunk, StageBoundaries, share_out
from simulator.lowering.pipeline.places import merged
from simulator.lowering.pipeline.stage_writer import StageWriter
from simulator.lowering.pipeline.transfers import PublishedBetween, between
from simulator.lowering.schedules.instructions import (
    check,
    forward_instructions,
    instructions,
    new_weights,
)
from simulator.lowering.schedules.registry import schedule_of
from simulator.lowering.schedules.schedule import Schedule
from simulator.lowering.schedules.versions import versions_of
from simulator.lowering.step.rules import Rules
from simulator.lowering.step.training_step import Tree, memory_of, training_step
from workloads import Cut, Network, NetworkError, Node, cut


def step_program(
    network: Network,
    plan: Plan,
    array: Array,
    execution: Execution,
    *,
    folded: bool = True,
    batches: int = 1,
) -> Program:
    """The program of a plan, of so many batches where it has stages and nothing is flushed.

    Raises PlanError for a plan that does not fit network, array or schedule.
    """
    if plan.pipeline is None:
        return training_step(rules_of(network, plan, array, execution, folded=folded))
    array = execution.planned(array)
    schedule = schedule_of(plan.pipeline.schedule)
    check_places(plan.pipeline, array)
    check(schedule, plan.pipeline, inference=execution.inference)
    check_updates(plan, plan.pipeline, schedule)
    stages = cut_as_planned(network, plan, inference=execution.inference)
    asked = plan, plan.pipeline, stages, schedule, array, execution
    try:
        return _Writing(*asked, folded).program(batches)
    except _UnlikeStagesError:
        return _Writing(*asked, folded=False).program(batches)


class _UnlikeStagesError(PlanError):
    """Of the stages at a place one treats its accelerators alike, another does not.

    So a vocabulary that two devices cannot halve: where the head is they differ, elsewhere not.
    Each is followed by itself then.
    """


class _Writing:
    def __init__(
        self,
        plan: Plan,
        pipeline: Pipeline,
        stages: Cut,
        schedule: Schedule,
        array: Array,
        execution: Execution,
        folded: bool,
    ) -> None:
        self._copies = alike_pipelines(pipeline, schedule, array, execution) if folded else 1
        self._pipeline = one_pipeline(pipeline, self._copies)
        self._plan = plan
        self._first: dict[int, int] = {}
        """The version of the weights that each micro-batch meets in the first stage."""
        self._cut = stages
        self._schedule = schedule
        self._execution = execution
        self._array = array
        self._folded = folded

    @cached_property
    def _chunks(self) -> list[list[Chunk]]:
        rules = [self._replicas(stage) for stage in range(len(self._pipeline.stages))]
        share_out(self._cut, rules, self._links)
        return [
            [Chunk(stage, replica, StageWriter(one)) for replica, one in enumerate(some)]
            for stage, some in enumerate(rules)
        ]

    @cached_property
    def _links(self) -> PublishedBetween:
        return between(self._array, self._execution, len(self._pipeline.places) - 1)

    @cached_property
    def _joints(self) -> StageBoundaries:
        rounds = self._pipeline.rounds
        return StageBoundaries(self._cut, self._chunks, self._links, rounds, self._copies)

    def _replicas(self, stage: int) -> list[Rules]:
        """A stage's rules, one for each replica."""
        of = self._pipeline.stages[stage]
        place = self._pipeline.places[of.place]
        network = self._cut.networks[stage]
        found = []
        for replica in range(place.replicas):
            first, each = place.replica(replica if place.parts else replica * self._copies)
            array = self._array.part(first, each)
            if self._execution.paces:
                array = array.slower(self._execution.paces[of.place])
            plan = of.plan_of(replica)
            found.append(rules_of(network, plan, array, self._execution, folded=self._folded))
            found[-1].replicas = place.replicas * self._copies
        return found

    def program(self, batches: int) -> Program:
        """Everything together."""
        self._joints.join()
        for chunks in self._chunks:
            for chunk in chunks:
                chunk.writer.write_all()
        workers, communicators, hbms = self._workers(batches)
        first = self._chunks[0][0].writer.rules
        memory = self._memory(workers)
        found = tuple(workers), tuple(communicators), first.wires, None, tuple(hbms)
        return Program(*found, memory, self._copies)

    def _followed(
        self, rank: int, replica: int, batches: int
    ) -> tuple[tuple[Instruction, ...], Mapping[int, int]]:
        """What a replica of a place does, and with which versions of the weights."""
        passes = forward_instructions if self._execution.inference else instructions
        found = passes(self._schedule, self._pipeline, rank, replica, batches)
        versions = versions_of(self._schedule, self._pipeline, found, self._first)
        if rank == 0:
            self._first |= versions
        return found, versions

    def _workers(self, batches: int) -> tuple[list[Worker], list[Communicator], list[float]]:
        """The workers of all places; those of several stages there are one."""
        workers: list[Worker] = []
        communicators, hbms = list(self._joints.communicators), list[float]()
        ranks = len(self._pipeline.places)
        sends = self._execution.stage_sends(
            self._schedule.name, self._pipeline.virtual, chain=self._is_chain()
        )
        for rank in range(ranks):
            for replica in range(self._pipeline.places[rank].replicas):
                chunks = [some[replica] for some in self._chunks[rank::ranks]]
                trees = [chunk.writer.whole for chunk in chunks]
                found, versions = self._followed(rank, replica, batches)
                same = merged([chunk.stage for chunk in chunks], trees)
                if same is None:
                    raise _UnlikeStagesError(f"the stages at place {rank} are not alike")
                deepest = max(trees, key=lambda tree: len(tree.communicators))
                for worker, tasks, lines, each in same:
                    workers.append(
                        replace(
                            worker,
                            multiplicity=worker.multiplicity * self._copies,
                            template=tasks,
                            communicators=tuple(
                                communicator + len(communicators) for communicator in each
                            ),
                            hbm=None if worker.hbm is None else worker.hbm + len(hbms),
                            rank_program=RankProgram(
                                (*new_weights(lines, replica), *found),
                                lines,
                                self._joints.routes,
                                rank,
                                replica,
                                chunks[0].writer.rules.overlap,
                                sends,
                                versions,
                                self._inputs(chunks, worker, trees),
                            ),
                        )
                    )
                communicators += [
                    communicator._replace(multiplicity=communicator.multiplicity * self._copies)
                    for communicator in deepest.communicators
                ]
                hbms += trees[0].hbms
        return workers, communicators, hbms

    def _is_chain(self) -> bool:
        """Whether each stage sends the next one a tensor, on as many replicas."""
        pairs = [(crossing.source, crossing.target) for crossing in self._cut.crossings]
        neighbours = [(stage, stage + 1) for stage in range(len(self._pipeline.stages) - 1)]
        return sorted(pairs) == neighbours and len(set(self._pipeline.rounds)) == 1

    def _inputs(
        self, chunks: Sequence[Chunk], worker: Worker, trees: Sequence[Tree]
    ) -> dict[int, float]:
        """What a worker keeps of a micro-batch for stages that compute forward again (bytes).

        Each tensor that the stage receives once, whoever reads it; the first stage its samples.
        """
        found = dict[int, float]()
        if self._execution.inference:
            return found
        for chunk, tree in zip(chunks, trees, strict=True):
            if self._pipeline.stages[chunk.stage].recompute:
                number = [one.first for one in tree.workers].index(worker.first)
                shards, rules = tree.programs[number].shards, chunk.writer.rules
                read = [(port.elements, port.nodes) for port in chunk.writer.entering]
                read = read or [(_sample_elements(rules.graph[0]), (0,))]
                found[chunk.stage] = math.fsum(rules.input_bytes(*one, shards) for one in read)
        return found

    def _memory(self, workers: Sequence[Worker]) -> tuple[DeviceMemory, ...]:
        """How full each stage gets; raises OutOfMemoryError where it must fit."""
        names, several = [], len(self._pipeline.stages) > 1
        for worker in workers:
            rank = worker.followed().rank
            stages = range(rank, len(self._pipeline.stages), len(self._pipeline.places))
            names.append(f"stage {' and '.join(map(str, stages))}" if several else "")
        return memory_of(self._chunks[0][0].writer.rules, workers, names)


def _sample_elements(first: Node) -> int:
    """Of the samples that the first node reads: a table is asked for one id a position."""
    return first.in_area * (1 if first.kind == "embedding" else first.in_channels)


def check_updates(plan: Plan, pipeline: Pipeline, schedule: Schedule) -> None:
    """Raise PlanError for updates that are shared out where nobody waits for them."""
    shared = plan.updates or any(stage.plan.updates for stage in pipeline.stages)
    if shared and not schedule.flushes:
        raise PlanError(
            "--zero and --update share out the update, for which all stages have to wait; with "
            f"schedule {schedule.name!r} none waits"
        )
    if plan.updates:
        raise PlanError(
            f"the plan for {plan.network!r} has updates of its own; one in stages has those of "
            "its stages' plans"
        )
    in_parts = any(kept_in_parts(stage.plan.updates) for stage in pipeline.stages)
    stages = f"{many} stages" if (many := len(pipeline.stages)) > 1 else "one stage"
    if in_parts and (len(pipeline.stages) > 1 or schedule.name != "1f1b"):
        raise PlanError(
            "zero=3 gathers weights for one micro-batch after the other (one stage, 1f1b): with "
            f"{stages} and schedule {schedule.name!r} take zero=2"
        )


def cut_as_planned(network: Network, plan: Plan, *, inference: bool = False) -> Cut:
    """The network in the plan's stages; raises PlanError where it cannot be cut so.

    In inference weights that two stages use are in both, and nothing is summed.
    """
    pipeline = plan.pipeline
    if pipeline is None:
        raise PlanError(f"the plan for {plan.network!r} has no stages")
    try:
        found = cut(network, pipeline.firsts)
    except NetworkError as error:
        raise PlanError(str(error)) from None
    check_nodes(plan, network.name, found.graph)
    if found.ties and not pipeline.tied and not inference:
        tie = found.ties[0]
        raise PlanError(
            f"the cut separates {found.graph[tie.user].name!r} (stage {tie.target}) from "
            f"{found.graph[tie.owner].name!r} (stage {tie.source}), whose weights it uses: say "
            f"who sums their gradients (--tied {COPIES}: both stages keep the weights), or cut "
            "elsewhere"
        )
    return found


def check_places(pipeline: Pipeline, array: Array) -> None:
    """Raise PlanError for places beyond an array's end."""
    size = array.group.size
    end = max(first + count for place in pipeline.places for first, count in place.spans)
    if end > size:
        raise PlanError(
            f"the stages need {end} accelerators; {array.name!r} has {size} (cores, under the "
            "deployed model)"
        )
