"""SPACX's mechanism (Li et al., HPCA 2022): layers on chiplets, broadcast links against a mesh.

What the mechanism gives is computed; how large the gain is over other accelerators
depends on bandwidths and energies that are not at hand: those are calibrated, and said to be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import fsum
from typing import NamedTuple

from experiments.papers.figure import Figure, Row, beside, grid
from simulator.engine.jobs import Job
from simulator.lowering.units.one_to_many import (
    SOURCE,
    Broadcast,
    Medium,
    Mesh,
    Transfer,
    job_of,
    run_together,
)
from workloads import Layer, load_network

CHIPLETS, EACH = 16, 16
"""Chiplets, and processing elements in each: an assumption."""
LINK_BYTES_PER_S = 16e9
CLOCK_HZ, MACS = 1e9, 32
"""Of a processing element: multiply-accumulates a cycle. Assumptions, as the links' bandwidth."""
ELEMENT_BYTES = 1
SHARES = {"weights": 0.4, "inputs": 0.4, "outputs": 0.2}
NETWORKS = ("alexnet", "vgg16", "resnet50")
LESS_TIME, LESS_ENERGY = 0.78, 0.75
"""The abstract's, against other accelerators of chiplets."""
MESH, LIGHT = "mesh", "broadcast"

Alike = tuple[tuple[int, tuple[int, ...]], ...]


class Work(NamedTuple):
    """One image's layers: seconds that all elements together compute, and transfers."""

    name: str
    compute_s: float
    transfers: tuple[Transfer, ...]


class Cost(NamedTuple):
    """Seconds of all layers, one after the other, and bytes over all links."""

    seconds: float
    link_bytes: float


def transfers(layer: Layer) -> tuple[Transfer, ...]:
    """A layer's positions are split among chiplets, its output channels among a chiplet's elements.

    So weights of a group of channels are read by one element of every chiplet, and a
    chiplet's part of the input by all of its elements; outputs go back one by one.
    """
    columns = tuple(tuple(range(e, CHIPLETS * EACH, EACH)) for e in range(EACH))
    chiplets = tuple(tuple(range(c * EACH, (c + 1) * EACH)) for c in range(CHIPLETS))
    nodes = range(CHIPLETS * EACH)
    sizes = {
        "weights": layer.weights / EACH,
        "inputs": layer.input.elements / CHIPLETS,
        "outputs": layer.output.elements / len(nodes),
    }
    ways = {
        "weights": tuple((SOURCE, column) for column in columns),
        "inputs": tuple((SOURCE, chiplet) for chiplet in chiplets),
        "outputs": tuple((node, (SOURCE,)) for node in nodes),
    }
    return tuple(Transfer(kind, ELEMENT_BYTES * sizes[kind], ways[kind]) for kind in sizes)


@cache
def works(network: str) -> tuple[Work, ...]:
    """The products of an image's forward pass."""
    layers = [layer for layer in load_network(network).layers if layer.weighted]
    rate = CHIPLETS * EACH * MACS * CLOCK_HZ
    return tuple(Work(layer.name, layer.macs / rate, transfers(layer)) for layer in layers)


@cache
def medium(name: str, bytes_per_s: float = LINK_BYTES_PER_S) -> Medium:
    """A mesh of all elements, or a link between chiplets and one inside each."""
    if name == MESH:
        return Mesh(CHIPLETS, EACH, bytes_per_s)
    domains = [range(c * EACH, (c + 1) * EACH) for c in range(CHIPLETS)]
    return Broadcast(domains, bytes_per_s, bytes_per_s, SHARES)


@cache
def _job(links: Medium, kind: str, alike: Alike) -> Job:
    return job_of(links, Transfer(kind, 1.0, alike))


@cache
def cost(network: str, links: Medium) -> Cost:
    """Each layer as long as its computing or its transfers, which go on meanwhile."""
    seconds, moved = [], []
    for work in works(network):
        # who reads what is the same for all layers: their jobs differ in bytes alone
        jobs = [
            replace(_job(links, of.kind, of.alike), flow_bytes=of.size_bytes)
            for of in work.transfers
        ]
        exchanged_s, link_bytes = run_together(links, jobs)
        seconds.append(max(work.compute_s, exchanged_s))
        moved.append(float(link_bytes.sum()))
    return Cost(fsum(seconds), fsum(moved))


def _mean_reduction(bytes_per_s: float) -> float:
    """Of the time, over the networks, with broadcast links of that bandwidth."""
    found = [
        1 - cost(n, medium(LIGHT, bytes_per_s)).seconds / cost(n, medium(MESH)).seconds
        for n in NETWORKS
    ]
    return fsum(found) / len(found)


@cache
def calibrated() -> float:
    """The broadcast links' bandwidth (B/s) with which the mean reduction is the published one."""
    low, high = LINK_BYTES_PER_S / 1000, LINK_BYTES_PER_S * 10
    for _ in range(30):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _mean_reduction(middle) > LESS_TIME else (middle, high)
    return high


def _image(network: str, name: str) -> Row:
    found = cost(network, medium(name))
    labels = {"network": network, "planner": name, "link_bytes": found.link_bytes}
    return beside(found.seconds, None, **labels)


def mechanism() -> Figure:
    """Time of an image at equal bandwidth of every link."""
    points = [partial(_image, network, name) for network in NETWORKS for name in (MESH, LIGHT)]
    said = (
        "The mechanism: a mesh sends to each reader by itself, a broadcast link once for all of "
        f"them. {CHIPLETS} chiplets of {EACH} elements, links of {LINK_BYTES_PER_S / 1e9:g} GB/s.",
    )
    return Figure("An image's layers, links of equal bandwidth", "time [s]", points, said)


def traffic() -> Figure:
    """Bytes over all links."""

    def value(network: str, name: str) -> float:
        return cost(network, medium(name)).link_bytes

    points = grid("network", NETWORKS, (MESH, LIGHT), value)
    return Figure("Bytes over all links, an image", "bytes [B]", points)


def size() -> Figure:
    """The published reductions, met by calibrating a bandwidth and an energy."""

    def both(network: str) -> tuple[Cost, Cost]:
        return cost(network, medium(MESH)), cost(network, medium(LIGHT, calibrated()))

    def value(network: str, _: str) -> float:
        base, own = both(network)
        return 1 - own.seconds / base.seconds

    def notes(_: Sequence[Row]) -> tuple[str, ...]:
        ratios = [own.link_bytes / base.link_bytes for base, own in map(both, NETWORKS)]
        dearer = (1 - LESS_ENERGY) / (fsum(ratios) / len(ratios))
        return (
            f"CALIBRATED, not predicted: broadcast links of {calibrated() / LINK_BYTES_PER_S:.3g} "
            "of the mesh links' bandwidth make the mean reduction the published "
            f"{LESS_TIME:.0%}.",
            f"CALIBRATED: the published {LESS_ENERGY:.0%} less energy would follow if a byte on a "
            f"broadcast link took {dearer:.3g} times the energy of one on a mesh link.",
        )

    theirs = {(network, "less time"): LESS_TIME for network in NETWORKS}
    points = grid("network", NETWORKS, ("less time",), value, theirs)
    title = "Less time than on the mesh, with a calibrated bandwidth"
    return Figure(title, "reduction", points, notes)


FIGURES: dict[str, Callable[[], Figure]] = {
    "mechanism": mechanism,
    "traffic": traffic,
    "calibrated": size,
}
