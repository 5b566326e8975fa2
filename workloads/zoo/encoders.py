"""Transformers with encoders: BERT for pre-training, ViT on images, T5 with a decoder too."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.builder import Builder
from workloads.network import Network
from workloads.tensors import NetworkError, Tensor
from workloads.zoo.attention import attend, first_position, fused_attention, norm


@dataclass(frozen=True, slots=True)
class Encoder:
    """Sizes of an encoder, and a line ``about`` it.

    ``dropout`` is behind embedding, attention and feed-forward (T5's also within it, and behind
    its last norms), ``attention_dropout`` behind attention's softmax.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    activation: str = "gelu"
    about: str = ""
    dropout: bool = False
    attention_dropout: bool = False


@dataclass(frozen=True, slots=True)
class Bert(Encoder):
    """BERT's sizes; the others are those of the released uncased models."""

    vocab: int = 30_522
    positions: int = 512
    segments: int = 2


@dataclass(frozen=True, slots=True)
class Vit(Encoder):
    """A vision transformer's sizes."""

    image: int = 224
    patch: int = 16
    channels: int = 3
    labels: int = 1000


@dataclass(frozen=True, slots=True)
class T5(Encoder):
    """T5's sizes: blocks of the decoder, features of a head, buckets of relative positions."""

    vocab: int = 32_128
    decoder_layers: int = 0
    head_dim: int = 64
    buckets: int = 32
    gated: bool = False
    tied: bool = True


_BERT = "BERT-{} pre-training (Devlin et al. 2018)"
BERTS = {
    "base": Bert("bert-base", 12, 768, 12, 3072, about=_BERT.format("base")),
    "large": Bert("bert-large", 24, 1024, 16, 4096, about=_BERT.format("large")),
}
VIT_B16 = Vit("vit-b16", 12, 768, 12, 3072, about="ViT-B/16 (Dosovitskiy et al. 2020)")


def bert(of: Bert, sequence: int = 0) -> Network:
    """BERT with the masked-token and next-sentence heads.

    The decoder of the masked-token head is tied to the word embedding and runs
    at every position. Raises NetworkError for sequences beyond the position table.
    """
    features, sequence = of.hidden, sequence or of.positions
    if sequence > of.positions:
        raise NetworkError(f"{of.name}: seq={sequence} is beyond its {of.positions} positions")
    net = Builder(of.name, 1, sequence)
    net.embedding("embedding", of.vocab, features)
    net.other("positions", "add_table", extra=(of.positions + of.segments) * features)
    last = _dropped(net, "dropout", norm(net, "norm", "layer_norm"), of)
    for i in range(of.layers):
        last = _bert_block(net, f"layer{i}", last, of)
    first_position(net, "first", last)
    net.linear("pooler", features, bias=True)
    net.other("pooler.tanh", "tanh")
    net.linear("next_sentence", 2, bias=True)
    net.linear("transform", features, bias=True, after=last)
    net.other(f"transform.{of.activation}", of.activation)
    norm(net, "transform.norm", "layer_norm")
    net.linear("decoder", of.vocab, bias=True, shared="embedding")
    net.softmax("softmax")
    return net.build(f"{of.about or of.name}, {sequence} tokens")


def _bert_block(net: Builder, name: str, source: str, of: Encoder) -> str:
    query, key, value = (
        net.linear(f"{name}.{part}", of.hidden, bias=True, after=source)
        for part in ("query", "key", "value")
    )
    dropped = of.attention_dropout
    attend(net, f"{name}.attention", query, key, value, of.heads, dropout=dropped)
    output = net.linear(f"{name}.output", of.hidden, bias=True)
    net.add(f"{name}.add1", _dropped(net, f"{name}.dropout1", output, of), source)
    middle = norm(net, f"{name}.norm1", "layer_norm")
    output = _feed_forward(net, name, middle, of, bias=True)
    net.add(f"{name}.add2", _dropped(net, f"{name}.dropout2", output, of), middle)
    return norm(net, f"{name}.norm2", "layer_norm")


def _dropped(net: Builder, name: str, source: str, of: Encoder) -> str:
    return net.other(name, "dropout", None, source) if of.dropout else source


def _feed_forward(
    net: Builder,
    name: str,
    source: str,
    of: Encoder,
    *,
    bias: bool,
    gated: bool = False,
    inner: bool = False,
) -> str:
    """Two linear layers with an activation between them, or a gate and a product beside it.

    With dropout in front of the second one where that is asked for (``inner``).
    """
    net.linear(f"{name}.fc1", of.ffn, bias=bias, after=source)
    made = net.other(f"{name}.{of.activation}", of.activation)
    if gated:
        net.mul(f"{name}.mul", made, net.linear(f"{name}.up", of.ffn, bias=bias, after=source))
    if inner:
        net.other(f"{name}.inner_dropout", "dropout")
    return net.linear(f"{name}.fc2", net.shape(source).channels, bias=bias)


def vit(of: Vit) -> Network:
    """Patches, a class token, pre-norm blocks, and a classifier on the class token."""
    net = Builder(of.name, of.channels, of.image, of.image)
    net.conv("patches", of.hidden, of.patch, of.patch, bias=True)
    patches = (of.image // of.patch) ** 2
    net.other("sequence", "reshape", Tensor(of.hidden, patches))
    whole = Tensor(of.hidden, patches + 1)
    net.other("class_token", "prepend", whole, extra=of.hidden)
    last = _dropped(net, "dropout", net.other("positions", "add_table", extra=whole.elements), of)
    for i in range(of.layers):
        name = f"layer{i}"
        source = norm(net, f"{name}.norm1", "layer_norm", last)
        dropped = of.attention_dropout
        output = fused_attention(net, f"{name}.attention", source, of.heads, dropout=dropped)
        last = net.add(f"{name}.add1", _dropped(net, f"{name}.dropout1", output, of), last)
        source = norm(net, f"{name}.norm2", "layer_norm")
        output = _feed_forward(net, name, source, of, bias=True)
        last = net.add(f"{name}.add2", _dropped(net, f"{name}.dropout2", output, of), last)
    last = norm(net, "norm", "layer_norm")
    first_position(net, "first", last)
    net.fc("head", of.labels, bias=True)
    net.softmax("softmax")
    return net.build(of.about or of.name)


def t5(of: T5, sequence: int = 512) -> Network:
    """Encoder and decoder (Raffel et al. 2020), of ``sequence`` tokens each.

    The tables of relative positions are added where a stack begins: a number for each head.
    """
    net = Builder(of.name, 1, sequence)
    net.embedding("embedding", of.vocab, of.hidden)
    last = net.other("encoder.positions", "add_table", extra=of.buckets * of.heads)
    last = _dropped(net, "encoder.dropout", last, of)
    for i in range(of.layers):
        last = _t5_block(net, f"encoder{i}", last, of)
    memory = _dropped(net, "encoder.last_dropout", norm(net, "encoder.norm", "rms_norm", last), of)
    shifted = net.other("target", "shift", None, "input")
    net.embedding("decoder.embedding", of.vocab, of.hidden, shared="embedding", after=shifted)
    last = net.other("decoder.positions", "add_table", extra=of.buckets * of.heads)
    last = _dropped(net, "decoder.dropout", last, of)
    for i in range(of.decoder_layers or of.layers):
        last = _t5_block(net, f"decoder{i}", last, of, memory)
    _dropped(net, "decoder.last_dropout", norm(net, "decoder.norm", "rms_norm", last), of)
    net.linear("head", of.vocab, shared="embedding" if of.tied else "")
    net.softmax("softmax")
    return net.build(f"{of.about or of.name}, {sequence} tokens")


def _t5_block(net: Builder, name: str, last: str, of: T5, memory: str = "") -> str:
    """A block of the encoder; of the decoder, with the encoder's ``memory``, which it reads."""
    entry = norm(net, f"{name}.norm1", "rms_norm", last)
    made = _t5_attention(net, name, entry, entry, of, bool(memory))
    last = net.add(f"{name}.add1", made, last)
    if memory:
        entry = norm(net, f"{name}.norm_cross", "rms_norm", last)
        made = _t5_attention(net, f"{name}.cross", entry, memory, of, causal=False)
        last = net.add(f"{name}.add_cross", made, last)
    entry = norm(net, f"{name}.norm2", "rms_norm", last)
    made = _feed_forward(net, name, entry, of, bias=False, gated=of.gated, inner=of.dropout)
    return net.add(f"{name}.add2", _dropped(net, f"{name}.dropout2", made, of), last)


def _t5_attention(net: Builder, name: str, entry: str, memory: str, of: T5, causal: bool) -> str:
    width = of.heads * of.head_dim
    query, key, value = (
        net.linear(f"{name}.{part}", width, after=source)
        for part, source in (("query", entry), ("key", memory), ("value", memory))
    )
    dropped = of.attention_dropout
    attend(net, f"{name}.attention", query, key, value, of.heads, causal=causal, dropout=dropped)
    return _dropped(net, f"{name}.dropout1", net.linear(f"{name}.output", of.hidden), of)
