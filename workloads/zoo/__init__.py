"""Ready-made networks, by name."""

from collections.abc import Callable
from functools import partial

from workloads.layers import Network
from workloads.zoo.alexnet import alexnet
from workloads.zoo.hypar import HYPAR
from workloads.zoo.lenet import lenet
from workloads.zoo.resnet import resnet
from workloads.zoo.vgg import vgg

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

NETWORKS = ZOO | HYPAR
"""Every network with a name, the HyPar paper's sizes among them."""

__all__ = ["HYPAR", "NETWORKS", "ZOO"]
