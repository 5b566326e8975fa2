"""A measured row as a case that the simulator runs: as it is, or with more computed again."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, TypeVar

from experiments.measured.machine import (
    FUSED_EXPERTS,
    changes_of,
    chips,
    machine_of,
    nemo_release,
    stack_of,
)
from experiments.measured.rows import LeftOutError, Row
from experiments.measured.split import Split, precision_of, split_of, with_usual_attention
from experiments.studies.case import Case
from experiments.studies.fits.estimated import run_estimated
from experiments.studies.running.outputs import REFUSED, Outputs, run_case
from experiments.studies.running.runner import Runner
from hardware import Array, SpecError, Stack, load_array
from planners import PlanError, Staging
from planners.axes.stage_devices import stage_layers
from planners.plan.updates import ZERO
from simulator import OutOfMemoryError, SimulationError
from simulator.cost.memory import capacity_bytes
from simulator.lowering.execution import deployed
from workloads import Network, NetworkError, load_network, with_attention
from workloads.transforms import eager, with_kernels
from workloads.zoo.transformers import Transformer, transformer, without_compiler

STEPS = ("step", "memory_formula")
"""Kinds of rows that are a transformer's step; of the second the memory is known."""
SIZES = ("layers", "hidden", "ffn", "heads", "vocab", "seq")
OF_ATTENTION = ("gated", "kv_heads", "head_dim")
OF_EXPERTS = ("experts", "topk", "moe_ffn", "shared_ffn", "dense_layers")
ROOM = 1.25
"""Of HBM, what a step may be counted to hold before more is taken to be computed again: in fp8
and fp4 kernels keep what they have cast, and frameworks move to the host what lies idle; neither
is counted here."""
COMPILED = ("MaxText", "torchtitan FSDP2 +compile", "PyTorch compiled")
"""Frameworks whose compiler does element-wise work in passing."""
EAGER_KERNELS = ("PyTorch eager", "torchtitan FSDP2 eager")
"""Frameworks whose element-wise operators are a kernel each."""
MEGATRON = ("Megatron", "NeMo")
"""Frameworks of Megatron's kind, which have one product where Hugging Face has three:
queries, keys and values (NVIDIA/Megatron-LM, core/transformer)."""
PLAIN = ("Composer", "PyTorch")
"""Frameworks whose models of GPT's kind have no dropout."""

COMPILED_LOSS = 2025
"""The year in which torchtitan began to compile its loss, too (pytorch/torchtitan, pull request
1033; 551 of 2024 was closed)."""

BIASED = "gpt-oss"
"""Of models of llama's kind that which has biases (OpenAI 2025, gpt-oss model card)."""
OF_MODELS: dict[str, dict[str, bool | str]] = {
    "opt": {"activation": "relu", "attention_dropout": False},
    "gpt-neo": {"attention_dropout": False},
    "nemotron": {
        "activation": "squared_relu",
        "positions": "rotary",
        "biases": False,
        "tied": False,
        "dropout": False,
    },
}
"""Of models of GPT's kind what is not as in GPT-3 (Zhang et al. 2022; published configs; Nemotron-4
15B technical report, arXiv 2402.16819)."""
LAST_LAUNCHER = (24, 9)
"""The last release of NeMo that NVIDIA/NeMo-Framework-Launcher was for. Its conf/training sets
cross_entropy_loss_fusion for models of llama's kind alone: the loss of others is many kernels."""
REFUSALS = (PlanError, SimulationError)
"""What a plan or a step may be refused with."""
RESERVING = {"torchtitan": 9999, "Megatron-DeepSpeed": 2022}
"""Frameworks whose reports of memory count what is reserved, not what tensors have, and until which
year: reserved_bytes.all.peak (pytorch/torchtitan, metrics.py), and BigScience's logs of BLOOM."""
CONTEXT_BYTES = 5e9
"""The driver's context, buffers of NCCL and gaps between blocks: what stacks assume of 80 GB."""
_network = lru_cache(maxsize=64)(transformer)
_array = lru_cache(maxsize=128)(load_array)
TOO_LARGE = "too_large"
EAGER = "eager"

K = TypeVar("K", bound=Hashable)


def chips_of(row: Row) -> str:
    """What a row calls its chips; where it names an array, what rows call those of its kinds."""
    if row.hw or not row.array:
        return row.hw
    with suppress(SpecError):
        names = (device.name for device, _ in _array(row.array, ()).group.kinds)
        return "+".join(dict.fromkeys(chips().get(name, name) for name in names))
    return ""


@dataclass(frozen=True, slots=True)
class RowCase:
    """A row, what the simulator is asked for it, and what of that the row does not say.

    ``reserve_bytes`` of a device are in what the row calls its memory, beside tensors. The case's
    devices have ``room`` times as much memory as the row's.
    """

    row: Row
    case: Case
    split: Split
    reserve_bytes: float = 0.0
    room: float = 1.0

    @property
    def heavier(self) -> RowCase:
        """The same with more computed again; what fits no better after all is run as it is."""
        split = self.split.heavier
        execution = replace(
            self.case.execution, recompute=split.recompute, strict_memory=bool(split.more)
        )
        return replace(self, case=replace(self.case, execution=execution), split=split)


def ready(row: Row) -> RowCase | LeftOutError:
    """What predicts a row, or why there is nothing."""
    try:
        return case_of(row)
    except LeftOutError as error:
        return error
    except (NetworkError, PlanError, SpecError) as error:
        return LeftOutError(str(error).partition("\n")[0])


def case_of(row: Row) -> RowCase:
    """What predicts a row; raises LeftOutError, NetworkError, PlanError or SpecError."""
    machine = machine_of(row)
    if row.kind not in STEPS:
        raise LeftOutError(f"{row.kind or 'its kind'}: not a step of a transformer")
    split = split_of(row, machine)
    stack, assumed = stack_of(row)
    trained = ("optimizer=adam", f"stack={stack}")
    if row.array:
        array, also = _own_array(row, trained)
    else:
        precision, also = precision_of(row)
        changes = (*changes_of(row, machine), f"precision={precision}", *trained)
        array = _array(machine.array, changes)
    split = replace(split, assumed=(*split.assumed, *assumed, *also))
    if not row.attn:
        split = with_usual_attention(split, array.attention)
    usual, beside = deployed(array), _beside_tensors(row, array)
    room = ROOM if split.more else 1.0
    array = array.with_devices(
        lambda one: replace(one, hbm_capacity_bytes=room * one.hbm_capacity_bytes)
    )
    execution = replace(
        usual,
        staging=Staging(
            parallel=split.axes,
            micro_batch=split.micro_batch,
            stage_hw=row.stage_hw.replace(" ", ""),
            stage_layers=stage_layers(row.stage_layers) if row.stage_layers else (),
        ),
        recompute=split.recompute,
        update=ZERO[str(split.zero)] if split.zero else "",
        memory_reserve=0.0,  # what was run did fit
        strict_memory=bool(split.more),
    )
    if row.network:
        network, also = _own_network(row, split, array.stack or Stack())
        split = replace(split, assumed=(*split.assumed, *also))
    else:
        network = _network(_sizes(row, split))
        if row.framework.startswith(EAGER_KERNELS):
            network = eager(network)
    known = array.stack or Stack()
    launched = () < nemo_release(row) <= LAST_LAUNCHER and stack_of(row)[0] != "nemo-mlperf"
    many = row.arch == "gpt" and launched
    network = with_kernels(network, sums=known.sum_kernels, loss=known.loss_kernels or many)
    if not split.fused_attention and EAGER in (row.attn, array.attention):
        network = with_attention(network, EAGER)
    case = Case(network, "axes", array, row.gbs or 1, execution=execution)
    return RowCase(row, case, split, beside, room)


def _beside_tensors(row: Row, array: Array) -> float:
    """Bytes of a device that the row counts in its memory, beside tensors."""
    reserves = any(
        row.framework.startswith(one) and (row.year or 0) <= RESERVING[one] for one in RESERVING
    )
    kind = row.mem_kind or ("reserved" if reserves else "allocated")
    if kind == "used":
        return CONTEXT_BYTES
    share = deployed(array).memory_reserve if kind == "reserved" else 0.0
    return share * capacity_bytes(array.group.kinds)


def _own_array(row: Row, trained: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
    """The array that a row names, and what is assumed of the numbers it trains in.

    A row that does not say them has those of its array's spec, else bf16, or fp16 where a kind
    has no bf16. Chips without TF32 compute in fp32, as frameworks that allow TF32 do.
    """
    said, also = precision_of(row)
    if not row.precision:
        spec = {one.key: one.value for one in _array(row.array, ()).settings}
        usual = said if _loads(row.array, "precision=bf16") else "fp16"
        said = str(spec.get("precision", usual))
        also = (said,)
    if said != "tf32" or _loads(row.array, "precision=tf32"):
        return _array(row.array, (f"precision={said}", *trained)), also
    wide = (*trained, "precision=fp32")
    entries = dict.fromkeys(
        one.key.split(".")[1]
        for one in _array(row.array, ()).settings
        if one.key.startswith("devices.")
    )
    kinds = [f"devices.{entry}.arithmetic.compute=tf32" for entry in entries]
    faster = [one for one in kinds if _loads(row.array, *wide, one)]
    slower = "fp32 on chips without tf32"
    return _array(row.array, (*wide, *faster)), (*also, slower)


def _loads(name: str, *changes: str) -> bool:
    """Whether a spec may be changed so."""
    try:
        load_array(name, changes)
    except SpecError:
        return False
    return True


def _sizes(row: Row, split: Split) -> Transformer:
    """The transformer of a row; raises LeftOutError where a size is not stated."""
    needed = (*SIZES, *["experts"] * row.arch.endswith("moe"))
    if missing := [key for key in needed if not getattr(row, key)]:
        raise LeftOutError(f"{missing[0]} is not stated")
    llama = row.arch != "gpt"
    # Rows do not spell latent attention out: DeepSeek-V3's (DeepSeek-AI 2024, section 4.2).
    latent = row.arch == "mla_moe"
    titan = row.framework.startswith("torchtitan")
    loss_alone = titan and (row.year or 0) < COMPILED_LOSS
    model = row.model.lower()
    own = next((OF_MODELS[name] for name in OF_MODELS if model.startswith(name) and not llama), {})
    sizes: dict[str, Any] = {key: getattr(row, key) or 0 for key in (*SIZES, *OF_EXPERTS)}
    sizes["topk"] = sizes["topk"] or 2
    sizes |= {
        "activation": "silu" if row.gated else "gelu",
        "positions": "rotary" if llama else "table",
        "biases": not llama or row.model.startswith(BIASED),
        "tied": not llama,
        "dropout": not llama and not row.framework.startswith(PLAIN),
    }
    sizes |= own
    return Transformer(
        row.model,
        gated=row.gated,
        norm="rms_norm" if llama else "layer_norm",
        fused_qkv=not llama or row.framework.startswith(MEGATRON),
        attention="fused" if split.fused_attention else "unfused",
        compiled=row.framework.startswith(COMPILED),
        eager_loss=loss_alone or row.framework.startswith("PyTorch"),
        fused_experts=stack_of(row)[0] == FUSED_EXPERTS,
        head_dim=128 if latent else row.head_dim or 0,
        kv_heads=0 if latent else row.kv_heads or 0,
        q_rank=1536 if latent else 0,
        kv_rank=512 if latent else 0,
        **sizes,
    )


def _own_network(row: Row, split: Split, stack: Stack) -> tuple[Network, tuple[str, ...]]:
    """The network that a row names, and what is assumed or not read beside it.

    A graph from a file is run as eager PyTorch runs it. Attention is as the row says, if it does.
    """
    unread = [key for key in (*SIZES, *OF_ATTENTION, *OF_EXPERTS) if getattr(row, key)]
    also = [f"{', '.join(unread)} not read: the network has them"] if unread else []
    network = load_network(row.network)
    if row.attn:
        network = with_attention(network, "fused" if split.fused_attention else "unfused")
    if network.sizes is None and not row.framework.startswith(COMPILED):
        return eager(network), (*also, "eager kernels")
    return without_compiler(network) if stack.element_kernels else network, (*also,)


def run_rows(
    asked: Mapping[K, RowCase], runner: Runner, *, estimate: bool = False
) -> Iterator[tuple[K, RowCase, Outputs]]:
    """Each row as it was run at last, and what came out (under ``REFUSED`` why nothing did).

    That is its step as it finishes, or its ``estimate`` by the first pass.

    A step that does not fit in memory is followed by one with more computed again, where a
    row leaves open how much: of 80 blocks none, then 20, 40, 60, then all of them.
    """
    tried = dict(asked)

    def then(name: K, outputs: Outputs) -> dict[K, Case]:
        if not outputs.get(TOO_LARGE):
            return {}
        tried[name] = tried[name].heavier
        return {name: tried[name].case}

    cases = {name: one.case for name, one in asked.items()}
    if estimate:  # which a store does not have, and which needs little time and memory
        runner = replace(runner, store=None, limit_bytes=math.inf, tell=lambda _: None)
    work = partial(_run_or_refusal, run_estimated if estimate else run_case)
    for finished in runner.run(cases, then, work):
        if not finished.outputs.get(TOO_LARGE):
            yield finished.name, tried[finished.name], finished.outputs


def _run_or_refusal(work: Callable[[Case], Outputs], case: Case) -> Outputs:
    """A row's step; or, so that one that cannot be planned stops no other, why there is none."""
    try:
        found = work(case)
    except REFUSALS as error:
        why = str(error).partition("\n")[0]
        return {REFUSED: why, TOO_LARGE: isinstance(error, OutOfMemoryError)}
    if case.execution.strict_memory and found["cores_over_memory"]:  # by an estimate
        return {REFUSED: "it does not fit in memory, by the first pass", TOO_LARGE: True}
    return found
