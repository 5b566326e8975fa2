"""RED's layers (DATE 2019, TCAD 2020): transposed convolutions with and without zeros."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from experiments.papers.figure import Figure, grid
from experiments.studies.published_values import published
from hardware import MatrixUnit
from simulator.cost.units.matrix import cycles
from simulator.cost.units.product import Product
from workloads import Layer, Tensor
from workloads.transforms import inserted_products, useful_products

ZEROS, WITHOUT = "with zeros", "without"
ARRAY = MatrixUnit(128, 128)
"""On which both are counted in cycles, too: not a crossbar, but the matrix unit of a TPU."""


@cache
def layers() -> tuple[Layer, ...]:
    """The named ones; padding on the left as little as makes the output fit."""
    return tuple(map(_layer, published("red")))


def _layer(row: dict[str, str]) -> Layer:
    number = {key: int(row[key]) for key in row if key not in ("layer", "network")}
    into = Tensor(number["channels_in"], number["side_in"], number["side_in"])
    out = Tensor(number["channels_out"], number["side_out"], number["side_out"])
    kernel, stride = number["kernel"], number["stride"]
    whole = (into.height - 1) * stride + kernel
    return Layer(
        row["layer"],
        "conv",
        ("input",),
        into,
        out,
        kernel,
        stride,
        (whole - out.height) // 2,
        transposed=True,
    )


def products() -> Figure:
    """Multiply-accumulates of each layer both ways."""
    named = {layer.name: layer for layer in layers()}

    def value(name: str, what: str) -> float:
        return inserted_products(named[name]) if what == ZEROS else useful_products(named[name])

    points = grid("network", named, (ZEROS, WITHOUT), value)
    return Figure(
        "Multiply-accumulates of a transposed convolution",
        "products [multiply-accumulates]",
        points,
    )


def ratio() -> Figure:
    """How many times as many there are with zeros; ideally the stride's square."""
    named = {layer.name: layer for layer in layers()}

    def value(name: str, what: str) -> float:
        if what == "products":
            return inserted_products(named[name]) / useful_products(named[name])
        return _cycles(named[name], zeros=True) / _cycles(named[name], zeros=False)

    said = (
        "Ideally the stride's square: 4 for a stride of 2, 64 for one of 8; borders change it.",
        "Cycles are of a systolic array of 128 x 128; without zeros a product for each element "
        "of the kernel. The paper's 3.69 to 31.15 times (DATE 2019) and 4.0 to 56.16 times (TCAD "
        "2020) are of crossbars, which are not simulated here.",
    )
    points = grid("network", named, ("products", "cycles"), value)
    return Figure("With zeros over without", "ratio", points, said)


def _cycles(layer: Layer, *, zeros: bool) -> int:
    into, out, taps = layer.input.channels, layer.output.channels, layer.kernel_area
    if zeros:
        return cycles(ARRAY, Product(layer.name, layer.output.area, into * taps, out))
    return cycles(ARRAY, Product(layer.name, layer.input.area, into, out * taps))


FIGURES: dict[str, Callable[[], Figure]] = {"products": products, "ratio": ratio}
