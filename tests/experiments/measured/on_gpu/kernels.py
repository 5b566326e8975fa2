"""Measure kernels on this machine's GPU one by one: products, attention, element-wise work.

    python tests/experiments/measured/on_gpu/kernels.py FOLDER

writes kernels.csv there. It needs PyTorch with CUDA alone. Many runs of a kernel wait in the queue
before they are timed, so that the host's time is not in theirs; operands come from HBM, as several
sets take turns. tests/data/h100 is of one H100 SXM of 700 W, PyTorch 2.11 with CUDA 13, on
27 November 2026.
"""

from __future__ import annotations

import csv
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

TOKENS = (512, 1024, 2048, 4096, 8192, 16384)
WEIGHTS = (
    *((768, 2304), (768, 3072), (1024, 3072), (1024, 4096), (1600, 4800), (1600, 6400)),
    *((2048, 2048), (2048, 8192), (2560, 10240), (4096, 1024), (4096, 4096), (4096, 14336)),
    *((5120, 5120), (8192, 1280), (1024, 8192), (8192, 7168), (3584, 8192), (12288, 4608)),
    *((1536, 12288), (12288, 6144), (6144, 12288), (8192, 8192), (8192, 28672), (2048, 128256)),
)
"""Features of a product's inputs and outputs: GPT-2's, Llama's, GPT-3's, some of them sharded."""
IN_FP8 = ((4096, 4096), (4096, 14336), (8192, 8192), (8192, 28672), (8192, 1280), (1024, 8192))
ELEMENTS = (
    *((4096, 1024), (4096, 4096), (8192, 4096), (16384, 4096), (8192, 8192)),
    *((16384, 12288), (16384, 16384)),
)
MOST_FLOPS = 9e12
QUEUED = 40e-3
"""Seconds of kernels that are timed together."""
COLD = 3e8
"""Bytes of the operands that take turns: more than the cache has."""

Operands = tuple[Tensor, ...]


class Table:
    """Kernels and their seconds."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w", newline="")
        self.lines = csv.writer(self.file)
        self.lines.writerow(("kind", "what", "seconds", "mhz", "watts"))

    def measure(
        self, kind: str, what: str, run: Callable[..., Any], sets: Sequence[Operands]
    ) -> None:
        """The median of three times of many runs, on sets of operands in turn."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def seconds(many: int) -> float:
            torch.cuda._sleep(int(min(many * 60e3, 12e6)))  # cycles, in which the queue fills
            begin.record()
            for number in range(many):
                run(*sets[number % len(sets)])
            end.record()
            torch.cuda.synchronize()
            return float(begin.elapsed_time(end)) / 1000 / many

        seconds(2)
        many = int(max(6, min(200, QUEUED / seconds(2))))
        found = statistics.median(seconds(many) for _ in range(3))
        now = torch.cuda.clock_rate(), torch.cuda.power_draw() / 1000
        self.lines.writerow((kind, what, f"{found:.5e}", *now))
        self.file.flush()


def numbers(*sizes: int, std: float = 1.0) -> Tensor:
    """Random numbers in bfloat16."""
    return (torch.randn(*sizes, device="cuda") * std).to(torch.bfloat16)


def turns(make: Callable[[], Operands], size: float) -> list[Operands]:
    """As many sets of operands of so many bytes as do not fit in the cache together."""
    return [make() for _ in range(max(1, min(6, int(COLD / size) + 1)))]


def product(table: Table, tokens: int, ins: int, outs: int) -> None:
    """Forward, and backward to inputs and weights, as a layer of so many features has them."""
    what = f"{tokens}x{ins}x{outs}"

    def made() -> Operands:
        return (
            numbers(tokens, ins),
            numbers(outs, ins, std=0.02),
            numbers(tokens, outs, std=0.001),
        )

    sets = turns(made, 2 * (tokens * (ins + outs) + ins * outs))
    table.measure("forward", what, lambda x, w, g: x @ w.T, sets)
    table.measure("inputs", what, lambda x, w, g: g @ w, sets)
    table.measure("weights", what, lambda x, w, g: g.T @ x, sets)


def product_in_fp8(table: Table, tokens: int, ins: int, outs: int) -> None:
    """Forward, one scale for each operand."""
    one = torch.ones((), device="cuda")

    def made() -> Operands:
        fp8 = torch.float8_e4m3fn
        return numbers(tokens, ins).to(fp8), numbers(outs, ins).to(fp8)

    def run(x: Tensor, w: Tensor) -> Tensor:
        wide = torch.bfloat16
        return torch._scaled_mm(x, w.T, one, one, out_dtype=wide, use_fast_accum=True)

    sets = turns(made, tokens * (ins + 2 * outs) + ins * outs)
    table.measure("fp8", f"{tokens}x{ins}x{outs}", run, sets)


def attention(table: Table, backend: SDPBackend, seq: int, features: int) -> None:
    """Causal attention of as many heads as make tensors of 128 MiB, forward and backward."""
    heads = int(2**26 / (seq * features)) if seq < 131072 else 8
    sets = [
        tuple(numbers(1, heads, seq, features).requires_grad_() for _ in range(3)) for _ in range(2)
    ]
    what = f"{backend.name[:5].lower()}/{heads}x{seq}x{features}"

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    with sdpa_kernel(backend):
        with torch.no_grad():
            table.measure("attention", what, run, sets)
        made = run(*sets[0])
        error = torch.randn_like(made)

        def back(*of: Tensor) -> Any:
            return torch.autograd.grad(made, of, error, retain_graph=True)

        table.measure("attention back", what, back, sets[:1])


def elementwise(table: Table, rows: int, features: int) -> None:
    """What reads and writes activations."""
    one, shape = torch.ones(features, device="cuda", dtype=torch.bfloat16), (features,)
    sets = turns(lambda: (numbers(rows, features), numbers(rows, features)), 4 * rows * features)
    _, mean, deviation = torch.native_layer_norm(sets[0][0], shape, one, one, 1e-5)

    def norm_back(x: Tensor, y: Tensor) -> Any:
        wanted = [True, True, True]
        back = torch.ops.aten.native_layer_norm_backward
        return back(y, x, shape, mean, deviation, one, one, wanted)

    kinds: dict[str, Callable[[Tensor, Tensor], Any]] = {
        "copy": lambda x, y: x.clone(),
        "add": lambda x, y: x + y,
        "gelu": lambda x, y: functional.gelu(x),
        "gelu back": lambda x, y: torch.ops.aten.gelu_backward(y, x),
        "layer_norm": lambda x, y: functional.layer_norm(x, shape, one, one),
        "layer_norm back": norm_back,
        "rms_norm": lambda x, y: functional.rms_norm(x, shape, one),
        "cast": lambda x, y: x.float(),
        "bias gradient": lambda x, y: x.sum(0),
        "dropout": lambda x, y: functional.dropout(x, 0.1),
        "accumulate": lambda x, y: x.add_(y),
        "silu": lambda x, y: functional.silu(x),
    }
    with torch.no_grad():
        for kind, run in kinds.items():
            table.measure(kind, f"{rows}x{features}", run, sets)


def adam(table: Table, many: int) -> None:
    """The update of so many weights in float32."""
    weights = torch.randn(many, device="cuda")
    weights.grad = torch.randn(many, device="cuda")
    table.measure("adamw", str(many), torch.optim.AdamW([weights], fused=True).step, [()])


def main(folder: Path) -> None:
    """Measure all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    print(torch.cuda.get_device_name(), torch.__version__, flush=True)
    table = Table(folder / "kernels.csv")
    for tokens in TOKENS:
        for sizes in WEIGHTS:
            if 2.0 * tokens * sizes[0] * sizes[1] < MOST_FLOPS:
                product(table, tokens, *sizes)
    for tokens in (4096, 16384):
        for sizes in IN_FP8:
            product_in_fp8(table, tokens, *sizes)
    for features in (64, 80, 96, 128):
        for seq in (1024, 2048, 4096, 8192, 32768, 131072):
            attention(table, SDPBackend.FLASH_ATTENTION, seq, features)
            attention(table, SDPBackend.CUDNN_ATTENTION, seq, features)
    for rows, columns in ELEMENTS:
        elementwise(table, rows, columns)
    for many in (10**6, 10**8, 10**9):
        adam(table, many)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
