"""Hugging Face's config.json: the network of a model, by its ``model_type`` and its sizes.

Neither that library nor a network is needed. A family is what its members have in common, and a
function that reads what only they have. What is left of a file, and may matter, is in the notes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hardware.reader import checked, hint, parse_json, read_text, shown
from workloads.importers.fields import Fields
from workloads.importers.transformer_file import changed, described, model_of, sequence
from workloads.network import Network
from workloads.tensors import NetworkError
from workloads.zoo.encoders import T5, Bert, Encoder, Vit, bert, t5, vit
from workloads.zoo.transformers import Transformer, transformer

CONFIG = "config.json"
USUAL_SEQ = 8192
"""Tokens of a sample where a model has positions for more: what most are trained with."""
_LARGEST = 4 << 20
"""Some have 22,000 names of labels."""
LARGEST = 1 << 31
_NAMES = {
    "layers": "num_hidden_layers n_layer num_layers",
    "hidden": "hidden_size n_embd n_embed d_model",
    "heads": "num_attention_heads n_head num_heads",
    "vocab": "vocab_size",
    "ffn": "ffn_hidden_size intermediate_size n_inner ffn_dim d_ff",
    "kv_heads": "num_key_value_heads num_kv_heads n_head_kv",
    "head_dim": "head_dim d_kv",
    "seq": "max_position_embeddings n_positions seq_length n_ctx max_sequence_length",
    "activation": "hidden_act activation_function hidden_activation activation dense_act_fn",
    "tied": "tie_word_embeddings",
    "experts": "num_local_experts num_experts n_routed_experts",
    "topk": "num_experts_per_tok experts_per_token",
    "moe_ffn": "moe_intermediate_size",
    "shared_ffn": "shared_expert_intermediate_size",
    "dense_layers": "first_k_dense_replace",
    "q_rank": "q_lora_rank",
    "kv_rank": "kv_lora_rank",
    "rope_dim": "qk_rope_head_dim",
    "value_dim": "v_head_dim",
    "image": "image_size",
    "patch": "patch_size",
    "channels": "num_channels",
}
"""Keys of our description, and what they are called in a config.json."""
_ACTIVATIONS = {
    "gelu": "gelu gelu_new gelu_fast gelu_python gelu_pytorch_tanh quick_gelu gelu_10",
    "silu": "silu swish",
    "relu": "relu",
    "squared_relu": "relu2",
}
_ACTIVATION = {word: ours for ours, words in _ACTIVATIONS.items() for word in words.split()}
_WITHOUT_EFFECT = re.compile(
    r"_.*|.*token_id|.*token_index|.*dropout.*|.*pdrop|layerdrop|.*_eps|.*epsilon|.*init.*|.*rope.*"
    r"|partial_rotary_factor|rotary_.*|sliding_window.*|max_window_layers|use_sliding_window"
    r"|layer_types|architectures|auto_map|torch_dtype|dtype|transformers_version|use_cache|summary_.*"
    r"|task_specific_params|id2label|label2id|num_labels|pretraining_tp|quantization_config|output_.*"
    r"|attention_softmax_in_fp32|bias_dropout_fusion|masked_softmax_fusion|slow_but_exact|.*_coef"
    r"|aux_loss_alpha|seq_aux|scoring_func|topk_method|topk_group|n_group|norm_topk_prob|ep_size"
    r"|routed_scaling_factor|router_.*|.*softcapping|query_pre_attn_scalar|use_bidirectional_attention"
    r"|scale_.*|reorder_and_upcast_attn|position_embedding_type|gradient_checkpointing|vocab_file|"
    r"chunk_size_feed_forward|problem_type|return_dict|model_max_length|swiglu_.*|qk_head_dim|prefix"
    r"|do_sample|num_beams|temperature|top_p|top_k|repetition_penalty|classifier.*|is_decoder"
    r"|is_encoder_decoder|relative_attention_max_distance|pooler_.*|encoder_stride|name|cache_.*"
    r"|use_mambapy|keys_to_ignore.*|original_max_position_embeddings|embd_layer_norm|n_shared_experts"
)
"""Keys that change neither shapes nor the work of a training step."""


Values = dict[str, Any]


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
    found["dropout"] = found["attention_dropout"] = _any(one, ["dropout_rate"])
    found["buckets"] = one.count("relative_attention_num_buckets", otherwise=32)
    found["decoder_layers"] = one.count("num_decoder_layers", otherwise=found.get("layers"))
    found.pop("seq", None)


ENCODERS: dict[str, tuple[type[Encoder], Reading]] = {
    "bert": (Bert, _bert),
    "vit": (Vit, _vit),
    "t5": (T5, _t5),
}
"""Others: their description, and what reads the rest of their keys."""


SETS_ANOTHER = ":seq=N sets another"
"""How a note ends that is of no use to who has set one."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a file says: a description, and what of the file was not understood."""

    of: Transformer | Encoder
    notes: tuple[str, ...] = field(default=())

    def network(self, sequence: int = 0) -> Network:
        """The network, its sequences of another length where one is given."""
        match self.of:
            case Transformer():
                made = transformer(replace(self.of, seq=sequence or self.of.seq))
            case Bert():
                made = bert(self.of, sequence)
            case T5():
                made = t5(self.of, sequence or 512)
            case Vit() if not sequence:
                made = vit(self.of)
            case _:
                raise NetworkError(f"{self.of.name}: it has patches, not a sequence; leave out seq")
        return replace(made, notes=(*self.notes, *made.notes))


def config_of(name: str) -> str | None:
    """The path of the config.json that a name means (a file, or a folder with one), or None."""
    path = Path(name)
    if name.endswith(".json"):
        return name
    try:
        return str(path / CONFIG) if name and (path / CONFIG).is_file() else None
    except OSError:  # a name that is no path
        return None


def read_hugging_face(path: str, options: str = "") -> Network:
    """The network of a config.json, with options as ``seq=4096:layers=8``; raises NetworkError."""
    found = read_config(path)
    if not options:
        return found.network()
    if isinstance(found.of, Transformer):
        values = options.split(":")
        told = any(value.startswith("seq=") for value in values)
        notes = tuple(one for one in found.notes if not (told and one.endswith(SETS_ANOTHER)))
        return Read(changed(path, found.of, values), notes).network()
    return found.network(sequence(path, options))


def read_config(path: str) -> Read:
    """What a config.json says; raises NetworkError with file, key, value and remedy."""
    values = parse_json(
        read_text(path, NetworkError, "a config.json", _LARGEST), path, NetworkError
    )
    if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
        raise NetworkError(f"{path}: model_type is missing; expected a config.json of Hugging Face")
    notes = []
    inner = values.get("text_config")
    if isinstance(inner, dict) and values["model_type"] not in FAMILIES:
        notes.append(f"model_type = {shown(values['model_type'])}: the text model alone is read")
        usual = {"model_type": f"{values['model_type']}_text"}
        values = usual | {k: values[k] for k in ("tie_word_embeddings",) if k in values} | inner
    kind = values.pop("model_type")
    if not isinstance(kind, str) or kind not in {**FAMILIES, **ENCODERS}:
        raise NetworkError(
            f"{path}: model_type = {shown(kind)}: {hint(kind, [*FAMILIES, *ENCODERS])}"
        )
    one = Fields(path, values, NetworkError)
    one.notes += notes
    of = (_decoder if kind in FAMILIES else _encoder)(path, kind, one, _named(path, values))
    one.notes += one.unknown(_WITHOUT_EFFECT)
    return Read(of, tuple(one.notes))


def _named(path: str, values: Mapping[str, Any]) -> str:
    """The name of the model, or else of its folder or file."""
    name = values.get("_name_or_path")
    if not isinstance(name, str) or not name:
        file = Path(path)
        name = file.resolve().parent.name if file.name == CONFIG else file.stem
    return re.sub(r"[^\w.+-]", "-", name.rstrip("/").rpartition("/")[2])[:60] or "model"


def _sizes(one: Fields, allowed: Mapping[str, Any]) -> Values:
    """Keys that mean the same in all families; others stay."""
    found: Values = {}
    for ours, theirs in _NAMES.items():
        if ours in allowed or ours == "seq":
            names = theirs.split()
            key = next((name for name in names if one.left.get(name) is not None), None)
            if ours in _NULL and key is None and any(name in one.left for name in names):
                found[ours] = 0  # null: as many as there are heads, or no rank
            value = one.take(*names)
            if key is not None:
                if ours in _NEEDED and (type(value) is not int or not 0 < value < LARGEST):
                    raise one.fault(key, value, f"must be a whole number from 1 to {LARGEST:,}")
                found[ours] = value
    if "activation" in found:
        word = found["activation"]
        if not isinstance(word, str) or word not in _ACTIVATION:
            raise NetworkError(f"{one.path}: hidden_act: {shown(word)}: {hint(word, _ACTIVATION)}")
        found["activation"] = _ACTIVATION[word]
    return found


def _decoder(path: str, kind: str, one: Fields, name: str) -> Transformer:
    usual, reading = FAMILIES[kind]
    dropouts = {"dropout": _any(one, _DROPOUT), "attention_dropout": _any(one, _IN_ATTENTION)}
    said = _sizes(one, _TRANSFORMER)
    found = usual | dropouts | said
    window = one.left.get("sliding_window")
    used = one.left.get("use_sliding_window") is not False
    original = one.left.get("original_max_position_embeddings")
    reading(one, found)
    if "dense_layers" not in said and usual.get("dense_layers", 0) >= said.get("layers", LARGEST):
        found = {key: value for key, value in found.items() if key not in _OF_EXPERTS}
    known, longest = found.get("seq"), found.get("table") or 0
    if isinstance(known, int) and known > USUAL_SEQ and not longest:
        seq = original if isinstance(original, int) and original <= USUAL_SEQ else USUAL_SEQ
        found["seq"] = seq
        one.notes.append(f"sequences of {seq} of its {known} positions; {path}{SETS_ANOTHER}")
    if isinstance(window, int) and window and window < found.get("seq", 0) and used:
        one.notes.append(f"sliding_window = {window}: attention is over all positions")
    found = {key: value for key, value in found.items() if value is not None}
    if missing := [key for key in ("layers", "hidden", "heads", "vocab") if key not in found]:
        raise NetworkError(f"{path}: {missing[0]} is missing ({_NAMES[missing[0]]})")
    return described(path, None, found | {"name": name, "source": f"{kind}, {Path(path).name}"})


def _any(one: Fields, names: Sequence[str]) -> bool:
    """Whether one of these chances is stated and above 0."""
    return any(isinstance(p, float) and p > 0 for p in map(one.left.get, names))


def _encoder(path: str, kind: str, one: Fields, name: str) -> Encoder:
    model, reading = ENCODERS[kind]
    keys = {key.name: key for key in fields(model)}
    found = _sizes(one, keys)
    found |= {"dropout": _any(one, _DROPOUT), "attention_dropout": _any(one, _IN_ATTENTION)}
    reading(one, found)
    if kind == "t5":
        word = found["activation"]
        found["activation"] = _ACTIVATION.get(word, word)
    said = checked(model_of(model, least=1), found | {"name": name}, path, NetworkError)
    values = said.model_dump(exclude_unset=True)
    if missing := [
        key.name for key in keys.values() if key.name in _NEEDED and key.name not in values
    ]:
        raise NetworkError(f"{path}: {missing[0]} is missing ({_NAMES[missing[0]]})")
    if model is Vit and (values.get("image", 224) % max(values.get("patch", 16), 1)):
        raise NetworkError(f"{path}: patch_size: does not divide image_size")
    return model(**values)


_DROPOUT = ("resid_pdrop", "hidden_dropout", "hidden_dropout_prob", "dropout")
_IN_ATTENTION = ("attn_pdrop", "attention_dropout", "attention_probs_dropout_prob")
_OF_EXPERTS = ("dense_layers", "experts", "topk", "moe_ffn", "shared_ffn")
"""What a model has none of where its class has as many dense blocks as it has blocks."""
_NULL = ("kv_heads", "q_rank")
_NEEDED = ("layers", "hidden", "heads", "ffn")
_TRANSFORMER = {key.name: key for key in fields(Transformer)}
