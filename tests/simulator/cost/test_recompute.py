"""What is computed again: the published formulas, and that nothing is read before it is there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planners.order import Phase
from simulator.cost.memory import memory_use
from simulator.cost.operators import Operators
from simulator.cost.recompute import check, is_mode
from simulator.cost.roofline import flops
from simulator.cost.training_operators import operators
from tests.simulator.cost.test_transformer_blocks import PLAIN, shards
from workloads import (
    Builder,
    Network,
    NetworkError,
    Transformer,
    cut,
    load_network,
    partition_graph,
    transformer,
)

MODES = ("none", "selective", "full", "1", "2")


def gpt(layers: int, h: int, a: int, s: int, attention: str = "unfused") -> Network:
    return transformer(
        Transformer("g", layers, h, a, 50, seq=s, dropout=True, compiled=False, attention=attention)
    )


def kept(network: Network, mode: str, rows: int, tp: int = 1) -> float:
    """Bytes of activations that are held when forward is over."""
    found = operators(network, recompute=mode)
    use = memory_use(found, shards(found, rows, tp), PLAIN)
    last = max(i for i, (_, phase) in enumerate(use.products) if phase is Phase.FORWARD)
    return use.kept[last] - use.held_bytes


@settings(max_examples=30)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.sampled_from([1, 2]))
def test_a_block_keeps_what_the_formulas_say(b: int, each: int, s: int, t: int) -> None:
    """Korthikanti et al. 2022, Table 2, without sequence parallelism, to the byte."""
    a, s = 4, 8 * s
    h = a * each
    sbh, scores = s * b * h, 5 * a * s * s * b
    for mode, formula in {
        "none": sbh * (10 + 24 / t) + scores / t,
        "selective": sbh * (10 + 24 / t),
        "full": 2 * sbh,
        "2": 2 * sbh,  # the second and third block that is there, but not the fourth
    }.items():
        more, less = (3, 2) if mode != "2" else (2, 1)
        both = [kept(gpt(layers, h, a, s), mode, b, t) for layers in (more, less)]
        assert both[0] - both[1] == pytest.approx(formula), mode
    both = [kept(gpt(layers, h, a, s), "2", b, t) for layers in (4, 3)]
    assert both[0] - both[1] == pytest.approx(sbh * (10 + 24 / t) + scores / t)


def work(found: Operators, phase: Phase) -> float:
    each = shards(found, 2)
    return sum(flops(op, each[op.node]) for op in found.schedule() if op.phase is phase)


@pytest.mark.parametrize("attention", ["fused", "unfused"])
def test_products_run_again(attention: str) -> None:
    """Of b s h: 24 h and 4 s in each block's forward, of which 4 s are attention's core."""
    b, n, h, s = 2, 3, 32, 24
    network = gpt(n, h, 4, s, attention)
    block, core = 24 * b * s * h * h, 4 * b * s * s * h
    core = core * (s + 1) // (2 * s) if attention == "fused" else core
    for mode, again in {
        "none": 0, "selective": n * core, "full": n * (block + core), "2": 2 * (block + core)
    }.items():  # fmt: skip
        found = operators(network, recompute=mode)
        assert work(found, Phase.RECOMPUTE) == pytest.approx(again), mode
        for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT):
            assert work(found, phase) == work(operators(network), phase)


NETWORKS = ("gpt3-125m:layers=3:seq=8", "gpt3-125m:layers=3:seq=8:attention=fused",
            "llama3-8b:layers=3:seq=8", "deepseek-v3:layers=5:seq=32", "bert-base:seq=16",
            "mixtral-8x7b:layers=2:seq=16:compiled=no", "resnet18", "vit-b16")  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_is_read_before_it_is_written_and_nothing_is_written_twice(
    name: str, mode: str
) -> None:
    """The order of a step with a set of what is there: each reader finds its tensor."""
    network = load_network(name)
    found, plain = operators(network, recompute=mode), operators(network)
    there, again = {"input"}, 0
    first = {t.tensor for op in plain.schedule() for t in op.writes}
    for op in found.schedule():
        again += op.phase is Phase.RECOMPUTE
        for tensor in op.reads:
            inside = tensor.tensor in first or tensor.tensor.endswith(" again")
            inside &= not tensor.tensor.endswith("mask again")  # drawn by what reads it
            assert tensor.tensor in there or not inside, (op.name, tensor.tensor)
        written = {tensor.tensor for tensor in op.writes}
        if op.phase in (Phase.FORWARD, Phase.RECOMPUTE):
            assert not written & there
        there |= written
    kinds = {layer.kind for layer in network.layers}
    attends = "attention" in kinds or any(x.name.endswith(".scores") for x in network.layers)
    assert (again > 0) is (mode not in ("none", "selective") or (mode == "selective" and attends))
    other = [op for op in found.schedule() if op.phase is not Phase.RECOMPUTE]
    assert [op.name for op in other] == [op.name for op in plain.schedule()]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_peak_is_never_higher_for_it(name: str) -> None:
    network = load_network(name)
    peaks = {}
    for mode in ("none", "selective", "full"):
        found = operators(network, recompute=mode)
        peaks[mode] = memory_use(found, shards(found, 4), PLAIN).peak_bytes
    assert peaks["selective"] <= peaks["none"] * (1 + 1e-9)
    assert peaks["full"] <= peaks["none"] * (1 + 1e-9)


def test_what_only_writes_what_is_kept_does_not_run_again() -> None:
    found = operators(gpt(2, 16, 2, 8), recompute="full")
    names = [op.name for node in found.nodes for op in node.recompute]
    assert "layer0.fc2 recompute" in names  # a product, as a checkpoint runs it
    assert "layer0.add2 recompute" not in names  # its sum is what the next block keeps
    assert "layer1.norm1 recompute" in names
    assert [segment.first for segment in found.segments] == [
        next(i for i, node in enumerate(found.graph) if node.name == f"layer{n}.fc2")
        for n in range(2)
    ]


def test_a_pass_without_gradients_computes_nothing_again() -> None:
    found = operators(gpt(2, 16, 2, 8), inference=True, recompute="full")
    assert all(op.phase is Phase.FORWARD for op in found.schedule())


@pytest.mark.parametrize(
    ("name", "mode", "words"),
    [
        ("lenet", "full", "--recompute full: network 'lenet' has no repeated blocks"),
        ("gpt2", "13", "--recompute 13: network 'gpt2' has 12 blocks; take at most 12, or full"),
        ("lenet", "3", "has no repeated blocks; take another network, or stages:all"),
        ("resnet18", "selective", "network 'resnet18' has no attention"),
    ],
)
def test_where_there_is_nothing_of_the_kind(name: str, mode: str, words: str) -> None:
    with pytest.raises(NetworkError, match=words):
        check(load_network(name), mode)
    check(load_network(name), "none")
    check(load_network(name), "0")


def test_modes() -> None:
    assert all(map(is_mode, (*MODES, "0", "126")))
    assert not any(map(is_mode, ("all", "", "-1", "1.5", "0,1", "1234567")))


def test_a_node_s_operators_are_of_one_segment() -> None:
    """A norm in front of the second block is of the first's last product: it is kept then."""
    net = Builder("two", 8, 4)
    for i in range(2):
        net.linear(f"block{i}.one", 8)
        net.linear(f"block{i}.two", 8)
        net.other(f"block{i + 1}.norm", "layer_norm", extra=8)
    found = operators(net.build(), recompute="full")
    names = [op.name for node in found.nodes for op in node.recompute]
    assert "block0.two recompute" in names
    assert "block1.norm recompute" not in names


def test_what_a_stage_sends_at_its_end_is_not_made_again() -> None:
    """The sum that ends a block is kept by who reads it: the next block's norm, or a stage."""
    whole = gpt(2, 64, 8, 16)
    at = [node.name for node in partition_graph(whole)].index("layer1.attention.qkv")
    parts = [whole, *cut(whole, (0, at)).networks]
    again = [
        {op.name for node in operators(part, recompute="full").nodes for op in node.recompute}
        for part in parts
    ]
    sums = {"layer0.add2 recompute", "layer1.add2 recompute"}
    assert not sums & again[1]
    assert again[1] | again[2] == again[0]
