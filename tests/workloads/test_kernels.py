"""Which operators are kernels of their own without a compiler."""

from workloads import load_network
from workloads.transforms import apart


def test_a_gpt_block() -> None:
    network = apart(load_network("gpt3-125m:layers=1:compiled=yes"))
    alone = {x.name for x in network.layers if x.apart}
    # norms are operators of their own anyway; dropout in front of an add is done by the add
    assert alone >= {"layer0.attention.dropout", "layer0.gelu"}
    assert not alone & {"layer0.dropout1", "layer0.dropout2", "dropout", "positions"}
    assert network.layers[-1].operator == "cross_entropy"
    assert network == load_network("gpt3-125m:layers=1:compiled=yes").__class__(
        network.name, network.input, network.layers, network.description
    )


def test_a_llama_block() -> None:
    """SwiGLU is one kernel; rotary positions are another, in front of attention's products."""
    network = apart(load_network("llama3-8b:layers=1:attention=fused"))
    alone = {x.name for x in network.layers if x.apart}
    assert {"layer0.query.rotary", "layer0.key.rotary"} <= alone
    assert "layer0.silu" not in alone


def test_nothing_else_changes() -> None:
    network = load_network("llama3-8b:layers=2")
    changed = apart(network)
    assert changed.parameters == network.parameters
    assert changed.macs == network.macs
    assert [x.output for x in changed.layers] == [x.output for x in network.layers]
    assert apart(changed) == changed
