"""Torchtitan's TOML: a model by name and flavor, training, parallelism, checkpointing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from experiments.files.job import DTYPES, Job, dtype_read, optimizer_read
from experiments.output import to_toml
from hardware.reader import shown
from planners import Axes
from planners.pipeline.staging import usual_schedule
from workloads import SIZES
from workloads.importers.fields import Fields

MODELS = {
    "llama3-8b": ("llama3", "8B"),
    "llama3-70b": ("llama3", "70B"),
    "llama3-405b": ("llama3", "405B"),
    "deepseek-v3": ("deepseek_v3", "671B"),
}
"""Our names of its flavors."""
RECOMPUTE = ("none", "selective", "full")
SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B"}
KNOWN_BY = re.compile(r"parallelism\..*|training\.(seq_len|local_batch_size)|model\.flavor")
WITHOUT_EFFECT = re.compile(
    r"(job|profiling|metrics|lr_scheduler|checkpoint|comm|compile|experimental|validation"
    r"|fault_tolerance|memory_estimation|float8|mx|quantize|debug)\..*|optimizer\.(?!name).*"
    r"|model\.(tokenizer|hf|print|norm).*"
    r"|training\.(steps|max_norm|warmup|data|gc|seed|determin|enable_cpu|compile|mixed_.*reduce).*"
    r"|parallelism\.(disable_loss|enable_async|enable_comp|context_parallel_rot|pipeline_.*csv).*"
    r"|activation_checkpoint\.(per_op|early_stop|debug|preserve|determin|memory).*"
)
_DEGREES = {"tp": "tensor", "pp": "pipeline", "cp": "context", "ep": "expert"}
_LESS = ("pipeline_parallel_first_stage_less_layers", "pipeline_parallel_last_stage_less_layers")
"""How many blocks embedding and head stand for where blocks are dealt out; 1 by default."""
_EACH = "pipeline_parallel_layers_per_stage"


def read(one: Fields) -> Job:
    """A job from the keys of its tables, as "training.seq_len"."""
    name, flavor = one.take("model.name"), one.take("model.flavor")
    known = next((k for k, v in MODELS.items() if v == (name, flavor)), "")
    if not known:
        said = f"model {name}, flavor {flavor}: not known" if name else "no model.name"
        one.notes.append(f"{said}; name the network yourself")
    seq = one.count("training.seq_len", otherwise=2048)
    axes, options = _axes(one, SIZES[known].layers if known else 0)
    dp, staged = axes.dp, axes.pp > 1
    local = one.count("training.local_batch_size", "training.batch_size", otherwise=8)
    inner = one.count("parallelism.pipeline_parallel_microbatch_size", otherwise=1)
    batch = one.take("training.global_batch_size", otherwise=-1)
    options["micro_batch"] = inner if staged else local
    if size := batch if isinstance(batch, int) and batch > 0 else local * dp:
        options["batch"] = size
    else:
        one.notes.append(f"the batch is {local} samples for each of dp: say batch")
    converters = one.take("model.converters", otherwise=[])
    wide = dtype_read(one, "training.mixed_precision_param")
    narrow = any(word in str(converters) for word in ("float8", "linear.mx"))
    options["precision"] = "fp8" if narrow else wide
    options["optimizer"] = optimizer_read(one, "optimizer.name")
    options["recompute"] = _recompute(one)
    return Job(f"{known}:seq={seq}" if known else "", axes=axes, options=options)


def _recompute(one: Fields) -> str:
    mode = str(one.take("activation_checkpoint.mode", otherwise="selective"))
    if mode not in RECOMPUTE:
        must = f"only {', '.join(RECOMPUTE)} are simulated: write the nearest of them"
        raise one.fault("activation_checkpoint.mode", mode, must)
    which = one.take("activation_checkpoint.selective_ac_option")
    if mode == "selective" and which is None:
        one.notes.append(
            'selective_ac_option is missing: read as "op", which newer versions do; up to 0.2 '
            "torchtitan computes every second block again in full without it"
        )
    elif mode == "selective" and which != "op":
        one.notes.append(
            f"selective_ac_option = {shown(which)}: every block of that many is computed again in "
            "full; read as selective, say recompute = the number of these blocks in a stage"
        )
    return mode


def _axes(one: Fields, layers: int) -> tuple[Axes, dict[str, Any]]:
    many = {
        axis: max(one.count(f"parallelism.{word}_parallel_degree", otherwise=1), 1)
        for axis, word in _DEGREES.items()
    }
    copies = one.count("parallelism.data_parallel_replicate_degree", otherwise=1)
    shards = one.take("parallelism.data_parallel_shard_degree", otherwise=-1)
    if shards != 1 and copies > 1:
        one.notes.append("weights are sharded among some of dp (HSDP): read as among all of it")
    when = one.take("parallelism.fsdp_reshard_after_forward", otherwise="default")
    whole = when == "never" or (when == "default" and many["pp"] > 1)
    options: dict[str, Any] = {"zero": 2 if whole else 3}
    if shards == 1 and many["cp"] == 1:
        options["zero"] = 0
    word = str(one.take("parallelism.pipeline_parallel_schedule", otherwise="1F1B"))
    schedule = next((ours for ours, theirs in SCHEDULES.items() if theirs == word), "")
    vp = 1 if word in ("1F1B", "GPipe") or many["pp"] == 1 else 2
    less = [one.count(f"parallelism.{key}", otherwise=1) for key in _LESS]
    if each := one.count(f"parallelism.{_EACH}"):
        vp = _virtual(one, (each, many["pp"], vp), word, layers and layers + sum(less))
    parts = one.take("parallelism.module_fqns_per_model_part", otherwise=[])
    if isinstance(parts, list) and parts and many["pp"] > 1:
        counts = [_layers(part) for part in parts if isinstance(part, list)]
        vp = max(len(counts) // many["pp"], 1)
    else:
        counts = _dealt(one, many["pp"] * vp, layers, less)
    if counts:
        options["stage_layers"] = ",".join(map(str, counts))
    if many["pp"] > 1 and not schedule:
        one.notes.append(f"pipeline_parallel_schedule = {word}: not known here")
    elif many["pp"] > 1 and schedule != usual_schedule(vp):
        options["schedule"] = schedule
    etp = one.count("parallelism.expert_tensor_parallel_degree", otherwise=many["tp"])
    dp = copies * shards if isinstance(shards, int) and shards > 0 else 0
    etp = 0 if many["ep"] == 1 or etp == many["tp"] else etp
    return Axes(dp=dp, vp=vp, etp=etp, sp=many["tp"] > 1, **many), options


def _virtual(one: Fields, sizes: tuple[int, int, int], word: str, whole: int) -> int:
    """Stages of a rank where a file says how many of all layers each has, as in pipeline_llm.

    ``sizes``: so many, the ranks, and the usual stages of a rank with this schedule.
    """
    each, pp, usual = sizes
    if pp == 1:
        return usual
    if not whole:
        one.notes.append(f"{_EACH} = {each}: stages follow from the number of layers: say vp")
        return usual
    stages = -(-whole // each)
    vp, rest = divmod(stages, pp)
    if rest or (vp > 1) != (usual > 1):
        must = f"{whole} layers make {stages} stages, which {word} does not run on {pp} ranks"
        raise one.fault(f"parallelism.{_EACH}", each, must)
    return vp


def _dealt(one: Fields, stages: int, layers: int, less: Sequence[int]) -> list[int]:
    """Counts of stages as generate_llm_fqn_per_model_part deals them out; none if all are alike."""
    first, last = less
    each, more = divmod(layers + first + last, stages)
    if stages == 1 or not (first or last or layers % stages):
        return []
    if not layers:
        one.notes.append("which layers a stage has follows from their number: say stage_layers")
        return []
    if each < max(first, last, 1):
        must = f"{stages} stages have no {max(first, last, 1)} layers each"
        raise one.fault("parallelism.pipeline_parallel_degree", stages, must)
    counts = [each + (at < more) for at in range(stages)]
    counts[0] += 1 - first
    counts[-1] += 1 - last
    return counts


def _layers(part: Sequence[object]) -> int:
    """Blocks of a stage, with one for the embedding, and one for norm and head."""
    return sum(
        str(name).startswith("layers.") or name in ("tok_embeddings", "output") for name in part
    )


def write(job: Job, devices: int, remarks: list[str]) -> str:  # noqa: ARG001  (as every framework's)
    """The TOML of a job; reads back to the same job."""
    axes, options = job.axes, job.options
    base, _, seq = job.network.partition(":seq=")
    name, flavor = MODELS.get(base, ("", ""))
    if not name:
        remarks.append(f"torchtitan has no flavor {base or 'of these sizes'}: add one by its sizes")
    optimizer = options["optimizer"]
    if optimizer not in ("adam", "sgd"):
        remarks.append(f"torchtitan has no optimizer {optimizer}")
    precision = options["precision"]
    if precision not in (*DTYPES, "fp8"):
        remarks.append(f"torchtitan has no precision {precision}")
    recompute = options["recompute"]
    if recompute not in RECOMPUTE:
        remarks.append(f"torchtitan computes all blocks again, not {recompute}")
        recompute = "full"
    model: dict[str, Any] = {"name": name, "flavor": flavor}
    tables: dict[str, dict[str, Any]] = {
        "model": model | ({"converters": ["float8"]} if precision == "fp8" else {}),
        "optimizer": {"name": "SGD" if optimizer == "sgd" else "AdamW"},
        "training": {
            "local_batch_size": options["batch"] // axes.dp
            if axes.pp > 1
            else options["micro_batch"],
            "global_batch_size": options["batch"],
            "seq_len": int(seq or job.sizes.get("seq", job.tokens or 2048)),
            "mixed_precision_param": DTYPES.get(precision, "bfloat16"),
        },
        "parallelism": _parallelism(job, remarks),
        "activation_checkpoint": {"mode": recompute}
        | ({"selective_ac_option": "op"} if recompute == "selective" else {}),
    }
    return to_toml(tables).lstrip()


def _parallelism(job: Job, remarks: list[str]) -> dict[str, Any]:
    axes, options, zero = job.axes, job.options, job.options["zero"]
    if zero == 1:
        remarks.append("torchtitan has no ZeRO 1: gradients are sharded, too (ZeRO 2)")
    if not zero and axes.cp > 1:
        remarks.append("torchtitan shards weights among the devices of cp")
    if axes.tp > 1 and not axes.sp:
        remarks.append("torchtitan's tensor parallelism has sequence parallelism")
    values: dict[str, Any] = {
        "data_parallel_replicate_degree": 1 if zero else axes.dp,
        "data_parallel_shard_degree": axes.dp if zero else 1,
        "fsdp_reshard_after_forward": "always" if zero == 3 else "never",
        **{f"{word}_parallel_degree": getattr(axes, axis) for axis, word in _DEGREES.items()},
    }
    values |= {"expert_tensor_parallel_degree": axes.etp} if axes.etp else {}
    if axes.pp > 1:
        schedule = options.get("schedule") or usual_schedule(axes.vp)
        if schedule not in SCHEDULES:
            remarks.append(f"torchtitan has no schedule {schedule}: 1F1B is written")
        if axes.vp > 1 and schedule != "interleaved":
            remarks.append(f"torchtitan's {schedule} has one stage a rank, not {axes.vp}")
        values["pipeline_parallel_schedule"] = SCHEDULES.get(schedule, "1F1B")
        values["pipeline_parallel_microbatch_size"] = options["micro_batch"]
        if layers := options.get("stage_layers"):
            values["module_fqns_per_model_part"] = _parts([*map(int, layers.split(","))])
        else:
            values |= dict.fromkeys(_LESS, 0)
            if axes.vp > 2:
                remarks.append(f"torchtitan has two stages a rank: vp={axes.vp} needs module lists")
    return values


def _parts(counts: Sequence[int]) -> list[list[str]]:
    """Names of modules of each stage, of counts that have one for embedding and head each."""
    found, passed = list[list[str]](), 0
    last = sum(counts) - 1
    for many in counts:
        places = range(passed, passed + many)
        names = {0: ["tok_embeddings"], last: ["norm", "output"]}
        found.append([name for at in places for name in names.get(at, [f"layers.{at - 1}"])])
        passed += many
    return found
