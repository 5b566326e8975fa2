"""Hugging Face's config.json: the network of a model, by its ``model_type`` and its sizes.

Neither that library nor a network is needed. A family is what its members have in common, and a
function that reads what only they have. What is left of a file, and may matter, is in the notes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hardware.reader import checked, hint, parse_json, read_text, shown
from workloads.importers.fields import Fields
from workloads.importers.hugging_face.families import ENCODERS, FAMILIES, Values, stated
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
    "layers": "num_hidden_layers n_layer num_layers n_layers",
    "hidden": "hidden_size n_embd n_embed d_model",
    "heads": "num_attention_heads n_head num_heads n_heads",
    "vocab": "vocab_size",
    "ffn": "ffn_hidden_size intermediate_size n_inner ffn_dim d_ff",
    "kv_heads": "num_key_value_heads num_kv_heads n_head_kv",
    "head_dim": "head_dim d_kv",
    "seq": "max_position_embeddings n_positions seq_length n_ctx max_sequence_length max_seq_len",
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
    r"|.*multiplier|logits?_scal.*|no_rope_.*|.*jitter_noise|init_device|norm_type|embedding_fraction"
    r"|learned_pos_emb|tokenizer_.*|verbose|use_mambapy|keys_to_ignore.*|original_max_position_embeddings|embd_layer_norm|n_shared_experts"
)
"""Keys that change neither shapes nor the work of a training step."""


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
    dropouts = {"dropout": stated(one, _DROPOUT), "attention_dropout": stated(one, _IN_ATTENTION)}
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


def _encoder(path: str, kind: str, one: Fields, name: str) -> Encoder:
    model, reading = ENCODERS[kind]
    keys = {key.name: key for key in fields(model)}
    found = _sizes(one, keys)
    found |= {"dropout": stated(one, _DROPOUT), "attention_dropout": stated(one, _IN_ATTENTION)}
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
