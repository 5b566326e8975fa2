"""Measure training steps of transformers on this machine's GPU, as rows for ``papers validate``.

    python tests/experiments/measured/on_gpu/steps.py FOLDER

writes steps.csv and steps_by_kernel.csv (the time of one step by kind of kernel) there, each line
as soon as it is known. It needs PyTorch with CUDA alone. The models are plain: weights and
activations in bfloat16, a float32 copy for a fused AdamW, scaled_dot_product_attention. Compiled
are the blocks, one by one; the loss is not. tests/data/h100 is of one H100 SXM of 700 W,
PyTorch 2.11 with CUDA 13, on 27 November 2026.
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

WARM, TIMED = 3, 5
"""Steps before those that are timed, and those."""


@dataclass(frozen=True)
class Model:
    """A transformer's sizes; ``gated`` are those of Llama's kind, the others of GPT's."""

    name: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocab: int
    gated: bool


GPT_SMALL = Model("gpt2", 12, 768, 3072, 12, 12, 50304, False)
GPT_MEDIUM = Model("gpt2-medium", 24, 1024, 4096, 16, 16, 50304, False)
GPT_XL = Model("gpt2-xl", 48, 1600, 6400, 25, 25, 50304, False)
GPT_2B = Model("gpt-2.7b", 32, 2560, 10240, 32, 32, 50304, False)
LLAMA_1B = Model("llama-3.2-1b", 16, 2048, 8192, 32, 8, 128256, True)
LLAMA_3B = Model("llama-3.2-3b", 28, 3072, 8192, 24, 8, 128256, True)
LLAMA_8 = Model("llama-3.1-8b-8-layers", 8, 4096, 14336, 32, 8, 128256, True)
LLAMA_70 = Model("llama-3.1-70b-2-layers", 2, 8192, 28672, 64, 8, 128256, True)


@dataclass(frozen=True)
class Step:
    """One training step: ``micro`` sequences of ``seq`` tokens, ``many`` times."""

    model: Model
    seq: int
    micro: int
    many: int = 1
    compiled: bool = False
    recompute: bool = False

    @property
    def name(self) -> str:
        """What tells it from the others."""
        how = "compiled" if self.compiled else "eager"
        again = "/full" if self.recompute else ""
        return f"{self.model.name}/{self.seq}/{self.micro}x{self.many}/{how}{again}"


def steps() -> Iterator[Step]:
    """Those that are measured, the more telling ones first."""
    for compiled in (False, True):
        for model, seq, micros in (
            (LLAMA_1B, 4096, (1, 2)),
            (GPT_SMALL, 1024, (1, 4, 16)),
            (GPT_MEDIUM, 1024, (1, 4, 16)),
            (GPT_XL, 1024, (1, 4)),
            (LLAMA_8, 8192, (1,)),
            (LLAMA_70, 4096, (1, 2)),
            (GPT_2B, 2048, (1, 2)),
            (LLAMA_3B, 4096, (1,)),
        ):
            yield from (Step(model, seq, micro, compiled=compiled) for micro in micros)
        first = Step(LLAMA_1B, 4096, 1, compiled=compiled)
        yield replace(first, many=4)
        yield replace(first, micro=2, recompute=True)
        yield replace(first, seq=1024, micro=4)
        yield replace(first, seq=16384, recompute=True)
        yield Step(GPT_XL, 1024, 1, 8, compiled)
        yield Step(GPT_2B, 2048, 2, 1, compiled, recompute=True)


class Norm(nn.Module):  # type: ignore[misc]
    """Root mean square norm, as Llama's published code has it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return wide.type_as(x) * self.weight


def rotated(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary positions of a batch of heads (samples, tokens, heads, features)."""
    cosine, sine = angles[0][None, :, None], angles[1][None, :, None]
    first, second = x.float().chunk(2, -1)
    turned = (first * cosine - second * sine, second * cosine + first * sine)
    return torch.cat(turned, -1).type_as(x)


class Block(nn.Module):  # type: ignore[misc]
    """A pre-norm block of either kind."""

    def __init__(self, of: Model) -> None:
        super().__init__()
        self.of, each = of, of.hidden // of.heads
        norm, biases = (Norm, False) if of.gated else (nn.LayerNorm, True)
        self.norms = nn.ModuleList([norm(of.hidden), norm(of.hidden)])
        out = [of.heads * each] + [of.kv_heads * each] * 2
        self.qkv = nn.ModuleList(
            nn.Linear(of.hidden, n, bias=biases) for n in (out if of.gated else [sum(out)])
        )
        self.proj = nn.Linear(of.hidden, of.hidden, bias=biases)
        self.up = nn.Linear(of.hidden, of.ffn, bias=biases)
        self.gate = nn.Linear(of.hidden, of.ffn, bias=False) if of.gated else None
        self.down = nn.Linear(of.ffn, of.hidden, bias=biases)

    def forward(self, x: Tensor, angles: Tensor) -> Tensor:
        samples, tokens, _ = x.shape
        normed, each = self.norms[0](x), self.of.hidden // self.of.heads
        if self.of.gated:
            q, k, v = (linear(normed).view(samples, tokens, -1, each) for linear in self.qkv)
            q, k = rotated(q, angles), rotated(k, angles)
        else:
            q, k, v = self.qkv[0](normed).view(samples, tokens, -1, each).chunk(3, 2)
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        attend, grouped = functional.scaled_dot_product_attention, self.of.gated
        mixed = attend(q, k, v, is_causal=True, enable_gqa=grouped)
        x = x + self.proj(mixed.transpose(1, 2).reshape(samples, tokens, -1))
        normed = self.norms[1](x)
        if self.gate is not None:
            return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))
        return x + self.down(functional.gelu(self.up(normed)))


class Network(nn.Module):  # type: ignore[misc]
    """The whole transformer, its loss included."""

    def __init__(self, of: Step) -> None:
        super().__init__()
        model = of.model
        self.words = nn.Embedding(model.vocab, model.hidden)
        self.places = None if model.gated else nn.Embedding(of.seq, model.hidden)
        self.blocks = nn.ModuleList(Block(model) for _ in range(model.layers))
        self.norm = (Norm if model.gated else nn.LayerNorm)(model.hidden)
        self.head = nn.Linear(model.hidden, model.vocab, bias=False)
        if not model.gated:
            self.head.weight = self.words.weight
        self.recompute = of.recompute
        each = model.hidden // model.heads
        speeds = 500000.0 ** (-torch.arange(0, each, 2).float() / each)
        angle = torch.outer(torch.arange(of.seq).float(), speeds)
        self.angles = torch.stack((angle.cos(), angle.sin()))  # no buffer: it stays in float32

    def forward(self, tokens: Tensor, wanted: Tensor) -> Tensor:
        x = self.words(tokens)
        if self.places is not None:
            x = x + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            if self.recompute:
                x = checkpoint(block, x, self.angles, use_reentrant=False)
            else:
                x = block(x, self.angles)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())


class Trainer:
    """A network on the GPU, its optimizer, and one batch of random tokens."""

    def __init__(self, of: Step) -> None:
        torch.manual_seed(0)
        with torch.device("cuda"):
            network = Network(of)
            for one in network.parameters():
                if one.dim() > 1:
                    nn.init.normal_(one, std=0.02)
            network.to(torch.bfloat16)
            self.tokens = torch.randint(of.model.vocab, (of.many, of.micro, of.seq + 1))
        self.weights = list(network.parameters())
        self.masters = [one.detach().float() for one in self.weights]
        self.adam = torch.optim.AdamW(self.masters, lr=1e-5, fused=True)
        if of.compiled:
            for number, block in enumerate(network.blocks):
                network.blocks[number] = torch.compile(block)
        self.loss: Callable[..., Tensor] = network
        self.marks: list[torch.cuda.Event] = []

    def step(self) -> None:
        """Run a step of training, with an event before it, before the optimizer, and behind it."""
        self.marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        self.marks[0].record()
        for tokens in self.tokens:
            self.loss(tokens[:, :-1], tokens[:, 1:]).backward()
        self.marks[1].record()
        for master, weight in zip(self.masters, self.weights, strict=True):
            assert weight.grad is not None
            master.grad, weight.grad = weight.grad.float(), None
        self.adam.step()
        self.adam.zero_grad()
        with torch.no_grad():
            torch._foreach_copy_(self.weights, self.masters)
        self.marks[2].record()

    def timed(self) -> tuple[float, float]:
        """Seconds of a step, by the machine's clock, and of its optimizer, by the GPU's."""
        torch.cuda.synchronize()
        begin = time.perf_counter()
        self.step()
        torch.cuda.synchronize()
        return time.perf_counter() - begin, self.marks[1].elapsed_time(self.marks[2]) / 1000


KINDS = (
    ("attention", ("flash", "fmha", "sdpa", "attention")),
    ("product", ("gemm", "nvjet", "cutlass", "cublas", "wgmma")),
    ("optimizer", ("adam", "multi_tensor")),
    ("loss", ("softmax", "nll")),
    ("norm", ("layer_norm", "layernorm", "gammabeta")),
    ("embedding", ("embedding", "index")),
    ("memory", ("memcpy", "memset")),
)
"""Parts of kernels' names, and what they are."""


Kernels = dict[str, tuple[int, float]]


def kernels(trainer: Trainer) -> Kernels:
    """How often each kind of kernel runs in a step, and its seconds."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as found:
        trainer.step()
        torch.cuda.synchronize()
    totals: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for event in found.events():
        if event.device_type != torch.autograd.DeviceType.CUDA:
            continue
        name = event.name.lower()
        kind = next((kind for kind, parts in KINDS if any(part in name for part in parts)), "other")
        totals[kind][0] += 1
        totals[kind][1] += event.time_range.elapsed_us() / 1e6
    return {kind: (int(many), seconds) for kind, (many, seconds) in totals.items()}


def row(of: Step, seconds: float, allocated: int) -> dict[str, Any]:
    """A measured step as a row of ``papers validate --rows``."""
    model = of.model
    return {
        "id": of.name,
        "source": "torch_steps",
        "kind": "step",
        "hw": "H100",
        "gpus": 1,
        "gpus_per_node": 1,
        "framework": f"PyTorch {'compiled' if of.compiled else 'eager'} {torch.__version__[:4]}",
        "year": 2026,
        "model": model.name,
        "arch": "llama" if model.gated else "gpt",
        "layers": model.layers,
        "hidden": model.hidden,
        "ffn": model.ffn,
        "gated": int(model.gated),
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "vocab": model.vocab,
        "seq": of.seq,
        "precision": "bf16",
        "gbs": of.micro * of.many,
        "mbs": of.micro,
        "tp": 1,
        "pp": 1,
        "dp": 1,
        "dp_kind": "none",
        "recompute": "full" if of.recompute else "none",
        "attn": "flash",
        "step_s": round(seconds, 6),
        "mem_gib": round(allocated / 2**30, 3),
    }


class Lines:
    """A table that grows by a line at a time."""

    def __init__(self, path: Path) -> None:
        self.path, self.columns = path, list[str]()

    def add(self, line: dict[str, Any]) -> None:
        """Write a line, and the columns before the first one."""
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self.columns or list(line))
            if not self.columns:
                self.columns = list(line)
                writer.writeheader()
            writer.writerow(line)


def measured(of: Step) -> tuple[dict[str, Any], Kernels]:
    """A step's row, and its kernels; raises torch.OutOfMemoryError."""
    trainer = Trainer(of)
    for _ in range(WARM):
        trainer.step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    times = [trainer.timed() for _ in range(TIMED)]
    megahertz, watts = torch.cuda.clock_rate(), torch.cuda.power_draw() / 1000
    found, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    optimizer_s = statistics.median(one[1] for one in times)
    notes = (
        f"optimizer {optimizer_s * 1e3:.2f} ms; reserved {reserved / 2**30:.2f} GiB; "
        f"{megahertz} MHz; {watts:.0f} W"
    )
    line = row(of, statistics.median(one[0] for one in times), found) | {"notes": notes}
    return line, kernels(trainer)


def measure_steps(folder: Path, until: float) -> None:
    """Measure all steps, while there is time."""
    table, parts = Lines(folder / "steps.csv"), Lines(folder / "steps_by_kernel.csv")
    for of in steps():
        if time.monotonic() > until:
            print("no time left for", of.name)
            continue
        torch.cuda.empty_cache()
        try:
            line, found = measured(of)
        except torch.OutOfMemoryError:
            print(of.name, "does not fit")
        else:
            table.add(line)
            for kind, (many, busy) in found.items():
                parts.add({"id": of.name, "kind": kind, "count": many, "seconds": round(busy, 6)})
            print(of.name, line["step_s"], "s", line["mem_gib"], "GiB", line["notes"], flush=True)
        torch._dynamo.reset()


def main(arguments: list[str]) -> int:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the tables are written")
    parser.add_argument("--seconds", type=float, default=3600, help="begin no step after these")
    asked = parser.parse_args(arguments)
    until = time.monotonic() + asked.seconds
    asked.folder.mkdir(parents=True, exist_ok=True)
    print(torch.cuda.get_device_name(), torch.__version__, flush=True)
    torch.set_float32_matmul_precision("high")
    measure_steps(asked.folder, until)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
