"""The engine against a closed form for any graph on the mixed array, written again.

Two clocks, one for each kind of board, in exact fractions: within a half all
boards do the same, at the top split both wait for the later one and for the
slower side. Types and shares come from the plan as plain text and numbers;
sizes, tables and order are written here from docs/explanation/models.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, load_array
from planners import TIME, PartitionType, Plan, load_planner
from planners.hierarchy import plan_hierarchy
from planners.partition import I
from simulator import simulate
from tests.strategies import networks
from workloads import Layer, Network, Tensor, load_network, partition_graph

MIXED = load_array("accpar-mixed")
FEW = load_array("accpar-mixed", ["devices.0.count=2", "devices.1.count=4"])
BATCH, BYTES = 512, 2
JOIN_WRITES = {"I": "I", "II": "III", "III": "II"}
KNOWN = [kind for kind in PartitionType if str(kind) != "V"]
"""The papers' types and groups. Positions (V) are counted by coordinates elsewhere."""
DIMENSIONS = ("I", "II", "III", "IV")
Dims = list[Fraction]  # what is left of B, and of Di, Do and the groups (as fractions)
JOINS = ("add", "mul", "concat", "other")
PRODUCTS = ("conv", "fc", "matmul", "embedding", "lstm", "gru")


@dataclass
class Operator:
    """A layer with the nodes it reads, and whose weights it uses."""

    layer: Layer
    inputs: list[int]
    reads: list[Tensor]
    owner: int | None

    @property
    def joins(self) -> bool:
        return self.layer.kind in JOINS


def operators(network: Network) -> list[Operator]:
    """Products and joins; everything else hands on what it reads."""
    found: list[Operator] = []
    behind: dict[str, int | None] = {"input": None, "": None}
    for layer in network.layers:
        sources = [behind[name] for name in layer.inputs]
        known = [source for source in sources if source is not None]
        node = layer.kind in (*PRODUCTS, "add", "mul", "concat")
        if not node and not (layer.kind == "other" and len(set(known)) > 1):
            behind[layer.name] = known[0] if known else None
            continue
        behind[layer.name] = len(found)
        reads = [t for s, t in zip(sources, layer.operands, strict=True) if s is not None]
        found.append(Operator(layer, known, reads, behind[layer.shared]))
    return found


@dataclass
class Tensors:
    """Elements of W, F_l and F_{l+1} that are left of a product, and the FLOPs of its phases."""

    weights: Fraction
    source: Fraction
    output: Fraction
    flops: tuple[Fraction, Fraction, Fraction]


def dot(terms: Fraction) -> Fraction:
    return max(2 * terms - 1, Fraction(0))


def tensors(layer: Layer, dims: Dims) -> Tensors:
    """The formulas of docs/explanation/models.md and partitions.md, kind by kind."""
    rows, into, out, groups = dims
    rows = rows * BATCH
    source = rows * into * groups * layer.input.elements
    output = rows * out * groups * layer.output.elements
    weights = into * out * groups * layer.weights
    if layer.kind == "matmul":
        heads, second = layer.groups, layer.operands[1].elements
        k, n = layer.input.channels // heads, layer.output.channels // heads
        serves = Fraction(heads * k * n, second) * layer.input.area
        flops = (output * (2 * k - 1), source * (2 * n - 1))
        return Tensors(
            Fraction(0), source, output, (*flops, rows * groups * second * (2 * serves - 1))
        )
    if layer.kind == "embedding":
        return Tensors(weights, Fraction(0), output, (Fraction(0),) * 3)
    if layer.kind in ("lstm", "gru"):
        gates = 4 if layer.kind == "lstm" else 3
        hidden = layer.output.channels // layer.directions
        product = rows * gates * layer.output.elements * (2 * (layer.input.channels + hidden) - 1)
        gradient = weights * (2 * rows * layer.output.area - 1)
        return Tensors(weights, source, output, (product, product, gradient))
    terms_in = into * layer.input.channels * layer.kernel_area / layer.groups
    terms_out = out * layer.output.channels * layer.kernel_area / layer.groups
    if layer.transposed:
        product = source * dot(terms_out)
        return Tensors(
            weights, source, output, (product, product, weights * dot(rows * layer.input.area))
        )
    forward = output * dot(terms_in)
    backward = source * dot(terms_out) if layer.kind == "fc" else forward
    gradient = weights * dot(rows * layer.output.area)
    return Tensors(weights, source, output, (forward, backward, gradient))


def lacking(writes: str, reads: str, share: Fraction) -> tuple[Fraction, Fraction]:
    """Fractions of the tensor a side lacks: features forward, errors backward."""
    rest, none = 1 - share, Fraction(0)
    swap = share * rest
    writes = "III" if writes == "IV" else writes  # whole groups are columns
    reads = "II" if reads == "IV" else reads
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
        if not op.joins:
            for phase, elements in sums(ops, v, split, dims).items():
                moved["sums", phase, v] = (BYTES * elements, BYTES * elements)
        for e, (p, read) in enumerate(zip(op.inputs, op.reads, strict=True)):
            tensor = BATCH * dims[v][0] * dims[v][1] * dims[v][3] * read.elements
            writes = split["types"][p]
            if ops[p].joins:
                writes = JOIN_WRITES[writes]
            sides = [lacking(writes, kind, a) for a in (share, 1 - share)]
            for direction, phase in enumerate(("forward", "backward")):
                amounts = [BYTES * tensor * side[direction] for side in sides]
                moved["edge", phase, p, v, e] = (amounts[0], amounts[1])
    return moved


def sums(
    ops: Sequence[Operator], v: int, split: dict[str, Any], dims: Sequence[Dims]
) -> dict[str, Fraction]:
    """Elements of a product's partial sums, by the phase behind which they are exchanged."""
    kind, own, owner = split["types"][v], tensors(ops[v].layer, dims[v]), ops[v].owner
    found = {
        "I": {"gradient": own.weights},
        "II": {"forward": own.output},
        "III": {"backward": own.source},
    }.get(kind, {})
    theirs = split["types"][owner] if owner is not None else None
    if owner is not None and kind == theirs == "I":  # one exchange carries both gradients
        carried = tensors(ops[owner].layer, dims[owner]).weights
        found["gradient"] = max(own.weights - carried, Fraction(0))
    elif kind in ("II", "III") and theirs in ("II", "III"):
        cuts_vocabulary = "III" if ops[v].layer.kind == "fc" else "II"
        if (kind == cuts_vocabulary) != (theirs == "II"):
            share = Fraction(split["shares"][v])
            found["gradient"] = 2 * share * (1 - share) * own.weights
    return found


def shrunk(split: dict[str, Any], dims: Sequence[Dims], side: int) -> list[Dims]:
    result = []
    for kind, share, old in zip(split["types"], split["shares"], dims, strict=True):
        new = list(old)
        new[DIMENSIONS.index(kind)] *= (Fraction(share), 1 - Fraction(share))[side]
        result.append(new)
    return result


def closed_form(network: Network, tree: dict[str, Any], array: Array) -> Fraction:
    """Seconds of one step on two kinds of boards."""
    ops = operators(network)
    whole = [[Fraction(1)] * 4 for _ in ops]
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

    def compute(v: int, phase: int) -> None:
        for side in (0, 1):
            clock[side] += tensors(ops[v].layer, leaves[side][v]).flops[phase] / peaks[side]

    for v, op in enumerate(ops):
        for e, p in enumerate(op.inputs):
            meet(("edge", "forward", p, v, e))
        if not op.joins:
            compute(v, 0)
            meet(("sums", "forward", v))
    for v in reversed(range(len(ops))):
        for consumer, op in enumerate(ops):
            for e, p in enumerate(op.inputs):
                if p == v:
                    meet(("edge", "backward", v, consumer, e))
        if not ops[v].joins:
            for number, phase in enumerate(("backward", "gradient"), 1):
                compute(v, number)
                meet(("sums", phase, v))
    return max(clock)


def check(network: Network, planner: str, array: Array) -> None:
    check_plan(network, load_planner(planner)(network, array, BATCH), array)


def check_plan(network: Network, plan: Plan, array: Array) -> None:
    timeline = simulate(network, plan, array)
    exact = closed_form(network, plan.to_json()["root"], array)
    path = Fraction(len(timeline.operations), 10**12)
    assert abs(Fraction(timeline.iteration_ps, 10**12) - exact) <= max(exact / 10**9, path)


@pytest.mark.parametrize("planner", ["data_parallel", "owt", "hypar", "accpar"])
@pytest.mark.parametrize("name", ["lenet", "alexnet", "vgg16", "resnet18", "resnet50"])
def test_iteration_time_on_two_kinds_of_boards(name: str, planner: str) -> None:
    check(load_network(name), planner, MIXED)


@pytest.mark.parametrize("planner", ["hypar", "accpar"])
@pytest.mark.parametrize(
    "name",
    ["inception-v3", "densenet121", "mobilenet-v2", "bert-base", "gpt2", "llama3-8b", "gnmt"],
)
def test_graphs_that_are_not_chains(name: str, planner: str) -> None:
    check(load_network(name), planner, FEW)


@settings(max_examples=60, deadline=None)
@given(networks(), st.sampled_from(["owt", "hypar", "accpar"]))
def test_layers_of_any_kind(network: Network, planner: str) -> None:
    check(network, planner, FEW)


@settings(max_examples=60, deadline=None)
@given(networks(), st.randoms(use_true_random=False))
def test_types_no_planner_would_take(network: Network, random: Random) -> None:
    """Any type for each layer where it is legal, and the shares that go with it."""
    types = {node.name: random.choice(KNOWN) for node in partition_graph(network)}
    plan = plan_hierarchy(
        "drawn", network, FEW, BATCH, TIME, lambda node: (types[node.name],), balance=True
    )
    check_plan(network, plan, FEW)


@pytest.mark.parametrize("kinds", list(product(KNOWN, repeat=3)))
def test_tied_weights(kinds: tuple[PartitionType, ...]) -> None:
    """A table read twice and multiplied by once, each use split in its own way."""
    table, types = 500, dict(zip(("table", "again", "head"), kinds, strict=True))
    words, features = Tensor(1, 6), Tensor(40, 6)
    network = Network(
        "tied",
        words,
        (
            Layer("table", "embedding", ("input",), words, features, vocabulary=table),
            Layer("inner", "fc", ("table",), features, features),
            Layer(
                "again", "embedding", ("input",), words, features, vocabulary=table, shared="table"
            ),
            Layer("sum", "add", ("inner", "again"), features, features),
            Layer("head", "fc", ("sum",), features, Tensor(table, 6), shared="table"),
        ),
    )
    plan = plan_hierarchy(
        "drawn", network, FEW, BATCH, TIME, lambda node: (types.get(node.name, I),), balance=True
    )
    check_plan(network, plan, FEW)
