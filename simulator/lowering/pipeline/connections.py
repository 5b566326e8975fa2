"""How stages are joined: what crosses the cuts, and who sums gradients with whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

from planners import PlanError
from planners.order import Phase
from simulator.engine.operations import Communicator, Operation, Sent
from simulator.lowering.pipeline.stage_writer import Port, StageWriter, Sum
from simulator.lowering.pipeline.transfers import Handed, PublishedBetween
from simulator.lowering.step.rules import Rules
from workloads import Crossing, Cut


@dataclass(slots=True)
class Chunk:
    """A stage on one replica of its place."""

    stage: int
    replica: int
    writer: StageWriter


def share_out(cut: Cut, rules: Sequence[Sequence[Rules]], between: PublishedBetween) -> None:
    """Tell every stage what of that which crosses the cuts lies by positions (``Rules``).

    With sequence parallelism 1/t of a tensor is sent and kept, and gathered for each product
    (Korthikanti et al. 2022, section 4.2.2).
    """
    for crossing in cut.crossings:
        source, target = crossing.source, crossing.target
        node = crossing.producer - cut.firsts[source]
        readers = [v - cut.firsts[target] for v in crossing.consumers]
        sent, received = between.by_positions(rules[source][0], rules[target][0], node, readers)
        for one in rules[source]:
            one.sent_in_parts |= {node} if sent else set()
        for one in rules[target]:
            one.received_in_parts |= received


class StageBoundaries:
    """Ports and sums of all stages; ``communicators`` are where they are recorded.

    ``rounds`` say which replica of a place takes which micro-batch, and ``routes`` with which one
    sends or receives, by micro-batch. The chunks stand for so many ``copies`` of alike pipelines.
    """

    def __init__(
        self,
        cut: Cut,
        chunks: Sequence[Sequence[Chunk]],
        between: PublishedBetween,
        rounds: Sequence[tuple[int, ...]],
        copies: int = 1,
    ) -> None:
        self._cut = cut
        self._rounds = rounds
        self._chunks = chunks
        self._between = between
        self._copies = copies
        self._inference = chunks[0][0].writer.rules.execution.inference
        """Nothing goes back, and nothing is summed."""
        self._ways: dict[tuple[int, int, tuple[int, int] | None], tuple[int, int]] = {}
        """Communicators of both directions between two replicas of stages."""
        self.communicators: list[Communicator] = []
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
        """A communicator of every copy, or ``once`` for all of them."""
        self.communicators.append(Communicator(0, 1 if once else self._copies, name))
        return len(self.communicators) - 1

    def _cross(self, crossing: Crossing) -> None:
        """The sends of a tensor between all replicas that hand it to each other.

        Replica r of R takes micro-batch m where m modulo R is r: of two replicas
        before three, the first sends 0, 2, 4 to 0, 2, 1. With turns it is the one of the round.
        """
        sources, targets = self._chunks[crossing.source], self._chunks[crossing.target]
        senders, takers = (self._round(stage) for stage in (crossing.source, crossing.target))
        turns = range(lcm(len(senders), len(takers)))
        whose = [(senders[turn % len(senders)], takers[turn % len(takers)]) for turn in turns]
        pairs = list(dict.fromkeys(whose))
        forth, back = (
            dict(zip(pairs, self._hand(crossing, pairs, phase), strict=True))
            for phase in (Phase.FORWARD, Phase.BACKWARD)
        )
        sent = {
            pair: self._sent(crossing, forth[pair], back[pair], pair if len(turns) > 1 else None)
            for pair in pairs
        }
        ways = [sent[pair] for pair in whose]
        if len(turns) > 1:
            for way in zip(*ways, strict=True):
                self.routes |= {one.operation: way for one in way}
        for chunk in sources:
            gather = next(back[pair].gather for pair in pairs if pair[0] == chunk.replica)
            way = ways[senders.index(chunk.replica)]
            self._port(chunk, crossing, way, gather, entering=False)
        for chunk in targets:
            gather = next(forth[pair].gather for pair in pairs if pair[1] == chunk.replica)
            way = ways[takers.index(chunk.replica)]
            self._port(chunk, crossing, way, gather, entering=True)

    def _round(self, stage: int) -> tuple[int, ...]:
        return self._rounds[stage % len(self._rounds)]

    def _hand(
        self, crossing: Crossing, pairs: Sequence[tuple[int, int]], phase: Phase
    ) -> list[Handed]:
        """Features forth, or errors back, between replicas of two stages."""
        sources, targets = self._chunks[crossing.source], self._chunks[crossing.target]
        source, target = self._cut.firsts[crossing.source], self._cut.firsts[crossing.target]
        ends = crossing.producer - source, [v - target for v in crossing.consumers]
        rules = [(sources[i].writer.rules, targets[j].writer.rules) for i, j in pairs]
        elements = crossing.tensor.elements
        return self._between.hand(rules, ends, elements, phase, self._called(crossing))

    def _called(self, crossing: Crossing) -> str:
        return f"{self._cut.graph[crossing.producer].name} to stage {crossing.target}"

    def _sent(
        self, crossing: Crossing, forth: Handed, back: Handed, pair: tuple[int, int] | None
    ) -> tuple[Sent, Sent]:
        """Both directions between two replicas, which are named where there are several.

        All tensors between them go one after the other: two in twice the time of one.
        """
        name = self._called(crossing) + (f" {pair[0]}>{pair[1]}" if pair else "")
        key = crossing.source, crossing.target, pair
        if key not in self._ways:
            forward = self._site(f"send {name}")
            self._ways[key] = forward, forward if self._inference else self._site(f"return {name}")
        return Sent(forth.send, self._ways[key][0]), Sent(back.send, self._ways[key][1])

    def _port(
        self,
        chunk: Chunk,
        crossing: Crossing,
        ways: tuple[Sent, Sent],
        gather: Operation | None,
        *,
        entering: bool,
    ) -> None:
        """Where a replica sends or receives; with whom depends on the micro-batch."""
        stage = crossing.target if entering else crossing.source
        first = self._cut.firsts[stage]
        nodes = crossing.consumers if entering else (crossing.producer,)
        port = Port(crossing.tensor.elements, tuple(v - first for v in nodes), *ways, gather)
        (chunk.writer.entering if entering else chunk.writer.leaving).append(port)

    def _sum_replicas(self, chunks: Sequence[Chunk]) -> None:
        """Replicas of a stage sum their gradients, bucket by bucket.

        Of unlike numbers of cores those with fewest say the buckets: each of them has most.
        """
        chunks = sorted(chunks, key=lambda chunk: chunk.writer.rules.array.group.size)
        rules = [chunk.writer.rules for chunk in chunks]
        ranges = [
            (one.array.first + k * one.array.group.size, one.array.group.size)
            for one in rules
            for k in range(self._copies)
        ]
        if len(ranges) < 2:
            return
        arrays = [self._between.array.part(*one) for one in ranges]
        parties = sum(chunk.writer.workers() for chunk in chunks)
        communicator = self._site(f"replicas of stage {chunks[0].stage}", once=True)
        for nodes, size in chunks[0].writer.buckets():
            graph = rules[0].graph
            more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
            operation = self._between.sums(arrays, size, f"{graph[nodes[0]].name}{more}")
            for chunk in chunks:
                chunk.writer.sums.append(Sum(nodes, operation, parties, communicator))

    def _sum_copies(self) -> None:
        """Stages that both use a weight sum its gradients, each replica with its like.

        Those of one place have one gradient.
        """
        for tie in self._cut.ties:
            if (tie.target - tie.source) % len(self._rounds) == 0:
                continue
            owners, users = self._chunks[tie.source], self._chunks[tie.target]
            if max(len(owners), len(users)) % min(len(owners), len(users)):
                raise PlanError(
                    f"stages {tie.source} and {tie.target} use one weight: the replicas of one "
                    f"must be a multiple of the other's, not {len(owners)} and {len(users)}"
                )
            for k in range(max(len(owners), len(users))):
                one, other = owners[k % len(owners)], users[k % len(users)]
                ends = (
                    tie.owner - self._cut.firsts[tie.source],
                    (tie.user - self._cut.firsts[tie.target]),
                )
                layer = self._cut.graph[tie.owner].name
                both = one.writer, other.writer
                owner, user = (writer.rules for writer in both)
                operation = self._between.copies(owner, user, ends, layer)
                communicator = self._site(f"copies of {layer} {k}")
                parties = sum(w.workers() for w in both)
                for writer, node in zip(both, ends, strict=True):
                    writer.copies.append(Sum((node,), operation, parties, communicator))
