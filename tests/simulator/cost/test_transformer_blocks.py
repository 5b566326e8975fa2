"""What a block of a transformer computes, moves and keeps, beside published formulas."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Device, Roofline
from planners.order import Phase
from planners.partition import Shard
from simulator.cost.memory import memory_use
from simulator.cost.operators import Operator, Operators
from simulator.cost.roofline import Core, bounds, core_of, cost, costs, flops, map_bytes, traffic
from simulator.cost.training_operators import operators
from workloads import Network, Transformer, load_network, transformer, with_attention
from workloads.transforms import summed

PLAIN = core_of(Device("gpu", 1, 1, 1e14, 8e10, 2e12, 1e9, roofline=Roofline(0.5, 0.8, 0.0)))


def gpt(layers: int, hidden: int, heads: int, seq: int, attention: str = "unfused") -> Operators:
    """Megatron's: dropout, GELU and loss in kernels of their own."""
    of = Transformer("g", layers, hidden, heads, 50, seq=seq, dropout=True, compiled=False)
    return operators(transformer(replace(of, attention=attention)))


def shards(of: Operators, rows: int, tp: int = 1) -> list[Shard]:
    """Megatron's layout on one of ``tp`` cores: columns, heads, rows; the rest whole."""
    found = []
    for node in of.graph:
        ins, outs, groups = node.in_channels / node.groups, node.out_channels / node.groups, 1.0
        if node.name.endswith((".qkv", ".fc1")):
            outs /= tp
        elif node.computed:
            groups /= tp
        elif node.name.endswith((".output", ".fc2")):
            ins /= tp
        found.append(Shard(rows, ins, outs, node.groups * groups))
    return found


def kept(of: Operators, rows: int, tp: int = 1) -> float:
    """Bytes of activations that are held when forward is over."""
    use = memory_use(of, shards(of, rows, tp), PLAIN)
    last = max(i for i, (_, phase) in enumerate(use.products) if phase is Phase.FORWARD)
    return use.kept[last] - use.held_bytes


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 6), st.sampled_from([1, 2]))
def test_activations_of_a_block(b: int, each: int, s: int, tp: int) -> None:
    """Korthikanti et al. 2022, equations 1 and 2, to the byte: what a third block adds."""
    a, s = 4, 8 * s
    h = a * each
    per_block = kept(gpt(3, h, a, s), b, tp) - kept(gpt(2, h, a, s), b, tp)
    # the formula of one device is that of several with t = 1: 34 = 10 + 24
    assert per_block == pytest.approx(s * b * h * (10 + 24 / tp) + 5 * a * s * s * b / tp)
    fused = kept(gpt(3, h, a, s, "fused"), b, tp) - kept(gpt(2, h, a, s, "fused"), b, tp)
    assert fused == pytest.approx(s * b * h * (10 + 24 / tp) + 4 * a * s * b / tp)


def of_attention(found: Operators, phase: Phase) -> tuple[tuple[Operator, ...], Shard]:
    node = next(i for i, node in enumerate(found.graph) if node.kind == "attention")
    return found.nodes[node].of(phase), shards(found, 3)[node]


@pytest.mark.parametrize("causal", [True, False])
def test_a_fused_kernel_beside_its_formulas(causal: bool) -> None:
    """FlashAttention: 4 s^2 h forward, 2.5 times as many backward, and no scores in HBM.

    Backward sums read the error and the result and clear the queries' gradient in float32, which
    the products read and write, beside what they read (four tensors) and make (three). It is cast
    at last. One exponential a score forward, two backward.
    """
    s, h, a, rows = 32, 24, 4, 3
    network = transformer(Transformer("g", 1, h, a, 50, seq=s, causal=causal, attention="fused"))
    found = operators(network)
    (forward,), shard = of_attention(found, Phase.FORWARD)
    (sums, backward, cast), _ = of_attention(found, Phase.BACKWARD)
    seen = (s + 1) / (2 * s) if causal else 1.0
    assert flops(forward, shard) == pytest.approx(rows * 4 * s * s * h * seen)
    assert flops(backward, shard) == pytest.approx(2.5 * rows * 4 * s * s * h * seen)
    sbh, logarithms = 2 * rows * s * h, 4 * rows * s * a
    assert traffic(forward, shard, PLAIN) == pytest.approx(4 * sbh + logarithms)
    assert traffic(sums, shard, PLAIN) == pytest.approx((2 + 2) * sbh + logarithms)
    moved = (4 + 3 + 2 * 2) * sbh + 2 * logarithms
    assert traffic(backward, shard, PLAIN) == pytest.approx(moved)
    assert traffic(cast, shard, PLAIN) == pytest.approx(2 * sbh)
    scores = rows * a * s * s * seen
    slow = replace(PLAIN, exponentials_per_s=1e3)
    for op, each in ((sums, 0), (forward, 1), (backward, 2), (cast, 0)):
        longer = cost(op, shard, slow).compute_s - cost(op, shard, PLAIN).compute_s
        assert longer == pytest.approx(each * scores / 1e3)
    half = shard._replace(groups=shard.groups / 2)
    assert flops(backward, half) == pytest.approx(flops(backward, shard) / 2)
    assert traffic(backward, half, PLAIN) == pytest.approx(traffic(backward, shard, PLAIN) / 2)


def test_latent_attention_counts_keys_and_values_apart() -> None:
    of = load_network("deepseek-v3:layers=1:dense_layers=0:seq=64:attention=fused")
    found = operators(of)
    node = next(i for i, node in enumerate(found.graph) if node.kind == "attention")
    shard = Shard(1, 192, 128, 128)
    (forward,), (_, backward, _) = found.nodes[node].forward, found.nodes[node].backward
    pairs = 128 * 64 * 65 / 2
    assert flops(forward, shard) == pytest.approx(2 * pairs * (192 + 128))
    assert flops(backward, shard) == pytest.approx(2 * pairs * (3 * 192 + 2 * 128))
    # of each product one operand has keys' features along a side, the other values'
    assert flops(forward, shard, 128) == pytest.approx(2 * pairs * (256 + 128))
    assert flops(forward, shard, 128, 96) == pytest.approx(2 * pairs * (192 + 192))
    assert cost(forward, shard, replace(PLAIN, pad_heads=256)).flops == 2 * pairs * (256 + 256)
    slow = replace(PLAIN, exponentials_per_s=1.0)
    assert cost(forward, shard, slow).compute_s == pytest.approx(pairs)


@pytest.mark.parametrize(("seq", "tile"), [(64, 16), (64, 64), (48, 16), (64, 1), (16, 32)])
def test_causal_attention_computes_whole_tiles(seq: int, tile: int) -> None:
    """As many scores as a loop counts: each query's, up to the last key of its tile."""
    found = operators(load_network(f"llama3-8b:layers=1:seq={seq}:attention=fused"))
    node = next(i for i, node in enumerate(found.graph) if node.kind == "attention")
    shard, tiled = Shard(1, 128, 128, 32), replace(PLAIN, causal_tile=tile)
    own = found.nodes[node]
    for op in (own.forward[0], own.backward[1]):
        needed = sum(query + 1 for query in range(seq))
        computed = sum(min(seq, (query // tile + 1) * tile) for query in range(seq))
        longer = cost(op, shard, tiled).compute_s / cost(op, shard, PLAIN).compute_s
        assert longer == pytest.approx(computed / needed)
        assert cost(op, shard, tiled).flops == cost(op, shard, PLAIN).flops
    product = found.nodes[0].forward[0]
    assert cost(product, shard, tiled) == cost(product, shard, PLAIN)


def test_without_a_mask_attention_has_no_tiles_to_fill() -> None:
    found = operators(with_attention(load_network("bert-large:seq=64"), "fused"))
    node = next(i for i, node in enumerate(found.graph) if node.kind == "attention")
    op, shard = found.nodes[node].forward[0], Shard(1, 64, 64, 16)
    assert cost(op, shard, replace(PLAIN, causal_tile=32)) == cost(op, shard, PLAIN)


def test_attention_backward_has_a_rate_of_its_own() -> None:
    found = operators(load_network("llama3-8b:layers=1:seq=64:attention=fused"))
    node = next(i for i, node in enumerate(found.graph) if node.kind == "attention")
    shard, half = Shard(1, 128, 128, 32), replace(PLAIN, attention_backward=0.5)
    own = found.nodes[node]
    assert cost(own.forward[0], shard, half) == cost(own.forward[0], shard, PLAIN)
    slower = cost(own.backward[1], shard, half).compute_s
    assert slower == pytest.approx(2 * cost(own.backward[1], shard, PLAIN).compute_s)


def test_a_mask_is_a_byte_and_goes_there_and_back() -> None:
    found = gpt(1, 16, 2, 8)
    maps = [t for op in found.schedule() for t in (*op.reads, *op.writes) if "mask" in t.tensor]
    whole = Shard(2, 16, 16)
    assert {t.each_bytes for t in maps} == {1.0}
    written = {t.tensor for op in found.schedule() for t in op.writes if "mask" in t.tensor}
    assert written == {
        f"{name}'s mask"
        for name in ("dropout", "layer0.dropout1", "layer0.dropout2", "layer0.attention.dropout")
    }
    residual = next(t for t in maps if t.tensor.startswith("layer0.dropout1"))
    assert map_bytes(residual, whole, PLAIN) == 2 * 16 * 8
    read = {t.tensor for op in found.schedule() for t in op.reads if op.phase != "forward"}
    assert written <= read


def test_the_loss_keeps_its_probabilities_in_float32() -> None:
    found = gpt(1, 16, 2, 8)
    head = next(node for node in found.nodes if node.forward[0].name == "head forward")
    cast, loss = (op for op in head.forward if "softmax" in op.name)
    first, back = (op for op in head.backward if "softmax" in op.name)
    shard = Shard(2, 16, 50)
    assert traffic(cast, shard, PLAIN) == 2 * 8 * 50 * (2 + 4)
    assert traffic(loss, shard, PLAIN) == traffic(first, shard, PLAIN) == 2 * 8 * 50 * (4 + 4)
    assert [t.each_bytes for t in back.reads] == [4.0]
    assert traffic(back, shard, PLAIN) == 2 * 8 * 50 * (4 + 2)


def test_attention_may_have_rates_of_its_own_and_no_layer_is_faster_than_the_host() -> None:
    device = Device(
        "gpu", 1, 1, 4e14, 8e10, 2e12, 1e9, chip_attention_flops_per_s=1e14,
        roofline=Roofline(0.5, 0.8, 0.0, attention_efficiency=0.25, host_s=1e-3),
    )  # fmt: skip
    core = core_of(device)
    network = load_network("llama3-8b:layers=1:seq=4096")
    rates = {}
    for one in (network, with_attention(network, "fused")):
        for op in operators(one).schedule():
            rates[op.name] = core.rate(op)
    assert rates["layer0.up forward"] == 2e14
    assert rates["layer0.attention.scores forward"] == 0.5e14
    assert rates["layer0.attention.context backward"] == 0.25e14
    _at_least_the_host(core, operators(network))


def _at_least_the_host(core: Core, found: Operators) -> None:
    slow, short = 0, 0
    for op in found.schedule():
        node = found.graph[op.node]
        shard = Shard(1, node.in_channels / node.groups, node.out_channels / node.groups)
        shard = shard._replace(groups=node.groups)
        (one,), free = costs([op], shard, core), cost(op, shard, core)
        assert one.seconds == pytest.approx(max(free.seconds, core.host_s * op.steps))
        assert sum(bounds([one], core)) == pytest.approx(one.seconds)
        slow, short = slow + (free.seconds > core.host_s), short + (free.seconds < core.host_s)
    assert slow
    assert short
    many = found.nodes[4].forward * 5
    alone = [cost(op, Shard(1, 64, 64), core) for op in many]
    together = costs(many, Shard(1, 64, 64), core)
    assert sum(one.seconds for one in together) == pytest.approx(
        max(len(many) * core.host_s, sum(one.seconds for one in alone))
    )
    assert together[:-1] == alone[:-1]


def test_gradients_of_biases_and_norms_are_sums_of_their_own() -> None:
    """PyTorch's autograd: each bias reads its product's error, each norm its input and error.

    The products of a block make 3 + 1 + 4 + 1 times h features. What they are started with is
    the call that their product's or norm's gradient is.
    """
    rows, s, h = 3, 8, 24
    of = Transformer("g", 1, h, 4, 50, seq=s, attention="fused", compiled=False)
    usual, alone = transformer(of), summed(transformer(of))
    found = {
        op.name: traffic(op, shard, PLAIN)
        for own, shard in zip(operators(alone).nodes, shards(operators(alone), rows), strict=True)
        for op in (*own.gradient, *own.backward)
        if op.name.endswith(("bias gradient", "weight gradient"))
    }
    bias = [size for name, size in found.items() if name.endswith("bias gradient")]
    assert sorted(size / (2 * rows * s * h) for size in bias) == [1, 1, 3, 4]
    norms = [size for name, size in found.items() if name.endswith("weight gradient")]
    assert norms == pytest.approx([2 * 2 * rows * s * h] * 3)

    def waits(network: Network) -> float:
        core, step = replace(PLAIN, host_s=1.0), operators(network)
        return sum(
            one.seconds
            for own, shard in zip(step.nodes, shards(step, rows), strict=True)
            for phase in (own.forward, own.backward, own.gradient)
            for one in costs(phase, shard, core)
        )

    assert waits(alone) == pytest.approx(waits(usual))
    assert not any("weight gradient" in op.name for op in operators(usual).schedule())
