"""HyPar's evaluation written again from its tables alone: no graph, no planner, no engine.

A layer is (inputs, side, kernel, outputs, pool); a fully connected one has
side, kernel and pool 1. Sizes are the published ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

Layer = tuple[int, int, int, int, int]
Plan = list[list[int]]
BATCH, ELEMENT, BOTH_WAYS = 256, 4, 2
PEAK, BANDWIDTH = 84e9, 2.005e9 / 8
MAC_J, BYTE_J = 4.6e-12, 640e-12


def fc(*sizes: int) -> list[Layer]:
    return [(i, 1, 1, o, 1) for i, o in itertools.pairwise(sizes)]


def vgg(blocks: Sequence[int], ones: bool = False) -> list[Layer]:
    layers: list[Layer] = []
    into, side = 3, 224
    for block, count in enumerate(blocks):
        out = min(64 << block, 512)
        for i in range(count):
            kernel = 1 if ones and block >= 2 and i == 2 else 3
            layers.append((into, side, kernel, out, 2 if i == count - 1 else 1))
            into = out
        side //= 2
    return layers + fc(25088, 4096, 4096, 1000)


NETWORKS: dict[str, list[Layer]] = {
    "SFC": fc(784, 8192, 8192, 8192, 10),
    "SCONV": [(1, 28, 5, 20, 1), (20, 24, 5, 50, 2), (50, 10, 5, 50, 1), (50, 6, 5, 10, 2)],
    "Lenet-c": [(1, 28, 5, 20, 2), (20, 12, 5, 50, 2), *fc(800, 500, 10)],
    "Cifar-c": [(3, 32, 5, 32, 2), (32, 16, 5, 32, 2), (32, 8, 5, 64, 2), *fc(1024, 64, 10)],
    "AlexNet": [
        (3, 224, 11, 48, 2),
        (48, 55, 5, 128, 2),
        (128, 27, 3, 192, 1),
        (192, 13, 3, 192, 1),
        (192, 13, 3, 128, 2),
        *fc(4608, 2048, 2048, 1000),
    ],
    "VGG-A": vgg((1, 1, 2, 2, 2)),
    "VGG-B": vgg((2, 2, 2, 2, 2)),
    "VGG-C": vgg((2, 2, 3, 3, 3), ones=True),
    "VGG-D": vgg((2, 2, 3, 3, 3)),
    "VGG-E": vgg((2, 2, 4, 4, 4)),
}


def level_cost(layers: list[Layer], types: Sequence[int], left: list[tuple[float, float]]) -> float:
    """Elements a group receives at one split; ``left`` are the batch and input fractions."""
    total = 0.0
    for v, ((into, side, kernel, out, pool), (batch, share)) in enumerate(
        zip(layers, left, strict=True)
    ):
        rows = BATCH * batch
        total += rows * out * (side // pool) ** 2 if types[v] else into * share * out * kernel**2
        if v and (types[v - 1], types[v]) == (0, 1):
            total += rows * into * share * side**2 / 2
    return total


def shrink(left: list[tuple[float, float]], types: Sequence[int]) -> list[tuple[float, float]]:
    return [(b, i / 2) if t else (b / 2, i) for (b, i), t in zip(left, types, strict=True)]


def traffic_bytes(layers: list[Layer], plan: Plan) -> float:
    """com = com_h + 2 com_{h+1}, in bytes of both directions."""
    left, total = [(1.0, 1.0)] * len(layers), 0.0
    for level, types in enumerate(plan):
        total += level_cost(layers, types, left) * (1 << level)
        left = shrink(left, types)
    return total * ELEMENT * BOTH_WAYS


def macs(layers: list[Layer]) -> int:
    """Multiply-adds of one sample's forward pass."""
    return sum(i * side**2 * kernel**2 * o for i, side, kernel, o, _ in layers)


def seconds(layers: list[Layer], plan: Plan, slower: int = 1) -> float:
    computing = 6 * BATCH * macs(layers) / ((1 << len(plan)) * PEAK)
    return computing + slower * traffic_bytes(layers, plan) / BANDWIDTH


def joules(layers: list[Layer], plan: Plan) -> float:
    return 3 * BATCH * macs(layers) * MAC_J + traffic_bytes(layers, plan) * BYTE_J


def least_cost(layers: list[Layer], left: list[tuple[float, float]]) -> list[int]:
    """Forward dynamic programme of a level; a later choice wins only if strictly cheaper."""
    best: list[tuple[float, list[int]]] = []
    for v in range(len(layers)):
        ends = []
        for kind in (0, 1):
            if v == 0:
                ends.append((level_cost(layers[:1], [kind], left[:1]), [kind]))
                continue
            chosen: tuple[float, list[int]] | None = None
            for cost, path in best:
                own = level_cost(layers[v - 1 : v + 1], [path[-1], kind], left[v - 1 : v + 1])
                before = level_cost(layers[v - 1 : v], [path[-1]], left[v - 1 : v])
                if chosen is None or cost + own - before < chosen[0]:
                    chosen = (cost + own - before, [*path, kind])
            assert chosen is not None
            ends.append(chosen)
        best = ends
    return min(best, key=lambda end: end[0])[1]


def hypar(layers: list[Layer], levels: int = 4) -> Plan:
    left, plan = [(1.0, 1.0)] * len(layers), []
    for _ in range(levels):
        plan.append(least_cost(layers, left))
        left = shrink(left, plan[-1])
    return plan


def same(layers: list[Layer], kind: int, levels: int = 4) -> Plan:
    """One type everywhere."""
    return [[kind] * len(layers)] * levels


def trick(layers: list[Layer], levels: int = 4) -> Plan:
    """Fully connected layers (and a 1x1 map's) model parallel, convolutions not."""
    return [[int(side == 1) for _, side, _, _, _ in layers]] * levels
