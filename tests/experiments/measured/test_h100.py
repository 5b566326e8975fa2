"""Kernels measured on one H100 beside the roofline, and steps beside what their kernels say.

tests/experiments/measured/on_gpu measures; tests/data/h100 has what it found.
"""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.measured.case import case_of
from experiments.measured.rows import load
from experiments.studies.running.outputs import run_case
from hardware import load_array
from planners.order import Phase
from planners.partition import II, III, I, Shard
from simulator.cost.operators import Map, Moved, Operator
from simulator.cost.roofline import Core, core_of, cost, costs
from simulator.cost.training_operators import operators
from workloads import Transformer, transformer

DATA = Path(__file__).parents[2] / "data" / "h100"
H100 = ("devices.0.count=1", "nodes=1", "precision=bf16")


def core(stack: str = "pytorch-2026") -> Core:
    """An H100 as the catalog and a stack have it; its host takes no time."""
    (device, _), *_ = load_array("h100-cluster", (*H100, f"stack={stack}")).group.kinds
    return replace(core_of(device), host_s=0.0)


def lines(*kinds: str) -> Iterator[tuple[str, list[str], float]]:
    with (DATA / "kernels.csv").open() as file:
        for line in csv.DictReader(file):
            if line["kind"] in kinds:
                yield line["kind"], line["what"].split("/"), float(line["seconds"])


def sizes(errors: list[float]) -> tuple[float, float]:
    """Median and 90th percentile of errors' sizes."""
    ordered = sorted(map(abs, errors))
    return statistics.median(ordered), ordered[math.ceil(0.9 * len(ordered)) - 1]


def test_products_one_by_one() -> None:
    """Forward, and backward to inputs and weights, 2 to 9,000 GFLOP."""
    ins, outs = Map("x", II, 1, 1), Map("y", III, 1, 1)
    read, made = Moved(weights=1), Moved(gradients=1)
    kinds = {
        "forward": Operator("f", 0, Phase.FORWARD, (ins,), (outs,), macs=1, pair=read),
        "inputs": Operator("b", 0, Phase.BACKWARD, (outs,), (ins,), macs=1, pair=read),
        "weights": Operator("g", 0, Phase.GRADIENT, (ins, outs), macs=1, pair=made),
    }
    errors = [
        cost(kinds[kind], Shard(*map(int, what[0].split("x"))), core()).seconds / measured - 1
        for kind, what, measured in lines(*kinds)
    ]
    assert len(errors) == 432
    median, most = sizes(errors)
    assert median < 0.05
    assert most < 0.15


def attention(backend: str, found: Core) -> dict[tuple[int, int, str], float]:
    """Errors of causal attention by features of a head, tokens and direction."""
    errors = {}
    for kind, (by, what), measured in lines("attention", "attention back"):
        if by != backend:
            continue
        heads, seq, features = map(int, what.split("x"))
        of = Transformer("a", 1, heads * features, heads, 8, seq=seq, attention="fused")
        step = operators(transformer(of))
        node = next(i for i, node in enumerate(step.graph) if node.kind == "attention")
        own = step.nodes[node]
        done = costs(
            own.backward if "back" in kind else own.forward,
            Shard(1, features, features, heads),
            found,
        )
        errors[features, seq, kind] = sum(one.seconds for one in done) / measured - 1
    assert len(errors) == 48
    return errors


def test_attention_of_cudnn() -> None:
    """Heads of 64 to 128 features, 1,024 to 131,072 tokens: three constants for all of them."""
    for stack in ("pytorch-2026", "nemo-2024"):
        median, most = sizes(list(attention("cudnn", core(stack)).values()))
        assert median < 0.035
        assert most < 0.07
    for without in (
        replace(core(), exponentials_per_s=math.inf, pad_heads=0),
        replace(core(), causal_tile=0),
        replace(core(), attention_backward=1.0),
    ):
        assert sizes(list(attention("cudnn", without).values()))[1] > 1.8 * 0.06


def test_flash_attention_2() -> None:
    """With the constants of the stack of NeMo that took it."""
    errors = attention("flash", core("nemo-2024-flash"))
    median, most = sizes(list(errors.values()))
    assert median < 0.05
    assert most < 0.12
    whole = attention("flash", replace(core("nemo-2024-flash"), causal_tile=0))
    assert sizes(list(whole.values()))[1] > 1.4 * most


def test_elementwise_work() -> None:
    """Of kernels that read and write 32 MB and more: some are at 0.55 of HBM, some at 0.9."""
    numbers = {"copy": 2, "add": 3, "gelu": 2, "layer_norm": 2, "rms_norm": 2, "gelu back": 3}
    errors = []
    for kind, what, measured in lines(*numbers):
        rows, features = map(int, what[0].split("x"))
        maps = tuple(Map(str(i), I, features, 1) for i in range(numbers[kind]))
        if rows * features > 1e7:
            done = cost(Operator(kind, 0, Phase.FORWARD, maps), Shard(rows, 1, 1), core())
            errors.append(done.seconds / measured - 1)
    assert len(errors) == 36
    assert min(errors) < -0.1
    assert max(map(abs, errors)) < 0.35


@pytest.mark.parametrize("numbers", [10**8, 10**9])
def test_adamw(numbers: int) -> None:
    """28 bytes a weight in float32, with no norm of gradients before it."""
    measured = {what[0]: seconds for _, what, seconds in lines("adamw")}
    assert measured[str(numbers)] == pytest.approx(28 * numbers / core().hbm_bytes_per_s, rel=0.15)


def test_whole_steps() -> None:
    """All 44 with the stack as it is: no constant is of these steps."""
    rows = load(str(DATA / "steps.csv"))
    errors = [
        run_case(case_of(row).case)["iteration_s"] / (row.step_s or math.nan) - 1 for row in rows
    ]
    assert len(errors) == 44
    median, most = sizes(errors)
    assert median < 0.08
    assert most < 0.2


@pytest.mark.parametrize("number", [0, 5, 11, 37])
def test_rows_have_the_sizes_of_what_was_measured(number: int) -> None:
    """As many parameters as PyTorch counts in the model, forward as many products."""
    torch = pytest.importorskip("torch")
    from tests.experiments.measured.on_gpu import steps as on_gpu

    row = load(str(DATA / "steps.csv"))[number]
    of = next(one for one in on_gpu.steps() if one.name == row.id)
    with torch.device("meta"):
        model = on_gpu.Network(of)
    case = case_of(row).case
    assert case.network.parameters == sum(one.numel() for one in model.parameters())
    assert case.batch == of.micro * of.many


def test_its_forward_and_backward_run() -> None:
    torch = pytest.importorskip("torch")
    from tests.experiments.measured.on_gpu import steps as on_gpu

    for gated in (False, True):
        model = on_gpu.Model("small", 2, 64, 128, 4, 2 if gated else 4, 100, gated)
        network = on_gpu.Network(on_gpu.Step(model, 16, 2, recompute=gated))
        tokens = torch.randint(100, (2, 17))
        network(tokens[:, :-1], tokens[:, 1:]).backward()
        assert all(one.grad is not None for one in network.parameters())
