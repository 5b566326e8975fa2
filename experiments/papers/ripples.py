"""Ripples' and Prague's headlines (arXiv 1909.08029, ASPLOS 2020) beside our own runs.

The papers give speedups of training time in their abstracts; what of their
setting is used here is recalled. No constant is fitted to any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from itertools import product

from experiments.papers.figure import Figure, Row, beside
from experiments.studies.training.run import Trained, Training
from hardware import load_array
from simulator import DEPLOYED
from workloads import Network, load_network
from workloads.builder import Builder

ARRAY, WORKERS, ITERATIONS = "ripples-16", 16, 120
LOSS, PROBLEM = 0.3, "logistic"
OURS = "prague:nodes=yes:filter=5"
BASELINES = ("all-reduce", "ps", "ad-psgd")
SLOWED: dict[str, tuple[str, ...]] = {
    "alike": (),
    "one 2x slow": ("worker:0:2",),
    "one 5x slow": ("worker:0:5",),
}
HEADLINES: dict[str, dict[tuple[str, bool], float]] = {
    "ripples": {
        ("all-reduce", False): 1.1,
        ("ps", False): 5.1,
        ("ad-psgd", False): 4.3,
        ("all-reduce", True): 2.0,
        ("ps", True): 3.0,
    },
    "prague": {
        ("all-reduce", False): 1.2,
        ("ps", False): 5.3,
        ("ad-psgd", False): 3.7,
        ("all-reduce", True): 4.4,
    },
}
"""Speedups from the abstracts: over which method, and whether a worker is slow."""

WHY = (
    "Nothing is fitted. Recalled: the array, the networks, groups of 3. Ours: batches of 32 "
    "(resnet50) and 128 (vgg16-cifar) a worker, links inside a node, and one parameter server: "
    "more would be less slow, and the papers' number is not at hand.",
    "The abstracts do not say here how slow the slow worker is: each heterogeneous headline stands "
    "beside both.",
    "AD-PSGD: theirs is its authors' program, whose synchronising took long (as recalled). Ours "
    "takes what the wires take, and is then faster than Prague, most so with a slow worker.",
    "Time to a loss is of a small problem that learns along; speed alone is in the figure speed.",
)


def vgg16_cifar() -> Network:
    """VGG-16 on images of 32 x 32, with one fully connected layer, as is usual for CIFAR-10."""
    net = Builder("vgg16-cifar", 3, 32, 32)
    blocks = zip((64, 128, 256, 512, 512), (2, 2, 3, 3, 3), strict=True)
    for block, (channels, convs) in enumerate(blocks, 1):
        for i in range(1, convs + 1):
            net.conv(f"conv{block}_{i}", channels, 3, 1, 1, bias=True)
            net.relu(f"relu{block}_{i}")
        net.pool(f"pool{block}", 2, 2)
    net.flatten("flatten")
    net.fc("fc", 10, bias=True)
    net.softmax("softmax")
    return net.build("VGG-16 for CIFAR-10")


NETWORKS: dict[str, tuple[Callable[[], Network], int]] = {
    "vgg16-cifar": (vgg16_cifar, 128),
    "resnet50": (lambda: load_network("resnet50"), 32),
}
"""What is trained, and each worker's batch."""


@cache
def trained(network: str, method: str, slow: str) -> Trained:
    """One run."""
    make, batch = NETWORKS[network]
    return Training(
        make(),
        method,
        load_array(ARRAY),
        WORKERS,
        ITERATIONS,
        DEPLOYED,
        batch,
        slowdowns=SLOWED[slow],
        learn=PROBLEM,
        loss=LOSS,
    ).run()


def _speedup(paper: str, network: str, slow: str, method: str) -> Row:
    """Prague's time to a loss beside a method's."""
    times = (trained(network, one, slow).to_target_s for one in (OURS, method))
    ours, theirs = (math.nan if one is None else one for one in times)  # nan: never so low
    headline = HEADLINES[paper].get((method, slow != "alike"))
    return beside(theirs / ours, headline, over=f"{method}, {slow}", planner=network)


def headline(paper: str) -> Figure:
    """Prague's speedup in time to a loss over each method, beside one paper's."""
    points = [
        partial(_speedup, paper, network, slow, method)
        for network, slow, method in product(NETWORKS, SLOWED, BASELINES)
    ]
    title = f"Speedup of {OURS} in time to a loss, beside the headlines of {paper.title()}"
    return Figure(title, "speedup", points, WHY, ("over",))


def _rate(network: str, slow: str, name: str) -> Row:
    one = trained(network, OURS if name == "prague" else name, slow)
    return beside(one.iterations_per_s, None, method=f"{name}, {slow}", planner=network)


def speed() -> Figure:
    """Iterations a second of all workers together: what the network and the waiting allow."""
    points = [
        partial(_rate, network, slow, name)
        for network, slow, name in product(NETWORKS, SLOWED, (*BASELINES, "prague"))
    ]
    title = "Iterations a second, all 16 workers together"
    said = ("The papers' values are not at hand: ours only.",)
    return Figure(title, "iterations [1/s]", points, said, ("method",))


FIGURES: dict[str, Callable[[], Figure]] = {
    "ripples": partial(headline, "ripples"),
    "prague": partial(headline, "prague"),
    "speed": speed,
}
