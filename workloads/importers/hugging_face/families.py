"""Families of Hugging Face's models: what members have in common, and what only some have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workloads.importers.fields import Fields
from workloads.zoo.encoders import T5, Bert, Encoder, Vit

Values = dict[str, Any]


def stated(one: Fields, names: Sequence[str]) -> bool:
    """Whether one of these chances is stated and above 0."""
    return any(isinstance(p, float) and p > 0 for p in map(one.left.get, names))


def _linears(one: Fields, found: Values) -> None:
    """Biases as Llama has them, in attention and in the feed-forward."""
    found["biases"] = one.flag("mlp_bias")
    found["attention_biases"] = "all" if one.flag("attention_bias") else "none"


def _qkv(one: Fields, found: Values) -> None:
    both = one.flag("attention_bias", otherwise=True) and one.flag("qkv_bias", otherwise=True)
    found["attention_biases"] = "qkv" if both else "none"
    _routed(one, found)


def _routed(one: Fields, found: Values) -> None:
    """In which blocks of Qwen's mixtures there are experts."""
    if "experts" in found:
        one.only("decoder_sparse_step", 1)
        dense = one.take("mlp_only_layers", otherwise=[])
        if not isinstance(dense, list) or dense != [*range(len(dense))]:
            raise one.fault("mlp_only_layers", dense, "only the first blocks may be dense")
        found["dense_layers"] = len(dense)
        found["shared_gate"] = "shared_ffn" in found


def _qwen3(one: Fields, found: Values) -> None:
    _linears(one, found)
    _routed(one, found)


def _shared(one: Fields, found: Values) -> None:
    """Experts for all tokens, by their number; a module that predicts a second token is left."""
    width = found.get("moe_ffn", 0)
    shared = one.count("n_shared_experts")
    found["shared_ffn"] = shared * width if isinstance(width, int) else 0
    one.only("moe_layer_freq", 1)
    if more := one.count("num_nextn_predict_layers"):
        one.notes.append(f"num_nextn_predict_layers = {more}: modules for further tokens are left")


def _deepseek(one: Fields, found: Values) -> None:
    one.only("attention_bias", False)
    one.only("mlp_bias", False)
    found.pop("kv_heads", None)
    found["head_dim"] = one.count("qk_nope_head_dim", otherwise=128)
    _shared(one, found)


def _glm4_moe(one: Fields, found: Values) -> None:
    found["head_norms"] = one.flag("use_qk_norm")
    found["attention_biases"] = "qkv" if one.flag("attention_bias") else "none"
    _shared(one, found)


def _gpt2(one: Fields, found: Values) -> None:
    one.only("add_cross_attention", False)
    found["table"] = found.get("seq", 0)


def _neox(one: Fields, found: Values) -> None:
    found["parallel_norms"] = 2 if one.flag("use_parallel_residual", otherwise=True) else 0
    found["attention_biases"] = "all" if one.flag("attention_bias", otherwise=True) else "none"


def _opt(one: Fields, found: Values) -> None:
    one.only("do_layer_norm_before", True)
    one.only("word_embed_proj_dim", found.get("hidden"))
    one.only("layer_norm_elementwise_affine", True)
    found["biases"], found["norm_biases"] = one.flag("enable_bias", otherwise=True), True
    found["table"] = one.count("table", otherwise=found.get("seq", 2048)) + 2


def _bloom(one: Fields, found: Values) -> None:
    one.flag("apply_residual_connection_post_layernorm")
    found["ffn"] = 0


def _falcon(one: Fields, found: Values) -> None:
    new = one.flag("new_decoder_architecture")
    parallel = one.flag("parallel_attn", otherwise=True)
    norms = one.count("num_ln_in_parallel_attn", otherwise=2 if new else 1)
    found["parallel_norms"] = norms if parallel else 0
    multi_query = one.flag("multi_query", otherwise=True)
    if not new:
        found["kv_heads"] = 1 if multi_query else 0
    found["biases"], found["norm_biases"] = one.flag("bias"), True
    found["positions"] = "alibi" if one.flag("alibi") else "rotary"


def _phi(one: Fields, found: Values) -> None:  # noqa: ARG001  (as every family's)
    one.only("qk_layernorm", False)


def _seed_oss(one: Fields, found: Values) -> None:
    both = one.flag("attention_bias", otherwise=True), one.flag("attention_out_bias")
    if both == (False, True):
        raise one.fault("attention_out_bias", True, "only with attention_bias")
    found["attention_biases"] = {2: "all", 1: "qkv", 0: "none"}[sum(both)]
    found["biases"] = one.flag("mlp_bias")


def _stablelm(one: Fields, found: Values) -> None:
    one.only("qk_layernorm", False)
    found["attention_biases"] = "qkv" if one.flag("use_qkv_bias") else "none"
    found["parallel_norms"] = int(one.flag("use_parallel_residual"))


def _cohere(one: Fields, found: Values) -> None:
    one.only("use_qk_norm", False)
    _linears(one, found)


def _use_bias(one: Fields, found: Values) -> None:
    one.only("mlp_type", "default")
    found["biases"] = one.flag("use_bias", otherwise=found["biases"])


def _bigcode(one: Fields, found: Values) -> None:
    _gpt2(one, found)
    found["kv_heads"] = int(one.flag("multi_query", otherwise=True))


def _mpt(one: Fields, found: Values) -> None:  # noqa: ARG001  (as every family's)
    one.only("no_bias", True)
    one.only("expansion_ratio", 4)
    attention = one.take("attn_config", otherwise={})
    for key, value in (("alibi", True), ("qk_ln", False), ("attn_type", "multihead_attention")):
        if not isinstance(attention, dict) or attention.get(key, value) != value:
            raise one.fault("attn_config", attention, f"only {key} = {value!r} is read")


def _dots(one: Fields, found: Values) -> None:
    _linears(one, found)
    _shared(one, found)


def _phimoe(one: Fields, found: Values) -> None:
    _linears(one, found)
    found["head_bias"] = one.flag("lm_head_bias")


def _gpt_oss(one: Fields, found: Values) -> None:
    found["attention_biases"] = "all" if one.flag("attention_bias", otherwise=True) else "none"
    found["moe_ffn"] = found.get("ffn", 0)


LLAMA_BLOCK = {
    "gated": True,
    "norm": "rms_norm",
    "positions": "rotary",
    "activation": "silu",
    "biases": False,
    "fused_qkv": False,
    "tied": False,
}
"""A block as in LLaMA: what its decoders have in common."""
_LLAMA = LLAMA_BLOCK | {"year": 2023}
_DEEPSEEK = _LLAMA | {
    "q_rank": 1536,
    "kv_rank": 512,
    "rope_dim": 64,
    "value_dim": 128,
    "year": 2024,
}
_GEMMA = _LLAMA | {"activation": "gelu", "tied": True, "head_dim": 256, "year": 2024}
_GEMMA_3 = _GEMMA | {"post_norms": True, "head_norms": True, "year": 2025}
_GEMMA_3 |= {"vocab": 262_208, "heads": 8, "kv_heads": 4, "seq": 131_072}
"""Published files leave out what is as its class has it."""
_GPT = {"seq": 1024, "dropout": False}
_ROTARY = {"positions": "rotary", "tied": False}
_BLOOM = _GPT | {"seq": 2048, "positions": "alibi", "embedding_norm": True, "year": 2022}
_GPT_OSS = _LLAMA | {"biases": True, "router_bias": True, "sinks": True, "head_dim": 64}
_GPT_OSS |= {"kv_heads": 8}
_LAYER_NORM = _LLAMA | {"norm": "layer_norm", "norm_biases": True}
_SQUARED_RELU = {"gated": False, "activation": "squared_relu"}
_STARCODER_2 = {"gated": False, "activation": "gelu", "biases": True, "tied": True, "kv_heads": 2}
_COHERE = _LLAMA | {"norm": "layer_norm", "parallel_norms": 1, "tied": True, "year": 2024}
_GPT_J = _GPT | _ROTARY | {"seq": 2048, "parallel_norms": 1, "head_bias": True}
_GPT_J |= {"attention_biases": "none"}
_GLM_4_MOE = _LLAMA | {"head_dim": 128, "kv_heads": 8, "topk": 8, "dense_layers": 1}
Reading = Callable[[Fields, Values], None]
FAMILIES: dict[str, tuple[Values, Reading]] = {
    "llama": (_LLAMA, _linears),
    "mistral": (_LLAMA | {"kv_heads": 8}, _linears),
    "mixtral": (_LLAMA | {"kv_heads": 8}, _linears),
    "qwen2": (_LLAMA, _qkv),
    "qwen2_moe": (_LLAMA | {"year": 2024}, _qkv),
    "qwen3": (_LLAMA | {"head_norms": True, "head_dim": 128, "year": 2025}, _qwen3),
    "qwen3_moe": (_LLAMA | {"head_norms": True, "kv_heads": 4, "year": 2025}, _qwen3),
    "deepseek_v2": (_DEEPSEEK, _deepseek),
    "deepseek_v3": (_DEEPSEEK | {"topk": 8, "dense_layers": 3}, _deepseek),
    "gemma": (_GEMMA, _linears),
    "gemma2": (_GEMMA | {"post_norms": True, "kv_heads": 4}, _linears),
    "gemma3_text": (_GEMMA_3, _linears),
    "gpt2": (_GPT, _gpt2),
    "gpt_neox": (_GPT | _ROTARY | {"seq": 2048, "year": 2022}, _neox),
    "opt": (_GPT | {"seq": 2048, "activation": "relu", "year": 2022}, _opt),
    "bloom": (_BLOOM, _bloom),
    "falcon": (_GPT | {"seq": 2048, "year": 2023}, _falcon),
    "phi": (_GPT | _ROTARY | {"parallel_norms": 1, "head_bias": True, "year": 2023}, _phi),
    "phi3": (_LLAMA | {"fused_qkv": True, "year": 2024}, _linears),
    "glm": (_LLAMA | {"head_dim": 128, "kv_heads": 2, "year": 2024}, _qkv),
    "glm4": (_LLAMA | {"head_dim": 128, "kv_heads": 2, "post_norms": True, "year": 2025}, _qkv),
    "glm4_moe": (_GLM_4_MOE | {"year": 2025}, _glm4_moe),
    "gpt_oss": (_GPT_OSS | {"year": 2025}, _gpt_oss),
    "gptj": (_GPT_J | {"fused_qkv": False, "year": 2021}, _phi),
    "codegen": (_GPT_J | {"year": 2022}, _phi),
    "gpt_bigcode": (_GPT | {"year": 2023}, _bigcode),
    "mpt": (_BLOOM | {"embedding_norm": False, "biases": False, "year": 2023}, _mpt),
    "starcoder2": (_LAYER_NORM | _STARCODER_2 | {"year": 2024}, _use_bias),
    "stablelm": (_LAYER_NORM, _stablelm),
    "nemotron": (_LAYER_NORM | _SQUARED_RELU | {"year": 2024}, _linears),
    "phimoe": (_LAYER_NORM | {"kv_heads": 8, "year": 2024}, _phimoe),
    "cohere": (_COHERE, _cohere),
    "cohere2": (_COHERE, _cohere),
    "granite": (_LLAMA | {"year": 2024}, _linears),
    "granitemoe": (_LLAMA | {"year": 2024}, _linears),
    "smollm3": (_LLAMA | {"tied": True, "kv_heads": 4, "year": 2025}, _linears),
    "arcee": (_LLAMA | _SQUARED_RELU | {"year": 2025}, _linears),
    "seed_oss": (_LLAMA | {"head_dim": 128, "kv_heads": 8, "year": 2025}, _seed_oss),
    "ernie4_5": (_LLAMA | {"tied": True, "head_dim": 128, "kv_heads": 2, "year": 2025}, _use_bias),
    "cwm": (_LLAMA | {"head_dim": 128, "kv_heads": 8, "year": 2025}, _linears),
    "dots1": (_LLAMA | {"head_norms": True, "year": 2025}, _dots),
}
"""Decoders: what members of a family have in common, and what reads the rest of their keys.

Heads of keys and values, and few other sizes, are those of the library's class: files may leave
them out.
"""


def _bert(one: Fields, found: Values) -> None:
    one.only("add_cross_attention", False)
    found["positions"] = found.pop("seq", 512)
    found["segments"] = one.count("type_vocab_size", otherwise=2)


def _vit(one: Fields, found: Values) -> None:
    names = one.left.get("id2label")
    found["labels"] = one.count(
        "num_labels", otherwise=len(names) if isinstance(names, dict) else 2
    )
    one.only("qkv_bias", True)
    found.pop("seq", None)


def _t5(one: Fields, found: Values) -> None:
    words = one.take("feed_forward_proj", otherwise="relu")
    one.take("is_gated_act")
    gated, _, word = str(words).rpartition("-")
    found["gated"], found["activation"] = gated == "gated", word
    found["dropout"] = found["attention_dropout"] = stated(one, ["dropout_rate"])
    found["buckets"] = one.count("relative_attention_num_buckets", otherwise=32)
    found["decoder_layers"] = one.count("num_decoder_layers", otherwise=found.get("layers"))
    found.pop("seq", None)


ENCODERS: dict[str, tuple[type[Encoder], Reading]] = {
    "bert": (Bert, _bert),
    "vit": (Vit, _vit),
    "t5": (T5, _t5),
}
"""Others: their description, and what reads the rest of their keys."""
