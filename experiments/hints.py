"""Flags of Megatron-LM, torchtitan, DeepSpeed and nccl-tests: which of ours say the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches

from experiments.options import ALIASES, OPTIONS

AXES = {
    "tp": "tp tensor_model_parallel_size tensor_parallel_size tensor_parallel "
    "parallelism.tensor_parallel_degree",
    "pp": "pp pipeline_model_parallel_size pipeline_parallel_size pipeline_parallel "
    "parallelism.pipeline_parallel_degree",
    "dp": "dp data_parallel_size data_parallel parallelism.data_parallel_replicate_degree",
    "cp": "cp context_parallel_size context_parallel parallelism.context_parallel_degree",
    "ep": "ep expert_model_parallel_size expert_parallel_size expert_parallel "
    "parallelism.expert_parallel_degree",
    "vp": "vp virtual_pipeline_model_parallel_size num_virtual_stages_per_pipeline_rank",
}
"""Axes of parallelism, and how other tools call their sizes; all are parts of ``--parallel``."""
FLAGS = {
    "micro_batch_size": "--micro-batch {}",
    "mbs": "--micro-batch {}",
    "train_micro_batch_size_per_gpu": "--micro-batch {}",
    "parallelism.pipeline_parallel_microbatch_size": "--micro-batch {}",
    "global_batch_size": "--batch {}",
    "gbs": "--batch {}",
    "bs": "--batch {}",
    "batch_size": "--batch {}",
    "train_batch_size": "--batch {}",
    "training.global_batch_size": "--batch {}",
    "local_batch_size": "--batch with {} x dp samples, the global batch",
    "training.local_batch_size": "--batch with {} x dp samples, the global batch",
    "seq_len": "the sequence length with the network, as llama3-8b:seq={}",
    "seq_length": "the sequence length with the network, as llama3-8b:seq={}",
    "training.seq_len": "the sequence length with the network, as llama3-8b:seq={}",
    "num_layers_per_virtual_pipeline_stage": "--parallel with vp=V, where V is the layers of a "
    "pipeline stage divided by {}",
    "recompute_granularity": "--recompute {}",
    "recompute_activations": "--recompute selective",
    "activation_checkpoint.mode": "--recompute {}",
    "checkpoint_activations": "--recompute full",
    "use_distributed_optimizer": "--zero 1",
    "zero_stage": "--zero {}",
    "fsdp": "--zero 3",
    "parallelism.data_parallel_shard_degree": "--zero 3 and --parallel with dp={}",
    "parallelism.pipeline_parallel_schedule": "--schedule {}",
    "pipeline_schedule": "--schedule {}",
    "bf16": "--precision bf16",
    "fp16": "--precision fp16",
    "fp8": "--precision fp8",
    "fp8_format": "--precision fp8",
    "use_flash_attn": "--attention fused",
    "flash_attention": "--attention fused",
    "moe_router_topk": "the network by name (accelarray list networks); experts are part of it",
    "model": "the network without a flag: accelarray {command} {}",
    "network": "the network without a flag: accelarray {command} {}",
    "model_name": "the network without a flag: accelarray {command} {}",
    "nodes": "--set nodes={}",
    "num_nodes": "--set nodes={}",
    "nnodes": "--set nodes={}",
    "gpus": "--array with an array of as many devices (accelarray list arrays), or --set nodes=N",
    "num_gpus": "--array with an array of as many devices (accelarray list arrays), or --set "
    "nodes=N",
    "world_size": "--array with an array of as many devices (accelarray list arrays), or --set "
    "nodes=N",
    "gpu": "--array with an array of that device (accelarray list arrays)",
    "minbytes": '--bytes with one size, as --bytes "100 MB"',
    "size": "--bytes {}",
}
"""Other flags, and what to write: {} stands for the value."""
_AXIS = {name: axis for axis, names in AXES.items() for name in names.split()}
SEQUENCE = ("sequence_parallel", "sp", "parallelism.enable_sequence_parallel")


def with_near_option(message: str) -> str:
    """An error about a key of the array's spec, with the option that was meant."""
    found = re.match(r"--(?:set|vary) ([\w.-]+)=[^\n]*?: (unknown key|'\w+' is a value)", message)
    if found is None:
        return message
    typed = found[1].replace("-", "_")
    near = get_close_matches(typed, [*OPTIONS, *ALIASES], n=1, cutoff=0.75)
    said = f"did you mean the option {near[0]}?" if near else ""
    if found[2] != "unknown key":
        line = message.partition("=")[0]
        return f"{line}: no such key; {said or LISTS}"
    return f"{message}; {said or LISTS}"


LISTS = "options: accelarray list options"


def remedy(words: Sequence[str], own: Collection[str], command: str = "simulate") -> str | None:
    """What to say of the flags that are another tool's; None where there are none.

    ``own`` are the command's flags, which win: ``--batch`` is ours.
    """
    found, axes, said = [], [], []
    for at, word in enumerate(words):
        if word == "--":
            break
        flag, equals, value = word.partition("=")
        if not word.startswith("-") or flag in own or word.lstrip("-")[:1].isdigit():
            continue
        following = words[at + 1] if at + 1 < len(words) else ""
        value = value if equals else "" if following.startswith("-") else following
        name = flag.lstrip("-").replace("-", "_").lower()
        if name in _AXIS or name in SEQUENCE:
            sp = name in SEQUENCE
            axes.append("sp" if sp else f"{_AXIS[name]}={value or 'N'}")
            found.append(flag if sp else f"{flag} {value}".strip())
        elif name in FLAGS:
            ours = FLAGS[name].format(value or "N", command=command)
            said.append(ours)
            found.append(f"{flag} {value}".strip() if "{}" in FLAGS[name] else flag)
    if not found:
        return None
    parallel = f"--parallel {','.join(axes)}"
    ours = " and ".join([*([parallel] if axes else []), *said])
    return f"{' '.join(found)}: write {ours}"
