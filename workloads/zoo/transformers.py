"""Transformers from their sizes: one description, one way to build it, and those of sizes.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from importlib import resources
from math import ceil
from typing import Any

from workloads.attention import FORMS, attention_cores, with_attention
from workloads.builder import Builder
from workloads.layer_types.other import COMBINE, DISPATCH, EAGER_LOSS, EXPERT_BIAS, EXPERT_GLU
from workloads.network import Network
from workloads.tensors import NetworkError, Tensor
from workloads.transforms import apart
from workloads.zoo.attention import attend, norm

FUSED_SINCE = 2022
"""The year of FlashAttention (Dao et al. 2022)."""
NORMS = ("layer_norm", "rms_norm")
POSITIONS = ("table", "rotary", "alibi", "none")
ACTIVATIONS = ("gelu", "relu", "silu", "squared_relu")
ATTENTION_BIASES = ("", "none", "qkv", "all")


@dataclass(frozen=True, slots=True)
class Transformer:
    """A pre-norm transformer with a language-model head; 0 is what is usual.

    ``ffn`` is the width of the feed-forward (4 ``hidden``), ``gated`` with two products
    into it; ``kv_heads`` are those of keys and values (``heads``), ``head_dim`` the features
    of a head (``hidden`` / ``heads``). ``table`` is the number of learned positions (``seq``).

    All blocks but the first ``dense_layers`` have ``experts``, if any, of width ``moe_ffn``
    (``ffn``): each token goes to ``topk`` of them, and through one of ``shared_ffn`` that is
    for all. Of ``capacity`` 1.25 an expert takes 1.25 times its even share of a sample's
    tokens, padded; of 0 tokens are spread evenly and none is dropped.

    With ``kv_rank`` attention is latent (DeepSeek-AI 2024): queries, and keys with values,
    are made of ``q_rank`` and ``kv_rank`` features; ``head_dim`` is the part of a head
    without positions, ``rope_dim`` that with, and ``value_dim`` (``head_dim``) a value's.

    ``attention_biases`` says which products of attention have biases where this is not as
    ``biases`` says ("qkv": all but the last one). ``norm_biases``, ``head_bias`` and
    ``router_bias`` are further ones. With ``post_norms`` attention and feed-forward have a norm
    behind them, too; with ``parallel_norms`` (1 or 2) both read the block's input, through one
    norm or one each. ``shared_gate`` weighs what the experts for all make, and ``sinks`` adds
    a trained number for each head to the softmax. ``dropout`` is behind embedding, attention and
    feed-forward, and within attention where ``attention_dropout`` is not off.

    Not ``compiled``, element-wise work is in kernels of its own (``workloads.transforms.apart``),
    and so is what gated experts with ``biases`` do, but what is in a kernel with their products
    (``fused_experts``); None is as the array's software does it (``Stack.element_kernels``).
    With ``eager_loss`` no compiler has the loss (``EAGER_LOSS``).
    ``attention`` is ``fused``, ``unfused`` or ``eager`` whatever the array's software; "" is as
    that has it. ``source`` says who published the sizes, ``year`` when: from 2022 on attention is
    fused where nobody says otherwise.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    vocab: int
    seq: int = 2048
    ffn: int = 0
    gated: bool = False
    kv_heads: int = 0
    head_dim: int = 0
    norm: str = "layer_norm"
    embedding_norm: bool = False
    positions: str = "table"
    table: int = 0
    activation: str = "gelu"
    biases: bool = True
    attention_biases: str = ""
    norm_biases: bool = False
    head_bias: bool = False
    router_bias: bool = False
    post_norms: bool = False
    parallel_norms: int = 0
    sinks: bool = False
    fused_qkv: bool = True
    head_norms: bool = False
    tied: bool = True
    causal: bool = True
    dropout: bool = False
    attention_dropout: bool = True
    experts: int = 0
    topk: int = 2
    moe_ffn: int = 0
    shared_ffn: int = 0
    shared_gate: bool = False
    dense_layers: int = 0
    capacity: float = 0.0
    q_rank: int = 0
    kv_rank: int = 0
    rope_dim: int = 64
    value_dim: int = 0
    attention: str = ""
    compiled: bool | None = None
    eager_loss: bool = False
    fused_experts: bool = False
    source: str = ""
    year: int = 0

    def __post_init__(self) -> None:
        if not self.head_dim and self.heads > 0 and self.hidden % self.heads:
            raise NetworkError(
                f"transformer {self.name!r}: heads = {self.heads}: do not divide hidden = "
                f"{self.hidden}; say head_dim, too"
            )
        for key, usual in self.usual().items():
            object.__setattr__(self, key, getattr(self, key) or usual)
        if problem := _problem(self):
            raise NetworkError(f"transformer {self.name!r}: {problem}")

    def usual(self) -> dict[str, int]:
        """Sizes that follow others where they are not said."""
        each = self.hidden // max(self.heads, 1)
        return {"ffn": 4 * self.hidden, "kv_heads": self.heads, "head_dim": each}

    @property
    def tokens_of_an_expert(self) -> int:
        """Of one sample, those that one expert takes."""
        return ceil(self.seq * self.topk * (self.capacity or 1.0) / self.experts)


def _problem(of: Transformer) -> str | None:
    """What is wrong with a description: the key, its value, and what would be right."""
    for key in ("layers", "hidden", "heads", "vocab", "seq"):
        if getattr(of, key) < 1:
            return f"{key} = {getattr(of, key)}: must be at least 1"
    for field in fields(of):
        value = getattr(of, field.name)
        if isinstance(value, int | float) and value < 0:
            return f"{field.name} = {value}: must not be negative"
    words = {
        "norm": NORMS,
        "positions": POSITIONS,
        "activation": ACTIVATIONS,
        "attention": ("", *FORMS),
        "attention_biases": ATTENTION_BIASES,
    }
    for key, known in words.items():
        if getattr(of, key) not in known:
            return f"{key} = {getattr(of, key)!r}: one of {', '.join(known)}"
    if of.parallel_norms > 2:
        return f"parallel_norms = {of.parallel_norms}: 0, 1 or 2"
    if of.heads % of.kv_heads:
        return f"kv_heads = {of.kv_heads}: must divide the {of.heads} heads"
    if of.experts and not 1 <= of.topk <= of.experts:
        return f"topk = {of.topk}: a token goes to 1 to {of.experts} experts"
    if of.dense_layers > of.layers:
        return f"dense_layers = {of.dense_layers}: there are {of.layers} layers"
    if of.table and of.seq > of.table:
        return f"seq = {of.seq}: is beyond its {of.table} positions"
    return None


def transformer(of: Transformer) -> Network:
    """The network of a description, one sample being a sequence of ``seq`` tokens.

    Raises NetworkError where it cannot be built.
    """
    net = Builder(of.name, 1, of.seq)
    last = net.embedding("embedding", of.vocab, of.hidden)
    if of.positions == "table":
        last = net.other("positions", "add_table", extra=(of.table or of.seq) * of.hidden)
    if of.embedding_norm:
        last = _norm(net, "embedding.norm", of)
    last = _dropout(net, "dropout", last, of)
    for i in range(of.layers):
        last = _block(net, f"layer{i}", last, of, routed=of.experts > 0 and i >= of.dense_layers)
    _norm(net, "norm", of)
    net.linear("head", of.vocab, bias=of.head_bias, shared="embedding" if of.tied else "")
    if of.eager_loss:
        net.other("loss", EAGER_LOSS)
    else:
        net.softmax("softmax")
    source = f" ({of.source})" if of.source else ""
    network = net.build(f"{of.name}{source}, {of.seq} tokens")
    network = apart(network) if of.compiled is False else network
    network = with_attention(network, of.attention) if of.attention else network
    fused = of.causal and of.year >= FUSED_SINCE
    return replace(network, notes=_notes(of), fused=fused, sizes=of, padding=_padding(of, network))


def without_compiler(network: Network) -> Network:
    """A network as a stack without a compiler runs it: ``apart``, unless it says what it is.

    One without attention stays as it is: these stacks' measured steps are of transformers.
    """
    of = network.sizes if isinstance(network.sizes, Transformer) else None
    if (of and of.compiled is not None) or not attention_cores(network):
        return network
    if of and of.experts and of.biases and transformer(of).layers == network.layers:
        own = transformer(replace(of, compiled=False))  # gated experts' work has kernels, too
        return replace(network, layers=own.layers)
    return apart(network)


def sized(of: Transformer, sequence: int = 0) -> Network:
    """The network of a description, its sequences of another length where one is given."""
    return transformer(replace(of, seq=sequence) if sequence else of)


def _notes(of: Transformer) -> tuple[str, ...]:
    even = of.seq * of.topk
    if not of.experts or of.capacity or even % of.experts == 0:
        return ()
    return (
        f"{of.name}: {even} routed tokens of a sample are not spread evenly over {of.experts} "
        f"experts; each takes {of.tokens_of_an_expert}",
    )


def _padding(of: Transformer, network: Network) -> int:
    """Multiply-accumulates of experts for tokens that are none: of ``capacity`` 2 half of them."""
    if not of.experts:
        return 0
    routed = of.seq * of.topk / (of.tokens_of_an_expert * of.experts)
    macs = sum(layer.macs for layer in network.layers if ".experts." in layer.name)
    return round(max(1 - routed, 0) * macs)


def _block(net: Builder, name: str, source: str, of: Transformer, *, routed: bool) -> str:
    entry = _norm(net, f"{name}.norm1", of, source)
    made = (_latent if of.kv_rank else _attention)(net, name, entry, of)
    first = _behind(net, name, 1, made, of)
    make = _experts if routed else _dense
    if of.parallel_norms:
        entry = entry if of.parallel_norms == 1 else _norm(net, f"{name}.norm2", of, source)
        second = _behind(net, name, 2, make(net, name, entry, of), of)
        return net.add(f"{name}.add2", second, first, source)
    middle = net.add(f"{name}.add1", first, source)
    made = make(net, name, _norm(net, f"{name}.norm2", of), of)
    return net.add(f"{name}.add2", _behind(net, name, 2, made, of), middle)


def _behind(net: Builder, name: str, half: int, made: str, of: Transformer) -> str:
    """What comes between a half of a block and the sum with its input."""
    made = _norm(net, f"{name}.post_norm{half}", of, made) if of.post_norms else made
    return _dropout(net, f"{name}.dropout{half}", made, of)


def _norm(net: Builder, name: str, of: Transformer, source: str | None = None) -> str:
    return norm(net, name, of.norm, source, bias=of.biases or of.norm_biases)


def _dropout(net: Builder, name: str, source: str, of: Transformer) -> str:
    return net.other(name, "dropout", None, source) if of.dropout else source


def _attention(net: Builder, name: str, entry: str, of: Transformer) -> str:
    """Queries, keys and values from one linear layer, or from one each."""
    core, tokens = f"{name}.attention", net.shape(entry).height
    dropped = of.dropout and of.attention_dropout
    biased = of.attention_biases or ("all" if of.biases else "none")
    widths = [heads * of.head_dim for heads in (of.heads, of.kv_heads, of.kv_heads)]
    if of.fused_qkv:
        whole = net.linear(f"{core}.qkv", sum(widths), bias=biased != "none", after=entry)
        parts = [
            net.other(f"{core}.{part}", "slice", Tensor(width, tokens), whole)
            for part, width in zip("qkv", widths, strict=True)
        ]
    else:
        parts = [
            net.linear(f"{name}.{part}", width, bias=biased != "none", after=entry)
            for part, width in zip(("query", "key", "value"), widths, strict=True)
        ]
    for i, part in enumerate(parts[:2]):
        if of.head_norms:
            part = net.other(f"{part}.norm", of.norm, None, part, extra=of.head_dim)
        rotary = of.positions == "rotary"
        parts[i] = net.other(f"{part}.rotary", "rotary", None, part) if rotary else part
    query, key, value = parts
    attend(net, core, query, key, value, of.heads, causal=of.causal, dropout=dropped)
    if of.sinks:
        net.other(f"{core}.sinks", "identity", extra=of.heads)
    output = f"{core}.output" if of.fused_qkv else f"{name}.output"
    return net.linear(output, of.hidden, bias=biased == "all")


def _latent(net: Builder, name: str, entry: str, of: Transformer) -> str:
    """Multi-head latent attention: one rotary key for all heads, beside a part for each."""
    tokens, each = net.shape(entry).height, of.head_dim + of.rope_dim
    value = of.value_dim or of.head_dim
    if of.q_rank:
        net.linear(f"{name}.query_down", of.q_rank, after=entry)
        entry_q = norm(net, f"{name}.query_norm", of.norm, bias=of.biases)
    else:
        entry_q = entry
    net.linear(f"{name}.query", of.heads * each, after=entry_q)
    query = net.other(f"{name}.query.rotary", "rotary")
    down = net.linear(f"{name}.key_value_down", of.kv_rank + of.rope_dim, after=entry)
    latent = net.other(f"{name}.latent", "slice", Tensor(of.kv_rank, tokens), down)
    rope = net.other(f"{name}.rope", "slice", Tensor(of.rope_dim, tokens), down)
    rope = net.other(f"{name}.rope.rotary", "rotary", None, rope)
    norm(net, f"{name}.latent_norm", of.norm, latent, bias=of.biases)
    both = net.linear(f"{name}.key_value", of.heads * (of.head_dim + value))
    plain = net.other(f"{name}.plain", "slice", Tensor(of.heads * of.head_dim, tokens), both)
    values = net.other(f"{name}.value", "slice", Tensor(of.heads * value, tokens), both)
    key = net.other(f"{name}.key", "beside", Tensor(of.heads * each, tokens), plain, rope)
    core, dropped = f"{name}.attention", of.dropout and of.attention_dropout
    attend(net, core, query, key, values, of.heads, causal=of.causal, dropout=dropped)
    return net.linear(f"{name}.output", of.hidden)


def _dense(net: Builder, name: str, entry: str, of: Transformer) -> str:
    return _feed_forward(net, name, entry, of, of.ffn)


def _experts(net: Builder, name: str, entry: str, of: Transformer) -> str:
    """Router, dispatch, the experts as the groups of grouped layers, and their results together.

    Of 8 experts with 2 for each of 4,096 tokens, each takes 1,024: groups of one layer whose
    map is 8 x ``hidden`` channels at 1,024 positions.
    """
    net.linear(f"{name}.router", of.experts, bias=of.router_bias, after=entry)
    gates = net.softmax(f"{name}.gates")
    each = Tensor(of.experts * of.hidden, of.tokens_of_an_expert)
    routed = net.other(f"{name}.dispatch", DISPATCH, each, entry, gates)
    width = of.moe_ffn or of.ffn
    inner = f"{name}.experts"
    made = _feed_forward(net, inner, routed, of, width, groups=of.experts)
    whole = net.shape(entry)
    made = net.other(f"{name}.combine", COMBINE, whole, made, gates)
    if not of.shared_ffn:
        return made
    shared = _feed_forward(net, f"{name}.shared", entry, of, of.shared_ffn)
    if of.shared_gate:
        gate = net.linear(f"{name}.shared.weight", 1, after=entry)
        shared = net.other(f"{name}.shared.weighed", "mul", net.shape(shared), shared, gate)
    return net.add(f"{name}.add_shared", made, shared)


def _feed_forward(
    net: Builder, name: str, entry: str, of: Transformer, width: int, groups: int = 1
) -> str:
    """Two linear layers, or three with a gate; ``width`` is a group's."""
    inner, outer = width * groups, net.shape(entry).channels
    if not of.gated:
        net.linear(f"{name}.fc1", inner, bias=of.biases, groups=groups, after=entry)
        net.other(f"{name}.{of.activation}", of.activation)
        return net.linear(f"{name}.fc2", outer, bias=of.biases, groups=groups)
    net.linear(f"{name}.gate", inner, bias=of.biases, groups=groups, after=entry)
    gate = net.other(f"{name}.{of.activation}", of.activation)
    up = net.linear(f"{name}.up", inner, bias=of.biases, groups=groups, after=entry)
    net.mul(f"{name}.mul", gate, up)
    apart = groups > 1 and of.biases and of.compiled is False
    if apart and not of.fused_experts:
        net.other(f"{name}.glu", EXPERT_GLU)
    made = net.linear(f"{name}.down", outer, bias=of.biases, groups=groups)
    return net.other(f"{name}.bias", EXPERT_BIAS) if apart else made


def _published() -> Iterator[Transformer]:
    """Every description of the file: what its family has in common, and its own values."""
    tables = tomllib.loads(resources.files(__package__).joinpath("sizes.toml").read_text("utf-8"))
    families: dict[str, dict[str, Any]] = {"": {}}
    for name, values in tables["families"].items():
        families[name] = families[values.pop("like", "")] | values
    for name, values in tables["models"].items():
        yield Transformer(name, **families[values.pop("family")] | values)


SIZES: dict[str, Transformer] = {of.name: of for of in _published()}
"""Every published size by name; those that the zoo had first come first."""
