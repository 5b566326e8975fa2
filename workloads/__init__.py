"""What is trained: tensors, layers, networks, the zoo and the importers."""

from __future__ import annotations

import difflib
from dataclasses import replace

from workloads.builder import Builder
from workloads.graph import Graph, Node, owners, partition_graph
from workloads.importers.layer_file import read_layer_file
from workloads.importers.onnx.file import is_onnx, read_onnx
from workloads.layers import CELLS, RECEIVED, SENT, Layer, Network, NetworkError, Sides, Tensor
from workloads.stages import Crossing, Cut, Tie, cut
from workloads.zoo import FURTHER, HYPAR, NETWORKS, SEQUENCES, ZOO

LONGEST = 1 << 20
"""Most tokens in a sequence."""


def is_network(name: str) -> bool:
    """Whether a name is one of the zoo's, with or without an option, or a network's path."""
    return name.partition(":")[0] in NETWORKS or name.endswith(".txt") or is_onnx(name)


def load_network(name: str) -> Network:
    """A network by name, or a file by path: ``.onnx``, or a layer file (``.txt``).

    ``NAME:seq=N`` gives a transformer or recurrent network sequences of N
    tokens. Raises NetworkError with the nearest name, or with what is wrong.
    """
    if name.endswith(".txt"):
        return read_layer_file(name)
    if is_onnx(name):
        return read_onnx(name)
    base, colon, option = name.partition(":")
    if base not in NETWORKS:
        raise NetworkError(f"unknown network {name!r}; {_hint(base)}")
    if not colon:
        return NETWORKS[base]()
    if base not in SEQUENCES:
        raise NetworkError(f"network {base!r} takes no option, found {option!r}")
    return replace(SEQUENCES[base](sequence=_sequence(name, option)), name=name)


def _hint(name: str) -> str:
    plain = {known.replace("-", ""): known for known in NETWORKS}
    near = difflib.get_close_matches(name.lower().replace("-", ""), plain, n=1)
    hint = f"did you mean {plain[near[0]]}?" if near else f"one of {', '.join(NETWORKS)}"
    return f"{hint} (or the path of an .onnx or .txt file)"


def _sequence(name: str, option: str) -> int:
    key, _, text = option.partition("=")
    number = text.isascii() and text.isdigit() and len(text) < 12
    if key != "seq" or not number or not 0 < int(text) <= LONGEST:
        raise NetworkError(f"network {name!r}: expected seq=N with N within 1...{LONGEST}")
    return int(text)


__all__ = [
    "CELLS",
    "FURTHER",
    "HYPAR",
    "NETWORKS",
    "RECEIVED",
    "SENT",
    "SEQUENCES",
    "ZOO",
    "Builder",
    "Crossing",
    "Cut",
    "Graph",
    "Layer",
    "Network",
    "NetworkError",
    "Node",
    "Sides",
    "Tensor",
    "Tie",
    "cut",
    "is_network",
    "load_network",
    "owners",
    "partition_graph",
    "read_layer_file",
    "read_onnx",
]
