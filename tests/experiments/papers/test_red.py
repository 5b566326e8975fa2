"""RED's layers: shapes, and ratios about the stride's square."""

import pytest

from experiments.papers import red
from experiments.papers.red import WITHOUT, ZEROS, layers
from workloads import Network
from workloads.tensors import sides


def test_the_layers_are_legal_and_named() -> None:
    names = [layer.name for layer in layers()]
    assert names == [*(f"GAN_Deconv{i}" for i in range(1, 5)), "FCN_Deconv1", "FCN_Deconv2"]
    for layer in layers():
        assert Network(layer.name, layer.input, (layer,)).macs == layer.macs
        kernel, stride = sides(layer.kernel)[0], sides(layer.stride)[0]
        spare = (layer.input.height - 1) * stride + kernel
        assert layer.padding == (spare - layer.output.height) // 2


def test_zeros_cost_about_the_strides_square() -> None:
    figures = {key: asked().made() for key, asked in red.FIGURES.items()}
    products = {(r["network"], r["planner"]): r["ours"] for r in figures["products"].rows}
    ratios = {r["network"]: r["ours"] for r in figures["ratio"].rows if r["planner"] == "products"}
    for layer in layers():
        square = float(layer.stride) ** 2  # type: ignore[arg-type]
        assert ratios[layer.name] == products[layer.name, ZEROS] / products[layer.name, WITHOUT]
        assert square <= ratios[layer.name] < 1.5 * square


@pytest.mark.parametrize("key", red.FIGURES)
def test_figures_have_rows(key: str) -> None:
    assert len(red.FIGURES[key]().made().rows) == 12
