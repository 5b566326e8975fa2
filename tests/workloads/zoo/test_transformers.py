"""Transformers beside published counts, closed forms and torch's own."""

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.torch_counts import declare_operators, macs_of
from workloads import SIZES, NetworkError, Transformer, load_network, partition_graph, transformer

BILLIONS = {
    "llama-13b": 13.0, "llama-33b": 32.5, "llama-65b": 65.2, "llama2-70b": 69.0,
    "llama3-70b": 70.6, "gpt3-175b": 174.6, "megatron-1.7b": 1.652, "megatron-18.4b": 18.45,
    "megatron-39.1b": 39.1, "megatron-76.1b": 76.1, "megatron-145.6b": 145.6,
    "megatron-310.1b": 310.1, "megatron-529.6b": 529.6, "megatron-1t": 1008.0,
    "mt-nlg-530b": 529.6, "bloom-176b": 176.247, "opt-175b": 174.6, "opt-66b": 65.7,
    "mpt-7b": 6.649, "mpt-30b": 29.957, "mixtral-8x7b": 46.703, "grok-1": 315.7,
    "deepseek-v2": 235.741, "deepseek-v3": 671.026,
}  # fmt: skip
"""As their authors say, or their published weights count (BLOOM 176,247,271,424, Mixtral
46,702,792,704, DeepSeek-V3 671,026,404,352 without the correction biases of its routers)."""


@pytest.mark.parametrize(("name", "billions"), BILLIONS.items())
def test_published_parameters(name: str, billions: float) -> None:
    assert load_network(name).parameters / 1e9 == pytest.approx(billions, rel=2e-3)


def test_exact_parameters() -> None:
    assert load_network("bloom-176b").parameters == 176_247_271_424
    assert load_network("mixtral-8x7b").parameters == 46_702_792_704
    assert load_network("grok-1").parameters == 315_684_820_992  # with four norms a block
    assert load_network("deepseek-v3").parameters == 671_026_404_352


GPTS = [name for name in SIZES if name.startswith(("gpt3", "megatron", "mt-nlg"))]


@pytest.mark.parametrize("name", GPTS)
def test_megatron_s_formulas(name: str) -> None:
    """Narayanan et al. 2021, section 5.1: P and the FLOPs of an iteration with recomputing."""
    of, network = SIZES[name], load_network(name)
    n, h, s, v = of.layers, of.hidden, of.seq, of.vocab
    # the last norm's 2 h are not in the paper's formula, which is
    # 12 n h^2 (1 + 13 / (12 h) + (V + s) / (12 n h))
    assert network.parameters == 12 * n * h * h + 13 * n * h + (v + s) * h + 2 * h
    paper = 96 * s * n * h * h * (1 + s / (6 * h) + v / (16 * n * h))
    head = 2 * s * h * v
    assert 8 * (network.macs - head // 2) + 3 * head == pytest.approx(paper, rel=1e-12)


SMALL = st.builds(
    Transformer,
    name=st.just("any"),
    layers=st.integers(1, 3),
    hidden=st.just(24),
    heads=st.sampled_from([2, 4]),
    vocab=st.integers(10, 40),
    seq=st.integers(2, 9),
    gated=st.booleans(),
    kv_heads=st.sampled_from([0, 1, 2]),
    norm=st.sampled_from(["layer_norm", "rms_norm"]),
    positions=st.sampled_from(["table", "rotary", "alibi", "none"]),
    biases=st.booleans(),
    fused_qkv=st.booleans(),
    tied=st.booleans(),
    dropout=st.booleans(),
    attention_dropout=st.booleans(),
    experts=st.sampled_from([0, 2, 4]),
    attention_biases=st.sampled_from(["", "none", "qkv", "all"]),
    norm_biases=st.booleans(),
    head_bias=st.booleans(),
    router_bias=st.booleans(),
    post_norms=st.booleans(),
    parallel_norms=st.integers(0, 2),
    sinks=st.booleans(),
    shared_ffn=st.sampled_from([0, 6]),
    shared_gate=st.booleans(),
    dense_layers=st.integers(0, 1),
    compiled=st.booleans(),
    attention=st.sampled_from(["fused", "unfused"]),
)


@given(SMALL)
def test_every_description_is_a_network(of: Transformer) -> None:
    network = transformer(of)
    shapes = {"input": network.input} | {layer.name: layer.output for layer in network.layers}
    for layer in network.layers:
        assert tuple(shapes[source] for source in layer.inputs) == layer.operands
    graph = partition_graph(network)
    assert sum(node.kind == "attention" for node in graph) == (
        of.layers if of.attention == "fused" else 0
    )
    routes = sum(node.routes for node in graph)
    assert routes == (2 * max(of.layers - of.dense_layers, 0) if of.experts else 0)
    h, kv = of.hidden, of.kv_heads * of.head_dim
    per_norm = h * (2 if of.norm == "layer_norm" and (of.biases or of.norm_biases) else 1)
    biased = {"all": 2 * h + 2 * kv, "qkv": h + 2 * kv, "none": 0}
    attention = 2 * h * h + 2 * h * kv + (of.heads if of.sinks else 0)
    attention += biased[of.attention_biases or ("all" if of.biases else "none")]
    norms = (1 if of.parallel_norms == 1 else 2) + (2 if of.post_norms else 0)

    def mlp(width: int, groups: int = 1) -> int:
        into = (2 if of.gated else 1) * (h * width + (width if of.biases else 0))
        return groups * (into + width * h + (h if of.biases else 0))

    routed = h * of.experts + mlp(of.ffn, of.experts) if of.experts else mlp(of.ffn)
    if of.experts:
        routed += of.experts if of.router_bias else 0
        routed += mlp(of.shared_ffn) if of.shared_ffn else 0
        routed += h if of.shared_gate and of.shared_ffn else 0
    dense = min(of.dense_layers, of.layers) if of.experts else 0
    blocks = of.layers * (attention + norms * per_norm)
    blocks += dense * mlp(of.ffn) + (of.layers - dense) * routed
    table = (of.table or of.seq) * h if of.positions == "table" else 0
    head = (0 if of.tied else h * of.vocab) + (of.vocab if of.head_bias else 0)
    assert network.parameters == of.vocab * h + table + blocks + per_norm + head


def test_experts_are_the_groups_of_grouped_layers() -> None:
    of = Transformer("moe", 1, 8, 2, 50, seq=16, experts=4, topk=2, moe_ffn=12, capacity=1.25)
    layers = {layer.name: layer for layer in transformer(of).layers}
    fc1 = layers["layer0.experts.fc1"]
    assert (fc1.groups, fc1.input.channels, fc1.input.area) == (4, 4 * 8, 10)  # 16 * 2 / 4 * 1.25
    assert fc1.weights == 4 * 8 * 12
    assert fc1.macs == 4 * 10 * 8 * 12
    assert layers["layer0.combine"].output == layers["layer0.norm2"].output
    even = Transformer("moe", 1, 8, 2, 50, seq=15, experts=4, topk=2)
    assert transformer(even).notes == (
        "moe: 30 routed tokens of a sample are not spread evenly over 4 experts; each takes 8",
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layers": 0}, "layers = 0: must be at least 1"),
        ({"heads": 5}, "heads = 5: do not divide hidden = 8"),
        ({"heads": 4, "kv_heads": 3}, "kv_heads = 3: must divide the 4 heads"),
        ({"ffn": -1}, "ffn = -1: must not be negative"),
        ({"norm": "batch_norm"}, "norm = 'batch_norm': one of layer_norm, rms_norm"),
        ({"experts": 4, "topk": 5}, "topk = 5: a token goes to 1 to 4 experts"),
        ({"dense_layers": 2}, "dense_layers = 2: there are 1 layers"),
        ({"parallel_norms": 3}, "parallel_norms = 3: 0, 1 or 2"),
        ({"attention_biases": "q"}, "attention_biases = 'q': one of "),
        ({"table": 8, "seq": 9}, "seq = 9: is beyond its 8 positions"),
    ],
)
def test_descriptions_that_cannot_be(changes: dict[str, Any], words: str) -> None:
    usual: dict[str, Any] = {"layers": 1, "hidden": 8, "heads": 2, "vocab": 9}
    with pytest.raises(NetworkError, match=words):
        Transformer("bad", **usual | changes)


def counted(config: Any, tokens: int) -> tuple[int, int]:
    """Parameters and forward multiply-accumulates, as torch counts a small model on the CPU."""
    torch = import_module("torch")
    declare_operators()
    transformers = import_module("transformers")
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    if hasattr(model, "set_experts_implementation"):  # the counter knows no grouped kernels
        model.set_experts_implementation("eager")
    model.eval()
    macs = macs_of(model, torch.zeros((1, tokens), dtype=torch.long))
    return sum(p.numel() for p in model.parameters()), macs


CONFIGS: dict[str, tuple[str, dict[str, Any], Transformer]] = {
    "bloom": (
        "BloomConfig",
        {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4},
        Transformer("b", 2, 32, 4, 64, seq=12, positions="alibi", embedding_norm=True),
    ),
    "opt": (
        "OPTConfig",
        {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "ffn_dim": 128,
         "num_attention_heads": 4, "max_position_embeddings": 30, "word_embed_proj_dim": 32},
        Transformer("o", 2, 32, 4, 64, seq=12, table=32, activation="relu"),
    ),
    "mpt": (
        "MptConfig",
        {"vocab_size": 64, "d_model": 32, "n_layers": 2, "n_heads": 4},
        Transformer("m", 2, 32, 4, 64, seq=12, positions="alibi", biases=False),
    ),
    "mixtral": (
        "MixtralConfig",
        {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "num_local_experts": 4},
        Transformer("x", 2, 32, 4, 64, seq=12, ffn=48, gated=True, kv_heads=2, norm="rms_norm",
                    positions="rotary", activation="silu", biases=False, fused_qkv=False,
                    tied=False, experts=4),
    ),
    "deepseek": (
        "DeepseekV3Config",
        {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 2,
         "num_experts_per_tok": 2, "topk_group": 1, "moe_intermediate_size": 16,
         "n_shared_experts": 2, "first_k_dense_replace": 1, "q_lora_rank": 24,
         "kv_lora_rank": 20, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 10},
        Transformer("d", 3, 32, 4, 64, seq=12, ffn=80, gated=True, norm="rms_norm",
                    positions="rotary", activation="silu", biases=False, tied=False, experts=4,
                    moe_ffn=16, shared_ffn=32, dense_layers=1, q_rank=24, kv_rank=20,
                    rope_dim=4, head_dim=8, value_dim=10),
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.filterwarnings("ignore")  # other packages'
def test_torch_counts_small_models_the_same(family: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    name, values, of = CONFIGS[family]
    config = getattr(import_module("transformers"), name)(**values)
    parameters, macs = counted(config, of.seq)
    network = transformer(of)
    assert network.parameters == parameters
    assert network.macs == macs
