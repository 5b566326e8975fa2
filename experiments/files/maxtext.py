"""MaxText's YAML: a model by name or base sizes, axes inside a slice (ici) and between (dcn)."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from typing import Any

from experiments.files.job import DTYPES, Job, dtype_read, optimizer_read
from hardware.reader import shown
from planners import Axes
from workloads import SIZES, Transformer
from workloads.importers.fields import Fields
from workloads.importers.hugging_face.families import LLAMA_BLOCK
from workloads.zoo.transformers import ACTIVATIONS

MODELS = {
    "llama2-7b": "llama2-7b",
    "llama2-13b": "llama2-13b",
    "llama2-70b": "llama2-70b",
    "llama3-8b": "llama3-8b",
    "llama3-70b": "llama3-70b",
    "llama3-405b": "llama3.1-405b",
    "mixtral-8x7b": "mixtral-8x7b",
    "deepseek-v3": "deepseek3-671b",
    "gpt3-175b": "gpt3-175b",
}
"""Our names of its models."""
_USUAL = {key.name: key.default for key in fields(Transformer)}
"""What a description has where it does not say it."""
_SIZES = {
    "layers": ("base_num_decoder_layers", 16),
    "hidden": ("base_emb_dim", 2048),
    "heads": ("base_num_query_heads", 16),
    "kv_heads": ("base_num_kv_heads", 16),
    "ffn": ("base_mlp_dim", 7168),
    "head_dim": ("head_dim", 128),
    "vocab": ("vocab_size", 32_000),
}
"""Their names, and what base.yml says."""
_DATA = ("data", "fsdp", "fsdp_transpose", "expert")
_AXES = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
REMAT = {"none": "none", "selective": "minimal_with_context", "full": "full"}
_UNSET = ("num_pipeline_repeats", "num_pipeline_microbatches", "pipeline_parallel_layers")
"""Numbers that are -1 where they follow from others."""
_PLAIN: dict[str, tuple[object, ...]] = {
    "decoder_block": ("llama2", "mistral", "mixtral"),
    "attention_type": ("global",),
    "expert_shard_attention_option": ("fsdp",),
    "global_parameter_scale": (1,),
    "first_num_dense_layers": (0,),
    "base_moe_mlp_dim": (7168, -1),
    "mtp_num_layers": (0,),
    "q_lora_rank": (0,),
    "kv_lora_rank": (512,),
    "trainable_position_size": (-1,),
    "capacity_factor": (-1,),
    "dropout_rate": (0,),
    **dict.fromkeys(("attention_bias", "mlp_bias", "fused_qkv", "fused_mlp", "moba"), (False,)),
    **dict.fromkeys(("use_qk_norm", "use_post_attn_norm", "use_post_ffw_norm"), (False,)),
    **{
        f"{where}_{axis}_parallelism": (1,)
        for where in ("ici", "dcn")
        for axis in ("tensor_transpose", "autoregressive", "context_autoregressive")
    },
}
"""Of keys that change a network or its split, and are not read: values that change nothing."""
KNOWN_BY = re.compile(
    r"(ici|dcn)_\w+_parallelism|per_device_batch_size|base_emb_dim|max_target_length"
)
WITHOUT_EFFECT = re.compile(
    r".*(run_name|checkpoint|dir|path|metrics|steps|learning|warmup|cosine|eval|dataset|token|jax"
    r"|hardware|mesh|logical|sharding|compil|decode|prefill|profiler|adam|clip|seed|shuffl|log|grain"
    r"|hf_|inference|axis_order|attention|scan|autoregressive|slices|goodput|vertex|tensorboard"
    r"|stack_trace|monitor|fused|norm|emb|matmul|einsum|kv|rope|mlp_act|dropout|debug"
    r"|prompt|dcn|ici|quantiz|remat|offload|load_|capacity|model_call|num_|base_|user|enable|use_|save_).*"
)


def read(one: Fields) -> Job:
    """A job from the keys of its file; what is missing is as in base.yml."""
    one.left = {k: v for k, v in one.left.items() if k not in _UNSET or v != -1}
    name = one.take("model_name", otherwise="default")
    known = next((ours for ours, theirs in MODELS.items() if theirs == name), "")
    seq = one.count("max_target_length", otherwise=2048)
    sizes = _sizes(one, seq) if name == "default" else {}
    if not known and name != "default":
        one.notes.append(f"model_name = {name}: not known; name the network yourself")
    asked = "".join(f":{ours}={one.left[k]}" for ours, (k, _) in _SIZES.items() if k in one.left)
    if one.flag("override_model_config") and known and asked:
        one.notes.append(f"override_model_config is not read: name the network {known}{asked}")
    many, open_ = _degrees(one)
    staged = many["pipeline"] > 1
    of = SIZES.get(known)
    layers = of.layers - of.dense_layers if of else sizes.get("layers", 0)
    dp = 0 if open_ else math.prod(many[axis] for axis in _DATA)
    axes = Axes(
        dp=dp,
        vp=_repeats(one, many["pipeline"], layers) if staged else 1,
        sp=False,
        **{ours: many[theirs] for ours, theirs in _AXES.items()},
    )
    fsdp = many["fsdp"] * many["fsdp_transpose"] > 1 or open_ == "fsdp"
    each = one.take("per_device_batch_size", otherwise=12.0)
    if not isinstance(each, int | float) or not 0 < each < 1 << 31:
        raise one.fault("per_device_batch_size", each, "must be a number above 0")
    whole = dp * axes.tp * axes.pp * axes.cp
    inner = one.count("gradient_accumulation_steps", otherwise=1)
    batch = round(each * whole * inner)
    options: dict[str, Any] = {"zero": 3 if fsdp else 0}
    if batch:
        options["batch"] = batch
        parts = one.count("num_pipeline_microbatches", otherwise=0) if staged else 1
        options["micro_batch"] = max(batch // (dp * inner * (parts or axes.pp)), 1)
    else:
        one.notes.append(f"per_device_batch_size = {each:g}: of all devices; say batch")
    narrow = str(one.take("quantization", otherwise=""))
    dtype = dtype_read(one, "dtype")
    options["precision"] = next((kind for kind in ("fp8", "int8") if kind in narrow), dtype)
    options["optimizer"] = optimizer_read(one, "opt_type")
    policy = str(one.take("remat_policy", otherwise="full"))
    options["recompute"] = policy if policy in ("none", "full") else "selective"
    if policy not in ("none", "full", "minimal"):
        one.notes.append(
            f"remat_policy = {shown(policy)}: read as selective; what else it computes again, or "
            "sends to the host, is not simulated"
        )
    if staged:
        options["schedule"] = "gpipe"
    taken = {key: one.take(key, otherwise=plain[0]) for key, plain in _PLAIN.items()}
    if said := [f"{key} = {shown(v)}" for key, v in taken.items() if v not in _PLAIN[key]]:
        one.notes.append(f"{', '.join(said)}: not read; say yourself what it changes")
    return Job(f"{known}:seq={seq}" if known else "", sizes, axes, options)


def _sizes(one: Fields, seq: int) -> dict[str, Any]:
    found: dict[str, Any] = {"seq": seq}
    for ours, (theirs, usual) in _SIZES.items():
        found[ours] = one.count(theirs, otherwise=usual)
    experts = one.count("num_experts", otherwise=1)
    topk = one.count("num_experts_per_tok", otherwise=1)
    found |= {"experts": experts, "topk": topk} if experts > 1 else {}
    kinds = one.take("mlp_activations", otherwise=["silu", "linear"])
    kept = [kind for kind in kinds if kind != "linear"] if isinstance(kinds, list) else []
    if len(kept) != 1 or kept[0] not in ACTIVATIONS:
        must = f"must be one of {', '.join(ACTIVATIONS)}, alone or with linear"
        raise one.fault("mlp_activations", kinds, must)
    block = LLAMA_BLOCK | {"activation": kept[0], "gated": len(kinds) > 1}
    return found | block | {"tied": one.flag("logits_via_embedding")}


def _repeats(one: Fields, stages: int, layers: int) -> int:
    """How often a micro-batch passes each stage (vp), which has so many layers each time."""
    each = one.count("num_layers_per_pipeline_stage", otherwise=1)
    staged = one.count("pipeline_parallel_layers") or layers
    if layers and staged != layers:
        one.notes.append(f"pipeline_parallel_layers = {staged}: all {layers} layers are in stages")
    repeats = one.count("num_pipeline_repeats") or staged // (stages * max(each, 1))
    if staged and stages * repeats * each != staged:
        must = f"x {stages} stages x {repeats} repeats must be the {staged} layers"
        raise one.fault("num_layers_per_pipeline_stage", each, must)
    if not repeats:
        one.notes.append("num_pipeline_repeats follows from the layers: say vp")
    return max(repeats, 1)


def _degrees(one: Fields) -> tuple[dict[str, int], str]:
    """Ways of each axis, and the one that takes the devices that are left."""
    many, open_ = dict[str, int](), ""
    for axis in dict.fromkeys((*_DATA, *_AXES.values(), "sequence", "tensor_sequence")):
        usual = {"ici_fsdp": -1, "dcn_data": -1}
        product = 1
        for where in ("ici", "dcn"):
            key = f"{where}_{axis}_parallelism"
            ways = one.take(key, otherwise=usual.get(f"{where}_{axis}", 1))
            if ways == -1:
                open_ = axis if not open_ or axis == "fsdp" else open_
            elif not isinstance(ways, int) or not 1 <= ways <= 1 << 20:
                raise one.fault(key, ways, "must be a whole number, or -1")
            else:
                product *= ways
        many[axis] = product
    many["context"] *= many.pop("sequence")
    many["tensor"] *= many.pop("tensor_sequence")
    return many, open_


def write(job: Job, devices: int, remarks: list[str]) -> str:
    """The YAML of a job, as overrides of base.yml; reads back to the same job."""
    values = _model(job, remarks) | _split(job, devices, remarks) | _software(job, remarks)
    lines = (f"{key}: {str(v).lower() if isinstance(v, bool) else v}" for key, v in values.items())
    return "\n".join(lines) + "\n"


def _model(job: Job, remarks: list[str]) -> dict[str, Any]:
    base, _, seq = job.network.partition(":seq=")
    sizes, values = job.sizes, dict[str, Any]()
    if base in MODELS:
        values["model_name"] = MODELS[base]
    elif sizes and all(sizes.get(k, _USUAL[k]) == v for k, v in LLAMA_BLOCK.items() if k != "tied"):
        usual = {"kv_heads": sizes["heads"], "ffn": 4 * sizes["hidden"]}
        usual["head_dim"] = sizes["hidden"] // sizes["heads"]
        values |= {theirs: sizes.get(ours) or usual[ours] for ours, (theirs, _) in _SIZES.items()}
        values["logits_via_embedding"] = bool(sizes.get("tied", True))
        if sizes.get("experts"):
            values |= {"num_experts": sizes["experts"]}
            values |= {"num_experts_per_tok": sizes.get("topk", 2)}
        said = {*_SIZES, *LLAMA_BLOCK, "seq", "experts", "topk", "name", "year", "attention"}
        if lost := [key for key in sizes if key not in said]:
            remarks.append(f"MaxText's base sizes do not say: {', '.join(lost)}")
    else:
        remarks.append(f"MaxText's keys do not say the sizes of {base or 'this network'}")
    return values | {"max_target_length": int(seq or sizes.get("seq", job.tokens or 2048))}


def _split(job: Job, devices: int, remarks: list[str]) -> dict[str, Any]:
    axes, options = job.axes, job.options
    zero, shared = options["zero"], axes.dp // axes.ep
    if zero and shared == 1:
        remarks.append("MaxText shards weights by its axis fsdp alone, which has one device here")
    if zero in (1, 2):
        remarks.append(f"MaxText has no ZeRO {zero}: weights are sharded, too (fsdp)")
    ways = {word: getattr(axes, axis) for axis, word in _AXES.items()}
    ways |= {"data": 1 if zero else shared, "fsdp": shared if zero else 1}
    slices, rest = divmod(devices, job.slice or devices)
    if rest:
        remarks.append(
            f"{devices} devices are no whole slices of {job.slice}: one slice is written"
        )
    values = _meshes(ways, 1 if rest else slices, remarks)
    batch, micro = options["batch"], options["micro_batch"]
    values["per_device_batch_size"] = batch / devices
    if axes.pp > 1:
        values["num_pipeline_microbatches"] = batch // (axes.dp * micro)
        values["num_pipeline_repeats"] = axes.vp
        if (schedule := options.get("schedule", "1f1b")) != "gpipe":
            remarks.append(f"MaxText's circular pipeline is forward, then backward, not {schedule}")
        dense = job.sizes.get("dense_layers", 0) if job.network.partition(":")[0] in MODELS else 0
        layers = job.sizes.get("layers", 0) - dense  # DeepSeek's first are before the stages
        each, rest = divmod(layers, axes.pp * axes.vp)
        alike = each and not rest
        values |= {"num_layers_per_pipeline_stage": each} if alike else {}
        if not alike or "stage_layers" in options:
            lost = "" if alike else ": num_layers_per_pipeline_stage cannot be written"
            remarks.append(f"MaxText's stages have as many layers each{lost}")
    elif micro * axes.dp != batch:
        steps = batch // (micro * axes.dp)
        values["gradient_accumulation_steps"] = steps
        values["per_device_batch_size"] = batch / devices / steps
    if axes.sp:
        remarks.append("MaxText has no sequence parallelism among the devices of tp")
    if axes.etp:
        remarks.append(f"etp={axes.etp}: MaxText splits experts by its expert axis alone")
    return values


OUTERMOST = ("pipeline", "data", "fsdp", "expert", "context", "tensor")
"""Axes in the order in which they reach over slices: as devices are numbered by default."""


def _meshes(ways: dict[str, int], slices: int, remarks: list[str]) -> dict[str, Any]:
    """Ways of each axis between slices and inside them."""
    values = dict[str, Any]()
    for word in OUTERMOST:
        outside = math.gcd(slices, ways[word])
        slices //= outside
        values |= {f"dcn_{word}_parallelism": outside} if outside > 1 or word == "data" else {}
        values[f"ici_{word}_parallelism"] = ways[word] // outside
    if slices > 1:
        remarks.append("the axes do not fill whole slices: their ways inside one are too many")
    return values


def _software(job: Job, remarks: list[str]) -> dict[str, Any]:
    precision = job.options["precision"]
    values = {"dtype": DTYPES.get(precision, "bfloat16")}
    if precision in ("fp8", "int8"):
        values["quantization"] = precision
    elif precision not in DTYPES:
        remarks.append(f"MaxText has no precision {precision}")
    optimizer = job.options["optimizer"]
    if optimizer not in ("adam", "sgd"):
        remarks.append(f"MaxText has no optimizer {optimizer}")
    recompute = job.options["recompute"]
    if recompute not in REMAT:
        remarks.append(f"MaxText computes all blocks again, not {recompute}")
    remat = REMAT.get(recompute, "full")
    return values | {"opt_type": "sgd" if optimizer == "sgd" else "adamw", "remat_policy": remat}
