"""What is trained: tensors, layers, networks, the zoo and the importers."""

from __future__ import annotations

import difflib

from workloads.builder import Builder
from workloads.graph import Graph, Node, partition_graph
from workloads.importers.layer_file import read_layer_file
from workloads.layers import CELLS, Layer, Network, NetworkError, Tensor
from workloads.zoo import HYPAR, NETWORKS, ZOO


def load_network(name: str) -> Network:
    """A network by name, or a layer file by path (``.txt``).

    Raises NetworkError with the nearest name, or with what is wrong in the file.
    """
    if name in NETWORKS:
        return NETWORKS[name]()
    if name.endswith(".txt"):
        return read_layer_file(name)
    lower = name.lower()
    near = difflib.get_close_matches(lower.replace("-", ""), ZOO, n=1)
    near = near or difflib.get_close_matches(lower, HYPAR, n=1)
    hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(NETWORKS)}"
    raise NetworkError(f"unknown network {name!r}; {hint} (or the path of a .txt layer file)")


__all__ = [
    "CELLS",
    "HYPAR",
    "NETWORKS",
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
