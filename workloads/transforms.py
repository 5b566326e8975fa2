"""Networks transformed: block-circulant weights, inserted zeros, kernels of attention."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from workloads.attention import with_attention
from workloads.layer_types import Layer
from workloads.layer_types.linear import block_problem
from workloads.layer_types.other import EAGER_LOSS, LOSS, LOSS_IN_KERNELS, NORMS, OTHER
from workloads.network import Network
from workloads.tensors import NetworkError, Tensor, sides

MOST_BLOCK = 1 << 12
CIRCULANT, ZEROS, APART, ATTENTION = "circulant", "zeros", "apart", "attention"
EAGER, COMPILED = "eager", "compiled"


def transformed(network: Network, transforms: Iterable[str]) -> Network:
    """A network after one transform after the other; raises NetworkError for an unknown one.

    ``circulant=B``, ``zeros``, ``attention=fused``, ``unfused`` or ``eager``, ``apart``, ``eager``,
    ``compiled``: as it is, whatever the array's software.
    """
    for text in transforms:
        name, _, value = text.partition("=")
        if name == CIRCULANT:
            network = circulant(network, _block(text, value))
        elif name == ZEROS and not value:
            network = with_zeros(network)
        elif name == ATTENTION:
            network = _named(with_attention(network, value), f"attention {value}")
        elif name == APART and not value:
            network = _named(apart(network), APART)
        elif name == EAGER and not value:
            network = _named(eager(network), EAGER)
        elif name == COMPILED and not value:
            if getattr(network.sizes, "compiled", None) is False:
                raise NetworkError(
                    f"--transform {text}: {network.name!r} says compiled=no; take it with "
                    "compiled=yes"
                )
            network = _named(network, COMPILED)
        else:
            raise NetworkError(
                f"--transform {text}: circulant=B (block-circulant weights, B a power of two), "
                "zeros (transposed convolutions compute with the zeros that they insert), "
                "attention=fused, attention=unfused or attention=eager, apart (element-wise "
                "operators that products read are kernels of their own), eager (all are), or "
                "compiled (none is)"
            )
    return network


def _named(network: Network, what: str) -> Network:
    return replace(network, name=f"{network.name}, {what}")


def _block(text: str, value: str) -> int:
    good = value.isascii() and value.isdigit() and len(value) < 6
    block = int(value) if good else 0
    if not 2 <= block <= MOST_BLOCK or block & (block - 1):
        raise NetworkError(f"--transform {text}: a block is a power of two from 2 to {MOST_BLOCK}")
    return block


def circulant(network: Network, block: int) -> Network:
    """Block-circulant weights in every layer whose channels are multiples of the block.

    These are fully connected layers, convolutions (across channels, for each element of the
    kernel), LSTMs and GRUs. Others stay as they are, and the notes say which. Raises
    NetworkError where none is left.
    """
    fits = {layer.name for layer in network.layers if _fits(layer, block)}
    fits -= {layer.shared for layer in network.layers if layer.name not in fits}
    changed = {
        layer.name
        for layer in network.layers
        if layer.name in fits and (not layer.shared or layer.shared in fits)
    }
    if not changed:
        raise NetworkError(
            f"network {network.name!r}: no layer's channels are multiples of {block}; take a "
            "smaller block"
        )
    dense = [layer.name for layer in network.layers if layer.weighted and layer.name not in changed]
    said = f"circulant={block}: not block-circulant, but dense: {', '.join(dense)}"
    return replace(
        network,
        name=f"{network.name}, circulant={block}",
        layers=tuple(
            replace(layer, block=block) if layer.name in changed else layer
            for layer in network.layers
        ),
        notes=(*network.notes, *([said] if dense else [])),
    )


def _fits(layer: Layer, block: int) -> bool:
    return layer.block == 1 and block_problem(replace(layer, block=block)) is None


def with_zeros(network: Network) -> Network:
    """Transposed convolutions as convolutions of an input with zeros between its elements.

    That is how hardware without anything of their own computes them: the input with s - 1
    zeros behind each element and a border, then stride 1. Raises NetworkError without any.
    """
    layers: list[Layer] = []
    for layer in network.layers:
        layers += _inserted(layer) if layer.transposed else [layer]
    if len(layers) == len(network.layers):
        raise NetworkError(f"network {network.name!r}: it has no transposed convolution")
    return replace(network, name=f"{network.name}, zeros", layers=tuple(layers))


def _inserted(layer: Layer) -> list[Layer]:
    """The zeros as an operator of its own, whose output has just the positions that are read."""
    kernel, dilation = sides(layer.kernel), sides(layer.dilation)
    spread = Tensor(
        layer.input.channels,
        layer.output.height + dilation[0] * (kernel[0] - 1),
        layer.output.width + dilation[1] * (kernel[1] - 1),
    )
    name = f"{layer.name} zeros"
    zeros = Layer(name, OTHER, layer.inputs, layer.input, spread, operator="insert_zeros")
    conv = replace(layer, inputs=(name,), input=spread, stride=1, padding=0, transposed=False)
    return [zeros, conv]


def useful_products(layer: Layer) -> int:
    """Multiply-accumulates of one sample of a transposed convolution, zeros and borders left out.

    Along each side, element i meets element t of the kernel at place i s + t d - p of
    the output, if that is one.
    """
    windows = (sides(value) for value in (layer.kernel, layer.stride, layer.padding))
    along = zip(*windows, sides(layer.dilation), strict=True)
    lengths = ((layer.input.height, layer.output.height), (layer.input.width, layer.output.width))
    met = 1
    for (into, out), (kernel, stride, padding, dilation) in zip(lengths, along, strict=True):
        met *= sum(_met(into, out, t * dilation - padding, stride) for t in range(kernel))
    return met * layer.input.channels * layer.output.channels // layer.groups


def _met(into: int, out: int, offset: int, stride: int) -> int:
    """Of 0 <= i < into, those with 0 <= i stride + offset < out."""
    first = max(0, -(offset // stride))
    last = min(into - 1, (out - 1 - offset) // stride)
    return max(0, last - first + 1)


def inserted_products(layer: Layer) -> int:
    """Those of the same layer on an input with zeros inserted: every element of the kernel."""
    pair = layer.input.channels * layer.output.channels // layer.groups
    return pair * layer.kernel_area * layer.output.area


def apart(network: Network) -> Network:
    """Networks as frameworks run them without a compiler: element-wise work in its own kernels.

    A compiler (XLA, torch.compile) does element-wise operators in passing, while their readers
    read. Without one, what a product reads was written by a kernel before it, and is kept for
    backward: GELU in front of a linear layer, dropout behind attention's softmax, rotary
    positions. What an element-wise kernel reads is done by it all the same (bias, dropout and
    add; SwiGLU), as Megatron-LM and others write these by hand. Probabilities of the loss are
    float32 (Korthikanti et al. 2022, section 4.4).
    """
    readers: dict[str, list[Layer]] = {}
    for layer in network.layers:
        for source in layer.inputs:
            readers.setdefault(source, []).append(layer)

    def products(name: str) -> bool:
        """Whether all that read it are products, views looked through."""
        return all(
            layer.type.product or (layer.type.view(layer) and products(layer.name))
            for layer in readers.get(name, ())
        )

    def changed(layer: Layer) -> Layer:
        if _is_loss(layer, readers):
            return replace(layer, kind=OTHER, operator=LOSS)
        written = products(layer.name) and layer.name in readers and layer.operator not in NORMS
        return replace(layer, apart=layer.apart or (written and _alone(layer)))

    return replace(network, layers=tuple(map(changed, network.layers)))


def summed(network: Network) -> Network:
    """A network whose biases' and norms' gradients are summed by kernels of their own.

    So PyTorch's autograd and Apex have it; compilers and Transformer Engine sum them in passing.
    """

    def changed(layer: Layer) -> Layer:
        own = layer.bias if layer.weighted else layer.operator in NORMS
        return replace(layer, apart=True) if own else layer

    return replace(network, layers=tuple(map(changed, network.layers)))


def with_kernels(network: Network, *, sums: bool, loss: bool) -> Network:
    """A network as a stack runs it: with kernels for some ``sums`` or passes of the ``loss``.

    Sums are gradients of biases and norms (``summed``); a loss in kernels is Megatron's
    (``LOSS_IN_KERNELS``), in place of one that a kernel or two compute.
    """
    network = summed(network) if sums else network
    if not loss or not any(layer.operator == LOSS for layer in network.layers):
        return network
    layers = (
        replace(layer, operator=LOSS_IN_KERNELS) if layer.operator == LOSS else layer
        for layer in network.layers
    )
    return replace(network, layers=tuple(layers))


def eager(network: Network) -> Network:
    """A network as eager PyTorch runs it: each element-wise operator is a kernel of its own.

    Each reads what the one before it has written, and the loss is eager, too (``EAGER_LOSS``).
    Batch norms are kernels of their own, and largest elements of windows have indices.
    ``apart`` is for frameworks that write their usual chains of them as one kernel by hand.
    """
    readers = {source for layer in network.layers for source in layer.inputs}

    def changed(layer: Layer) -> Layer:
        if layer.operator == LOSS or _is_loss(layer, readers):
            return replace(layer, kind=OTHER, operator=EAGER_LOSS)
        if layer.kind == "batch_norm":
            trained = layer.parameters
            return replace(layer, kind=OTHER, operator="batch_norm", extra=trained, apart=True)
        return replace(layer, apart=True) if _alone(layer) or layer.kind == "max_pool" else layer

    return summed(replace(network, layers=tuple(map(changed, network.layers))))


def without_loss(network: Network) -> Network:
    """A network that is not trained: a softmax in place of its loss, however that is computed."""
    losses = (LOSS, LOSS_IN_KERNELS, EAGER_LOSS)
    if not any(layer.operator in losses for layer in network.layers):
        return network
    layers = (
        replace(one, kind="softmax", operator="") if one.operator in losses else one
        for one in network.layers
    )
    return replace(network, layers=tuple(layers))


def _is_loss(layer: Layer, readers: Container[str]) -> bool:
    """Whether a layer is the softmax of a loss: nothing reads it."""
    return layer.kind == "softmax" and layer.name not in readers


def _alone(layer: Layer) -> bool:
    """Whether a layer works on one tensor by element, and is no view of it."""
    return layer.type.fusible and len(layer.inputs) == 1 and not layer.type.view(layer)
