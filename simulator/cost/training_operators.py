"""The operators of a training step, and what each reads, writes and multiplies.

Each is described for any shard of its node: maps by their channels and areas, weights and products
for each pair of input and output channels of a group. Which operators are fused, and what they
read, is a compiler's doing: the table of docs/explanation/operators.md, checked on measured steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from threading import RLock

from cachetools import LRUCache, cached

from planners.order import Phase
from simulator.cost.operands import Operands
from simulator.cost.operators import Map, Moved, NodeOperators, Operator, Operators
from simulator.cost.recompute import NONE, recomputed
from simulator.cost.units.vectors import worked_by
from workloads import RECEIVED, SENT, Layer, Network
from workloads.layer_types import Kept, Operand, Role, Step
from workloads.layer_types.base import STATISTICS
from workloads.layer_types.other import BACKWARD_CAST, FORWARD_CAST, NORMS
from workloads.tensors import INPUT, sides
from workloads.transforms import without_loss


def operators(
    network: Network, *, inference: bool = False, recompute: str = NONE, early_stop: bool = False
) -> Operators:
    """The operators of one training step, or its forward part; every layer's exactly once.

    What is to ``recompute`` (``simulator.cost.recompute``) runs forward again, to its end
    or, with ``early_stop``, as far as backward needs it.
    """
    return _made(network, inference, recompute, early_stop)


MOST_NODES = 40_000
"""Nodes whose operators are kept in one process, some 2 KB each."""


@cached(LRUCache(MOST_NODES, lambda made: len(made.nodes)), lock=RLock())
def _made(network: Network, inference: bool, recompute: str, early_stop: bool) -> Operators:
    step = _TrainingOperators(without_loss(network) if inference else network, inference)
    nodes = [step.node(index) for index in range(len(step.all.graph))]
    if inference:
        nodes = [replace(node, backward=(), gradient=(), update=()) for node in nodes]
    sends = any(layer.operator == SENT for layer in network.layers)
    found = with_wide_head(Operators(step.all.graph, tuple(nodes), sends=sends))
    norms = {layer.name for layer in network.layers if layer.operator in NORMS}
    found = with_casts(found, norms)
    return found if inference else recomputed(found, network, recompute, early_stop=early_stop)


class _TrainingOperators:
    def __init__(self, network: Network, inference: bool) -> None:
        self.maps, self.inference = Operands(network), inference
        self.all = self.maps.all
        self.own: list[list[Layer]] = [[] for _ in self.all.graph]
        self.last_use: dict[str, str] = {}
        for layer in network.layers:
            self.own[self.maps.owner[layer.name][0]].append(layer)
            self.last_use[layer.shared or layer.name] = layer.name

    def node(self, index: int) -> NodeOperators:
        own = self.own[index]
        weights = [x for x in own if x.weighted]
        brought = sum(x.weights for x in weights if not x.shared)
        entry = sum(x.parameters for x in own if self.maps.owner[x.name][1])
        rest = sum(x.parameters for x in own) - brought - entry
        of = self.all.graph[index]
        pairs, channels, inputs = self.maps.pairs(index), of.out_channels, of.in_channels
        return NodeOperators(
            forward=tuple(op for x in own for op in self._forward(x)),
            backward=tuple(op for x in reversed(own) for op in self._backward(x)),
            gradient=tuple(op for x in own for op in self._gradient(x)),
            update=tuple(self._update(index, brought / pairs, rest / channels, entry / inputs)),
            pair_parameters=brought / pairs,
            channel_parameters=rest / channels,
            entry_parameters=entry / inputs,
            shared_parameters=sum(x.weights for x in weights if x.shared) / pairs,
        )

    def _forward(self, layer: Layer) -> Iterator[Operator]:
        """What a layer does forward; in passing it does nothing but sum up statistics."""
        if not layer.type.in_passing(layer) or layer.type.statistics:
            steps = layer.type.forward(layer)
            yield from self._steps(
                layer, Phase.FORWARD, _without_training(steps) if self.inference else steps
            )

    def _backward(self, layer: Layer) -> Iterator[Operator]:
        """What a root does backward, and before it the reductions of batch norms that ride on it.

        Nothing where no gradient is needed: nothing before has parameters.
        """
        if layer.type.in_passing(layer):
            if self.all.root[layer.name] == INPUT and layer.type.statistics:
                yield from self._reductions(layer)
            return
        if self._summed_first(layer.name):
            yield from self._summed(layer)
        for reader in reversed(self.all.fused_readers.get(layer.name, ())):
            if self.all.layers[reader].type.statistics:
                yield from self._reductions(self.all.layers[reader])
        if layer.type.sums and self.all.passes(layer.name):
            return
        needed = not self.all.trained.isdisjoint(layer.inputs)
        yield from self._steps(layer, Phase.BACKWARD, layer.type.backward(layer, needed=needed))

    def _gradient(self, layer: Layer) -> Iterator[Operator]:
        """A weight's gradient, or what else runs with those."""
        yield from self._steps(layer, Phase.GRADIENT, layer.type.gradient(layer))

    def _steps(self, layer: Layer, phase: Phase, steps: Iterable[Step]) -> Iterator[Operator]:
        """Operators of a layer; none that makes the gradient of an input that needs none."""
        for step in steps:
            alone = (one.place for one in step.writes if isinstance(one, Operand))
            if all(layer.inputs[place] in self.all.trained for place in alone):
                reads = [one for part in step.reads for one in self._read(layer, step, part)]
                writes = [one for part in step.writes for one in self._written(layer, part)]
                yield self._operator(layer, phase, step, reads, writes)

    def _read(self, layer: Layer, step: Step, part: Role | Operand | Kept) -> list[Map]:
        """What a layer's operator reads where its type names such a part."""
        places = range(len(layer.inputs))
        if isinstance(part, Kept):
            return [self.maps.kept(layer, part)]
        if isinstance(part, Operand):
            return [self.maps.input(layer, part.place)]
        if part is Role.INPUTS:
            return [self.maps.input(layer, place) for place in places]
        if part is Role.OUTPUT:
            return self._own_output(layer)
        normed = () if Role.INPUTS in step.reads else self.all.normed.get(layer.name, ())
        roots = [self.all.root[name] for name in layer.inputs]
        return [
            *self._errors(layer),
            *self.maps.changed(layer),
            *(self.maps.input(layer, roots.index(root)) for root in normed),
        ]

    def _own_output(self, layer: Layer) -> list[Map]:
        """An operator's output, as backward reads it, unless it comes with the error.

        What is made last has its gradient in its output's place: backward reads its inputs.
        """
        own = [self.maps.output(layer, layer.name)]
        if layer.type.product:
            return own
        if layer.name in self.all.gradients[layer.name]:
            return [self.maps.input(layer, place) for place in range(len(layer.inputs))]
        return [] if self.maps.changed(layer) else own

    def _written(self, layer: Layer, part: Role | Operand | Kept) -> list[Map]:
        if isinstance(part, Kept):
            return [self.maps.kept(layer, part)]
        if part is Role.OUTPUT:
            masks = [] if self.inference else self.maps.written_masks(layer)
            return [self.maps.output(layer, layer.name), *masks]
        places = [part.place] if isinstance(part, Operand) else range(len(layer.inputs))
        return self.maps.input_gradients(layer, places)

    def _summed_first(self, name: str) -> bool:
        """Whether the parts of an output's gradient are summed before they are read."""
        if name == INPUT:
            return False
        layer = self.all.layers[name]
        # of what was received one gradient goes back, whoever read it
        return layer.operator == RECEIVED or layer.type.sums_error

    def _errors(self, layer: Layer) -> list[Map]:
        """The gradient of a layer's output, in one tensor or in the parts that were written."""
        if self._summed_first(layer.name):
            return [self.maps.product_gradient(layer)]
        return self.maps.received(layer)

    def _summed(self, layer: Layer) -> Iterator[Operator]:
        """The gradients of many readers, or of readers of parts, become one tensor."""
        if not self.all.whole(layer.name):
            reads = self.maps.received(layer)
            whole = [self.maps.output(layer, f"gradient of {layer.name}")]
            step = Step((), what="gradient sum")
            yield self._operator(layer, Phase.BACKWARD, step, reads, whole)

    def _reductions(self, norm: Layer) -> Iterator[Operator]:
        """Batch norm backward, unless the join behind does it in passing."""
        root = self.all.root[norm.name]
        readers = (reader for reader, _ in self.all.readers[root])
        if any(root in self.all.normed.get(reader, ()) for reader in readers):
            return
        if self._summed_first(root):
            parts = [self.maps.product_gradient(self.all.layers[root])]
        else:
            parts = self.maps.received(norm)
        reads = [*parts, self.maps.output(norm, root)]
        yield self._operator(norm, Phase.BACKWARD, Step((), what="reductions"), reads)

    def _update(self, index: int, pairs: float, rest: float, entry: float) -> Iterator[Operator]:
        if pairs or rest or entry:
            yield Operator(
                f"{self.all.graph[index].name} update",
                index,
                Phase.UPDATE,
                pair=Moved(updated=pairs, cleared=pairs),
                channel=Moved(updated=rest, cleared=rest),
                entry=Moved(updated=entry, cleared=entry),
            )

    def _operator(
        self,
        layer: Layer,
        phase: Phase,
        step: Step,
        reads: Iterable[Map],
        writes: Iterable[Map] = (),
    ) -> Operator:
        """An operator of a layer: one of its type's steps, for each pair of its node's channels.

        The first use of a weight to run backward writes its gradient, others add to it.
        """
        index, front = self.maps.owner[layer.name]
        node, pairs = self.all.graph[index], self.maps.pairs(index)
        row_share = layer.input.area / layer.vocabulary if layer.vocabulary else 0.0
        fused = map(self.all.layers.__getitem__, self.all.fused_readers.get(layer.name, ()))
        macs = node.fused[0] if layer.type.computed and any(node.fused) else layer.macs
        spectral = layer.type.spectral_macs(layer)[1] if layer.block > 1 else 0
        moved = step.gradients[self.last_use[layer.shared or layer.name] != layer.name]
        gradients = min(moved, 1.0)
        pair = Moved(step.weights, gradients, adds=moved - gradients)
        return Operator(
            f"{layer.name} {step.what or phase}",
            index,
            phase,
            tuple(reads),
            tuple(writes),
            macs=step.products * macs / pairs,
            exponentials=step.exponentials * macs / pairs,
            pair=pair.times(layer.weights, pairs),
            row=Moved(*step.rows).times(row_share),
            kernel=layer.kernel_area if layer.weighted else 1.0,
            flat=len({*sides(layer.kernel)}) > 1,
            repeats=_repeats(layer, phase),
            steps=step.times,
            lanes=worked_by(layer, fused, step.what, phase) / node.out_channels,
            each_sample=layer.type.computed,
            block=layer.block,
            attention=layer.type.softmax_kernel,
            keys=layer.operands[1].area if layer.causal and layer.type.softmax_kernel else 0,
            spectral=step.products * spectral / pairs,
            grouped=layer.groups > 1 and layer.type.fully_connected,
            cast=step.what in (FORWARD_CAST, BACKWARD_CAST),
            front=front,
        )


def _repeats(layer: Layer, phase: Phase) -> float:
    """How many windows of a convolution an element of its product's first operand is in.

    3 x 3 with stride 1: nine; with stride 2 a quarter of them, as there are fewer windows.
    Backward they are windows of the errors.
    """
    if not layer.weighted or layer.kernel_area == 1:
        return 1.0
    windows = layer.input.area if layer.transposed else layer.output.area
    of = layer.output if phase is Phase.BACKWARD else layer.input
    return max(1.0, layer.kernel_area * windows / of.area)


def _without_training(steps: Sequence[Step]) -> Iterator[Step]:
    """A forward pass alone: batch norms have their statistics, and nothing is kept for backward."""
    read = {part for step in steps for part in step.reads}
    for step in steps:
        if step.what != STATISTICS:
            writes = (part for part in step.writes if not isinstance(part, Kept) or part in read)
            yield replace(step, writes=tuple(writes))


def with_wide_head(of: Operators) -> Operators:
    """The same, where no logits are made in fp8 or fp4, as nobody makes them.

    Recipes of Transformer Engine and torchtitan leave a model's output head as it is, and
    DeepSeek-V3 does (DeepSeek-AI 2024, section 3.3.1): 7 % of the FLOPs of Llama-3-8B.
    """
    if of.logits is None:
        return of

    def wide(some: Sequence[Operator]) -> tuple[Operator, ...]:
        return tuple(replace(one, wide=bool(one.macs)) for one in some)

    head = of.nodes[of.logits]
    head = replace(
        head,
        forward=wide(head.forward),
        backward=wide(head.backward),
        gradient=wide(head.gradient),
    )
    return replace(of, nodes=(*of.nodes[: of.logits], head, *of.nodes[of.logits + 1 :]))


def with_casts(of: Operators, norms: Set[str]) -> Operators:
    """The same, each tensor cast once for all products that read it, right where it is written.

    ``norms`` write narrow numbers in place of wide ones, both ways round, where all of their
    readers are such products: nothing more is moved. So do Transformer Engine's LayerNormLinear
    (NVIDIA, module/layernorm_linear.py: one input for q, k and v, quantized by the norm's kernel,
    before sequence parallelism gathers it) and compilers, which make equal casts once
    (torchao's float8). What a product or attention writes is cast before what reads it.
    """
    nodes = list(of.nodes)
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        own = [(v, i, op) for v, node in enumerate(nodes) for i, op in enumerate(node.of(phase))]
        wide = {t.tensor for _, _, op in own if not op.narrow for t in op.reads}
        writers = {
            t.tensor: (v, i, t)
            for v, i, op in own
            if not op.macs and not op.attention
            for t in op.writes
        }
        found: dict[tuple[int, int], list[Map]] = {}
        done = set(norms - wide)
        for v, i, op in own:
            if op.narrow and (read := op.reads[0]).tensor not in done:
                done |= {read.tensor} if read.share == 1 else set()
                at, place, what = writers.get(read.tensor, (v, i, read))
                found.setdefault((at, place), []).append(what)
        for (v, i), maps in found.items():
            ops = list(nodes[v].of(phase))
            ops[i] = replace(ops[i], casts=tuple(maps))
            ahead = phase is Phase.FORWARD
            nodes[v] = (
                replace(nodes[v], forward=tuple(ops))
                if ahead
                else replace(nodes[v], backward=tuple(ops))
            )
    return replace(of, nodes=tuple(nodes))
