"""What is trained: tensors, layers, networks, the zoo and the importers."""

from __future__ import annotations

import difflib

from workloads.builder import Builder
from workloads.graph import Graph, Node, partition_graph
from workloads.importers.layer_file import read_layer_file
from workloads.layers import Layer, Network, NetworkError, Tensor
from workloads.zoo import ZOO


def load_network(name: str) -> Network:
    """A network of the zoo by name; raises NetworkError with the nearest name."""
    if name in ZOO:
        return ZOO[name]()
    near = difflib.get_close_matches(name.lower().replace("-", ""), ZOO, n=1)
    hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(ZOO)}"
    raise NetworkError(f"unknown network {name!r}; {hint}")


__all__ = [
    "ZOO",
    "Builder",
    "Graph",
    "Layer",
    "Network",
    "NetworkError",
    "Node",
    "Tensor",
    "load_network",
    "partition_graph",
    "read_layer_file",
]
