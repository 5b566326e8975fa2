"""The blocks that a network repeats, and the core of attention: by the layers' names."""

from __future__ import annotations

import re
from collections import Counter

from workloads.layers import Network

NUMBER = re.compile(r"(\d+)(?=[./_].)")
"""What counts a block: a number with more of the name behind it, as in layer12.norm1."""


def blocks(network: Network) -> tuple[tuple[str, ...], ...]:
    """The names of the layers of each block, in the network's order.

    Blocks are called alike but for a number; of several such names the one with most layers.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for layer in network.layers:
        if number := NUMBER.search(layer.name):
            stem = layer.name[: number.start()]
            found.setdefault(stem, {}).setdefault(number[0], []).append(layer.name)
    if not found:
        return ()
    layers = Counter({stem: sum(map(len, some.values())) for stem, some in found.items()})
    (stem, _), *_ = layers.most_common(1)
    return tuple(map(tuple, found[stem].values()))
