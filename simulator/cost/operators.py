"""What a core does at a time: operators, described for any shard of their node."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from planners.order import Phase
from planners.partition import PartitionType
from simulator.cost.number_bytes import NumberBytes
from workloads import Graph, Node
from workloads.cache import once_for_each


class Moved(NamedTuple):
    """Numbers of parameters that an operator moves; what each costs, its format says.

    ``weights`` are read as operators read them; ``gradients`` of weights are written, and those
    that it ``adds`` to are read, unless it adds to a buffer anyway. ``updated`` parameters take
    the optimizer's whole traffic, and of a buffer that is there all the time what was summed of
    ``cleared`` ones is set to zero.
    """

    weights: float = 0.0
    gradients: float = 0.0
    updated: float = 0.0
    cleared: float = 0.0
    adds: float = 0.0

    def times(self, number: float, shared_by: float = 1.0) -> Moved:
        """So many times as much, shared out."""
        return Moved(*(each * number / shared_by for each in self))

    def bytes(self, each: NumberBytes) -> float:
        """Bytes of all of them."""
        taken = self.updated * each.update + self.cleared * each.cleared
        gradients = self.gradients + (0.0 if each.buffer else self.adds)
        return self.weights * each.weight + gradients * each.gradient + taken


NOTHING = Moved()
WORK = ("products", "attention", "element-wise")
"""What an operator is, as names of kernels tell it: attention is a fused kernel."""


class Minor(Enum):
    """Which two dimensions of an activation are its minor ones, side by side in HBM.

    Of a map (or vector) samples and channels, of a sequence positions and
    features, of what a product of heads makes those of each head.
    """

    SAMPLES = "samples and channels"
    POSITIONS = "positions and features"
    HEADS = "positions and features of a head"


@dataclass(frozen=True, slots=True)
class Map:
    """An activation or its gradient: ``channels`` of ``area`` elements, of which ``share`` is used.

    ``channels`` are for each of the node's, split as its inputs are (``along``
    II) or as its outputs (III); or simply channels, split by rows alone (I).
    ``share`` is below 1 where a view of a part is read. A number has ``each_bytes`` where it
    is in a format of its own (a mask's 1, float32's 4), else those of activations (0). What
    all positions attend to is there ``whole``, whichever of them a core has.
    """

    tensor: str
    along: PartitionType
    channels: float
    area: float
    share: float = 1.0
    minor: Minor = Minor.SAMPLES
    each_bytes: float = 0.0
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Operator:
    """What a core does at a time, for one node of the partition graph.

    For each pair of input and output channels of a group: ``macs`` are
    multiply-accumulates of a row, ``exponentials`` those of fused attention, ``pair`` is what is
    moved of the parameters, ``row`` what is moved for a row which gathers or scatters
    (an embedding's);
    ``kernel`` the weights of a pair (``flat``: as 1 x 9, not 3 x 3), and ``repeats`` how many of a
    convolution's windows an element of its first operand is in. ``channel`` is what is moved for
    each output channel, and ``entry`` for each input channel. ``steps`` run one after the other,
    each with the overhead of an operator. ``lanes`` are the cycles of a vector unit's lane for each
    row and output channel; a product of ``each_sample`` has no operand that samples share, one with
    a ``block`` above 1 block-circulant weights: ``spectral`` of its ``macs`` are products of
    spectra, the others transforms; ``attention`` is a fused kernel, of so many ``keys`` if it is
    causal (0: it is not). A product is ``wide`` that computes in the format of activations, however
    narrow that of the others is, and ``grouped`` where each of its groups has weights of its own,
    as experts have; ``casts`` are made narrow here, for this product or for all that read what is
    written. A ``cast`` only writes in another format what it reads. What is in ``front`` runs
    before the first node's product, on what that reads.
    Everything is counted in numbers; a core's formats
    (``Core.bytes``) make them bytes.
    """

    name: str
    node: int
    phase: Phase
    reads: tuple[Map, ...] = ()
    writes: tuple[Map, ...] = ()
    macs: float = 0.0
    exponentials: float = 0.0
    pair: Moved = NOTHING
    channel: Moved = NOTHING
    entry: Moved = NOTHING
    row: Moved = NOTHING
    kernel: float = 1.0
    flat: bool = False
    repeats: float = 1.0
    steps: int = 1
    lanes: float = 0.0
    each_sample: bool = False
    block: int = 1
    spectral: float = 0.0
    attention: bool = False
    keys: int = 0
    wide: bool = False
    grouped: bool = False
    casts: tuple[Map, ...] = ()
    cast: bool = False
    front: bool = False

    @property
    def work(self) -> int:
        """Which of ``WORK`` it is."""
        return 1 if self.attention else 0 if self.macs else 2

    @property
    def narrow(self) -> bool:
        """Whether it computes in the format of products, where that is narrower."""
        return bool(self.macs) and not (self.each_sample or self.attention or self.wide)

    def keeps_width(self, activation_bytes: float) -> bool:
        """Whether it casts numbers to a format of their own width, for which nothing runs."""
        if not self.cast:
            return False
        read, written = (
            {one.each_bytes or activation_bytes for one in maps}
            for maps in (self.reads, self.writes)
        )
        return read == written

    def on_part(self, part: float) -> Operator:
        """The same on so much of the positions; it multiplies nothing."""
        reads, writes, casts = (
            tuple(replace(one, area=one.area * part) for one in maps)
            for maps in (self.reads, self.writes, self.casts)
        )
        return replace(self, reads=reads, writes=writes, casts=casts, lanes=self.lanes * part)

    def updating(self, fraction: float, *, in_parts: bool) -> Operator:
        """An update of so much of the parameters; gradients are whole if not ``in_parts``."""
        if fraction == 1.0:
            return self
        pair, channel, entry = (
            each.times(fraction)._replace(cleared=each.cleared * (fraction if in_parts else 1.0))
            for each in (self.pair, self.channel, self.entry)
        )
        return replace(self, pair=pair, channel=channel, entry=entry)


@dataclass(frozen=True, slots=True)
class NodeOperators:
    """A node's operators by phase, each in the order in which they run.

    ``pair_parameters``, ``channel_parameters`` and ``entry_parameters`` are trained parameters
    for each pair of channels of a group, each output and each input channel: those that
    the node brings, not weights that it shares. ``shared_parameters`` are
    the latter, for each pair. ``recompute`` are of its forward operators those that run
    again in backward.
    """

    forward: tuple[Operator, ...]
    backward: tuple[Operator, ...]
    gradient: tuple[Operator, ...]
    update: tuple[Operator, ...]
    pair_parameters: float
    channel_parameters: float
    shared_parameters: float = 0.0
    entry_parameters: float = 0.0
    recompute: tuple[Operator, ...] = ()

    def of(self, phase: Phase) -> tuple[Operator, ...]:
        """The operators of a phase."""
        found: tuple[Operator, ...] = getattr(self, phase)
        return found

    @property
    def passes_errors(self) -> bool:
        """Whether the node's own product computes the error of its input."""
        return any(operator.macs for operator in self.backward)


class Segment(NamedTuple):
    """Nodes that compute forward again, in their order, before node ``first`` does backward.

    Of some of them only what is behind their product runs again: not of ``products``.
    """

    first: int
    nodes: tuple[int, ...]
    products: frozenset[int]


@dataclass(frozen=True, slots=True)
class Operators:
    """A network's operators: one entry for each node of its partition graph, in its order."""

    graph: Graph
    nodes: tuple[NodeOperators, ...]
    segments: tuple[Segment, ...] = ()
    sends: bool = False
    """Whether its last outputs are another stage's inputs."""

    def __hash__(self) -> int:
        """By the graph and what runs again: operators are asked about often, and are many."""
        return hash((self.graph, self.segments, self.sends))

    @property
    def logits(self) -> int | None:
        """The node that makes them: the last one, where something is made of its outputs here."""
        forward = self.nodes[-1].forward
        made = len(forward) > 1 and forward[0].macs > 0 and not self.sends
        return len(self.nodes) - 1 if made else None

    def again(self, node: int) -> Iterator[Segment]:
        """What computes forward again right before a node does backward."""
        return (segment for segment in self.segments if segment.first == node)

    def schedule(self) -> Iterator[Operator]:
        """Every operator in the order of a step: forward, backward with gradients, update."""
        for node in self.nodes:
            yield from node.forward
        for index, node in reversed(list(enumerate(self.nodes))):
            for segment in self.again(index):
                for other in segment.nodes:
                    yield from self.nodes[other].recompute
            yield from node.backward
            yield from node.gradient
        for node in self.nodes:
            yield from node.update


@once_for_each
def sorts_of(step: Operators) -> tuple[int, ...]:
    """A number for each node of the partition graph: equal for nodes that cost the same."""
    known: dict[Hashable, int] = {}
    pairs = zip(step.graph, step.nodes, strict=True)
    return tuple(known.setdefault(_sort_of(*pair), len(known)) for pair in pairs)


def _sort_of(node: Node, operators: NodeOperators) -> Hashable:
    """Equal for nodes that cost the same in every state: without what says where they are."""
    return replace(node, name="", producers=(), main=None, tied=None, reads=()), tuple(
        (
            phase,
            replace(
                operator,
                name="",
                node=0,
                reads=_unnamed(operator.reads),
                writes=_unnamed(operator.writes),
                casts=_unnamed(operator.casts),
            ),
        )
        for phase in Phase
        for operator in operators.of(phase)
    )


def _unnamed(maps: tuple[Map, ...]) -> tuple[Map, ...]:
    return tuple(replace(tensor, tensor="") for tensor in maps)
