"""Hugging Face's config.json beside transformers' own counts."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.workloads.importers.hugging_face_counts import CONFIGS, FOLDER, counted, parameters
from workloads import Network, NetworkError, Transformer, is_network, load_network
from workloads.importers.hugging_face.config import read_config
from workloads.importers.hugging_face.families import ENCODERS, FAMILIES

with (FOLDER / "parameters.csv").open() as file:
    rows = csv.DictReader(line for line in file if not line.startswith("#"))
    PARAMETERS = {row["model"]: int(row["parameters"]) for row in rows}


def written(folder: Path, config: dict[str, Any]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return str(path)


def understood(network: Network) -> bool:
    return not any("not understood" in note for note in network.notes)


def test_of_every_family_a_published_model_is_counted() -> None:
    assert len(PARAMETERS) >= 40
    assert {config["model_type"] for config in CONFIGS.values()} == {*FAMILIES, *ENCODERS}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_of_published_models(name: str, tmp_path: Path) -> None:
    network = load_network(written(tmp_path, CONFIGS[name]))
    assert network.parameters == PARAMETERS[name]
    assert understood(network)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # other packages'
@pytest.mark.parametrize("name", PARAMETERS)
def test_transformers_counts_the_same(name: str) -> None:
    pytest.importorskip("transformers")
    assert parameters(CONFIGS[name]) == PARAMETERS[name]


SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 64,
    "max_position_embeddings": 12,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
}
MOE = {"num_experts_per_tok": 2, "moe_intermediate_size": 16}
QWEN_MOE = MOE | {"num_experts": 4, "head_dim": 8, "num_key_value_heads": 2}
GROUPED = SMALL | {"num_key_value_heads": 2}
SMALL_MODELS: dict[str, dict[str, Any]] = {
    "llama": GROUPED | {"attention_bias": True},
    "mistral": GROUPED | {"head_dim": 16, "sliding_window": None},
    "mixtral": GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2": GROUPED,
    "qwen2_moe": SMALL | QWEN_MOE | {"shared_expert_intermediate_size": 24, "mlp_only_layers": [0]},
    "qwen3": GROUPED | {"head_dim": 16, "tie_word_embeddings": True},
    "qwen3_moe": SMALL | QWEN_MOE,
    "deepseek_v2": SMALL | MOE | {
        "q_lora_rank": None, "kv_lora_rank": 20, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8,
        "v_head_dim": 10, "n_routed_experts": 4, "n_shared_experts": 2, "first_k_dense_replace": 1,
    },
    "gemma2": GROUPED | {"head_dim": 16},
    "gemma3_text": SMALL | {"num_key_value_heads": 1, "head_dim": 16},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 12, "vocab_size": 64},
    "gpt_neox": SMALL | {"use_parallel_residual": True},
    "falcon": SMALL | {"ffn_hidden_size": 48, "new_decoder_architecture": True, "num_kv_heads": 2},
    "phi": SMALL,
    "phi3": GROUPED,
    "glm4": GROUPED | {"head_dim": 8, "attention_bias": True},
    "glm4_moe": GROUPED | MOE | {
        "first_k_dense_replace": 1, "n_routed_experts": 4, "use_qk_norm": True, "head_dim": 16,
        "attention_bias": True, "n_shared_experts": 1,
    },
    "gpt_oss": GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8},
    "gptj": {"n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "vocab_size": 64},
    "codegen": {
        "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4, "n_positions": 12,
        "vocab_size": 64,
    },
    "gpt_bigcode": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 12, "vocab_size": 64},
    "mpt": {
        "d_model": 32, "n_heads": 4, "n_layers": 2, "expansion_ratio": 4, "max_seq_len": 12,
        "vocab_size": 64, "tie_word_embeddings": True,
    },
    "starcoder2": GROUPED | {"use_bias": True},
    "stablelm": GROUPED | {"use_qkv_bias": True, "use_parallel_residual": True},
    "nemotron": GROUPED | {"head_dim": 16, "hidden_act": "relu2"},
    "phimoe": GROUPED | {
        "num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": True,
        "lm_head_bias": True,
    },
    "cohere": GROUPED | {"tie_word_embeddings": True},
    "cohere2": GROUPED | {"tie_word_embeddings": True, "head_dim": 16, "attention_bias": True},
    "granite": GROUPED | {"attention_bias": True, "mlp_bias": True},
    "granitemoe": GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "smollm3": GROUPED | {"tie_word_embeddings": True},
    "arcee": GROUPED | {"mlp_bias": True, "head_dim": 16},
    "seed_oss": GROUPED | {"head_dim": 16, "attention_bias": True},
    "ernie4_5": GROUPED | {"head_dim": 16, "use_bias": True},
    "cwm": GROUPED | {"head_dim": 16},
    "dots1": GROUPED | MOE | {
        "first_k_dense_replace": 1, "n_routed_experts": 4, "head_dim": 16, "n_shared_experts": 2,
    },
    "bert": SMALL | {"type_vocab_size": 3, "tie_word_embeddings": True},
    "t5": {
        "d_model": 32, "d_kv": 6, "d_ff": 40, "num_layers": 1, "num_heads": 4,
        "num_decoder_layers": 2, "vocab_size": 64, "feed_forward_proj": "gated-gelu",
    },
    "vit": SMALL | {"image_size": 16, "patch_size": 4, "num_labels": 10},
}  # fmt: skip


@pytest.mark.parametrize("kind", SMALL_MODELS)
@pytest.mark.filterwarnings("ignore")  # other packages'
def test_torch_counts_small_models_the_same(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    config = {"model_type": kind} | SMALL_MODELS[kind]
    found, tokens = read_config(written(tmp_path, config)), 12
    network = found.network(0 if kind == "vit" else tokens)
    assert (network.parameters, network.macs) == counted(config, tokens)


RUN = (
    *("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-3.1-405B", "mistralai/Mistral-7B-v0.1"),
    *("Qwen/Qwen2.5-72B", "Qwen/Qwen3-8B", "google/gemma-2-9b", "openai-community/gpt2-xl"),
    *("EleutherAI/gpt-neox-20b", "facebook/opt-66b", "bigscience/bloom", "tiiuae/falcon-40b"),
    *("microsoft/phi-2", "microsoft/phi-4", "zai-org/GLM-4-9B-0414"),
    *("google-bert/bert-large-uncased", "google-t5/t5-large", "google/vit-large-patch16-224"),
)
"""Published models whose forward pass runs on the meta device: experts choose by their values."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # other packages'
@pytest.mark.parametrize("name", RUN)
def test_torch_counts_the_flops_of_published_models_the_same(name: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    found, tokens = read_config(written(tmp_path, CONFIGS[name])), 128
    network = found.network(0 if CONFIGS[name]["model_type"] == "vit" else tokens)
    with torch.device("meta"):
        assert (network.parameters, network.macs) == counted(CONFIGS[name], tokens)


def test_t5_without_tied_embeddings_has_a_head_of_its_own(tmp_path: Path) -> None:
    """Transformers 5 ties those of every T5; the published v1.1 models have both."""
    config = CONFIGS["google-t5/t5-base"]
    apart = load_network(written(tmp_path, config | {"tie_word_embeddings": False}))
    assert apart.parameters == PARAMETERS["google-t5/t5-base"] + 32_128 * 768


LLAMA = CONFIGS["meta-llama/Llama-3.1-405B"]


def test_a_folder_stands_for_its_file_and_options_change_it(tmp_path: Path) -> None:
    folder = tmp_path / "Some-8B"
    folder.mkdir()
    path = written(folder, LLAMA | {"strange": 1, "num_hidden_layers": 2})
    whole = load_network(str(folder))
    assert whole == load_network(path)
    assert whole.name == "Some-8B"
    assert whole.tokens == 8192
    assert whole.notes == (
        f"sequences of 8192 of its 131072 positions; {path}:seq=N sets another",
        f"not understood of {path}: strange",
    )
    short = load_network(f"{path}:seq=128:layers=1")
    assert short.name.endswith(":seq=128:layers=1")  # two sizes of it have two names
    assert short.tokens == 128
    assert short.notes == (f"not understood of {path}: strange",)
    assert sum(layer.name.endswith(".add2") for layer in short.layers) == 1
    assert is_network(str(folder))
    assert is_network(path)


@pytest.mark.parametrize(("within", "dropouts"), [(0.0, 3), (0.1, 4)])
def test_dropout_within_attention_has_a_chance_of_its_own(
    within: float, dropouts: int, tmp_path: Path
) -> None:
    """Behind the embedding, attention, feed-forward; and of attention's probabilities."""
    config = CONFIGS["openai-community/gpt2"] | {"resid_pdrop": 0.1, "attn_pdrop": within}
    network = load_network(f"{written(tmp_path, config)}:layers=1")
    assert sum(layer.operator == "dropout" for layer in network.layers) == dropouts


ENCODER = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
ENCODER |= {"intermediate_size": 128, "vocab_size": 100}
OF_T5 = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 1, "num_heads": 4}
OF_T5 |= {"vocab_size": 100}
BOTH = ("hidden_dropout_prob", "attention_probs_dropout_prob")


@pytest.mark.parametrize(
    ("kind", "sizes", "chances", "dropouts"),
    [
        # behind the embedding, attention's probabilities, attention and feed-forward
        ("bert", ENCODER | {"max_position_embeddings": 64}, BOTH, 4),
        ("vit", ENCODER | {"image_size": 32, "patch_size": 16}, BOTH, 4),
        ("bert", ENCODER | {"max_position_embeddings": 64}, BOTH[:1], 3),
        # embedding, probabilities, attention, within and behind feed-forward, last norm; and the
        # decoder's attention over the encoder's output
        ("t5", OF_T5, ("dropout_rate",), 6 + 8),
    ],
)
def test_encoders_have_their_dropout(
    kind: str, sizes: dict[str, Any], chances: tuple[str, ...], dropouts: int, tmp_path: Path
) -> None:
    for chance, count in ((0.1, dropouts), (0.0, 0)):
        config = {"model_type": kind, **sizes, **dict.fromkeys(chances, chance)}
        network = load_network(written(tmp_path, config))
        assert sum(layer.operator == "dropout" for layer in network.layers) == count
        assert not any("dropout" in note for note in network.notes)


def test_sizes_that_a_class_has_are_not_asked_for(tmp_path: Path) -> None:
    """Gemma 3's files leave out words and heads, Mistral's may leave out heads of keys."""
    text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1}
    inner = text | {"model_type": "gemma3_text", "sliding_window": 16}
    path = written(tmp_path, {"model_type": "gemma3", "text_config": inner})
    sizes = load_network(f"{path}:seq=16").sizes
    assert isinstance(sizes, Transformer)
    assert (sizes.vocab, sizes.heads, sizes.kv_heads, sizes.head_dim) == (262_208, 8, 4, 256)
    mistral = text | {"model_type": "mistral", "num_attention_heads": 16}
    with pytest.raises(NetworkError, match=r"vocab is missing \(vocab_size\)"):
        load_network(written(tmp_path, mistral))
    sizes = load_network(written(tmp_path, mistral | {"vocab_size": 100})).sizes
    assert isinstance(sizes, Transformer)
    assert sizes.kv_heads == 8
    mistral |= {"vocab_size": 100, "num_key_value_heads": None}  # as many as there are heads
    sizes = load_network(written(tmp_path, mistral)).sizes
    assert isinstance(sizes, Transformer)
    assert sizes.kv_heads == 16


def test_sizes_of_experts_that_a_class_has_are_not_asked_for(tmp_path: Path) -> None:
    """Those of transformers' Glm4MoeConfig and DeepseekV3Config; no rank is said by null."""
    text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "vocab_size": 99}
    text |= {"num_attention_heads": 16, "n_routed_experts": 16, "moe_intermediate_size": 32}
    sizes = load_network(written(tmp_path, text | {"model_type": "glm4_moe"})).sizes
    assert isinstance(sizes, Transformer)
    assert (sizes.topk, sizes.dense_layers) == (8, 1)
    for more, rank in (({}, 1536), ({"q_lora_rank": None}, 0), ({"q_lora_rank": 24}, 24)):
        of = load_network(written(tmp_path, text | {"model_type": "deepseek_v3"} | more)).sizes
        assert isinstance(of, Transformer)
        assert (of.q_rank, of.topk, of.dense_layers) == (rank, 8, 3)


@pytest.mark.parametrize(("kind", "most"), [("deepseek_v3", 3), ("glm4_moe", 1)])
def test_as_few_blocks_as_a_class_has_dense_ones_are_all_dense(
    kind: str, most: int, tmp_path: Path
) -> None:
    text = SMALL | MOE | {"model_type": kind, "n_routed_experts": 4, "n_shared_experts": 1}
    text |= {"num_key_value_heads": 4}
    for layers in range(1, most + 2):
        read = load_network(written(tmp_path, text | {"num_hidden_layers": layers}))
        routers = [one for one in read.layers if "router" in one.name]
        assert len(routers) == max(layers - most, 0)
    with pytest.raises(NetworkError, match=f"dense_layers = {most + 2}: there are"):
        load_network(written(tmp_path, text | {"first_k_dense_replace": most + 2}))


@pytest.mark.parametrize(
    ("key", "words"), [("x" * 201, "of more than 200 characters"), ("a\x07", "cannot be printed")]
)
def test_keys_that_no_tool_writes_are_refused(key: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=f"a key .*{words}"):
        load_network(written(tmp_path, SMALL | {"model_type": "llama", key: 1}))


def test_norms_of_opt_without_biases_have_shifts(tmp_path: Path) -> None:
    config = {"model_type": "opt", "hidden_size": 64, "num_hidden_layers": 1, "ffn_dim": 128}
    config |= {"num_attention_heads": 4, "vocab_size": 100, "enable_bias": False}
    network = load_network(written(tmp_path, config))
    norms = [layer for layer in network.layers if layer.operator == "layer_norm"]
    assert [layer.extra for layer in norms] == [2 * 64] * 3


def test_a_model_with_text_and_pictures_is_read_for_its_text(tmp_path: Path) -> None:
    text = CONFIGS["google/gemma-3-1b-pt"]
    inner = {key: value for key, value in text.items() if key != "model_type"}
    both = {"model_type": "gemma3", "text_config": inner, "vision_config": {"hidden_size": 1}}
    one, other = (read_config(written(tmp_path, config)) for config in (text, both))
    assert replace(other, notes=one.notes).network().layers == one.network().layers
    assert other.notes[0] == "model_type = 'gemma3': the text model alone is read"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "lama"}, "model_type = 'lama': did you mean llama?"),
        ({"model_type": None}, "model_type is missing"),
        ({"num_hidden_layers": "80"}, "layers: '80': must be a whole number"),
        (
            {"num_hidden_layers": 1 << 40},
            "num_hidden_layers: 1099511627776: must be a whole number from 1 to",
        ),
        ({"hidden_size": None}, "hidden is missing"),
        ({"hidden_act": "xielu"}, "hidden_act: 'xielu': did you mean silu"),
        ({"attention_bias": 3}, "attention_bias: 3: must be true or false"),
        ({"num_attention_heads": 0}, "num_attention_heads: 0: must be a whole number from 1 to"),
        ({"vocab_size": {}}, "vocab: {}: must be a whole number"),
        (
            {"model_type": "seed_oss", "attention_bias": False, "attention_out_bias": True},
            "only with",
        ),
        ({"model_type": "mpt", "attn_config": {"alibi": False}}, "only alibi = True is read"),
        ({"model_type": "mpt", "attn_config": 7}, "attn_config: 7: only alibi = True"),
        ({"model_type": "opt", "do_layer_norm_before": False}, "only True is read"),
        ({"model_type": "opt", "word_embed_proj_dim": 512}, "only 16384 is read"),
        ({"model_type": "qwen3_moe", "num_experts": 4, "mlp_only_layers": [3]}, "first blocks"),
        ({"model_type": "deepseek_v3", "n_shared_experts": -1}, "n_shared_experts: -1"),
        ({"model_type": "vit", "patch_size": 7, "image_size": 16}, "does not divide image_size"),
        ({"model_type": "vit", "num_attention_heads": 0}, "heads: 0: must be a whole number"),
        (
            {"model_type": "bert", "intermediate_size": None},
            "ffn is missing (ffn_hidden_size intermediate_size ",
        ),
    ],
)
def test_what_cannot_be_is_told_with_file_and_key(
    change: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = written(tmp_path, LLAMA | change)
    with pytest.raises(NetworkError) as error:
        load_network(path)
    assert str(error.value).startswith(f"{path}: ")
    assert words in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "[" * 10_000, '{"model_type": "llama"', "\0", "1e999"])
def test_what_is_no_such_file(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(NetworkError, match=r"config\.json"):
        load_network(str(path))
