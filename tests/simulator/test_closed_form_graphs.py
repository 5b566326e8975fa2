"""The engine against a closed form for any graph on the mixed array, written again.

Two clocks, one for each kind of board, in exact fractions: within a half all
boards do the same, at the top split both wait for the later one and for the
slower side. Types and shares come from the plan as plain text and numbers;
sizes, tables and order are written here from docs/model.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

from hardware import Array, load_array
from planners import load_planner
from simulator import simulate
from workloads import Network, load_network

MIXED = load_array("accpar-mixed")
BATCH, BYTES = 512, 2
JOIN_WRITES = {"I": "I", "II": "III", "III": "II"}
Dims = list[Fraction]  # B, Di, Do


@dataclass
class Operator:
    kind: str
    inputs: list[int]
    source_area: int
    out_area: int
    kernel_area: int
    channels: tuple[int, int]


def operators(network: Network) -> list[Operator]:
    """Weighted layers and adds; everything else hands on what it reads."""
    found: list[Operator] = []
    behind: dict[str, int | None] = {"input": None}
    for layer in network.layers:
        sources = [behind[name] for name in layer.inputs]
        if layer.kind not in ("conv", "fc", "add"):
            behind[layer.name] = sources[0]
            continue
        behind[layer.name] = len(found)
        found.append(
            Operator(
                layer.kind,
                [source for source in sources if source is not None],
                layer.input.height * layer.input.width,
                layer.output.height * layer.output.width,
                layer.kernel_area,
                (layer.input.channels, layer.output.channels),
            )
        )
    return found


def lacking(writes: str, reads: str, share: Fraction) -> tuple[Fraction, Fraction]:
    """Fractions of the tensor a side lacks: features forward, errors backward."""
    rest, none = 1 - share, Fraction(0)
    swap = share * rest
    table = {
        ("I", "II"): (swap, swap),
        ("I", "III"): (rest, none),
        ("II", "I"): (none, rest),
        ("II", "II"): (none, rest),
        ("III", "I"): (swap, swap),
        ("III", "III"): (rest, none),
    }
    return table.get((writes, reads), (none, none))


def exchanges(
    ops: Sequence[Operator], split: dict[str, Any], dims: Sequence[Dims]
) -> dict[Any, Any]:
    """Bytes each side receives in every exchange of one split."""
    moved: dict[Any, tuple[Fraction, Fraction]] = {}
    for v, op in enumerate(ops):
        kind, share = split["types"][v], Fraction(split["shares"][v])
        rows, into, out = dims[v]
        tensor = rows * into * op.source_area
        if op.kind != "add":
            sums = {
                "I": ("gradient", into * out * op.kernel_area),
                "II": ("forward", rows * out * op.out_area),
                "III": ("backward", tensor),
            }
            phase, elements = sums[kind]
            moved["sums", phase, v] = (BYTES * elements, BYTES * elements)
        for p in op.inputs:
            writes = split["types"][p]
            if ops[p].kind == "add":
                writes = JOIN_WRITES[writes]
            sides = [lacking(writes, kind, a) for a in (share, 1 - share)]
            for direction, phase in enumerate(("forward", "backward")):
                amounts = [BYTES * tensor * side[direction] for side in sides]
                moved["edge", phase, p, v] = (amounts[0], amounts[1])
    return moved


def shrunk(split: dict[str, Any], dims: Sequence[Dims], side: int) -> list[Dims]:
    result = []
    for kind, share, old in zip(split["types"], split["shares"], dims, strict=True):
        new = list(old)
        new[("I", "II", "III").index(kind)] *= (Fraction(share), 1 - Fraction(share))[side]
        result.append(new)
    return result


def closed_form(network: Network, tree: dict[str, Any], array: Array) -> Fraction:
    """Seconds of one step on two kinds of boards."""
    ops = operators(network)
    whole = [[Fraction(BATCH), *map(Fraction, op.channels)] for op in ops]
    devices = [device for device, _ in array.group.kinds]
    links = [Fraction(device.network_bytes_per_s) for device in devices]
    peaks = [Fraction(device.peak_flops_per_s) for device in devices]
    top = exchanges(ops, tree, whole)
    inner, leaves = [], []
    for side in (0, 1):
        dims, below, split = shrunk(tree, whole, side), [], tree["halves"][side]
        while split is not None:
            assert len(split["halves"]) == 1
            below.append(exchanges(ops, split, dims))
            dims, split = shrunk(split, dims, 0), split["halves"][0]
        inner.append(below)
        leaves.append(dims)
    clock = [Fraction(0), Fraction(0)]

    def meet(key: Any) -> None:
        if any(top.get(key, ())):
            took = max(amount / link for amount, link in zip(top[key], links, strict=True))
            clock[:] = [max(clock) + took] * 2
        for side in (0, 1):
            for level in inner[side]:
                clock[side] += max(level.get(key, (Fraction(0),))) / links[side]

    def compute(v: int, phase: str) -> None:
        op = ops[v]
        for side in (0, 1):
            rows, into, out = leaves[side][v]
            if phase == "gradient":
                work = into * out * op.kernel_area * max(2 * rows * op.out_area - 1, Fraction(0))
            elif phase == "backward" and op.kind == "fc":
                work = rows * into * max(2 * out - 1, Fraction(0))
            else:
                work = rows * out * op.out_area * max(2 * into * op.kernel_area - 1, Fraction(0))
            clock[side] += work / peaks[side]

    for v, op in enumerate(ops):
        for p in op.inputs:
            meet(("edge", "forward", p, v))
        if op.kind != "add":
            compute(v, "forward")
            meet(("sums", "forward", v))
    for v in reversed(range(len(ops))):
        for consumer, op in enumerate(ops):
            if v in op.inputs:
                meet(("edge", "backward", v, consumer))
        if ops[v].kind != "add":
            for phase in ("backward", "gradient"):
                compute(v, phase)
                meet(("sums", phase, v))
    return max(clock)


@pytest.mark.parametrize("planner", ["data_parallel", "owt", "hypar", "accpar"])
@pytest.mark.parametrize("name", ["lenet", "alexnet", "vgg16", "resnet18", "resnet50"])
def test_iteration_time_on_two_kinds_of_boards(name: str, planner: str) -> None:
    network = load_network(name)
    plan = load_planner(planner)(network, MIXED, BATCH)
    timeline = simulate(network, plan, MIXED)
    exact = closed_form(network, plan.to_json()["root"], MIXED)
    path = Fraction(len(timeline.program.operations), 10**12)
    assert abs(Fraction(timeline.iteration_ps, 10**12) - exact) <= max(exact / 10**9, path)
