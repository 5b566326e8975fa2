"""The engine against a closed form written again, from the tables alone.

On alike boards split in halves every accelerator does the same, so a step is
a plain sum: products at the leaf, and per level what its type and its
boundaries move.
"""

from fractions import Fraction

import pytest

from hardware import Array, load_array
from planners import Plan, load_planner
from simulator import simulate
from workloads import Network, load_network

BATCH, BYTES = 512, 2
BOUNDARY = {  # (producer, consumer): fraction of the consumer's input, both directions, at one half
    ("I", "I"): Fraction(0),
    ("I", "II"): Fraction(1, 2),
    ("I", "III"): Fraction(1, 2),
    ("II", "I"): Fraction(1, 2),
    ("II", "II"): Fraction(1, 2),
    ("II", "III"): Fraction(0),
    ("III", "I"): Fraction(1, 2),
    ("III", "II"): Fraction(0),
    ("III", "III"): Fraction(1, 2),
}


def closed_form(network: Network, plan: Plan, array: Array) -> Fraction:
    """Seconds of one step of a chain on alike boards, in exact fractions."""
    device = array.group.kinds[0][0]
    bandwidth, peak = Fraction(device.network_bytes_per_s), Fraction(device.peak_flops_per_s)
    layers = [layer for layer in network.layers if layer.weighted]
    left = [{"B": Fraction(BATCH), "Di": Fraction(1), "Do": Fraction(1)} for _ in layers]
    for layer, dims in zip(layers, left, strict=True):
        dims["Di"] *= layer.input.channels
        dims["Do"] *= layer.output.channels
    elements = Fraction(0)
    for split in plan.levels() or []:
        types = [str(kind) for kind in split.types]
        for i, (layer, dims) in enumerate(zip(layers, left, strict=True)):
            source = dims["B"] * dims["Di"] * layer.input.area
            elements += {
                "I": dims["Di"] * dims["Do"] * layer.kernel_area,
                "II": dims["B"] * dims["Do"] * layer.output.area,
                "III": source,
            }[types[i]]
            if i:
                elements += BOUNDARY[types[i - 1], types[i]] * source
        for kind, dims in zip(types, left, strict=True):
            dims[{"I": "B", "II": "Di", "III": "Do"}[kind]] /= 2
    flops = Fraction(0)
    for layer, dims in zip(layers, left, strict=True):
        out = dims["B"] * dims["Do"] * layer.output.area
        dot = 2 * dims["Di"] * layer.kernel_area - 1
        forward = out * max(dot, Fraction(0))
        if layer.kind == "fc":
            backward = dims["B"] * dims["Di"] * max(2 * dims["Do"] - 1, Fraction(0))
        else:
            backward = forward
        weights = dims["Di"] * dims["Do"] * layer.kernel_area
        gradient = weights * max(2 * dims["B"] * layer.output.area - 1, Fraction(0))
        flops += forward + backward + gradient
    return flops / peak + elements * BYTES / bandwidth


@pytest.mark.parametrize(
    "boards",
    [
        pytest.param(n, marks=[] if n in (1, 2, 8, 64) else [pytest.mark.slow])
        for n in (1, 2, 4, 8, 16, 32, 64, 128, 256)
    ],
)
@pytest.mark.parametrize("planner", ["data_parallel", "owt", "hypar", "accpar"])
@pytest.mark.parametrize("name", ["lenet", "alexnet", "vgg19"])
def test_iteration_time_of_chains(name: str, planner: str, boards: int) -> None:
    network = load_network(name)
    array = load_array("accpar-homogeneous", [f"devices.0.count={boards}"])
    plan = load_planner(planner)(network, array, BATCH)
    timeline = simulate(network, plan, array, folded=False)
    exact = closed_form(network, plan, array)
    path = len(timeline.operations)  # every distinct operation lies on the path
    tolerance = max(exact * Fraction(1, 10**9), Fraction(path, 10**12))
    assert abs(Fraction(timeline.iteration_ps, 10**12) - exact) <= tolerance


def test_the_published_all_reduce_is_recursive_doubling() -> None:
    """Data parallel: log2(n) exchanges of each full gradient (docs/explanation/models.md)."""
    network = load_network("vgg16")
    for levels in (1, 4, 7):
        array = load_array(
            "accpar-homogeneous", [f"devices.0.count={2**levels}", "network.bandwidth=1 Mbit/s"]
        )
        plan = load_planner("data_parallel")(network, array, BATCH)
        exchanged = levels * network.weights * BYTES / 125e3
        assert simulate(network, plan, array).iteration_s == pytest.approx(exchanged, rel=1e-3)
