"""Ready-made networks, by name."""

from collections.abc import Callable
from functools import partial

from workloads.network import Network
from workloads.zoo.convolutional import alexnet, densenet, inception, lenet, mobilenet, resnet, vgg
from workloads.zoo.encoders import BERTS, VIT_B16, bert, vit
from workloads.zoo.gnmt import gnmt
from workloads.zoo.hypar import HYPAR
from workloads.zoo.transformers import SIZES, Transformer, sized, transformer

ZOO: dict[str, Callable[[], Network]] = {
    "lenet": lenet,
    "alexnet": alexnet,
    **{f"vgg{depth}": partial(vgg, depth) for depth in (11, 13, 16, 19)},
    **{f"resnet{depth}": partial(resnet, depth) for depth in (18, 34, 50)},
}
"""The AccPar paper's nine networks, which comparisons take: a name and its builder."""

SEQUENCES: dict[str, Callable[..., Network]] = {
    "bert-base": partial(bert, BERTS["base"]),
    "bert-large": partial(bert, BERTS["large"]),
    **{name: partial(sized, SIZES[name]) for name in list(SIZES)[:7]},
    "gnmt": gnmt,
}
"""Networks that take ``sequence``, a number of tokens."""

FURTHER: dict[str, Callable[..., Network]] = {
    "inception-v3": inception,
    "densenet121": densenet,
    "mobilenet-v2": mobilenet,
    "vit-b16": partial(vit, VIT_B16),
    **SEQUENCES,
}
"""Transformers, recurrent cells, and graphs that are not chains."""

NETWORKS: dict[str, Callable[..., Network]] = {**ZOO, **FURTHER, **HYPAR}
"""Networks that comparisons and tests go through, the HyPar paper's sizes among them."""

LARGE: dict[str, Callable[..., Network]] = {
    name: partial(sized, of) for name, of in SIZES.items() if name not in NETWORKS
}
"""Further transformers, most of them too large for one accelerator."""
