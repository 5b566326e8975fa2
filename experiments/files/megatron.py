"""Megatron-LM's arguments, in a shell line or YAML, and Megatron-Bridge's and NeMo's values.

All of them name the fields of Megatron Core's configuration, some by older names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from experiments.files.job import USUAL_NODE, Job, optimizer_read
from hardware.reader import shown
from planners import Axes, PlanError
from planners.axes.stage_devices import layout_counts, layout_of
from planners.pipeline.staging import usual_schedule
from workloads.importers.fields import Fields
from workloads.zoo.transformers import ACTIVATIONS

_SIZES = {
    "layers": "num_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "ffn": "ffn_hidden_size",
    "kv_heads": "num_query_groups",
    "head_dim": "kv_channels",
    "seq": "seq_length encoder_seq_length sequence_length",
    "experts": "num_experts num_moe_experts",
    "topk": "moe_router_topk",
    "moe_ffn": "moe_ffn_hidden_size",
    "shared_ffn": "moe_shared_expert_intermediate_size",
}
TABLES = (".yaml", ".yml", ".json", ".toml")
"""How files of tables end; all others have lines for a shell."""
_MAY_BE_OFF = ("biases", "tied", "attention_dropout")
_LATENT = {
    "q_rank": ("q_lora_rank", 0),
    "kv_rank": ("kv_lora_rank", 512),
    "head_dim": ("qk_head_dim", 128),
    "rope_dim": ("qk_pos_emb_head_dim", 64),
    "value_dim": ("v_head_dim", 128),
}
"""With multi-head latent attention: their names, and Megatron Core's defaults."""
_SAID = (
    *("name", "vocab", "table", "gated", "activation", "norm", "positions", "biases", "tied"),
    *("attention_biases", "head_norms", "shared_gate", "dense_layers", "capacity"),
    *("dropout", "attention_dropout"),
    *("fused_qkv", "attention", "compiled", "eager_loss", "fused_experts", "year"),
)
"""Sizes that flags say, and, in the last line, what the software decides."""
_AXES = {
    "tp": "tensor_model_parallel_size",
    "pp": "pipeline_model_parallel_size",
    "cp": "context_parallel_size",
    "ep": "expert_model_parallel_size",
}
_ZERO = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
_POSITIONS = {"learned_absolute": "table", "rope": "rotary", "none": "none"}
"""Words that Megatron-LM has for positions; two more are variants, and NeMo has another."""
_WRITTEN = {ours: theirs for theirs, ours in _POSITIONS.items()}
_POSITIONS |= {"mrope": "rotary", "yarn": "rotary", "alibi": "alibi"}
_GATED = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu"}
"""NeMo's words for gated activations, without fast-."""
PADDED = 128
"""Megatron pads the vocabulary to a multiple of so many rows times tp."""
KNOWN_BY = re.compile(r"num_layers|tensor_model_parallel_size|micro_batch_size|global_batch_size")
WITHOUT_EFFECT = re.compile(
    r".*(lr|decay|warmup|init|seed|beta\d?|eps|epsilon|path|tokenizer|vocab_file|merge_file|log|save"
    r"|load|eval|checkpoint|ckpt|data|split|tensorboard|wandb|interval|iters|samples|clip|dropout"
    r"|backend|timeout|profile|fusion|dist|coeff|loss|rotary|rope|flash|nccl|impl|workers|mock|cuda"
    r"|model_type|mcore|master|node_rank|rdzv|dtype|manual_gc|no_.*|mmap|numerical|name|overlap"
    r"|dispatcher|balancing|router_.*|grouped_gemm|permute|softmax|async|nvtx|amax|fp8_.*).*",
    re.IGNORECASE,
)
"""What changes no shapes and no split, or is the software's (``--stack``)."""


def read(one: Fields) -> Job:
    """A job from values by the names of Megatron Core."""
    sizes = _sizes(one)
    axes, layers = _axes(one, sizes)
    options = _options(one) | layers
    if sizes.get("vocab"):
        # NullTokenizer has a token more, the end of a document
        sizes["vocab"] += str(one.take("tokenizer_type", otherwise="")).startswith("Null")
        each = one.count("make_vocab_size_divisible_by", otherwise=PADDED) * axes.tp
        sizes["vocab"] = -(-sizes["vocab"] // each) * each
    if padded := one.count("padded_vocab_size"):
        sizes["vocab"] = padded
    if sizes.get("layers") and not sizes.get("vocab"):
        one.notes.append("the size of the vocabulary is not there: add vocab to [transformer]")
    return Job(sizes=sizes if sizes.get("layers") else {}, axes=axes, options=options)


def _sizes(one: Fields) -> dict[str, Any]:
    found: dict[str, Any] = {
        ours: number for ours, theirs in _SIZES.items() if (number := one.count(*theirs.split()))
    }
    found["vocab"] = one.count("vocab_size")
    of_words = not one.path.lower().endswith(TABLES)  # arguments.py's, not Megatron Core's
    grouped = one.flag("group_query_attention", otherwise=not of_words)
    if not grouped and found.pop("kv_heads", 0):
        one.notes.append("num_query_groups is read with --group-query-attention alone")
    if grouped and of_words:
        found.setdefault("kv_heads", 1)
    table = one.count("max_position_embeddings")
    by_words = "swiglu" in one.left
    found |= _activation(one)
    if found["gated"] and "ffn" not in found and by_words:
        # arguments.py: two thirds of 4 x hidden, in whole 64
        found["ffn"] = int(4 * found.get("hidden", 0) * 2 / 3 / 64) * 64
    found["biases"] = not one.flag("disable_bias_linear")
    found["biases"] &= one.flag("add_bias_linear", "bias", otherwise=True)
    if one.flag("add_qkv_bias") and not found["biases"]:
        found["attention_biases"] = "qkv"
    tied = one.flag("share_embeddings_and_output_weights", otherwise=True)
    found["tied"] = tied and not one.flag("untie_embeddings_and_output_weights")
    found["head_norms"] = one.flag("qk_layernorm")
    rms = one.take("normalization", otherwise="LayerNorm") in ("RMSNorm", "rmsnorm")
    found["norm"] = "rms_norm" if rms else "layer_norm"
    word = str(one.take("position_embedding_type", otherwise="learned_absolute"))
    if one.flag("use_rotary_position_embeddings"):
        word = "rope"
    if word not in _POSITIONS:
        one.notes.append(f"position_embedding_type = {shown(word)}: read as rotary")
    found["positions"] = _POSITIONS.get(word, "rotary")
    if found["positions"] == "table" and table > found.get("seq", table):
        found["table"] = table
    found["fused_qkv"], found["compiled"] = True, False
    behind, within = (
        isinstance(chance, int | float) and chance > 0
        for chance in (one.take(f"{at}_dropout", otherwise=0.1) for at in ("hidden", "attention"))
    )
    found |= {"dropout": behind} | ({"attention_dropout": False} if behind > within else {})
    if one.flag("multi_latent_attention"):
        for ours, (theirs, usual) in _LATENT.items():
            found[ours] = one.count(theirs, otherwise=usual)
        found.pop("kv_heads", None)
        if found["value_dim"] == found["head_dim"]:
            del found["value_dim"]
    if "experts" in found:
        found["shared_gate"] = one.flag("moe_shared_expert_gate")
        found["topk"] = found.get("topk", 2)
        factor = one.take("moe_expert_capacity_factor", otherwise=0)
        found["capacity"] = max(float(factor), 0.0) if isinstance(factor, int | float) else 0.0
        if not one.flag("moe_pad_expert_input_to_capacity") and found["capacity"]:
            one.notes.append("experts are taken to be padded to their capacity")
        found["dense_layers"] = _dense(one)
    return {ours: value for ours, value in found.items() if value or ours in _MAY_BE_OFF}


def _activation(one: Fields) -> dict[str, Any]:
    """What is between the products of a feed-forward, and whether one of two is a gate."""
    word = str(one.take("activation_func", "activation", otherwise=""))
    plain = word.rpartition(".")[2].removeprefix("fast-").replace("-", "_")
    gated = one.flag("gated_linear_unit") or plain.endswith("glu")
    squared = one.flag("squared_relu")
    if one.flag("swiglu"):  # arguments.py: whatever else is said
        return {"gated": True, "activation": "silu"}
    usual = "silu" if gated else "squared_relu" if squared else "gelu"
    kind = "gelu" if "gelu" in plain else _GATED.get(plain, plain or usual)
    if kind not in ACTIVATIONS:
        one.notes.append(f"activation = {shown(word)}: read as {usual}")
    return {"gated": gated, "activation": kind if kind in ACTIVATIONS else usual}


def _dense(one: Fields) -> int:
    """Blocks without experts, of a pattern such as ([0]*3+[1]*58)."""
    pattern = one.take("moe_layer_freq", otherwise=1)
    text = re.sub(r"[\s()]", "", str(pattern))
    if found := re.fullmatch(r"(?:\[0\]\*(\d{1,6})\+)?\[1\]\*\d{1,6}", text):
        return int(found[1] or 0)
    numbers = re.fullmatch(r"\[((?:0,)*)((?:1,)*1)\]", text)
    if pattern != 1 and not numbers:
        raise one.fault("moe_layer_freq", pattern, "only dense blocks, then blocks with experts")
    return numbers[1].count("0") if numbers else 0


def _axes(one: Fields, sizes: Mapping[str, Any]) -> tuple[Axes, dict[str, Any]]:
    """Axes, and the layers of stages where they are not the same in all."""
    many = {axis: max(one.count(name), 1) for axis, name in _AXES.items()}
    pp, layers = many["pp"], sizes.get("layers", 0)
    vp = one.count("num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size")
    if each := one.count("num_layers_per_virtual_pipeline_stage"):
        ends = (f"account_for_{end}_in_pipeline_split" for end in ("embedding", "loss"))
        whole = layers + sum(one.left.get(key) is True for key in ends)
        vp, rest = divmod(whole, pp * each)
        if layers and rest:
            must = f"x {pp} pipeline ranks must divide {whole} layers"
            raise one.fault("num_layers_per_virtual_pipeline_stage", each, must)
    stages: tuple[int, ...] = ()
    if layout := one.take("pipeline_model_parallel_layout"):
        try:
            stages = layout_counts(str(layout).strip("'\""))
        except PlanError as error:
            raise one.fault("pipeline_model_parallel_layout", layout, str(error)) from None
        vp = len(stages) // pp
    first = one.count("decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage")
    last = one.count("decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage")
    if pp > 1 and (first or last):
        inner = pp - bool(first) - bool(last)
        middle = [(layers - first - last) // max(inner, 1)] * inner
        ranks = (*([first] if first else []), *middle, *([last] if last else []))
        parts, said = max(vp, 1), " + ".join(map(str, ranks))
        if layers and sum(ranks) != layers:
            raise one.fault("num_layers", layers, f"{said} layers of {pp} ranks are not {layers}")
        if layers and any(each % parts for each in ranks):
            must = f"{said} layers do not divide into {parts} stages each"
            raise one.fault("num_layers", layers, must)
        stages = tuple(each // parts for each in ranks) * parts
    etp = one.count("expert_tensor_parallel_size", otherwise=many["tp"])
    dense = many["ep"] == 1 and not sizes.get("experts")
    local = one.count("nproc_per_node", "devices", "gpus_per_node")
    world = one.count("world_size") or local * max(one.count("nnodes", "num_nodes"), 1)
    each = many["tp"] * pp * many["cp"]
    axes = Axes(
        dp=0 if world % each else world // each,
        vp=max(vp, 1),
        etp=0 if dense or etp == many["tp"] else etp,
        sp=one.flag("sequence_parallel") and many["tp"] > 1,
        **many,
    )
    return axes, {"stage_layers": ",".join(map(str, stages))} if stages else {}


def _options(one: Fields) -> dict[str, Any]:
    found: dict[str, Any] = {
        "batch": one.count("global_batch_size"),
        "micro_batch": one.count("micro_batch_size"),
        "recompute": _recompute(one),
    }
    mixed = str(one.take("mixed_precision", "precision", otherwise=""))
    half = mixed in ("16", "16-true", "16-mixed") or "fp16" in mixed
    wide = "fp16" if one.flag("fp16") or half else ""
    wide = "bf16" if one.flag("bf16") or mixed.startswith("bf16") else wide
    narrow = "fp8" if one.take("fp8_format", "fp8") or "fp8" in mixed else ""
    narrow = "fp4" if one.take("fp4_format", "fp4") else narrow
    found["precision"] = narrow or wide or "fp32"
    found["zero"] = 1 if one.flag("use_distributed_optimizer") else 0
    if one.left.get("optim_name") == "distributed_fused_adam":  # Apex's, in NeMo 1
        found["zero"] = 1 if one.flag("contiguous_grad_buffer", otherwise=True) else 2
    found["optimizer"] = optimizer_read(one, "optimizer", "optim_name")
    sharded = one.take("data_parallel_sharding_strategy", otherwise="no_shard")
    if one.flag("use_megatron_fsdp", "use_custom_fsdp"):
        found["zero"] = _ZERO.get(sharded, 0)
    return {key: value for key, value in found.items() if value or key == "zero"}


def _recompute(one: Fields) -> str:
    granularity = one.take("recompute_granularity", "activations_checkpoint_granularity")
    method = one.take("recompute_method", "activations_checkpoint_method")
    blocks = one.count("recompute_num_layers", "activations_checkpoint_num_layers")
    if one.flag("recompute_activations"):
        return "selective"
    if granularity == "full" and method == "uniform" and blocks > 1:
        one.notes.append(
            f"recompute_num_layers = {blocks}: inputs of one in {blocks} blocks are kept; read as "
            "full, which keeps those of all"
        )
    if granularity == "full":
        return str(blocks) if method == "block" and blocks else "full"
    return "selective" if granularity == "selective" else "none"


def write(job: Job, devices: int, remarks: list[str]) -> str:
    """A line for a shell, as ``torchrun pretrain_gpt.py``; reads back to the same job."""
    node = job.node or USUAL_NODE
    if not job.node:
        remarks.append(f"how many devices a server has is not known: {node} are taken")
    each = node if devices % node == 0 else devices
    flags: dict[str, Any] = {}
    if job.sizes:
        flags |= _size_flags(job, remarks)
    else:
        remarks.append(f"the sizes of {job.network or 'the network'} are not known: add them")
    axes, options = job.axes, job.options
    flags |= {name: getattr(axes, axis) for axis, name in _AXES.items() if getattr(axes, axis) > 1}
    flags |= {"sequence_parallel": True} if axes.sp else {}
    flags |= {"expert_tensor_parallel_size": axes.etp} if axes.etp else {}
    if layers := options.get("stage_layers"):
        counts = tuple(map(int, layers.split(",")))
        flags["pipeline_model_parallel_layout"] = layout_of(counts, job.sizes.get("layers", 0))
    elif axes.vp > 1:
        flags["num_virtual_stages_per_pipeline_rank"] = axes.vp
    schedule = options.get("schedule") or usual_schedule(axes.vp)
    if axes.pp > 1 and schedule != usual_schedule(axes.vp):
        remarks.append(f"Megatron-LM has no schedule {schedule}: it runs 1F1B, interleaved with vp")
    flags |= _option_flags(job, remarks)
    words = [f"--{key.replace('_', '-')}{_value(value)}" for key, value in flags.items()]
    head = f"torchrun --nproc-per-node {each} --nnodes {devices // each} pretrain_gpt.py"
    return " \\\n  ".join([head, *words]) + "\n"


def _value(value: object) -> str:
    if value is True:
        return ""
    return f" '{value}'" if isinstance(value, str) and not value.isalnum() else f" {value}"


def _size_flags(job: Job, remarks: list[str]) -> dict[str, Any]:
    sizes = dict(job.sizes)
    flags: dict[str, Any] = {
        theirs.split()[0]: sizes[ours]
        for ours, theirs in _SIZES.items()
        if ours in sizes and not (ours == "head_dim" and sizes.get("kv_rank"))
    }
    if sizes.get("gated") and "ffn" not in sizes:  # of a gated one its own is 8/3 x hidden
        flags["ffn_hidden_size"] = 4 * sizes["hidden"]
    flags |= {"group_query_attention": True} if "kv_heads" in sizes else {}
    flags["max_position_embeddings"] = max(sizes["seq"], sizes.get("table", 0))
    flags["vocab_size"] = sizes["vocab"]
    if sizes["vocab"] % (PADDED * job.axes.tp):
        flags["make_vocab_size_divisible_by"] = 1
    if rest := sizes["vocab"] % job.axes.tp:
        padded = sizes["vocab"] + job.axes.tp - rest
        remarks.append(f"Megatron-LM pads the vocabulary to {padded}, a multiple of tp")
    if sizes.get("kv_rank"):
        flags["multi_latent_attention"] = True
        for ours, (theirs, usual) in _LATENT.items():
            value = sizes.get(ours) or (sizes["head_dim"] if ours == "value_dim" else usual)
            flags |= {theirs: value} if value else {}  # no rank of queries is not one of 0
    truths = {
        "swiglu": sizes.get("gated"),
        "squared_relu": sizes.get("activation") == "squared_relu",
        "disable_bias_linear": not sizes.get("biases", True),
        "add_qkv_bias": sizes.get("attention_biases") == "qkv",
        "untie_embeddings_and_output_weights": not sizes.get("tied", True),
        "qk_layernorm": sizes.get("head_norms"),
        "moe_shared_expert_gate": sizes.get("shared_gate"),
    }
    flags |= {name: True for name, truth in truths.items() if truth}
    if not sizes.get("dropout"):
        flags |= {"hidden_dropout": 0}
    if not (sizes.get("dropout") and sizes.get("attention_dropout", True)):
        flags |= {"attention_dropout": 0}
    flags |= {"normalization": "RMSNorm"} if sizes.get("norm") == "rms_norm" else {}
    flags["position_embedding_type"] = _WRITTEN.get(sizes.get("positions", "table"), "none")
    if sizes.get("experts"):
        flags |= {"moe_grouped_gemm": True, "moe_token_dispatcher_type": "alltoall"}
    if factor := sizes.get("capacity"):
        flags |= {"moe_expert_capacity_factor": factor, "moe_pad_expert_input_to_capacity": True}
    if dense := sizes.get("dense_layers"):
        flags["moe_layer_freq"] = f"([0]*{dense}+[1]*{sizes['layers'] - dense})"
    if lost := _unsaid(sizes):
        remarks.append(f"Megatron-LM's arguments do not say: {', '.join(lost)}")
    return flags


def _unsaid(sizes: Mapping[str, Any]) -> list[str]:
    """Sizes without flags, and those of which some values have none."""
    plain, biases = sizes.get("activation", "gelu"), sizes.get("attention_biases", "")
    sayable = {
        "activation": plain in (("silu",) if sizes.get("gated") else ("gelu", "squared_relu")),
        "positions": sizes.get("positions", "table") in _WRITTEN,
        "attention_biases": biases
        in (("", "all") if sizes.get("biases", True) else ("", "none", "qkv")),
    }
    said = {*_SIZES, *_LATENT, *_SAID}
    lost = [key for key in sizes if key not in said]
    return lost + [f"{key} = {sizes.get(key, plain)}" for key, can in sayable.items() if not can]


def _option_flags(job: Job, remarks: list[str]) -> dict[str, Any]:
    options, flags = job.options, dict[str, Any]()
    flags["micro_batch_size"] = options["micro_batch"]
    flags["global_batch_size"] = options["batch"]
    precision = options["precision"]
    if precision in ("bf16", "fp16"):
        flags[precision] = True
    elif precision in ("fp8", "fp4"):
        flags |= {"bf16": True, f"{precision}_format": {"fp8": "hybrid", "fp4": "e2m1"}[precision]}
    elif precision != "fp32":
        remarks.append(f"Megatron-LM has no precision {precision}")
    optimizer = options["optimizer"]
    if optimizer in ("adam", "sgd"):
        flags["optimizer"] = optimizer
    else:
        remarks.append(f"Megatron-LM has no optimizer {optimizer}: it has adam and sgd")
    zero = options["zero"]
    if zero == 1:
        flags["use_distributed_optimizer"] = True
    elif zero:
        word = next(word for word, stage in _ZERO.items() if stage == zero)
        flags |= {"use_megatron_fsdp": True, "data_parallel_sharding_strategy": word}
        flags["use_distributed_optimizer"] = True
        if job.axes.pp > 1:
            remarks.append(f"zero {zero} with pipelines is untried in Megatron-LM")
    recompute = options["recompute"]
    if recompute.isdecimal():
        flags |= {"recompute_granularity": "full", "recompute_method": "block"}
        flags["recompute_num_layers"] = recompute
    elif recompute == "full":
        flags |= {"recompute_granularity": "full", "recompute_method": "uniform"}
        flags["recompute_num_layers"] = 1
    elif recompute == "selective":
        flags["recompute_granularity"] = recompute
    elif recompute != "none":
        remarks.append(f"Megatron-LM computes the same again in all stages, not {recompute}")
    return flags
