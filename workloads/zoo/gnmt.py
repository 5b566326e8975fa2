"""A GNMT-like translator: LSTM stacks with attention, in the sizes of MLPerf's reference.

After Wu et al. 2016, as MLPerf Training's GNMT has it: four layers on each
side, one embedding for both languages, additive attention from the decoder's
first layer, whose context every later layer reads beside its input.
"""

from __future__ import annotations

from workloads.builder import Builder
from workloads.network import Network
from workloads.tensors import Tensor

VOCABULARY, _HIDDEN, _LAYERS = 32_320, 1024, 4


def gnmt(sequence: int = 50) -> Network:
    """Source and target of ``sequence`` tokens each."""
    net = Builder("gnmt", 1, sequence)
    source = _encoder(net)
    last = net.other("target", "shift", None, "input")
    net.embedding("decoder.embedding", VOCABULARY, _HIDDEN, shared="embedding", after=last)
    last = net.cell("lstm", "decoder.lstm0", _HIDDEN, bias=True)
    context = _attention(net, last, source)
    for i in range(1, _LAYERS):
        net.concat(f"decoder.concat{i}", last, context)
        new = net.cell("lstm", f"decoder.lstm{i}", _HIDDEN, bias=True)
        last = new if i == 1 else net.add(f"decoder.add{i}", new, last)
    net.linear("classifier", VOCABULARY, bias=True, after=last)
    net.softmax("softmax")
    return net.build(f"GNMT-like LSTM stack (Wu et al. 2016; MLPerf's sizes), {sequence} tokens")


def _encoder(net: Builder) -> str:
    """A bidirectional layer, then three in one direction, residual from the third on."""
    net.embedding("embedding", VOCABULARY, _HIDDEN)
    net.cell("lstm", "encoder.lstm0", _HIDDEN, directions=2, bias=True)
    last = net.cell("lstm", "encoder.lstm1", _HIDDEN, bias=True)
    for i in range(2, _LAYERS):
        new = net.cell("lstm", f"encoder.lstm{i}", _HIDDEN, bias=True, after=last)
        last = net.add(f"encoder.add{i}", new, last)
    return last


def _attention(net: Builder, query: str, source: str) -> str:
    """Additive attention (Bahdanau et al. 2014), normalised: v . tanh(q + k) for every pair."""
    queries, keys = net.shape(query).height, net.shape(source).height
    net.linear("attention.query", _HIDDEN, after=query)
    net.linear("attention.key", _HIDDEN, after=source)
    # every pair of a query and a key; a bias and a scale are trained beside the vector v
    pairs = Tensor(_HIDDEN, queries * keys)
    sources = ("attention.query", "attention.key")
    net.other("attention.tanh", "tanh_of_pairs", pairs, *sources, extra=_HIDDEN + 1)
    net.linear("attention.score", 1)
    net.other("attention.scores", "reshape", Tensor(keys, queries))
    probabilities = net.softmax("attention.softmax")
    return net.matmul("attention.context", probabilities, source, _HIDDEN)
