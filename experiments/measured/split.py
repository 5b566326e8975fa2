"""How a measured row splits its model: as it says, and where it does not, as is usual.

What is unknown is never taken in silence: each value that a row does not state is named in
``assumed``, and rows without it can be told apart in every table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from experiments.measured.machine import Machine
from experiments.measured.rows import LeftOutError, Row
from hardware.schema import PRECISIONS
from planners import Axes, Staging
from planners.axes.stage_devices import replicas_apart, with_stages

SHARDED = {"ddp": 0, "none": 0, "zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3}
"""Ways of data parallelism to ZeRO's stages; FSDP shards as its third does."""
RECOMPUTE = {
    "none": "none",
    "sp": "none",
    "selective": "selective",
    "sp+selective": "selective",
    "minimal": "selective",
    "full": "full",
}
"""What rows call it, to what is computed again here (--recompute)."""
WHOLE_EXPERTS = ("Megatron-Bridge",)
"""Frameworks whose recipes leave experts whole: expert_tensor_parallel_size=1 in
NVIDIA-NeMo/Megatron-Bridge, scripts/performance/configs."""
ARCHITECTURES = ("gpt", "llama", "moe", "mla_moe")
"""What rows call kinds of blocks; those of experts are llama's."""
HALF = ("selective-op", "custom", "offload", "qkv_offload", "offload_qkv")
"""Some products are kept (or fetched from the host), which is not told: half of the blocks."""


@dataclass(frozen=True, slots=True)
class Split:
    """A step's axes and habits; ``micro_batch`` are sequences of a replica.

    ``recompute`` is none, selective, full or a number of blocks of each stage; ``more`` are what
    it is next where the row does not say it and the step does not fit in memory without.
    ``assumed`` names what the row does not say.
    """

    axes: Axes
    zero: int
    micro_batch: int
    recompute: str
    fused_attention: bool
    assumed: tuple[str, ...]
    more: tuple[str, ...] = ()

    @property
    def heavier(self) -> Split:
        """The same with the next of ``more`` computed again."""
        again, *more = self.more
        said = tuple(one for one in self.assumed if one != _again(self.recompute))
        return replace(self, recompute=again, more=tuple(more), assumed=(*said, _again(again)))


def split_of(row: Row, machine: Machine) -> Split:
    """A row's; raises LeftOutError where it says too little, or what it says does not fit.

    Raises PlanError for stages that make no sense.
    """
    assumed: list[str] = []

    def taken(value: int | None, name: str, usual: int) -> int:
        """What a row says, or else, told by that name, what is usual."""
        if value is None:
            assumed.append(f"{name} {usual}")
        return usual if value is None else value

    if row.gbs is None:
        raise LeftOutError("the batch is not stated")
    said = Staging(
        parallel=Axes(vp=row.vp or 1, cp=row.cp or 1, sp=row.sp),
        stage_hw=row.stage_hw.replace(" ", ""),
    )
    if row.stage_hw:  # says pp, tp and dp, which are not read beside it
        axes, micro = with_stages(said).parallel or Axes(), taken(row.mbs, "micro-batch", 1)
    else:
        tp, pp = taken(row.tp, "tp", 1), taken(row.pp, "pp", 1)
        vp = taken(row.vp, "vp", _interleaved(row, pp)) if pp > 1 else 1
        cp, ep = row.cp or 1, row.ep or 1
        dp = row.dp or max(row.gpus // (tp * pp * cp), 1)
        if dp * tp * pp * cp != row.gpus:
            what = f"dp {dp} x tp {tp} x pp {pp} x cp {cp}"
            raise LeftOutError(f"{what} are not its {row.gpus} chips")
        # A whole batch at once on TPUs, as XLA runs it, and 1 on GPUs.
        micro = taken(row.mbs, "micro-batch", max(row.gbs // dp, 1) if machine.tpu else 1)
        if row.gbs % (dp * micro):
            many = f"dp {dp} x micro-batches of {micro}"
            raise LeftOutError(f"a batch of {row.gbs} is no multiple of {many}")
        etp = int(row.framework.startswith(WHOLE_EXPERTS) and ep % tp == 0)
        sp = row.sp and tp > 1
        axes = Axes(dp=dp, pp=pp, tp=tp, vp=vp, cp=cp, ep=ep, sp=sp, etp=etp)
    recompute, more = _recompute(row, machine, axes.pp * axes.vp, assumed)
    zero = _zero(row, assumed)
    if zero and row.stage_hw and replicas_apart(said):
        assumed.append("weights of unlike replicas updated whole")
        zero = 0
    fused = _fused(row, assumed)
    return Split(axes, zero, micro, recompute, fused, tuple(assumed), more)


def _interleaved(row: Row, pp: int) -> int:
    """How many stages a place is taken to have where a row does not say it: one.

    Where sends between stages go on beside computing, stages are interleaved (Megatron-LM,
    arguments.py: no overlap of them else): then as few as can be, of 96 layers at 8 places 2.
    Where the first and the last place lack a layer, their stages have the embedding and the head
    alone: a stage is one layer (Llama Team 2024, section 3.3.2), of 126 layers at 16 places 8.
    """
    if "pp" not in row.overlap.split(","):
        return 1
    layers = row.layers or 0
    if layers % pp and (layers + 2) % pp == 0:
        return (layers + 2) // pp
    each = math.ceil(layers / pp)
    return next((vp for vp in range(2, each + 1) if each % vp == 0), 1)


def _zero(row: Row, assumed: list[str]) -> int:
    if row.dp_kind in SHARDED:
        zero = SHARDED[row.dp_kind]
        if zero == 3 and (row.pp or 1) > 1:
            # PyTorch's FSDP2 gathers weights once a step then, and sums whole gradients (in
            # float32) until the last micro-batch (unsharded_accumulated_grad): as ZeRO-1 does
            assumed.append("zero 1 within stages")
            return 1
        return zero
    if row.dp_kind:
        raise LeftOutError(f"dp_kind {row.dp_kind[:40]!r} is not one of {', '.join(SHARDED)}")
    assumed.append("ddp")
    return 0


def _recompute(
    row: Row, machine: Machine, stages: int, assumed: list[str]
) -> tuple[str, tuple[str, ...]]:
    """What is computed again, and what it may be instead where that does not fit.

    Nobody computes again what there is room for: on GPUs a row that says nothing has the least
    of none, a quarter, half, three quarters and all blocks of each stage that fits (``case.ROOM``).
    """
    if row.recompute in RECOMPUTE:
        return RECOMPUTE[row.recompute], ()
    each = (row.layers or 1) // stages
    if row.recompute in HALF or (not row.recompute and machine.tpu):
        assumed.append(_again(half := str(max(each // 2, 1))))
        return half, ()
    if row.recompute:
        raise LeftOutError(f"recompute {row.recompute[:40]!r} is not known here")
    assumed.append(_again("none"))
    parts = dict.fromkeys(math.ceil(each * part / 4) for part in (1, 2, 3))
    return "none", (*(str(part) for part in parts if part < each), "full")


def _again(recompute: str) -> str:
    blocks = " blocks of each stage" if recompute.isdecimal() else ""
    return f"recompute {recompute}{blocks}"


def _fused(row: Row, assumed: list[str]) -> bool:
    if row.attn == "flash?":
        assumed.append("fused attention")
    elif row.attn not in ("flash", "unfused", "eager", ""):
        assumed.append(f"attn {row.attn[:40]!r} is not known: unfused attention")
    if row.arch not in (*ARCHITECTURES, ""):
        assumed.append(f"arch {row.arch[:40]!r} is not known: that of llama")
    return row.attn in ("flash", "flash?", "")


def with_usual_attention(split: Split, usual: str | None) -> Split:
    """The same for a row that does not say its attention, with that of its framework's stack."""
    fused = usual in (None, "fused")
    said = "fused attention" if fused else "unfused attention"
    return replace(split, fused_attention=fused, assumed=(*split.assumed, said))


def precision_of(row: Row) -> tuple[str, tuple[str, ...]]:
    """The format of a row's products, and what of that is assumed.

    Raises LeftOutError for what is no format.
    """
    stated = row.precision.removesuffix("?")
    if not stated:
        return "bf16", ("bf16",)
    if stated not in PRECISIONS:
        raise LeftOutError(f"precision {row.precision[:40]!r} is not known here")
    return stated, () if stated == row.precision else (stated,)
