"""The operators of a training step, and what each reads, writes and multiplies.

Each is described for any shard of its node: maps by their channels and areas, weights and products
for each pair of input and output channels of a group. Which operators are fused, and what they
read, is a compiler's doing: the table of docs/roofline.md, found to predict measured TPU steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from planners.order import Phase
from simulator.cost.hbm_tensors import LINEAR, rides
from simulator.cost.head import with_wide_head
from simulator.cost.operands import Operands
from simulator.cost.operators import NOTHING, Map, Moved, NodeOperators, Operator, Operators
from simulator.cost.recompute import NONE, recomputed
from simulator.cost.units.vectors import worked_by
from workloads import RECEIVED, SENT, Layer, Network
from workloads.kept import once_for_each
from workloads.kinds import ATTENTION, CELLS, COMPUTED, INPUT, JOINS, LOSS, PRODUCTS


@dataclass(frozen=True, slots=True)
class _Work:
    """What an operator does beside its maps, for its layer's weights and products.

    ``moved`` is for each weight, ``rows`` for each element of an embedding's
    output, ``products`` the part of the layer's products.
    """

    moved: Moved = NOTHING
    products: float = 0.0
    rows: Moved = NOTHING
    steps: int = 1


_NONE = _Work()
_PRODUCT = _Work(Moved(weights=1.0), 1.0)
"""A product reads each weight once."""


def operators(
    network: Network, *, inference: bool = False, recompute: str = NONE, early_stop: bool = False
) -> Operators:
    """The operators of one training step, or its forward part; every layer's exactly once.

    What is to ``recompute`` (``simulator.cost.recompute``) runs forward again, to its end
    or, with ``early_stop``, as far as backward needs it.
    """
    known = _of_network(network)
    key = inference, recompute, early_stop
    if key not in known:
        known[key] = _made(network, inference, recompute, early_stop)
    return known[key]


@once_for_each
def _of_network(network: Network) -> dict[tuple[bool, str, bool], Operators]:
    """Those that were made: the same objects each time, for what is kept by them."""
    del network
    return {}


def _made(network: Network, inference: bool, recompute: str, early_stop: bool) -> Operators:
    step = _TrainingOperators(network)
    nodes = [step.node(index) for index in range(len(step.all.graph))]
    if inference:
        nodes = [replace(node, backward=(), gradient=(), update=()) for node in nodes]
    sends = any(layer.operator == SENT for layer in network.layers)
    found = with_wide_head(Operators(step.all.graph, tuple(nodes), sends=sends))
    return found if inference else recomputed(found, network, recompute, early_stop=early_stop)


class _TrainingOperators:
    def __init__(self, network: Network) -> None:
        self.maps = Operands(network)
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
        rest = sum(x.parameters for x in own) - brought
        pairs, channels = self.maps.pairs(index), self.all.graph[index].out_channels
        return NodeOperators(
            forward=tuple(op for x in own for op in self._forward(x)),
            backward=tuple(op for x in reversed(own) for op in self._backward(x)),
            gradient=tuple(op for x in own for op in self._gradient(x)),
            update=tuple(self._update(index, brought / pairs, rest / channels)),
            pair_parameters=brought / pairs,
            channel_parameters=rest / channels,
            shared_parameters=sum(x.weights for x in weights if x.shared) / pairs,
        )

    def _forward(self, layer: Layer) -> Iterator[Operator]:
        reads = [self.maps.input(layer, place) for place in range(len(layer.inputs))]
        writes = [self.maps.output(layer, layer.name), *self.maps.written_masks(layer)]
        if layer.kind == "batch_norm":
            yield self._operator(layer, Phase.FORWARD, "statistics", reads)
        elif rides(layer) or layer.operator in (RECEIVED, SENT):
            return
        elif layer.kind == "embedding":
            work = _Work(rows=Moved(weights=1.0))
            yield self._operator(layer, Phase.FORWARD, "", reads, writes, work)
        elif layer.kind in CELLS:
            writes.append(self.maps.gates(layer))
            yield self._operator(layer, Phase.FORWARD, "", reads, writes, _recurrent(layer))
        elif layer.operator == LOSS:
            loss = [self.maps.loss(layer)]  # logits in float32, then their softmax, in place
            yield self._operator(layer, Phase.FORWARD, "forward cast", reads, loss)
            yield self._operator(layer, Phase.FORWARD, "", loss * 2)
        else:
            writes += [self.maps.logarithms(layer)] if layer.kind == ATTENTION else []
            yield self._operator(layer, Phase.FORWARD, "", reads, writes, _PRODUCT)

    def _backward(self, layer: Layer) -> Iterator[Operator]:
        """What a root does backward, and before it the reductions of batch norms that ride on it.

        Nothing where no gradient is needed: nothing before has parameters.
        """
        if rides(layer):
            if self.all.root[layer.name] == INPUT and layer.kind == "batch_norm":
                yield from self._reductions(layer)
            return
        if layer.operator == SENT:  # its gradient comes from the stage that read it
            return
        if self._summed_first(layer.name):
            yield from self._summed(layer)
        for rider in reversed(self.all.riders.get(layer.name, ())):
            if self.all.layers[rider].kind == "batch_norm":
                yield from self._reductions(self.all.layers[rider])
        if layer.kind in CELLS:
            yield self._through_time(layer)
        elif layer.kind == "matmul":
            yield from self._operand_gradient(layer, 0, Phase.BACKWARD)
        elif layer.kind == ATTENTION:
            yield self._scores_again(layer)
        elif layer.kind != "embedding" and not self.all.trained.isdisjoint(layer.inputs):
            yield from self._input_gradient(layer)

    def _summed_first(self, name: str) -> bool:
        """Products read their output's gradient several times; a cell reads it once."""
        if name == INPUT:
            return False
        layer = self.all.layers[name]
        # of what was received one gradient goes back, whoever read it
        return layer.operator == RECEIVED or layer.kind in PRODUCTS - CELLS.keys()

    def _summed(self, layer: Layer) -> Iterator[Operator]:
        """The gradients of many readers, or of readers of parts, become one tensor."""
        if not self.all.whole(layer.name):
            reads = self.maps.received(layer)
            whole = [self.maps.output(layer, f"gradient of {layer.name}")]
            yield self._operator(layer, Phase.BACKWARD, "gradient sum", reads, whole)

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
        yield self._operator(norm, Phase.BACKWARD, "reductions", reads)

    def _input_gradient(self, layer: Layer) -> Iterator[Operator]:
        own, writes = self.maps.changed(layer), self.maps.input_gradients(layer)
        if layer.weighted:
            reads = [self.maps.product_gradient(layer), *own]
            yield self._operator(layer, Phase.BACKWARD, "", reads, writes, _PRODUCT)
            return
        reads = [*self.maps.received(layer), *own]
        if layer.kind in JOINS - {"mul"}:
            if self.all.passes(layer.name):
                return
            normed = self.all.normed[layer.name]
            places = [self.all.root[name] for name in layer.inputs]
            reads += [self.maps.input(layer, places.index(root)) for root in normed]
        elif layer.operator == LOSS:
            reads = [self.maps.loss(layer)]
            yield self._operator(layer, Phase.BACKWARD, "", reads * 2)
            yield self._operator(layer, Phase.BACKWARD, "backward cast", reads, writes)
            return
        elif layer.apart and layer.operator in LINEAR:
            pass
        elif layer.kind == "softmax" and layer.name not in self.all.gradients[layer.name]:
            reads += [] if own else [self.maps.output(layer, layer.name)]
        else:
            reads += [self.maps.input(layer, place) for place in range(len(layer.inputs))]
        yield self._operator(layer, Phase.BACKWARD, "", reads, writes)

    def _operand_gradient(self, layer: Layer, place: int, phase: Phase) -> Iterator[Operator]:
        """The gradient of one operand of a matmul is a product with the other one."""
        if layer.inputs[place] in self.all.trained:
            reads = [self.maps.product_gradient(layer), *self.maps.changed(layer)]
            reads.append(self.maps.input(layer, 1 - place))
            writes = [self.maps.operand_gradient(layer, place)]
            yield self._operator(layer, phase, "", reads, writes, _Work(products=1.0))

    def _scores_again(self, attention: Layer) -> Operator:
        """Fused attention backward: its scores anew, then the errors of all its operands."""
        node = self.all.graph[self.maps.owner[attention.name][0]]
        reads = [self.maps.product_gradient(attention), *self.maps.changed(attention)]
        reads += [self.maps.input(attention, place) for place in range(3)]
        reads += [self.maps.output(attention, attention.name), self.maps.logarithms(attention)]
        forward, backward = node.attended
        work = _Work(products=backward / forward)
        writes = self.maps.input_gradients(attention)
        return self._operator(attention, Phase.BACKWARD, "", reads, writes, work)

    def _through_time(self, cell: Layer) -> Operator:
        """A cell's errors step by step; without those of its input where nobody needs them."""
        trained = cell.inputs[0] in self.all.trained
        reads = [*self.maps.received(cell), *self.maps.changed(cell), self.maps.gates(cell)]
        writes = [self.maps.gate_gradients(cell), *self.maps.input_gradients(cell)]
        work = _recurrent(cell, whole=trained)
        return self._operator(cell, Phase.BACKWARD, "", reads, writes, work)

    def _gradient(self, layer: Layer) -> Iterator[Operator]:
        """A weight's gradient: the first use to run backward writes it, others add to it."""
        if layer.kind == "matmul":
            yield from self._operand_gradient(layer, 1, Phase.GRADIENT)
        if not layer.weighted:
            return
        first = self.last_use[layer.shared or layer.name] == layer.name
        work = _Work(Moved(gradients=1.0 if first else 2.0), 1.0)
        reads = [self.maps.input(layer)]
        if layer.kind in CELLS:
            reads += [self.maps.output(layer, layer.name), self.maps.gate_gradients(layer)]
        else:
            reads += [self.maps.product_gradient(layer), *self.maps.changed(layer)]
        if layer.kind == "embedding":  # zeros for the whole table, then what is touched
            zeros = Moved(gradients=1.0) if first else NOTHING
            work = _Work(zeros, 0.0, Moved(gradients=2.0))
        yield self._operator(layer, Phase.GRADIENT, "", reads, (), work)

    def _update(self, index: int, pairs: float, rest: float) -> Iterator[Operator]:
        if pairs or rest:
            yield Operator(
                f"{self.all.graph[index].name} update",
                index,
                Phase.UPDATE,
                pair=Moved(updated=pairs),
                channel=Moved(updated=rest),
            )

    def _operator(
        self,
        layer: Layer,
        phase: Phase,
        what: str,
        reads: Iterable[Map],
        writes: Iterable[Map] = (),
        work: _Work = _NONE,
    ) -> Operator:
        """An operator of a layer."""
        index, _ = self.maps.owner[layer.name]
        pairs = self.maps.pairs(index)
        row_share = layer.input.area / layer.vocabulary if layer.vocabulary else 0.0
        riders = map(self.all.layers.__getitem__, self.all.riders.get(layer.name, ()))
        fused = layer.kind == ATTENTION
        macs = self.all.graph[index].attended[0] if fused else layer.macs
        return Operator(
            f"{layer.name} {what or phase}",
            index,
            phase,
            tuple(reads),
            tuple(writes),
            macs=work.products * macs / pairs,
            pair=work.moved.times(layer.weights, pairs),
            row=work.rows.times(row_share),
            kernel=layer.kernel_area if layer.kind == "conv" else 1.0,
            steps=work.steps,
            lanes=worked_by(layer, riders, what, phase) / self.all.graph[index].out_channels,
            each_sample=layer.kind in COMPUTED,
            block=layer.block,
            attention=fused,
            spectral=work.products * layer.spectral_macs[1] / pairs if layer.block > 1 else 0.0,
        )


def _recurrent(cell: Layer, *, whole: bool = True) -> _Work:
    """A cell's weights and products; those of the state alone where the whole is not needed.

    The weights of the state are read again at each step in time.
    """
    units, steps = cell.output.channels // cell.directions, cell.output.area
    state = units / (cell.input.channels + units)
    once = 1.0 if whole else state
    return _Work(Moved(weights=once + state * (steps - 1)), once, steps=steps)
