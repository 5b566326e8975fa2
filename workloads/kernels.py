"""Networks as frameworks run them without a compiler: element-wise work in kernels of its own.

A compiler (XLA, torch.compile) does element-wise operators in passing, while their readers
read. Without one, what a product reads was written by a kernel before it, and is kept for
backward: GELU in front of a linear layer, dropout behind attention's softmax, rotary
positions. What an element-wise kernel reads is done by it all the same (bias, dropout and
add; SwiGLU), as Megatron-LM and others write these by hand. Probabilities of the loss are
float32 (Korthikanti et al. 2022, section 4.4).
"""

from __future__ import annotations

from dataclasses import replace

from workloads.kinds import LOSS, OTHER, PRODUCTS
from workloads.layers import Layer, Network

_VIEWS = frozenset({"slice", "reshape", "view", "transpose", "permute", "identity"})


def apart(network: Network) -> Network:
    """The same network with operators apart that a compiler would fuse into products."""
    readers: dict[str, list[Layer]] = {}
    for layer in network.layers:
        for source in layer.inputs:
            readers.setdefault(source, []).append(layer)

    def products(name: str) -> bool:
        """Whether all that read it are products, views looked through."""
        return all(
            layer.kind in PRODUCTS or (_view(layer) and products(layer.name))
            for layer in readers.get(name, ())
        )

    def changed(layer: Layer) -> Layer:
        if layer.kind == "softmax" and layer.name not in readers:
            return replace(layer, kind=OTHER, operator=LOSS)
        alone = layer.kind in (OTHER, "relu") and len(layer.inputs) == 1 and not _view(layer)
        return replace(layer, apart=alone and products(layer.name) and layer.name in readers)

    return replace(network, layers=tuple(map(changed, network.layers)))


def _view(layer: Layer) -> bool:
    return layer.kind == "flatten" or (layer.kind == OTHER and layer.operator in _VIEWS)
