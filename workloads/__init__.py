"""What is trained: tensors, layers, networks, the zoo and the importers."""

from __future__ import annotations

from dataclasses import replace

from hardware.reader import hint, one_of_these
from workloads.attention import with_attention
from workloads.builder import Builder
from workloads.graph import Graph, Node, owners, partition_graph
from workloads.importers.hugging_face.config import config_of, read_hugging_face
from workloads.importers.layer_file import read_layer_file
from workloads.importers.onnx.file import is_onnx, read_onnx
from workloads.importers.transformer_file import (
    KIND,
    changed,
    is_transformer_file,
    read_transformer_file,
    sequence,
)
from workloads.layer_types import Layer
from workloads.layer_types.other import RECEIVED, SENT
from workloads.network import Network
from workloads.stages import Crossing, Cut, Tie, cut
from workloads.tensors import NetworkError, Sides, Tensor
from workloads.zoo import (
    FURTHER,
    HYPAR,
    LARGE,
    NETWORKS,
    SEQUENCES,
    SIZES,
    ZOO,
    Transformer,
    transformer,
)
from workloads.zoo.transformers import FUSED_SINCE


def is_network(name: str) -> bool:
    """Whether a name is one of the zoo's, with or without an option, or a network's path."""
    base = name.partition(":")[0]
    known = base in {**NETWORKS, **LARGE, KIND: None} or config_of(base) is not None
    return known or name.endswith(".txt") or is_onnx(name) or is_transformer_file(name)


def is_later(name: str) -> bool:
    """Whether a name is that of a transformer that came after the papers' networks, or a file's."""
    known = name in SIZES and SIZES[name].year >= FUSED_SINCE
    return known or name == KIND or config_of(name) is not None


def load_network(name: str) -> Network:
    """A network by name, or a file by path.

    A file is ``.onnx``, a layer file (``.txt``), a transformer's sizes (``.toml``) or a
    ``config.json`` of Hugging Face, which may be named by its folder.
    ``NAME:seq=N`` gives a transformer or recurrent network sequences of N tokens, and
    ``NAME:KEY=VALUE:…`` a transformer other sizes (``Transformer``); of ``transformer:…`` all
    sizes are said. Raises NetworkError with the nearest name, or with what is wrong.
    """
    if name.endswith(".txt"):
        return read_layer_file(name)
    if name.endswith(".toml"):
        return read_transformer_file(name)
    if is_onnx(name):
        return read_onnx(name)
    base, colon, option = name.partition(":")
    if base == KIND:
        return transformer(changed(name, None, option.split(":")))
    if (config := config_of(base)) is not None:
        found = read_hugging_face(config, option)
        return replace(found, name=f"{found.name}:{option}") if option else found
    if base in SIZES and colon:
        return replace(transformer(changed(name, SIZES[base], option.split(":"))), name=name)
    known = {**NETWORKS, **LARGE}
    if base not in known:
        raise NetworkError(f"unknown network {name!r}; {_hint(base)}")
    if not colon:
        return known[base]()
    if base not in SEQUENCES:
        raise NetworkError(f"network {base!r} takes no option, found {option!r}")
    return replace(SEQUENCES[base](sequence=sequence(name, option)), name=name)


def _hint(name: str) -> str:
    meant = hint(name, (*NETWORKS, *LARGE))
    if not meant.startswith("did"):
        meant = one_of_these([*NETWORKS, *LARGE], "networks")
    return f"{meant} (or the path of an .onnx, .toml, .txt or config.json file)"
