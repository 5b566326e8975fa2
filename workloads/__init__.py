"""What is trained: tensors, layers, networks, the zoo and the importers."""

from __future__ import annotations

import difflib

from workloads.builder import Builder
from workloads.graph import Graph, Node, partition_graph
from workloads.importers.layer_file import read_layer_file
from workloads.layers import CELLS, Layer, Network, NetworkError, Tensor
from workloads.zoo import ZOO


def load_network(name: str) -> Network:
    """A network of the zoo by name, or a layer file by path (``.txt``).

    Raises NetworkError with the nearest name, or with what is wrong in the file.
    """
    if name in ZOO:
        return ZOO[name]()
    if name.endswith(".txt"):
        return read_layer_file(name)
    near = difflib.get_close_matches(name.lower().replace("-", ""), ZOO, n=1)
    hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(ZOO)}"
    raise NetworkError(f"unknown network {name!r}; {hint} (or the path of a .txt layer file)")


__all__ = [
    "CELLS",
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
