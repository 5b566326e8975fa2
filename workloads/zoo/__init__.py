"""Ready-made networks, by name."""

from collections.abc import Callable
from functools import partial

from workloads.layers import Network
from workloads.zoo.alexnet import alexnet
from workloads.zoo.bert import bert
from workloads.zoo.densenet import densenet
from workloads.zoo.gnmt import gnmt
from workloads.zoo.gpt2 import gpt2
from workloads.zoo.hypar import HYPAR
from workloads.zoo.inception import inception
from workloads.zoo.lenet import lenet
from workloads.zoo.llama import llama
from workloads.zoo.mobilenet import mobilenet
from workloads.zoo.resnet import resnet
from workloads.zoo.vgg import vgg
from workloads.zoo.vit import vit

ZOO: dict[str, Callable[[], Network]] = {
    "lenet": lenet,
    "alexnet": alexnet,
    "vgg11": partial(vgg, 11),
    "vgg13": partial(vgg, 13),
    "vgg16": partial(vgg, 16),
    "vgg19": partial(vgg, 19),
    "resnet18": partial(resnet, 18),
    "resnet34": partial(resnet, 34),
    "resnet50": partial(resnet, 50),
}
"""The AccPar paper's nine networks, which comparisons take: a name and its builder."""

SEQUENCES: dict[str, Callable[..., Network]] = {
    "bert-base": partial(bert, "base"),
    "bert-large": partial(bert, "large"),
    "gpt2": partial(gpt2, ""),
    "gpt2-medium": partial(gpt2, "-medium"),
    "gpt2-large": partial(gpt2, "-large"),
    "gpt2-xl": partial(gpt2, "-xl"),
    "llama-7b": partial(llama, "llama-7b", sequence=2048),
    "llama3-8b": partial(llama, "llama3-8b", sequence=8192),
    "llama3-405b": partial(llama, "llama3-405b", sequence=8192),
    "gnmt": gnmt,
}
"""Networks that take ``sequence``, a number of tokens."""

FURTHER: dict[str, Callable[..., Network]] = {
    "inception-v3": inception,
    "densenet121": densenet,
    "mobilenet-v2": mobilenet,
    "vit-b16": vit,
    **SEQUENCES,
}
"""Transformers, recurrent cells, and graphs that are not chains."""

NETWORKS: dict[str, Callable[..., Network]] = {**ZOO, **FURTHER, **HYPAR}
"""Every network with a name, the HyPar paper's sizes among them."""

__all__ = ["FURTHER", "HYPAR", "NETWORKS", "SEQUENCES", "ZOO"]
