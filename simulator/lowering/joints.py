"""How stages are joined: what crosses the cuts, and who sums gradients with whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from planners import PlanError
from planners.order import Phase
from simulator.engine.operations import Operation, Sent, Site
from simulator.lowering.between import Between
from simulator.lowering.stage_writer import Port, StageWriter, Sum
from workloads import Crossing, Cut


@dataclass(slots=True)
class Chunk:
    """A stage on one replica of its place."""

    stage: int
    replica: int
    writer: StageWriter


class Joints:
    """Ports and sums of all stages; ``sites`` are where they are recorded.

    ``routes`` say with which replica one sends or receives, by turn. The chunks stand
    for so many ``copies`` of alike pipelines.
    """

    def __init__(
        self,
        cut: Cut,
        chunks: Sequence[Sequence[Chunk]],
        between: Between,
        copies: int = 1,
    ) -> None:
        self._cut = cut
        self._chunks = chunks
        self._between = between
        self._copies = copies
        self._inference = chunks[0][0].writer.rules.execution.inference
        """Nothing goes back, and nothing is summed."""
        self.sites: list[Site] = []
        self.routes: dict[Operation, tuple[Sent, ...]] = {}

    def join(self) -> None:
        """Give every stage's writer its ports and sums."""
        for crossing in self._cut.crossings:
            self._cross(crossing)
        if self._inference:
            return
        for chunks in self._chunks:
            self._sum_replicas(chunks)
        self._sum_copies()

    def _site(self, name: str, *, once: bool = False) -> int:
        """A site of every copy, or ``once`` for all of them."""
        self.sites.append(Site(0, 1 if once else self._copies, name))
        return len(self.sites) - 1

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
                sent = Sent(forth, self._site(f"send {name}{which}"))
                site = sent.site if self._inference else self._site(f"return {name}{which}")
                pairs[pair] = sent, Sent(back, site)
        ways = [pairs[turn % len(sources), turn % len(targets)] for turn in turns]
        if len(turns) > 1:
            for way in zip(*ways, strict=True):
                self.routes |= {sent.operation: way for sent in way}
        for chunk in sources:
            self._port(chunk, crossing, ways[chunk.replica], entering=False)
        for chunk in targets:
            self._port(chunk, crossing, ways[chunk.replica], entering=True)

    def _sends(self, crossing: Crossing, one: Chunk, other: Chunk) -> tuple[Operation, Operation]:
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
        self, chunk: Chunk, crossing: Crossing, ways: tuple[Sent, Sent], *, entering: bool
    ) -> None:
        """Where a replica sends or receives; with whom depends on the turn."""
        stage = crossing.target if entering else crossing.source
        first = self._cut.firsts[stage]
        nodes = crossing.consumers if entering else (crossing.producer,)
        port = Port(tuple(v - first for v in nodes), *ways)
        (chunk.writer.entering if entering else chunk.writer.leaving).append(port)

    def _sum_replicas(self, chunks: Sequence[Chunk]) -> None:
        """Replicas of a stage sum their gradients, bucket by bucket."""
        rules = [chunk.writer.rules for chunk in chunks] * self._copies
        if len(rules) < 2:
            return
        parties = sum(chunk.writer.workers() for chunk in chunks)
        site = self._site(f"replicas of stage {chunks[0].stage}", once=True)
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
