"""A training step in stages as a program: every stage's own step, cut into parts, turn by turn.

Each replica of a stage is written by the rules of a step on its own devices
(``stage_writer``). Its schedule says which parts its workers follow for which
micro-batch; sends and sums are between the stages and replicas as they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

from hardware import Array
from planners import Plan, PlanError
from planners.plan import Pipeline
from simulator.engine.errors import OutOfMemoryError
from simulator.engine.occupancy import DeviceMemory, overflow
from simulator.engine.operations import Action, Itinerary, Program, Site, Worker
from simulator.lowering.alike import AlikeLinks
from simulator.lowering.alike_pipelines import alike_pipelines, one_pipeline
from simulator.lowering.between import between
from simulator.lowering.copied import CopyingWriter
from simulator.lowering.cut_as_planned import check_places, check_updates, cut_as_planned
from simulator.lowering.execution import Execution
from simulator.lowering.joints import Chunk, Joints
from simulator.lowering.memory_first import Layers, alike_stages, computing_workers
from simulator.lowering.merged import merged, operations_of
from simulator.lowering.rules import Rules
from simulator.lowering.schedules.itinerary import actions, check, forward_actions, new_weights
from simulator.lowering.schedules.registry import schedule_of
from simulator.lowering.schedules.schedule import Schedule
from simulator.lowering.schedules.versions import versions_of
from simulator.lowering.stage_memory import stage_memory
from simulator.lowering.stage_writer import StageWriter
from simulator.lowering.training_step import Tree
from workloads import Cut, Network

MakeRules = Callable[..., Rules]
"""Makes a stage's rules: of a network, a plan, an array, an execution, and whether it is folded."""


def pipelined(
    network: Network,
    plan: Plan,
    array: Array,
    execution: Execution,
    rules: MakeRules,
    *,
    folded: bool,
    batches: int = 1,
) -> Program:
    """The program of a plan with stages, for so many batches where nothing is flushed.

    ``array`` is as the execution model plans for it, ``rules`` makes a stage's.
    Raises PlanError for a plan that does not fit network, array or schedule.
    """
    if plan.pipeline is None:
        raise PlanError(f"the plan for {plan.network!r} has no stages")
    schedule = schedule_of(plan.pipeline.schedule)
    check(schedule, plan.pipeline, inference=execution.inference)
    check_updates(plan, plan.pipeline, schedule)
    stages = cut_as_planned(network, plan, inference=execution.inference)
    check_places(plan.pipeline, array)
    writing = _Writing(plan, plan.pipeline, stages, schedule, array, execution, rules, folded)
    return writing.program(batches)


class _Writing:
    def __init__(
        self,
        plan: Plan,
        pipeline: Pipeline,
        stages: Cut,
        schedule: Schedule,
        array: Array,
        execution: Execution,
        rules: MakeRules,
        folded: bool,
    ) -> None:
        self._copies = alike_pipelines(pipeline, schedule, array, execution) if folded else 1
        self._pipeline = one_pipeline(pipeline, self._copies)
        self._plan = plan
        self._first: dict[int, int] = {}
        """The version of the weights that each turn meets in the first stage."""
        self._actions: dict[tuple[int, int, int], tuple[tuple[Action, ...], Mapping[int, int]]] = {}
        self._cut = stages
        self._schedule = schedule
        self._execution = execution
        self._array = array
        self._rules, self._folded = rules, folded
        self._made: dict[int, list[Chunk]] = {}

    @cached_property
    def _chunks(self) -> list[list[Chunk]]:
        return [self._chunks_of(stage) for stage in range(len(self._pipeline.stages))]

    @cached_property
    def _joints(self) -> Joints:
        links = between(self._array, self._execution, len(self._pipeline.places) - 1)
        return Joints(self._cut, self._chunks, links, self._copies)

    def _chunks_of(self, stage: int) -> list[Chunk]:
        """A stage's chunks, one for each replica."""
        if stage not in self._made:
            self._made[stage] = self._replicas(stage)
        return self._made[stage]

    def _replicas(self, stage: int) -> list[Chunk]:
        of = self._pipeline.stages[stage]
        place = self._pipeline.places[of.place]
        network = self._cut.networks[stage]
        found = []
        for replica in range(place.replicas):
            first = place.first + replica * self._copies * place.each
            step = network, of.plan, self._array.part(first, place.each)
            found.append(Chunk(stage, replica, self._writer(stage, replica, step)))
        return found

    def _writer(self, stage: int, replica: int, step: tuple[Network, Plan, Array]) -> StageWriter:
        """What writes a replica's ``step``; of a stage like an earlier one it copies that."""
        # not of self, which has all writers: circles are for the garbage collector to find
        rules = partial(self._rules, *step, self._execution, folded=self._folded)
        model = self._alike[stage]
        if model == stage:
            return StageWriter(rules())
        writer = self._chunks_of(model)[replica].writer
        if writer.rules.root.halves:
            return StageWriter(rules())
        return CopyingWriter(writer, writer.rules.elsewhere(*step), rules)

    @cached_property
    def _alike(self) -> Sequence[int]:
        """Of each stage the one that it is like, where links tell stages apart; or itself."""
        if self._execution.model != "deployed" or self._on_units:
            return range(len(self._pipeline.stages))
        return alike_stages(self._cut, self._pipeline, self._array)

    @property
    def _on_units(self) -> bool:
        return any(device.units is not None for device, _ in self._array.group.kinds)

    def program(self, batches: int) -> Program:
        """Everything together; what has to fit in memory is looked at before anything is sent."""
        memory = self._memory_first(batches) if self._execution.strict_memory else None
        self._joints.join()
        for chunks in self._chunks:
            for chunk in chunks:
                chunk.writer.write_all()
        workers, sites, hbms = self._workers(batches)
        first = self._chunks[0][0].writer.rules
        memory = self._memory(workers) if memory is None else memory
        made = Program(tuple(workers), tuple(sites), first.wires, None, tuple(hbms), memory=memory)
        if first.wires is None or not first.folded:
            return made
        loads = (job.load for operation in operations_of(made) for job in operation.jobs)
        return replace(made, links=AlikeLinks(first.wires, loads))

    def _memory_first(self, batches: int) -> tuple[DeviceMemory, ...] | None:
        """How full each stage gets, from what it computes alone; OutOfMemoryError.

        None where that does not say it: units choose their order by all that there is, and
        what stages keep that compute forward again is known by what they receive.
        """
        if self._on_units or any(one.recompute for one in self._pipeline.stages):
            return None
        found = computing_workers(
            self._cut,
            self._pipeline,
            self._alike,
            lambda stage: [chunk.writer for chunk in self._chunks_of(stage)],
            lambda rank, replica: self._followed(rank, replica, batches),
        )
        return self._memory(*zip(*found, strict=True)) if found else None

    def _followed(
        self, rank: int, replica: int, batches: int
    ) -> tuple[tuple[Action, ...], Mapping[int, int]]:
        """What a replica of a place does, and with which versions of the weights."""
        key = rank, replica, batches
        if key not in self._actions:
            passes = forward_actions if self._execution.inference else actions
            found = passes(self._schedule, self._pipeline, *key)
            versions = versions_of(self._schedule, self._pipeline, found, self._first)
            if rank == 0:
                self._first |= versions
            self._actions[key] = found, versions
        return self._actions[key]

    def _workers(self, batches: int) -> tuple[list[Worker], list[Site], list[float]]:
        """The workers of all places; those of several stages there are one."""
        workers: list[Worker] = []
        sites, hbms = list(self._joints.sites), list[float]()
        ranks = len(self._pipeline.places)
        for rank in range(ranks):
            for replica in range(self._pipeline.places[rank].replicas):
                chunks = [some[replica] for some in self._chunks[rank::ranks]]
                trees = [chunk.writer.whole for chunk in chunks]
                found, versions = self._followed(rank, replica, batches)
                same = merged([chunk.stage for chunk in chunks], trees)
                if same is None:
                    raise PlanError(
                        f"the stages at place {rank} treat its accelerators differently, which "
                        "folding cannot follow: simulate with --unfolded"
                    )
                deepest = max(trees, key=lambda tree: len(tree.sites))
                for worker, tasks, lines, each in same:
                    workers.append(
                        replace(
                            worker,
                            multiplicity=worker.multiplicity * self._copies,
                            template=tasks,
                            sites=tuple(site + len(sites) for site in each),
                            hbm=None if worker.hbm is None else worker.hbm + len(hbms),
                            itinerary=Itinerary(
                                (*new_weights(lines, replica), *found),
                                lines,
                                self._joints.routes,
                                rank,
                                replica,
                                chunks[0].writer.rules.overlap,
                                self._blocks(chunks[0].writer.rules),
                                versions,
                                self._inputs(chunks, worker, trees),
                            ),
                        )
                    )
                sites += [
                    site._replace(multiplicity=site.multiplicity * self._copies)
                    for site in deepest.sites
                ]
                hbms += trees[0].hbms
        return workers, sites, hbms

    def _inputs(
        self, chunks: Sequence[Chunk], worker: Worker, trees: Sequence[Tree]
    ) -> dict[int, float]:
        """What a worker keeps of a micro-batch for stages that compute forward again (bytes)."""
        found = {}
        for chunk, tree in zip(chunks, trees, strict=True):
            if self._pipeline.stages[chunk.stage].recompute:
                number = [one.first for one in tree.workers].index(worker.first)
                shards = tree.scripts[number].shards
                nodes = {v for port in chunk.writer.entering for v in port.nodes} or {0}
                found[chunk.stage] = chunk.writer.rules.input_bytes(sorted(nodes), shards)
        return found

    def _memory(
        self, workers: Sequence[Worker], layers: Sequence[Layers] = ()
    ) -> tuple[DeviceMemory, ...]:
        """How full each stage gets; raises OutOfMemoryError where it must fit.

        ``layers`` are what each worker's layers are called, where that is not what it says.
        """
        if self._execution.model != "deployed":
            return ()
        capacities = [
            worker.device.hbm_capacity_bytes / worker.device.cores_per_chip for worker in workers
        ]
        names = []
        for worker in workers:
            rank = worker.itinerary.rank if worker.itinerary else 0
            stages = range(rank, len(self._pipeline.stages), len(self._pipeline.places))
            names.append(f"stage {' and '.join(map(str, stages))}")
        found = stage_memory(workers, capacities, names, layers)
        fault = overflow(self._plan.network, self._plan.planner, self._array.name, found)
        if fault and self._execution.strict_memory:
            raise OutOfMemoryError(fault)
        return found

    def _blocks(self, rules: Rules) -> bool:
        """Whether cores wait for what they send: without overlap, on real wires."""
        return not rules.overlap and self._execution.model == "deployed"
