"""Convolutions, pools and means of models in neutral terms."""

import pytest

from tests.workloads.importers.models import layers, network, op, trained
from workloads import NetworkError, Tensor
from workloads.importers.neutral import Constant
from workloads.transforms import useful_products

STEM = op("conv", "x w", (1, 4, 8, 8), "stem")
W = trained(w=(4, 3, 1, 1))


def test_a_convolution_with_all_its_measures() -> None:
    found = layers(
        op(
            "conv",
            "x w b",
            (2, 6, 3, 8),
            "conv",
            kernel=(3, 1),
            stride=(2, 1),
            padding=(0, 0),
            dilation=(2, 1),
            groups=3,
        ),
        constants=trained(w=(6, 1, 3, 1), b=(6,)),
        x=(2, 3, 9, 8),
        batch=2,
    )["conv"]
    assert (found.input, found.output) == (Tensor(3, 9, 8), Tensor(6, 3, 8))
    assert (found.kernel, found.stride, found.dilation) == ((3, 1), (2, 1), (2, 1))
    assert (found.groups, found.bias, found.weights, found.parameters) == (3, True, 18, 24)


@pytest.mark.parametrize(
    ("x", "w", "y", "measures", "map_"),
    [
        ((1, 3, 9), (4, 3, 3), (1, 4, 7), {"kernel": (3,)}, (Tensor(3, 9), Tensor(4, 7))),
        (
            (1, 3, 4, 5, 6),
            (4, 3, 1, 2, 3),
            (1, 4, 4, 4, 4),
            {"kernel": (1, 2, 3)},
            (Tensor(3, 4, 30), Tensor(4, 4, 16)),
        ),
    ],
)
def test_maps_of_one_and_three_dimensions(
    x: tuple[int, ...],
    w: tuple[int, ...],
    y: tuple[int, ...],
    measures: dict[str, tuple[int, ...]],
    map_: tuple[Tensor, Tensor],
) -> None:
    """A sequence is a map one wide; a third dimension joins the width."""
    found = layers(op("conv", "x w", y, "c", **measures), constants=trained(w=w), x=x)["c"]
    assert (found.input, found.output) == map_
    elements = 1
    for n in w:
        elements *= n
    assert found.weights == elements
    assert found.macs == elements * map_[1].area


def test_a_transposed_convolution_is_counted_on_its_input() -> None:
    found = layers(
        op("conv", "x w", (1, 5, 8, 8), "up", kernel=(2, 2), stride=(2, 2), transposed=True),
        constants=trained(w=(3, 5, 2, 2)),
        x=(1, 3, 4, 4),
    )["up"]
    assert found.transposed
    assert found.macs == 60 * 16


def test_a_sequence_is_padded_along_its_one_dimension() -> None:
    """Each of 4 elements meets 4 of a kernel, but for the outer ones at both ends."""
    measures = {"kernel": (4,), "stride": (2,), "padding": (1,), "transposed": True}
    up = op("conv", "x w", (1, 5, 8), "up", **measures)
    found = layers(up, constants=trained(w=(3, 5, 4)), x=(1, 3, 4))["up"]
    assert (found.kernel, found.padding) == ((4, 1), (1, 0))
    assert useful_products(found) == 3 * 5 * (4 * 4 - 2)


def test_computed_kernels_are_an_operator_with_a_note() -> None:
    found = network(STEM, op("conv", "stem stem", (1, 4, 8, 8), "dynamic"), constants=W)
    assert found.layers[-1].operator == "conv"
    assert found.notes == (
        "dynamic: a convolution with computed kernels; counted as memory traffic",
    )


@pytest.mark.parametrize(
    ("operation", "constants", "words"),
    [
        (op("conv", "w w", (1, 4, 8, 8), "c"), W, None),
        (
            op("conv", "x w", (1, 5, 8, 8), "c"),
            W,
            "15 weights expected, its tensor is (4, 3, 1, 1)",
        ),
        (op("conv", "x w", (1, 4, 8, 8), "c", groups=0), W, "0 groups: at least one"),
        (op("conv", "x w", (1, 4, 8), "c"), W, "a map of 4 dimensions cannot become (1, 4, 8)"),
        (op("max_pool", "x", (1, 3, 4), "p", kernel=(2, 2)), {}, "cannot become (1, 3, 4)"),
        (op("max_pool", "y", (1, 3, 4, 4), "p"), {}, "it reads 'y', which nothing before it makes"),
        (op("conv", "x w", (1, 4, 0, 8), "c"), W, "its output 'c' is empty: (1, 4, 0, 8)"),
        (op("mean", "x", (1, 3), "m", axes=(9,)), {}, None),
        (op("conv", "x w", (1, 4, 8, 8), "c", groups="two"), W, "malformed"),
    ],
)
def test_what_does_not_fit_names_file_and_node(
    operation: object, constants: dict[str, Constant], words: str | None
) -> None:
    with pytest.raises(NetworkError, match=r"mine\.file") as caught:
        network(operation, constants=constants)  # type: ignore[arg-type]
    if words:
        assert "mine.file, node " in str(caught.value)
        assert words in str(caught.value)


@pytest.mark.parametrize("verb", ["max_pool", "avg_pool"])
def test_a_pool_keeps_its_window(verb: str) -> None:
    found = layers(
        STEM,
        op(verb, "stem", (1, 4, 4, 3), "p", kernel=(2, 3), stride=(2, 3), padding=(0, 1)),
        constants=W,
    )["p"]
    assert (found.kind, found.inputs, found.output) == (verb, ("stem",), Tensor(4, 4, 3))
    assert (found.kernel, found.stride, found.padding) == ((2, 3), (2, 3), (0, 1))


@pytest.mark.parametrize(
    ("axes", "y", "output"),
    [
        ((2, 3), (1, 4), Tensor(4)),
        ((-2, -1), (1, 4), Tensor(4)),
        ((2, 3), (1, 4, 1, 1), Tensor(4)),
        ((3,), (1, 4, 8), Tensor(4, 8)),
        ((2,), (1, 4, 1, 8), Tensor(4, 8)),
    ],
)
def test_a_mean_over_positions_is_a_pool(
    axes: tuple[int, ...], y: tuple[int, ...], output: Tensor
) -> None:
    found = layers(STEM, op("mean", "stem", y, "m", axes=axes), constants=W)["m"]
    assert (found.kind, found.input, found.output) == ("avg_pool", Tensor(4, 8, 8), output)
    assert found.kernel_area == 8 ** len(axes)


@pytest.mark.parametrize(("axes", "y"), [((1,), (1, 8, 8)), ((1, 2), (1, 8)), ((), (1, 4, 8, 8))])
def test_any_other_mean_is_an_operator(axes: tuple[int, ...], y: tuple[int, ...]) -> None:
    found = layers(STEM, op("mean", "stem", y, "m", axes=axes), constants=W)["m"]
    assert (found.kind, found.operator) == ("other", "mean")


def test_a_mean_over_samples_is_no_pool() -> None:
    stem = op("conv", "x w", (2, 4, 8, 8), "stem")
    mean = op("mean", "stem", (4, 8, 8), "m", axes=(0,))
    found = layers(stem, mean, constants=W, x=(2, 3, 8, 8), batch=2)["m"]
    assert (found.kind, found.operator) == ("other", "mean")
