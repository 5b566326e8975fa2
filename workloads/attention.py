"""Attention in one operator, or as the two products and the softmax that it is made of.

A fused kernel (FlashAttention, Dao et al. 2022) keeps queries, keys, values, the result and
a logarithm for each of its rows; scores stay on the chip and are computed again backward.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from workloads.layer_types import Layer
from workloads.layer_types.other import MASKED_FILL, OTHER
from workloads.network import Network
from workloads.tensors import INPUT, NetworkError, Tensor

ATTENTION = "attention"
FORMS = ("fused", "unfused", "eager")
_BETWEEN = frozenset(
    {"scale", "mul", "div", "add", "sub", "cast", "dropout", "identity", "mask", MASKED_FILL}
)
"""Operators of one input that a kernel does with the scores or the probabilities."""


def with_attention(network: Network, form: str) -> Network:
    """The same network with its attention ``fused``, ``unfused`` or ``eager``.

    Fused, a softmax between two products of as many heads becomes one operator with the
    second product's name. Eager, scores are masked by a kernel of its own before an unfused
    softmax. Raises NetworkError for another word, or where there is none.
    """
    if form not in FORMS:
        raise NetworkError(f"attention {form!r}: one of {', '.join(FORMS)}")
    layers = _fused(network) if form == "fused" else _unfused(network)
    if form == "eager":
        layers = _masked(replace(network, layers=tuple(layers)))
    wanted = {ATTENTION} if form == "fused" else {ATTENTION, "matmul"}
    if not any(layer.kind in wanted for layer in layers):
        raise NetworkError(
            f"network {network.name!r} has no attention to be {form}: no softmax between two "
            "products of computed operands"
        )
    return replace(network, layers=tuple(layers))


def attention_cores(network: Network) -> tuple[tuple[str, ...], ...]:
    """The layers of each attention's core, from scores to context: one where it is fused."""
    found: list[tuple[str, ...]] = []
    found += [(layer.name,) for layer in network.layers if layer.kind == ATTENTION]
    for core in _cores(network):
        inner = (layer.name for layer in core.between)
        found.append((core.scores.name, *inner, core.context.name))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Core:
    """A chain from scores to context, each of which one layer alone reads."""

    scores: Layer
    between: tuple[Layer, ...]
    context: Layer


def _fused(network: Network) -> list[Layer]:
    cores = _cores(network)
    inside = {one.name for core in cores for one in (core.scores, *core.between)}
    whole = {core.context.name: _joined(core) for core in cores}
    return [whole.get(one.name, one) for one in network.layers if one.name not in inside]


def _cores(network: Network) -> list[_Core]:
    layers = {layer.name: layer for layer in network.layers}
    readers = Counter(source for layer in network.layers for source in layer.inputs)
    return [found for layer in network.layers if (found := _core(layers, readers, layer))]


def _core(layers: Mapping[str, Layer], readers: Mapping[str, int], context: Layer) -> _Core | None:
    """What ends in a product, if it is attention."""
    if context.kind != "matmul":
        return None
    between: list[Layer] = []
    name = context.inputs[0]
    while name != INPUT and readers[name] == 1 and _passed(layers[name]):
        between.insert(0, layers[name])
        name = layers[name].inputs[0]
    softmaxes = [layer for layer in between if layer.kind == "softmax"]
    scores = layers.get(name)
    if len(softmaxes) != 1 or scores is None or scores.kind != "matmul" or readers[name] > 1:
        return None
    if scores.groups != context.groups:
        return None
    return _Core(scores, tuple(between), context)


def _passed(layer: Layer) -> bool:
    if layer.kind == "softmax":
        return True
    return len(layer.inputs) == 1 and layer.kind == OTHER and layer.operator in _BETWEEN


def _joined(core: _Core) -> Layer:
    """Keys and values as sequences of their heads' features, however their producers have them."""
    scores, context = core.scores, core.context
    groups = scores.groups
    positions = scores.output.channels // groups
    key, value = scores.operands[1].elements, context.operands[1].elements
    shapes = (Tensor(key // positions, positions), Tensor(value // positions, positions))
    return Layer(
        context.name,
        ATTENTION,
        (*scores.inputs, context.inputs[1]),
        scores.input,
        context.output,
        groups=groups,
        others=shapes,
        extra=sum(layer.parameters for layer in core.between),
        causal=any(layer.causal for layer in core.between),
    )


def _unfused(network: Network) -> list[Layer]:
    found: list[Layer] = []
    for layer in network.layers:
        found += _parts(layer) if layer.kind == ATTENTION else [layer]
    return found


def _masked(network: Network) -> list[Layer]:
    """The layers of an unfused network, with a mask behind the scores of each attention."""
    scores = {core.scores.name: core for core in _cores(network)}
    first = {core.between[0].name: name for name, core in scores.items()}
    found: list[Layer] = []
    for layer in network.layers:
        source = first.get(layer.name)
        if source is not None and layer.operator != MASKED_FILL:
            made, name = scores[source].scores.output, f"{source}.mask"
            mask = Layer(name, OTHER, (source,), made, made, operator=MASKED_FILL, apart=True)
            found += [mask, replace(layer, inputs=(name,))]
        else:
            found.append(layer)
    return found


def _parts(layer: Layer) -> list[Layer]:
    query, key, value = layer.inputs
    name, groups, shapes = layer.name, layer.groups, layer.operands
    scores, softmax = f"{name}.scores", f"{name}.softmax"
    made = Tensor(groups * shapes[1].area, layer.input.height, layer.input.width)
    return [
        Layer(scores, "matmul", (query, key), layer.input, made, groups=groups, others=shapes[1:2]),
        Layer(softmax, "softmax", (scores,), made, made, extra=layer.extra, causal=layer.causal),
        Layer(
            name, "matmul", (softmax, value), made, layer.output, groups=groups, others=shapes[2:]
        ),
    ]
