"""Flags of Megatron-LM, torchtitan, DeepSpeed and nccl-tests: which of ours say the same."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

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
    "sp": "sp sequence_parallel parallelism.enable_sequence_parallel",
}
"""Axes of parallelism, and how other tools call their sizes; all are parts of ``--parallel``."""
FLAGS = {
    "--micro-batch {}": "micro_batch_size mbs train_micro_batch_size_per_gpu "
    "parallelism.pipeline_parallel_microbatch_size",
    "--batch {}": "global_batch_size gbs bs batch_size train_batch_size training.global_batch_size",
    "--batch with {} x dp samples, the global batch": "local_batch_size training.local_batch_size",
    "the sequence length with the network, as llama3-8b:seq={}": "seq seq_len seq_length "
    "sequence_length max_seq_len max_seq_length training.seq_len",
    "the layers with the network, as llama3-8b:layers={}": "layers num_layers",
    "--parallel with vp=V, where V is the layers of a pipeline stage divided by {}": (
        "num_layers_per_virtual_pipeline_stage"
    ),
    "--recompute {}": "recompute_granularity activation_checkpoint.mode",
    "--recompute selective": "recompute_activations",
    "--recompute full": "checkpoint_activations activation_checkpointing gradient_checkpointing",
    "--zero 1": "use_distributed_optimizer",
    "--zero {}": "zero_stage",
    "--zero 3": "fsdp",
    "--zero 3 and --parallel with dp={}": "parallelism.data_parallel_shard_degree",
    "--schedule {}": "parallelism.pipeline_parallel_schedule pipeline_schedule",
    "--precision {}": "dtype data_type mixed_precision",
    "--precision bf16": "bf16",
    "--precision fp16": "fp16",
    "--precision fp8": "fp8 fp8_format",
    "--attention fused": "use_flash_attn flash_attention",
    "the network by name (accelarray list networks); experts are part of it": "moe_router_topk",
    "the network without a flag: accelarray {command} {}": "model network model_name",
    "--set nodes={}": "nodes num_nodes nnodes",
    "--array with an array of as many devices (accelarray list arrays), or --set nodes=N": (
        "gpus num_gpus devices num_devices world_size"
    ),
    "--array with an array of that device (accelarray list arrays)": "gpu",
    '--bytes with one size, as --bytes "100 MB"': "minbytes",
    "--bytes {}": "size",
}
"""What to write, where {} stands for the value, and other flags that mean it."""
OF_DEVICES = ("arithmetic", "chip", "energy", "hbm", "links", "power", "roofline", "units")
"""Tables of a device's spec, not of an array's."""
_AXIS = {name: axis for axis, names in AXES.items() for name in names.split()}
_SAID = {name: said for said, names in FLAGS.items() for name in names.split()}


def with_near_option(message: str) -> str:
    """An error about a key of the array's spec, with the option that was meant."""
    found = re.match(r"--(?:set|vary) ([\w.-]+)=[^\n]*?: (unknown key|'\w+' is a value)", message)
    if found is None:
        return message
    typed = found[1].replace("-", "_")
    first, *further = message.split("\n")
    table, dot, _ = typed.partition(".")
    if dot and table in OF_DEVICES and re.search(rf": {table}: unknown key; .*\bdevices\b", first):
        first = f"{first.partition(': ')[0]}: it is a key of a device: write devices.0.{found[1]}"
        return "\n".join([first, *further])
    if found[2] == "unknown key" and (line := _as_flag(message, typed)):
        return line
    near = get_close_matches(typed, [*OPTIONS, *ALIASES], n=1, cutoff=0.75)
    said = f"did you mean the option {near[0]}?" if near else ""
    line = message.partition("=")[0]
    if near == [typed] and message.startswith("--vary"):
        return f"{line}: the option {typed} is not one of those that can be varied; {LISTS}"
    if near == [typed]:
        return f"{line}: this command does not take the option {typed}; {LISTS}"
    if found[2] != "unknown key":
        return f"{line}: no such key; {said or LISTS}"
    return f"{message}; {said or LISTS}"


def as_typed(message: str, typed: Mapping[str, Any]) -> str:
    """An error about a key of the array's spec that a flag of its own has set."""
    for name in (one.name for one in OPTIONS.values() if one.kind == "spec"):
        given, said = f"--set {name}={typed.get(name)}: ", f"--{name} {typed.get(name)}: "
        key = rf"(?:(?:devices\.\d+\.)?{re.escape(name)}: )?"
        message = said.join(re.split(re.escape(given) + key, message))
    return "\n".join(dict.fromkeys(message.split("\n")))


def _as_flag(message: str, typed: str) -> str | None:
    """An error about a key that is a word of another tool's flags, with the flag of ours."""
    line, vary = message.partition(": ")[0], message.startswith("--vary")
    value = line.partition("=")[2]
    if typed in _AXIS and vary:
        return f'{line}: write --vary "parallel=dp=8;dp=4,tp=2", with all axes in each value'
    if typed in _AXIS:
        axis = _AXIS[typed]
        return f"{line}: write --parallel with {axis if axis == 'sp' else f'{axis}={value}'}"
    said = _SAID.get(typed, "--bytes")
    off = "{}" not in said and value.lower() in ("false", "0", "no", "off")
    if said.startswith("--bytes") or "{command}" in said or off:  # of others, or not meant
        return None
    if vary:
        said = re.sub(r"^(--set |--)([\w-]+)[= ]\{\}$", r"--vary \2={}", said)
    return f"{line}: write {said.format(value)}"


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
        if (axis := _AXIS.get(name)) == "sp":  # which has no degree
            axes.append(axis)
            found.append(flag)
        elif axis:
            axes.append(f"{axis}={value or 'N'}")
            found.append(f"{flag} {value}".strip())
        elif name == "layers" and value and not value.isdigit():
            found.append(f"{flag} {value}")
            said.append(f"the file in place of NETWORK: accelarray {command} {value}")
        elif name in _SAID:
            said.append(_SAID[name].format(value or "N", command=command))
            found.append(f"{flag} {value}".strip() if "{}" in _SAID[name] else flag)
    if not found:
        return None
    parallel = f"--parallel {','.join(axes)}"
    ours = " and ".join([*([parallel] if axes else []), *said])
    return f"{' '.join(found)}: write {ours}"
