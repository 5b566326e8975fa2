"""Phaze's placement: d like pipelines of s stages for a batch of micro-batches, one device a stage.

Time per batch of N micro-batches::

    slowest stage * (ceil(N / d) + s - 1)  +  4 (d - 1) / d * first stage's parameters / B

A stage runs its layers in order, forward and backward. A layer waits for what comes to
it from another stage, bytes / B after its pass began: transfers go at once, without
contention. With recomputation every stage but the last does its forward pass again
before its backward pass; the gradients' transfer goes on meanwhile. A stage with r
stages behind it needs 2 W (+ W for Adam) + activations + r * stash bytes, W its
parameters; the stash is its activations, or with recomputation what comes to it.

The dynamic program is exact over stages that are contiguous in the given order of layers.
Source: Phaze (Wang et al., ICML 2024), Solver/device_placement of msr-fiddle/phaze
fed7cde, with one device for each layer (its tensor-parallel width 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

from hardware.reader import checked, parse_json, read_text, whole
from planners.errors import PlanError
from planners.pipeline.load_graph import MOST_BYTES, MOST_EDGES, Amount, FileTable, positions
from planners.pipeline.masks import bits, neighbours, topological
from planners.pipeline.profile import Profile
from planners.pipeline.states import Floats

MOST_LAYERS = 1_000
MOST_DEVICES = 10_000


@dataclass(frozen=True, slots=True)
class PhazeLayers:
    """Layers in the order in which a device runs them.

    Per micro-batch: ``forward_s`` and ``backward_s``; ``activation_bytes`` are all that a
    layer keeps for its backward pass. ``edges``: (source, target, bytes), forwards.
    """

    name: str
    layers: tuple[str, ...]
    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    parameter_bytes: tuple[float, ...]
    activation_bytes: tuple[float, ...]
    edges: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True)
class Phaze:
    """Seconds of a batch and of the slowest stage, pipelines, and the layers of each stage."""

    batch_s: float
    slowest_s: float
    pipelines: int
    stages: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Training:
    """How a batch is trained: links in bytes/s, memory in bytes a device."""

    micro_batches: int
    bytes_per_s: float
    memory_bytes: float
    adam: bool = False
    recompute: bool = False


def layers_of(profile: Profile) -> PhazeLayers:
    """A profile's layers; what an edge carries, and what a layer keeps, is the layer's output."""
    order = topological(len(profile.nodes), profile.edges)
    place = {node: i for i, node in enumerate(order)}
    nodes = [profile.nodes[v] for v in order]
    return PhazeLayers(
        profile.name,
        tuple(node.name for node in nodes),
        tuple(node.forward_s for node in nodes),
        tuple(node.backward_s for node in nodes),
        tuple(node.parameter_bytes for node in nodes),
        tuple(node.activation_bytes for node in nodes),
        tuple((place[a], place[b], profile.nodes[a].activation_bytes) for a, b in profile.edges),
    )


def phaze(
    layers: PhazeLayers,
    devices: int,
    training: Training,
    done: Callable[[str], None] = lambda label: None,
) -> Phaze:
    """The placement that takes least time per batch; d * s may be less than ``devices``.

    ``done`` is called for each number of stages, min(devices, layers) times.
    Raises PlanError for more than MOST_LAYERS or MOST_DEVICES, or where nothing fits.
    """
    count = len(layers.layers)
    if count > MOST_LAYERS or devices > MOST_DEVICES:
        raise PlanError(
            f"{layers.name}: {count} layers on {devices} devices; at most {MOST_LAYERS} on "
            f"{MOST_DEVICES} are planned"
        )
    table = _Stages(layers, training)
    most = min(devices, count)
    # rest[s][i]: the slowest of s stages that do the layers from i on.
    rest = [np.full(count + 1, np.inf)]
    rest[0][count] = 0.0
    best = (math.inf, 0, 0, 0)
    for stages in range(1, most + 1):
        load = table.loads(stages)
        slowest = np.maximum(load, rest[-1][None, 1:])
        for pipelines in range(1, min(devices // stages, training.micro_batches) + 1):
            rounds = -(-training.micro_batches // pipelines) + stages - 1
            exchange = 4 * (pipelines - 1) / pipelines * table.weights[0] / training.bytes_per_s
            batch = slowest[0] * rounds + exchange
            end = int(np.argmin(batch))
            best = min(best, (float(batch[end]), pipelines, stages, end))
        rest.append(np.append(slowest.min(axis=1), np.inf))
        done("placing")
    if not math.isfinite(best[0]):
        raise PlanError(
            f"{layers.name}: no placement on {devices} devices fits {training.memory_bytes:g} "
            f"bytes a device; allow more memory, more devices, or --recompute stages:all"
        )
    return _placed(layers, table, rest, best)


class _Stages:
    """Of every stretch of layers [first, last]: loads, parameters and memory."""

    def __init__(self, layers: PhazeLayers, training: Training) -> None:
        self.training, count = training, len(layers.layers)
        turned = [(count - 1 - b, count - 1 - a, size) for a, b, size in layers.edges]
        self.forward = self._passes(layers.forward_s, layers.edges)
        self.backward = self._passes(layers.backward_s[::-1], turned)[::-1, ::-1].T
        comes = np.zeros((count, count))  # to [first, target], from before the first
        for source, target, size in layers.edges:
            comes[source + 1 : target + 1, target] += size
        stash = comes.cumsum(axis=1)
        forward, backward, self.weights, activations = (
            _sums(values)
            for values in (
                layers.forward_s,
                layers.backward_s,
                layers.parameter_bytes,
                layers.activation_bytes,
            )
        )
        self.again = np.maximum(forward + backward, self.backward)
        self.stash = stash if training.recompute else activations
        self.kept = (3 if training.adam else 2) * self.weights + activations

    def loads(self, stages: int) -> Floats:
        """Seconds [first, last] of the first of so many stages; infinite where it does not fit."""
        again = self.training.recompute and stages > 1
        seconds = self.forward + (self.again if again else self.backward)
        fits = self.kept + (stages - 1) * self.stash <= self.training.memory_bytes
        return np.where(fits & np.isfinite(seconds), seconds, np.inf)

    def _passes(self, own_s: Sequence[float], edges: Iterable[tuple[int, int, float]]) -> Floats:
        """Seconds [first, last] of a pass, of which layers wait for what comes from before it."""
        count = len(own_s)
        waits, passes = np.zeros((count, count)), np.full((count, count), np.inf)
        for source, target, size in edges:
            late = waits[source + 1 : target + 1, target]
            np.maximum(late, size / self.training.bytes_per_s, out=late)
        for last in range(count):
            before = np.append(passes[:last, last - 1], 0.0)
            passes[: last + 1, last] = np.maximum(before, waits[: last + 1, last]) + own_s[last]
        return passes


def _sums(values: tuple[float, ...]) -> Floats:
    """Sums of values[first...last], of shape (n, n); meaningless where last < first."""
    total = np.concatenate(([0.0], np.cumsum(values)))
    return np.asarray(total[None, 1:] - total[:-1, None])


def _placed(
    layers: PhazeLayers, table: _Stages, rest: list[Floats], best: tuple[float, int, int, int]
) -> Phaze:
    batch_s, pipelines, stages, end = best
    found, slowest_s, first = [layers.layers[: end + 1]], float(table.loads(stages)[0, end]), 0
    for left in range(stages - 1, 0, -1):
        first = end + 1
        slowest = np.maximum(table.loads(left)[first], rest[left - 1][1:])
        end = int(np.argmin(slowest))
        found.append(layers.layers[first : end + 1])
        slowest_s = max(slowest_s, float(table.loads(left)[first, end]))
    return Phaze(batch_s, slowest_s, pipelines, tuple(found), _notes(layers))


def _notes(layers: PhazeLayers) -> tuple[str, ...]:
    """That branches are cut in one order only."""
    _, after = neighbours(len(layers.layers), ((a, b) for a, b, _ in layers.edges))
    chain = all(after[i] >> (i + 1) & 1 for i in range(len(layers.layers) - 1))
    if chain:
        return ()
    branches = sum(1 for mask in after if sum(1 for _ in bits(mask)) > 1)
    return (
        f"{branches} layers feed branches: stages are contiguous in one order of the layers; "
        f"other orders are not tried, so a better placement may exist.",
    )


Id = Annotated[int, whole(-(1 << 52), 1 << 52)]
"""Ids of what is outside the repeated layers are negative."""


class NodeTable(FileTable):
    """A layer: seconds and bytes."""

    key: Id = Field(alias="id")
    forward_s: Amount = Field(alias="optimalLatencyFw")
    backward_s: Amount = Field(alias="optimalLatencyBw")
    parameter_bytes: Amount = Field(alias="parameterSize")
    activation_bytes: Amount = Field(alias="activationSize")


class EdgeTable(FileTable):
    """What a layer sends another."""

    source: Id = Field(alias="sourceId")
    target: Id = Field(alias="destId")
    size: Amount = Field(alias="communicationCost")


class NodesTable(FileTable):
    """Layers on one device each: "1" is the only tensor-parallel width that is planned."""

    one: list[NodeTable] = Field(alias="1", min_length=1, max_length=MOST_LAYERS)


class EdgesTable(FileTable):
    """Edges between layers on one device each."""

    one: list[EdgeTable] = Field(alias="1", max_length=MOST_EDGES)


class PhazeTable(FileTable):
    """A file of Phaze's."""

    nodes: NodesTable
    edges: EdgesTable


def read_phaze(path: str | Path) -> PhazeLayers:
    """Return the layers in a file, in topological order.

    Raises PlanError with the file, the place in it and the key.
    """
    text = read_text(path, PlanError, "Phaze's", MOST_BYTES)
    table = checked(PhazeTable, parse_json(text, path, PlanError), path, PlanError)
    nodes, edges = table.nodes.one, table.edges.one
    place = positions([node.key for node in nodes], f"{path}: nodes.1")
    for i, edge in enumerate(edges):
        if not {edge.source, edge.target} <= place.keys():
            where = f"{path}: edges.1.{i}"
            raise PlanError(f"{where}: {edge.source} to {edge.target}: no node has such an id")
    pairs = [(place[edge.source], place[edge.target], edge.size) for edge in edges]
    order = topological(len(nodes), ((a, b) for a, b, _ in pairs))
    if len(order) < len(nodes):
        raise PlanError(f"{path}: the edges form a cycle; layers need an order")
    at = {old: new for new, old in enumerate(order)}
    layers = [nodes[v] for v in order]
    return PhazeLayers(
        str(path),
        tuple(str(node.key) for node in layers),
        tuple(node.forward_s for node in layers),
        tuple(node.backward_s for node in layers),
        tuple(node.parameter_bytes for node in layers),
        tuple(node.activation_bytes for node in layers),
        tuple((at[a], at[b], size) for a, b, size in pairs),
    )
