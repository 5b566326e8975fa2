"""A training step in stages as a program: every stage's own step, cut into parts, turn by turn.

Each replica of a stage is written by the rules of a step on its own devices
(``stage_writer``). Its schedule says which parts its workers follow for which
micro-batch; sends and sums are between the stages and replicas as they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import lcm

from hardware import Array
from planners import Plan, PlanError
from planners.order import Phase
from planners.plan import COPIES, Pipeline
from simulator.engine.operations import (
    Itinerary,
    Operation,
    Program,
    Sent,
    Site,
    Worker,
)
from simulator.lowering.alike import AlikeLinks
from simulator.lowering.between import Between, between
from simulator.lowering.execution import Execution
from simulator.lowering.merged import merged, operations_of
from simulator.lowering.rules import Rules
from simulator.lowering.schedules.itinerary import actions, check
from simulator.lowering.schedules.registry import schedule_of
from simulator.lowering.schedules.schedule import Schedule
from simulator.lowering.stage_writer import Port, StageWriter, Sum
from workloads import Crossing, Cut, Network, NetworkError, cut

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
    check(schedule, plan.pipeline)
    stages = cut_as_planned(network, plan)
    _check_places(plan.pipeline, array)
    writing = _Writing(plan.pipeline, stages, schedule, array, execution, rules, folded)
    return writing.program(batches)


def cut_as_planned(network: Network, plan: Plan) -> Cut:
    """The network in the plan's stages; raises PlanError where it cannot be cut so."""
    pipeline = plan.pipeline
    if pipeline is None:
        raise PlanError(f"the plan for {plan.network!r} has no stages")
    try:
        found = cut(network, pipeline.firsts)
    except NetworkError as error:
        raise PlanError(str(error)) from None
    if tuple(node.name for node in found.graph) != plan.nodes:
        raise PlanError(f"the plan is for {plan.network!r}, not for {network.name!r}")
    if found.ties and not pipeline.tied:
        tie = found.ties[0]
        raise PlanError(
            f"the cut separates {found.graph[tie.user].name!r} (stage {tie.target}) from "
            f"{found.graph[tie.owner].name!r} (stage {tie.source}), whose weights it uses: say "
            f"who sums their gradients (--tied {COPIES}: both stages keep the weights), or cut "
            "elsewhere"
        )
    return found


def _check_places(pipeline: Pipeline, array: Array) -> None:
    size = array.group.size
    end = max(place.first + place.count for place in pipeline.places)
    if end > size:
        raise PlanError(
            f"the stages need {end} accelerators; {array.name!r} has {size} (cores, under the "
            "deployed model)"
        )


@dataclass(slots=True)
class _Chunk:
    """A stage on one replica of its place."""

    stage: int
    replica: int
    writer: StageWriter


class _Writing:
    def __init__(
        self,
        pipeline: Pipeline,
        stages: Cut,
        schedule: Schedule,
        array: Array,
        execution: Execution,
        rules: MakeRules,
        folded: bool,
    ) -> None:
        self._pipeline = pipeline
        self._cut = stages
        self._schedule = schedule
        self._execution = execution
        self._array = array
        self._sites: list[Site] = []
        self._routes: dict[Operation, tuple[Sent, ...]] = {}
        boundaries = len(pipeline.places) - 1
        self._between: Between = between(array, execution, boundaries)
        self._chunks = [self._replicas(k, rules, folded) for k in range(len(pipeline.stages))]

    def _replicas(self, stage: int, rules: MakeRules, folded: bool) -> list[_Chunk]:
        """A stage's chunks, one for each replica."""
        of = self._pipeline.stages[stage]
        place = self._pipeline.places[of.place]
        network = self._cut.networks[stage]
        found = []
        for replica in range(place.replicas):
            part = self._array.part(place.first + replica * place.each, place.each)
            own = rules(network, of.plan, part, self._execution, folded=folded)
            found.append(_Chunk(stage, replica, StageWriter(own)))
        return found

    def program(self, batches: int) -> Program:
        """Everything together."""
        for crossing in self._cut.crossings:
            self._cross(crossing)
        for chunks in self._chunks:
            self._sum_replicas(chunks)
        self._sum_copies()
        for chunks in self._chunks:
            for chunk in chunks:
                chunk.writer.write_all()
        workers, sites, hbms = self._workers(batches)
        first = self._chunks[0][0].writer.rules
        made = Program(tuple(workers), tuple(sites), first.wires, None, tuple(hbms))
        if first.wires is None or not first.folded:
            return made
        loads = (job.load for operation in operations_of(made) for job in operation.jobs)
        return replace(made, links=AlikeLinks(first.wires, loads))

    def _site(self, name: str) -> int:
        self._sites.append(Site(0, 1, name))
        return len(self._sites) - 1

    def _cross(self, crossing: Crossing) -> None:
        """The sends of a tensor between all replicas that hand it to each other.

        Replica r of R takes micro-batch m where m modulo R is r: of two replicas
        before three, the first sends 0, 2, 4 to 0, 2, 1.
        """
        sources, targets = self._chunks[crossing.source], self._chunks[crossing.target]
        layer = self._cut.graph[crossing.producer].name
        name = f"{layer} to stage {crossing.target}"
        pairs: dict[tuple[int, int], tuple[Sent, Sent]] = {}
        turns = range(lcm(len(sources), len(targets)))
        for turn in turns:
            pair = turn % len(sources), turn % len(targets)
            if pair not in pairs:
                which = f" {pair[0]}>{pair[1]}" if len(turns) > 1 else ""
                forth, back = self._sends(crossing, sources[pair[0]], targets[pair[1]])
                pairs[pair] = (
                    Sent(forth, self._site(f"send {name}{which}")),
                    Sent(back, self._site(f"return {name}{which}")),
                )
        ways = [pairs[turn % len(sources), turn % len(targets)] for turn in turns]
        if len(turns) > 1:
            for way in zip(*ways, strict=True):
                self._routes |= {sent.operation: way for sent in way}
        for chunk in sources:
            self._port(chunk, crossing, ways[chunk.replica], entering=False)
        for chunk in targets:
            self._port(chunk, crossing, ways[chunk.replica], entering=True)

    def _sends(self, crossing: Crossing, one: _Chunk, other: _Chunk) -> tuple[Operation, Operation]:
        """Features forth, and errors back, between two replicas."""
        source, target = self._cut.firsts[crossing.source], self._cut.firsts[crossing.target]
        ends = crossing.producer - source, [v - target for v in crossing.consumers]
        layer = self._cut.graph[crossing.producer].name
        forth, back = (
            self._between.send(
                one.writer.rules,
                other.writer.rules,
                ends,
                crossing.tensor.elements,
                phase,
                f"{layer} to stage {crossing.target}",
            )
            for phase in (Phase.FORWARD, Phase.BACKWARD)
        )
        return forth, back

    def _port(
        self, chunk: _Chunk, crossing: Crossing, ways: tuple[Sent, Sent], *, entering: bool
    ) -> None:
        """Where a replica sends or receives; with whom depends on the turn."""
        stage = crossing.target if entering else crossing.source
        first = self._cut.firsts[stage]
        nodes = crossing.consumers if entering else (crossing.producer,)
        port = Port(tuple(v - first for v in nodes), *ways)
        (chunk.writer.entering if entering else chunk.writer.leaving).append(port)

    def _sum_replicas(self, chunks: Sequence[_Chunk]) -> None:
        """Replicas of a stage sum their gradients, bucket by bucket."""
        if len(chunks) < 2:
            return
        rules = [chunk.writer.rules for chunk in chunks]
        parties = sum(chunk.writer.workers() for chunk in chunks)
        site = self._site(f"replicas of stage {chunks[0].stage}")
        for nodes, size in chunks[0].writer.buckets():
            graph = rules[0].graph
            more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
            operation = self._between.sums(rules, size, f"{graph[nodes[0]].name}{more}")
            for chunk in chunks:
                chunk.writer.sums.append(Sum(nodes, operation, parties, site))

    def _sum_copies(self) -> None:
        """Stages that both use a weight sum its gradients, each replica with its like."""
        for tie in self._cut.ties:
            owners, users = self._chunks[tie.source], self._chunks[tie.target]
            if len(owners) != len(users):
                raise PlanError(
                    f"stages {tie.source} and {tie.target} use one weight: they need as many "
                    f"replicas, not {len(owners)} and {len(users)}"
                )
            for one, other in zip(owners, users, strict=True):
                ends = (
                    tie.owner - self._cut.firsts[tie.source],
                    (tie.user - self._cut.firsts[tie.target]),
                )
                layer = self._cut.graph[tie.owner].name
                both = one.writer, other.writer
                owner, user = (writer.rules for writer in both)
                operation = self._between.copies(owner, user, ends, layer)
                site = self._site(f"copies of {layer} {one.replica}")
                parties = sum(w.workers() for w in both)
                for writer, node in zip(both, ends, strict=True):
                    writer.copies.append(Sum((node,), operation, parties, site))

    def _workers(self, batches: int) -> tuple[list[Worker], list[Site], list[float]]:
        """The workers of all places; those of several stages there are one."""
        workers: list[Worker] = []
        sites, hbms = list(self._sites), list[float]()
        ranks = len(self._pipeline.places)
        for rank in range(ranks):
            for replica in range(self._pipeline.places[rank].replicas):
                chunks = [some[replica] for some in self._chunks[rank::ranks]]
                trees = [chunk.writer.tree() for chunk in chunks]
                found = actions(self._schedule, self._pipeline, rank, replica, batches)
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
                            template=tasks,
                            sites=tuple(site + len(sites) for site in each),
                            hbm=None if worker.hbm is None else worker.hbm + len(hbms),
                            itinerary=Itinerary(
                                found,
                                lines,
                                self._routes,
                                rank,
                                replica,
                                chunks[0].writer.rules.overlap,
                                self._blocks(chunks[0].writer.rules),
                            ),
                        )
                    )
                sites += deepest.sites
                hbms += trees[0].hbms
        return workers, sites, hbms

    def _blocks(self, rules: Rules) -> bool:
        """Whether cores wait for what they send: without overlap, on real wires."""
        return not rules.overlap and self._execution.model == "deployed"
